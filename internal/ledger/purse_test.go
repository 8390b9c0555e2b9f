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

func limited(id string, limit hearth.Nano) *Wallet {
	return &Wallet{Key: &hearth.Key{ID: id, Limit: limit}, Currency: "KRW", At: sample("").CreatedAt}
}

// paid is a record of a key that paid so much to an external provider.
func paid(id, key string, cost hearth.Nano) *hearth.Generation {
	g := sample(id)
	g.KeyID, g.Bill.Cost, g.Bill.PromptCost, g.Bill.CompletionCost, g.Bill.Currency = key, cost, 0, cost, "KRW"
	g.Slug = "acme"
	return g
}

func (b *books) left(w *Wallet) (all, external hearth.Nano) {
	v := b.Left(w)
	all, external = -1, -1 // no limit
	if v.All != nil {
		all = *v.All
	}
	if v.External != nil {
		external = *v.External
	}
	return all, external
}

func TestPurse(t *testing.T) {
	t.Run("spending counts from the moment of Record and over restarts", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		w := limited("key-1", 100)
		if left, _ := b.left(w); left != 100 {
			t.Errorf("at first %d", left)
		}
		if err := b.Record(paid("gen-1", w.Key.ID, 30)); err != nil {
			t.Fatal(err)
		}
		if left, _ := b.left(w); left != 70 {
			t.Errorf("after a request of 30: %d", left)
		}
		b.end(t)
		b = open(t, dir, journal.Options{})
		defer b.end(t)
		if left, _ := b.left(w); left != 70 {
			t.Errorf("after a restart: %d", left)
		}
		w.Currency = "USD"
		if left, _ := b.left(w); left != 100 {
			t.Errorf("in another currency: %d", left)
		}
	})
	t.Run("a key without a limit can pay for everything", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		h, ok := b.Hold(limited("key-1", 0), math.MaxInt64, true)
		if !ok || h.Amount() != 0 {
			t.Errorf("held %d, %v", h.Amount(), ok)
		}
		h.Release()
		if all, external := b.left(limited("key-1", 0)); all != -1 || external != -1 {
			t.Error("it is said to be limited")
		}
	})
	t.Run("a limit below what was spent leaves nothing", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		if err := b.Record(paid("gen-1", "key-1", 30)); err != nil {
			t.Fatal(err)
		}
		if left, _ := b.left(limited("key-1", 10)); left != 0 {
			t.Errorf("left %d", left)
		}
		if _, ok := b.Hold(limited("key-1", 10), 1, true); ok {
			t.Error("1 more was held back")
		}
	})
	t.Run("what can be held is what can be given back", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		w := limited("key-1", math.MaxInt64)
		w.Key.LimitReset = hearth.Daily
		if _, ok := b.Hold(w, math.MaxInt64, false); !ok {
			t.Fatal("the whole limit cannot be held")
		}
		next := *w
		next.At = w.At.AddDate(0, 0, 1)
		if _, ok := b.Hold(&next, 1, false); ok {
			t.Error("what is held on two days together is more than can be counted")
		}
		if left, _ := b.left(&next); left != math.MaxInt64 {
			t.Errorf("%d are left of the next day", left)
		}
	})
}

