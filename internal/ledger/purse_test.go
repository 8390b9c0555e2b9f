package ledger

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
)

func limited(id string, limit hearth.Nano) *hearth.Key { return &hearth.Key{ID: id, Limit: limit} }

func paid(id, key string, cost hearth.Nano) *hearth.Generation {
	g := sample(id)
	g.KeyID, g.Bill.Cost, g.Bill.PromptCost, g.Bill.CompletionCost, g.Bill.Currency = key, cost, 0, cost, "KRW"
	return g
}

func TestPurse(t *testing.T) {
	t.Run("spending counts from the moment of Record and over restarts", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		k := limited("key-1", 100)
		if left, ok := b.Left(k, "KRW"); left != 100 || !ok {
			t.Errorf("at first %d, %v", left, ok)
		}
		if err := b.Record(paid("gen-1", k.ID, 30)); err != nil {
			t.Fatal(err)
		}
		if left, _ := b.Left(k, "KRW"); left != 70 {
			t.Errorf("after a request of 30: %d", left)
		}
		b.end(t)
		b = open(t, dir, journal.Options{})
		defer b.end(t)
		if left, _ := b.Left(k, "KRW"); left != 70 {
			t.Errorf("after a restart: %d", left)
		}
		if left, _ := b.Left(k, "USD"); left != 100 {
			t.Errorf("in another currency: %d", left)
		}
	})
	t.Run("a key without a limit can pay for everything", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		h, ok := b.Hold(limited("key-1", 0), "KRW", math.MaxInt64)
		if !ok || h.Amount() != 0 {
			t.Errorf("held %d, %v", h.Amount(), ok)
		}
		h.Release()
		if _, ok := b.Left(limited("key-1", 0), "KRW"); ok {
			t.Error("it is said to be limited")
		}
	})
	t.Run("a limit below what was spent leaves nothing", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		if err := b.Record(paid("gen-1", "key-1", 30)); err != nil {
			t.Fatal(err)
		}
		if left, _ := b.Left(limited("key-1", 10), "KRW"); left != 0 {
			t.Errorf("left %d", left)
		}
		if _, ok := b.Hold(limited("key-1", 10), "KRW", 1); ok {
			t.Error("1 more was held back")
		}
	})
}

// A thousand requests at once spend no more than the limit, and use it up.
func TestPurse_Crowd(t *testing.T) {
	b := open(t, t.TempDir(), journal.Options{})
	defer b.end(t)
	k := limited("key-1", 100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for i := range 1000 {
		wg.Go(func() {
			h, ok := b.Hold(k, "KRW", 7)
			if !ok {
				return
			}
			defer h.Release()
			if err := b.Record(paid(fmt.Sprint("gen-", i), k.ID, 7)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			served++
		})
	}
	wg.Wait()
	if left, _ := b.Left(k, "KRW"); left != hearth.Nano(100-7*served) || served > 14 || served == 0 {
		t.Errorf("%d were served and %d is left", served, left)
	}
}

// Whatever is held, spent and released in whatever order: what is left is the limit less the open holds and the
// spending, and no hold goes past it.
func TestPurse_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Ledger{purses: newPurses(nil)}
		limit := hearth.Nano(rapid.Int64Range(1, math.MaxInt64).Draw(t, "limit"))
		k := limited("k", limit)
		var open []Hold
		spent, held := hearth.Nano(0), hearth.Nano(0)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			amount := hearth.Nano(rapid.Int64Range(0, int64(limit)).Draw(t, "amount"))
			if len(open) > 0 && rapid.Bool().Draw(t, "finish") {
				h := open[0]
				open = open[1:]
				cost := min(amount, h.Amount())
				held, spent = held-h.Amount(), spent+cost
				l.purses.spend(&hearth.Generation{KeyID: "k", Bill: hearth.Bill{Cost: cost, Currency: "KRW"}})
				h.Release()
				h.Release()
			} else {
				h, ok := l.Hold(k, "KRW", amount)
				if ok != (amount <= limit-spent-held) {
					t.Fatalf("hold %d of %d with %d spent and %d held: %v", amount, limit, spent, held, ok)
				}
				if ok {
					open, held = append(open, h), held+amount
				}
			}
			if left, _ := l.Left(k, "KRW"); left != limit-spent-held {
				t.Fatalf("left %d, want %d", left, limit-spent-held)
			}
		}
	})
}
