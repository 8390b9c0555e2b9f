package routing

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// edit changes the view of the bazaar's model by hand.
func (b *bazaar) edit(change func(*view)) {
	k := b.markets[0]
	v := *k.view.Load()
	v.rows = slices.Clone(v.rows)
	change(&v)
	for i := range v.rows {
		v.rows[i].usual()
	}
	k.view.Store(&v)
}

// calm is a bazaar of equals in which nothing is overdue.
func calm(t testing.TB, n int) *bazaar {
	b := bazaarOf(t, same(n)...)
	b.warm()
	b.edit(func(v *view) { v.explore, v.probe = 0, 0 })
	return b
}

func (b *bazaar) choose(change func(*Ask)) Decision {
	a := b.ask()
	if change != nil {
		change(&a)
	}
	return b.Pick(&a, b.tier(0), b.now)
}

func TestReasons(t *testing.T) {
	full := func(v *view, of ...int) {
		for _, i := range of {
			v.rows[i].cap, v.rows[i].perCap = 0.5, 2
		}
	}
	for _, c := range []struct {
		name  string
		n     int
		do    func(*bazaar)
		ask   func(*Ask)
		where []int
		why   Reason
	}{
		{"drawn", 3, nil, nil, []int{0, 1, 2}, Share},
		{"one alone", 1, nil, nil, []int{0}, Only},
		{"one alone, and that cooling", 1, func(b *bazaar) { b.fail(b.ask(), 0, Limited, 0) }, nil, []int{0}, Only},
		{"a retry takes the cheapest", 3, func(b *bazaar) { b.edit(func(v *view) { v.rows[1].adjust = 0.9 }) }, func(a *Ask) { a.Retry = true }, []int{1}, Retry},
		{"what is full gets nothing", 3, func(b *bazaar) { b.edit(func(v *view) { full(v, 0, 1) }) }, nil, []int{2}, Share},
		{"what is flagged gets nothing", 3, func(b *bazaar) {
			b.Flag(0, true)
			b.Flag(2, true)
			b.pass(time.Second)
			b.edit(func(v *view) { v.explore = 0 })
		}, nil, []int{1}, Share},
		{"a flag for tools is nothing to a request without", 3, func(b *bazaar) { b.edit(func(v *view) { v.rows[0].flaggedTools, v.rows[1].flaggedTools = true, true }) }, nil, []int{0, 1, 2}, Share},
		{"a flag for tools is to one with", 3, func(b *bazaar) { b.edit(func(v *view) { v.rows[0].flaggedTools, v.rows[1].flaggedTools = true, true }) }, func(a *Ask) { a.Tools = true }, []int{2}, Share},
		{"when all others are full, the flagged one serves", 3, func(b *bazaar) { b.edit(func(v *view) { full(v, 0, 1); v.rows[2].flaggedAll = true }) }, nil, []int{2}, FlaggedOverflow},
		{"flags of all say nothing", 3, func(b *bazaar) {
			b.edit(func(v *view) { v.rows[0].flaggedAll, v.rows[1].flaggedAll, v.rows[2].flaggedAll = true, true, true })
		}, nil, []int{0, 1, 2}, Share},
		{"but in a retry there were others", 2, func(b *bazaar) {
			b.edit(func(v *view) { v.rows[0].flaggedAll, v.rows[1].flaggedAll = true, true })
		}, func(a *Ask) { a.Retry = true }, []int{0}, FlaggedOverflow},
		{"nor do those of the others when the only one that is not flagged is out", 3, func(b *bazaar) {
			b.edit(func(v *view) { v.rows[0].flaggedAll, v.rows[1].flaggedAll = true, true })
			b.fail(b.ask(), 2, Limited, 0)
		}, nil, []int{0}, FlaggedOverflow},
		{"in a retry too", 3, func(b *bazaar) { b.edit(func(v *view) { full(v, 0, 1); v.rows[2].flaggedAll = true }) }, func(a *Ask) { a.Retry = true }, []int{2}, FlaggedOverflow},
		{"all full: the least crowded for its cost", 3, func(b *bazaar) {
			b.edit(func(v *view) { full(v, 0, 1, 2); v.rows[1].cap, v.rows[1].perCap = 0.9, 1/0.9 })
		}, nil, []int{1}, Forced},
		{"full comes before cooling", 2, func(b *bazaar) { b.fail(b.ask(), 0, Limited, 0); b.edit(func(v *view) { full(v, 1) }) }, nil, []int{1}, Forced},
		{"a flagged one that is full is full", 2, func(b *bazaar) { b.edit(func(v *view) { full(v, 0, 1); v.rows[0].flaggedAll = true }) }, nil, []int{1}, Forced},
		{"an open breaker comes last", 2, func(b *bazaar) {
			b.markets[0].ends[0].shut.Store(math.MaxInt64)
			b.fail(b.ask(), 1, Limited, 0)
		}, nil, []int{1}, Forced},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := calm(t, c.n)
			if c.do != nil {
				c.do(b)
			}
			for range 60 {
				d := b.choose(c.ask)
				if !slices.Contains(c.where, d.Endpoint) || d.Reason != c.why {
					t.Fatalf("%+v", d)
				}
			}
		})
	}
}

