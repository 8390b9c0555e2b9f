package routing

import (
	"math"
	"testing"
	"time"
)

// Over an hour no more than three in a hundred first attempts are made for the sake of knowing, and every endpoint is
// tried at least every ten minutes, be it ever so dear.
func TestExploration(t *testing.T) {
	sites := six()
	for i := range 12 {
		p := 1 + float64(i)/2
		sites = append(sites, &site{offer: offer{in: p, out: 3 * p}, ttft: 2, speed: 30})
	}
	w := newWorld(t, 3, sites...)
	w.run(3, 3600)
	m := w.markets[0].model
	part := float64(m.explored.Load()) / 1000 / float64(m.firsts.Load())
	longest := 0.0
	for _, s := range sites {
		last := 0.0
		for _, at := range append(s.tried, 3600) {
			longest = max(longest, at-last)
			last = at
		}
	}
	t.Logf("explored %.4f, longest without a try %.0f s", part, longest)
	if part > 0.031 || longest > 600 || math.Abs(float64(m.firsts.Load())-float64(w.requests)) > 2 {
		t.Errorf("%d firsts of %d", m.firsts.Load(), w.requests)
	}
	for range 1000 {
		d := w.choose(func(a *Ask) { a.NoExplore = true })
		if d.Reason == Explore || d.Reason == Probe {
			t.Fatalf("%+v", d)
		}
	}
}

// With more endpoints than the budget reaches, the budget rules.
func TestExplorationBudget(t *testing.T) {
	b := bazaarOf(t, same(30)...)
	got := map[Reason]int{}
	for range 1500 {
		a := b.ask()
		d := b.Pick(&a, b.tier(0), b.now)
		got[d.Reason]++
		why := d.Reason
		if d.Reason == Share { // all but what explores goes to one endpoint, so that the others are overdue
			d.Endpoint = 0
		}
		b.serve(a, d.Endpoint, why, time.Second, 45)
		b.now = b.now.Add(2 * time.Second)
		b.Refresh(b.now)
	}
	if n := got[Explore]; n < 35 || n > 49 || got[Share] != 1500-n {
		t.Errorf("%v: about 45 of 1500 may explore", got)
	}
	none := NewRouter(b.cat, Options{Explore: -1}, b.now)
	for range 300 {
		a := b.ask()
		if d := none.Pick(&a, b.tier(0), b.now); d.Reason != Share {
			t.Fatalf("%+v", d)
		}
	}
}

// A flagged endpoint gets test traffic while the others have room, and no more than that.
func TestFlaggedIsTested(t *testing.T) {
	b := calm(t, 3)
	b.Flag(1, true)
	b.pass(time.Second)
	b.now = b.now.Add(50 * time.Second)
	b.edit(func(v *view) { v.explore = 0.1 })
	if got := b.shares(1000, nil); got[1] != 0 {
		t.Errorf("%v within a minute", got)
	}
	b.serve(b.ask(), 0, Share, time.Second, 45)
	b.serve(b.ask(), 2, Share, time.Second, 45)
	b.now = b.now.Add(20 * time.Second)
	if got := b.shares(1000, nil); got[1] < 60 || got[1] > 140 {
		t.Errorf("%v, a hundred are due", got)
	}
}

// What costs more than the best is tried more rarely for the sake of knowing: it counts as up to three tries, as long as
// all can be tried within ten minutes.
func TestTolls(t *testing.T) {
	w := newWorld(t, 1, &site{offer: offer{in: 1, out: 3}}, &site{offer: offer{in: 2, out: 6}}, &site{offer: offer{in: 100, out: 300}})
	k := w.markets[0]
	for _, c := range []struct {
		tests float64 // that each endpoint can have in ten minutes
		most  float64
	}{{100, exploreDear}, {4, 1.6}, {1, 1}, {0.99, exploreDear}, {0, exploreDear}} {
		v := *k.view.Load()
		v.tolls(query{in: v.in, out: v.out}, c.tests)
		if got := [...]float64{v.rows[0].toll, v.rows[1].toll, v.rows[2].toll}; got[0] != 1 || got[2] != c.most || !near(got[1], min(2, c.most), 0.6) || got[1] < 1 {
			t.Errorf("%v tests: counted as %v", c.tests, got)
		}
	}
	a := Ask{In: 1000}
	for place, why := range []Reason{Explore, Probe, Share} {
		before := k.model.explored.Load()
		w.Begin(&a, place, why, w.time())
		if want := []int64{1000, int64(1000 * k.view.Load().rows[1].toll), 0}[place]; k.model.explored.Load()-before != want {
			t.Errorf("%s: %d thousandths more, want %d", why, k.model.explored.Load()-before, want)
		}
	}
	if !near(k.tests(&Options{}), 0, 1e-9) {
		t.Errorf("%v tests without traffic", k.tests(&Options{}))
	}
	for i := range k.ends {
		k.ends[i].mu.Lock()
		k.ends[i].Slow.Sent = 2 * halfSlow / math.Ln2 // two a second
		k.ends[i].mu.Unlock()
	}
	k.collect(w.now)
	if got := k.tests(&Options{}); !near(got, 0.03*6*600/3, 0.01) {
		t.Errorf("%v tests at six requests a second", got)
	}
	if got := k.tests(&Options{Explore: -1}); got != 0 {
		t.Errorf("%v tests where nothing is explored", got)
	}
}

// The tolls are those of the view that serves: who costs a multiple of the best counts as more than one try in it.
func TestTolls_InForce(t *testing.T) {
	b := bazaarOf(t, offer{in: 100, out: 300}, offer{in: 1, out: 3})
	b.warm()
	rows := b.markets[0].view.Load().rows
	if rows[1].toll != 1 || !(rows[0].toll > 1.5 && rows[0].toll <= exploreDear) {
		t.Errorf("counted as %v and %v", rows[0].toll, rows[1].toll)
	}
}

// Tries that were counted as many put the budget into debt, but never so deep that nothing is tried for long.
func TestExplorationDebt(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	m := b.markets[0].model
	m.explored.Add(1000 * 1000)
	if b.Router.refresh(b.markets[0], b.now); m.budget != -budgetMost {
		t.Errorf("a budget of %v", m.budget)
	}
	m.firsts.Add(1000 * 1000)
	if b.Router.refresh(b.markets[0], b.now); m.budget != budgetMost {
		t.Errorf("a budget of %v", m.budget)
	}
}
