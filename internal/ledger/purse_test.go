package ledger

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

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

// at is the clock of a script: it jumps.
var zones = []string{"UTC", "Asia/Seoul", "America/New_York", "Pacific/Apia", "Asia/Kathmandu", "Europe/Lisbon", "Africa/Cairo"}

// inWindow says by the calendar alone, another way than the purse, whether a record counts to the limit of a request.
func inWindow(p hearth.Period, record, request time.Time) bool {
	a, b := record.Format(time.DateOnly), request.Format(time.DateOnly)
	switch p {
	case hearth.Daily:
		return a == b
	case hearth.Weekly:
		x, _ := time.Parse(time.DateOnly, a)
		y, _ := time.Parse(time.DateOnly, b)
		xy, xw := x.ISOWeek() // ISO weeks begin on Monday
		yy, yw := y.ISOWeek()
		return xy == yy && xw == yw
	case hearth.Monthly:
		return a[:7] == b[:7]
	case hearth.Forever:
	}
	return true
}

// Requests of a key whose limits begin anew, under clocks that jump by seconds and by years, in zones with summer times,
// with restarts in between and limits and periods that are changed: the records dated in any period never add up to more
// than the limit that ruled them, what a jump of the clock went past is not forgotten when it comes back, and what is left
// is what the records say.
func TestPurse_Clocks(t *testing.T) {
	type spent struct {
		at       time.Time
		cost     hearth.Nano
		external bool
	}
	periods := []hearth.Period{hearth.Forever, hearth.Daily, hearth.Weekly, hearth.Monthly}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 400*24*3600).Draw(t, "start")) * time.Second)
		l := &Ledger{purses: newPurses()}
		key := &hearth.Key{ID: "k", Limit: 100, LimitReset: rapid.SampledFrom(periods).Draw(t, "period"), ExternalLimit: 40}
		budget := Budget{60, rapid.SampledFrom(periods).Draw(t, "period of all")}
		var records []spent
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}).Draw(t, "unit")
			now = now.Add(unit * time.Duration(rapid.IntRange(-12, 14).Draw(t, "jump")))
			w := &Wallet{Key: key, Currency: "KRW", At: now.In(zone), External: budget}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // a restart reads the sums of days
				l = &Ledger{purses: newPurses()}
				for _, r := range records {
					day, _ := time.Parse(time.DateOnly, r.at.Format(time.DateOnly))
					l.purses.count("k", "KRW", dayOf(day), r.cost, r.external)
				}
			case 1:
				zone, _ = time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "another zone"))
			default:
				worst, external := hearth.Nano(rapid.IntRange(0, 50).Draw(t, "worst")), rapid.Bool().Draw(t, "external")
				all, out, house := hearth.Nano(100), hearth.Nano(40), hearth.Nano(60)
				for _, r := range records {
					if inWindow(key.LimitReset, r.at, w.At) {
						all -= r.cost
						if r.external {
							out -= r.cost
						}
					}
					if r.external && inWindow(budget.Reset, r.at, w.At) {
						house -= r.cost
					}
				}
				if v := l.Left(w); *v.All != max(all, 0) || *v.External != max(min(out, house), 0) {
					t.Fatalf("left %d and %d externally, want %d and %d of %d", *v.All, *v.External, all, out, house)
				}
				h, ok := l.Hold(w, worst, external)
				if ok != (worst <= all && (!external || worst <= min(out, house))) {
					t.Fatalf("hold %d (external %v) of %d, %d, %d: %v", worst, external, all, out, house, ok)
				}
				if !ok {
					continue
				}
				cost := hearth.Nano(rapid.IntRange(0, int(worst)).Draw(t, "cost"))
				g := paid("", "k", cost)
				if g.CreatedAt = w.At; !external {
					g.Slug = hearth.LocalSlug
				}
				l.purses.spend(g)
				h.Release()
				records = append(records, spent{w.At, cost, external})
			}
		}
	})
}

func TestWindow(t *testing.T) {
	load := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	for _, c := range []struct {
		name        string
		p           hearth.Period
		at          time.Time
		first, last string
	}{
		{"a day where one is missing", hearth.Daily, time.Date(2011, 12, 31, 0, 0, 0, 0, load("Pacific/Apia")), "2011-12-31", "2011-12-31"},
		{"the last second of a day of 23 hours", hearth.Daily, time.Date(2026, 3, 29, 23, 59, 59, 0, load("Europe/Lisbon")), "2026-03-29", "2026-03-29"},
		{"the hour that comes twice", hearth.Daily, time.Date(2026, 11, 1, 1, 30, 0, 0, load("America/New_York")), "2026-11-01", "2026-11-01"},
		{"a day that begins at one", hearth.Daily, time.Date(2026, 4, 24, 1, 0, 0, 0, load("Africa/Cairo")), "2026-04-24", "2026-04-24"},
		{"Monday", hearth.Weekly, time.Date(2026, 11, 30, 0, 0, 0, 0, load("Asia/Seoul")), "2026-11-30", "2026-12-06"},
		{"Sunday", hearth.Weekly, time.Date(2026, 11, 29, 23, 59, 59, 999, load("Asia/Seoul")), "2026-11-23", "2026-11-29"},
		{"a week before 1970", hearth.Weekly, time.Date(1969, 12, 28, 12, 0, 0, 0, time.UTC), "1969-12-22", "1969-12-28"},
		{"December", hearth.Monthly, time.Date(2026, 12, 31, 23, 0, 0, 0, load("America/New_York")), "2026-12-01", "2026-12-31"},
		{"February of a leap year", hearth.Monthly, time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), "2028-02-01", "2028-02-29"},
		{"for ever", hearth.Forever, time.Now(), "0000-01-01", "9999-12-31"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if first, last := Window(c.p, c.at); first != c.first || last != c.last {
				t.Errorf("%s to %s, want %s to %s", first, last, c.first, c.last)
			}
		})
	}
}

func BenchmarkHold(b *testing.B) {
	for name, p := range map[string]hearth.Period{"ever": hearth.Forever, "month": hearth.Monthly} {
		b.Run(name, func(b *testing.B) {
			l := &Ledger{purses: newPurses()}
			at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			for i := range 400 {
				l.purses.count("k", "KRW", dayOf(at)-i, 5, true)
			}
			w := &Wallet{Key: &hearth.Key{ID: "k", Limit: 1e12, LimitReset: p, ExternalLimit: 1e12}, Currency: "KRW", At: at, External: Budget{1e12, p}}
			b.ReportAllocs()
			for b.Loop() {
				if l.Left(w).All == nil {
					b.Fatal("no limit")
				}
				h, ok := l.Hold(w, 100, true)
				if !ok {
					b.Fatal("not held")
				}
				h.Release()
			}
		})
	}
}