func TestUnknownCandidates(t *testing.T) {
	b := calm(t, 2)
	other := &hearth.Endpoint{Index: 77, Provider: &hearth.Provider{Kind: hearth.External}}
	a := b.ask()
	if d := b.Order(&a, []hearth.Candidate{{Endpoint: other}}, nil, b.now); d.Place != -1 || d.Endpoint != -1 || d.Reason != "" {
		t.Errorf("%+v", d)
	}
	tier := append([]hearth.Candidate{{Endpoint: other}}, b.tier(0)...)
	if d := b.Order(&a, tier, make([]Terms, 3), b.now); d.Endpoint < 0 || tier[2].Endpoint != other {
		t.Errorf("%+v", d)
	}
	if d := b.Order(&a, nil, nil, b.now); d.Place != -1 {
		t.Errorf("%+v", d)
	}
}

func TestBand(t *testing.T) {
	for _, c := range []struct{ over, want float64 }{{0, 1}, {band / 2, math.Exp(-0.5)}, {band, math.Exp(-1)}, {band + beyond, math.Exp(-2)}, {band + 5.5*beyond, math.Exp(-6.5)}, {0.7, 0}} {
		if got := worth(c.over); math.Abs(got-c.want) > 0.01*c.want {
			t.Errorf("%v over the lowest: %v, want %v", c.over, got, c.want)
		}
	}
	weights := func(change func(*view)) []float64 {
		b := calm(t, 3)
		b.edit(change)
		a, s := b.ask(), scene{v: b.markets[0].view.Load(), at: b.nanos(b.now), n: 3}
		b.Router.ask(&a, b.markets[0], &s)
		b.weigh(b.tier(0), b.markets[0], &s, false)
		return []float64{s.opts()[0].w / s.opts()[1].w, s.opts()[2].w / s.opts()[1].w}
	}
	if got := weights(func(v *view) { v.rows[0].ramp = 0.1 }); !near(got[0], 0.1, 1e-3) {
		t.Errorf("after an opening: %v", got)
	}
	if got := weights(func(v *view) {
		v.rows[0].end.flight.Store(17)
		v.rows[2].end.flight.Store(13)
		for _, i := range []int{0, 2} {
			v.rows[i].cap, v.rows[i].perCap, v.rows[i].perTTFT, v.rows[i].perRest = 20, 1.0/20, 0, 0
		}
	}); got[0] > 0.55*got[1] {
		t.Errorf("at 0.85 and at 0.65 of the cap: %v", got)
	}
	dear := calm(t, 3) // costs more than can be told
	dear.edit(func(v *view) {
		for i := range v.rows {
			v.rows[i].adjust = math.Inf(1)
		}
	})
	why, a := make([]Terms, 3), dear.ask()
	if d := dear.Order(&a, dear.tier(0), why, dear.now); d.Place < 0 || math.IsNaN(d.Share+why[0].Share+why[1].Share) {
		t.Errorf("%+v, shares %v and %v", d, why[0].Share, why[1].Share)
	}
	free := calm(t, 3) // costs nothing at all
	free.edit(func(v *view) {
		v.lambda = 0
		for i := range v.rows {
			v.rows[i].adjust, v.rows[i].fail0, v.rows[i].fail1 = 0, 0, 0
		}
	})
	if got := free.shares(300, nil); got[0] < 60 || got[1] < 60 || got[2] < 60 {
		t.Errorf("%v", got)
	}
}

