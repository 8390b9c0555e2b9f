package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

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