// What is spent and held at external providers counts to their limits, of the key and of all keys.
func TestPurse_External(t *testing.T) {
	at := sample("").CreatedAt
	b := open(t, t.TempDir(), journal.Options{})
	defer func() { b.end(t) }()
	a := &Wallet{Key: &hearth.Key{ID: "a", ExternalLimit: 100}, Currency: "KRW", At: at}
	c := &Wallet{Key: &hearth.Key{ID: "c", Limit: 1000}, Currency: "KRW", At: at, External: Budget{150, hearth.Monthly}}
	want := func(what string, w *Wallet, all, external hearth.Nano) {
		t.Helper()
		if gotAll, gotExternal := b.left(w); gotAll != all || gotExternal != external {
			t.Errorf("%s: left %d, external %d; want %d, %d", what, gotAll, gotExternal, all, external)
		}
	}
	record := func(g *hearth.Generation) {
		t.Helper()
		if err := b.Record(g); err != nil {
			t.Fatal(err)
		}
	}
	own := paid("gen-0", "a", 500)
	own.Slug = hearth.LocalSlug
	record(own)
	want("own slots do not count", a, -1, 100)
	if h, ok := b.Hold(a, 400, false); !ok || h.Amount() != 0 {
		t.Error("an own slot is bounded")
	}
	record(paid("gen-1", "a", 60))
	want("the key's own", a, -1, 40)
	want("that of all keys", c, 1000, 90)
	h, ok := b.Hold(c, 70, true)
	if !ok {
		t.Fatal("70 of 90 cannot be held")
	}
	want("held", c, 930, 20)
	if !h.Covers(c, 70, true) || !h.Covers(c, 10, false) || h.Covers(c, 71, true) {
		t.Error("the hold covers something else")
	}
	if _, ok := b.Hold(c, 21, true); ok {
		t.Error("more was held than is left of what all keys may spend")
	}
	want("what could not be held whole holds nothing", c, 930, 20)
	if inner, ok := b.Hold(c, 900, false); !ok || inner.Covers(c, 5, true) {
		t.Error("an own slot is bounded by the external limit, or its hold covers an external provider")
	} else {
		inner.Release()
	}
	h.Home()
	want("the next attempt is at home", c, 930, 90)
	h.Release()
	want("released", c, 1000, 90)
	if h, ok := b.Hold(a, 40, true); !ok {
		t.Error("what is left cannot be held")
	} else {
		h.Home()
		h.Release()
	}
	want("the key's own, released", a, -1, 40)
	b.end(t)
	b = open(t, b.dir, journal.Options{})
	want("the key's own, after a restart", a, -1, 40)
	want("that of all keys, after a restart", c, 1000, 90)
	c.At = at.AddDate(0, 1, 0)
	want("in the next month", c, 1000, 150)
	got := b.Spent("a", "KRW", at)
	if want := (Spent{Ever: 560, Day: 560, Week: 560, Month: 560, External: 60}); got != want {
		t.Errorf("spent %+v, want %+v", got, want)
	}
}

// A thousand requests at once spend no more than the limit, and use it up.
func TestPurse_Crowd(t *testing.T) {
	for name, w := range map[string]*Wallet{
		"in all":        limited("key-1", 100),
		"in a day":      {Key: &hearth.Key{ID: "key-1", Limit: 100, LimitReset: hearth.Daily}, Currency: "KRW", At: sample("").CreatedAt},
		"externally":    {Key: &hearth.Key{ID: "key-1", ExternalLimit: 100}, Currency: "KRW", At: sample("").CreatedAt},
		"of all keys":   {Key: &hearth.Key{ID: "key-1"}, Currency: "KRW", At: sample("").CreatedAt, External: Budget{100, hearth.Monthly}},
		"of one of two": {Key: &hearth.Key{ID: "key-1", Limit: 5000}, Currency: "KRW", At: sample("").CreatedAt, External: Budget{100, hearth.Forever}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir(), journal.Options{})
			defer b.end(t)
			var wg sync.WaitGroup
			var mu sync.Mutex
			served := 0
			for i := range 1000 {
				wg.Go(func() {
					h, ok := b.Hold(w, 7, true)
					if !ok {
						return
					}
					defer h.Release()
					if err := b.Record(paid(fmt.Sprint("gen-", i), w.Key.ID, 7)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					served++
				})
			}
			wg.Wait()
			all, external := b.left(w)
			rest := all
			if external >= 0 {
				rest = external
			}
			if rest != hearth.Nano(100-7*served) || served > 14 || served == 0 {
				t.Errorf("%d were served and %d is left", served, rest)
			}
		})
	}
}

// Whatever is held, spent and released in whatever order: what is left is the limit less the open holds and the
// spending, and no hold goes past it.
func TestPurse_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Ledger{purses: newPurses()}
		limit := hearth.Nano(rapid.Int64Range(1, math.MaxInt64).Draw(t, "limit"))
		w := limited("k", limit)
		var open []Hold
		spent, held := hearth.Nano(0), hearth.Nano(0)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			amount := hearth.Nano(rapid.Int64Range(0, int64(limit)).Draw(t, "amount"))
			if len(open) > 0 && rapid.Bool().Draw(t, "finish") {
				h := open[0]
				open = open[1:]
				cost := min(amount, h.Amount())
				held, spent = held-h.Amount(), spent+cost
				l.purses.spend(&hearth.Generation{KeyID: "k", CreatedAt: w.At, Bill: hearth.Bill{Cost: cost, Currency: "KRW"}})
				h.Release()
				h.Release()
			} else {
				h, ok := l.Hold(w, amount, false)
				if ok != (amount <= limit-spent-held) {
					t.Fatalf("hold %d of %d with %d spent and %d held: %v", amount, limit, spent, held, ok)
				}
				if ok {
					open, held = append(open, h), held+amount
				}
			}
			if left := l.Left(w); *left.All != limit-spent-held {
				t.Fatalf("left %d, want %d", *left.All, limit-spent-held)
			}
		}
	})
}