// What the terms say of shares is what comes of many draws, and the propensity in the decision is one of them.
func TestSharesAreWhatIsDrawn(t *testing.T) {
	for lost, least := range map[int]float64{3: 0.19, 1: 0.4} { // the one that is overdue, its share at least
		b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 1.05, out: 3.2}, offer{in: 1.1, out: 3.3}, offer{in: 2, out: 6})
		b.warm()
		b.pass(11 * time.Minute) // by now all are overdue
		b.edit(func(v *view) { v.explore = 0.2 })
		for i := range 4 {
			if i != lost {
				b.serve(b.ask(), i, Share, time.Second, 45)
			}
		}
		why := make([]Terms, 4)
		a := b.ask()
		b.Order(&a, b.tier(0), why, b.now)
		said, drawn := map[int]float64{}, map[int]float64{}
		sum := 0.0
		for _, w := range why {
			said[w.Endpoint] = w.Share
			sum += w.Share
		}
		const n = 20_000
		for range n {
			d := b.choose(nil)
			drawn[d.Endpoint] += 1.0 / n
			if math.Abs(d.Share-said[d.Endpoint]) > 1e-9 {
				t.Fatalf("%+v, but the terms say %v", d, said[d.Endpoint])
			}
		}
		for i, p := range said {
			if math.Abs(drawn[i]-p) > 4*math.Sqrt(p/n) {
				t.Errorf("endpoint %d: drawn %.4f, said %.4f", i, drawn[i], p)
			}
		}
		if math.Abs(sum-1) > 1e-9 || said[lost] < least || said[lost] > least+0.1 {
			t.Errorf("endpoint %d is overdue: %v", lost, said)
		}
	}
}

func TestStick(t *testing.T) {
	in := func(explicit bool) func(*Ask) {
		return func(a *Ask) { a.Session, a.Explicit = 42, explicit }
	}
	begin := func(b *bazaar, explicit bool, cached int) {
		a := b.ask()
		in(explicit)(&a)
		try := b.Begin(&a, 2, Share, b.now)
		try.First(b.now)
		try.Done(Result{Outcome: Answered, In: 900, Cached: cached, Out: 100}, b.now)
	}
	where := func(b *bazaar, explicit bool) map[Reason]int {
		got := map[Reason]int{}
		for range 50 {
			d := b.choose(in(explicit))
			if d.Reason == Stick && d.Endpoint != 2 {
				t.Fatalf("%+v", d)
			}
			got[d.Reason]++
		}
		return got
	}
	sticks := func(t *testing.T, b *bazaar, explicit, want bool) {
		t.Helper()
		if got := where(b, explicit); (got[Stick] == 50) != want || (got[Stick] > 0) != want {
			t.Errorf("%v", got)
		}
	}
	t.Run("a named session stays", func(t *testing.T) {
		b := calm(t, 3)
		begin(b, true, 0)
		sticks(t, b, true, true)
	})
	t.Run("one that is guessed stays once its cache was hit", func(t *testing.T) {
		b := calm(t, 3)
		begin(b, false, 0)
		sticks(t, b, false, false)
		begin(b, false, 500)
		sticks(t, b, false, true)
	})
	t.Run("while the cache is warm", func(t *testing.T) {
		b := calm(t, 3)
		begin(b, true, 0)
		b.now = b.now.Add(301 * time.Second)
		sticks(t, b, true, false)
	})
	for name, spoil := range map[string]func(*view){
		"not where it is full":    func(v *view) { v.rows[2].cap, v.rows[2].perCap = 0.5, 2 },
		"not where it is flagged": func(v *view) { v.rows[2].flaggedAll = true },
		"not at any price":        func(v *view) { v.rows[2].adjust = 1.6 },
	} {
		t.Run(name, func(t *testing.T) {
			b := calm(t, 3)
			begin(b, true, 0)
			b.edit(spoil)
			sticks(t, b, true, false)
		})
	}
	t.Run("in an order of the caller's own, at any price", func(t *testing.T) {
		b := calm(t, 3)
		warm := func() int {
			a, cs := b.ask(), b.tier(0)
			in(true)(&a)
			slices.Reverse(cs)
			return b.Warm(&a, cs, b.now)
		}
		if got := warm(); got != -1 {
			t.Errorf("place %d before it began", got)
		}
		begin(b, true, 0)
		b.edit(func(v *view) { v.rows[2].adjust = 9 })
		if got := warm(); got != 0 {
			t.Errorf("place %d", got)
		}
		b.edit(func(v *view) { v.rows[2].flaggedAll = true })
		if got := warm(); got != -1 {
			t.Errorf("place %d, flagged", got)
		}
		if a := b.ask(); b.Warm(&a, b.tier(0), b.now) != -1 {
			t.Error("a request of no session is warm somewhere")
		}
	})
	t.Run("other sessions and other requests are free", func(t *testing.T) {
		b := calm(t, 3)
		begin(b, true, 0)
		if d := b.choose(nil); d.Reason != Share {
			t.Errorf("%+v", d)
		}
		if d := b.choose(func(a *Ask) { a.Session, a.Explicit = 43, true }); d.Reason != Share {
			t.Errorf("%+v", d)
		}
	})
	t.Run("the session's mean answer is what is expected", func(t *testing.T) {
		b := calm(t, 3)
		for range 20 {
			begin(b, true, 0)
		}
		a, s := b.ask(), scene{v: b.markets[0].view.Load()}
		in(true)(&a)
		a.Out = 0
		if b.Router.ask(&a, b.markets[0], &s); s.q.out > 150 || s.q.out < 100 {
			t.Errorf("%v", s.q.out)
		}
		a.MaxTokens = 7
		if b.Router.ask(&a, b.markets[0], &s); s.q.out != 7 {
			t.Errorf("%v", s.q.out)
		}
	})
}

// Order puts every candidate somewhere: the chosen one first, the rest by class and cost.
func TestOrderIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "candidates")
		offers := make([]offer, n)
		for i := range offers {
			p := rapid.Float64Range(0.1, 3).Draw(t, "price")
			offers[i] = offer{in: p, out: 3 * p}
		}
		c := catalog(t, offers...)
		r := NewRouter(c, Options{}, began)
		now := began.Add(time.Minute)
		for i, e := range r.markets[0].ends {
			switch rapid.IntRange(0, 6).Draw(t, "state") {
			case 0:
				e.shut.Store(math.MaxInt64)
			case 1:
				e.shut.Store(1)
			case 2:
				e.cool.Store(math.MaxInt64)
			case 3:
				r.Flag(i, true)
			}
		}
		r.Refresh(now)
		tier := make([]hearth.Candidate, n)
		for i, e := range c.Endpoints {
			tier[i] = hearth.Candidate{Endpoint: e, MaxTokens: i + 1}
		}
		a := Ask{Draw: rapid.Uint64().Draw(t, "draw"), In: 1000, Retry: rapid.Bool().Draw(t, "retry"), Stream: true}
		why := make([]Terms, n)
		pick := r.Pick(&a, tier, now)
		d := r.Order(&a, tier, why, now)
		if d != pick || tier[0].Endpoint.Index != d.Endpoint || tier[0].Reason != string(d.Reason) {
			t.Fatalf("%+v, picked %+v", d, pick)
		}
		seen := map[int]bool{}
		for i, c := range tier {
			seen[c.Endpoint.Index] = true
			if c.MaxTokens != c.Endpoint.Index+1 || why[i].Endpoint != c.Endpoint.Index || i > 0 && c.Reason != Ascending {
				t.Fatalf("place %d: %+v, terms of %d", i, c, why[i].Endpoint)
			}
			if rank := rankOf(why[i]); i > 1 && (rank < rankOf(why[i-1]) || rank == rankOf(why[i-1]) && why[i].R < why[i-1].R) {
				t.Fatalf("place %d before %d", i-1, i)
			}
		}
		if len(seen) != n {
			t.Fatalf("%d of %d are left", len(seen), n)
		}
	})
}

func rankOf(w Terms) int {
	switch {
	case w.Standing == Open:
		return 4
	case w.Standing == HalfOpen:
		return 3
	case w.Standing == Cooling:
		return 2
	case w.Flagged:
		return 1
	}
	return 0
}
