package routing

import (
	"math"
	"testing"
)

// caps calls fn with the cap of each site at each refresh.
func (w *world) caps(fn func(i int, at, cap float64)) {
	w.each = func(at float64) {
		v := w.markets[0].view.Load()
		for i := range v.rows {
			fn(i, at, v.rows[i].cap)
		}
	}
}

// When all sites are full, requests go over the caps for want of anything better. What the caps learn from that must not
// shrink them: else the overload would end with caps of one.
func TestCapCollapse(t *testing.T) {
	for _, rate := range []float64{3, 6, 12} { // 1.6 is what they can take
		got := median3(func(seed uint64) []float64 {
			var sites []*site
			for range 4 {
				sites = append(sites, &site{offer: offer{in: 1, out: 3}, ttft: 1.2, speed: 45, places: 10})
			}
			w := newWorld(t, seed, sites...)
			least, known := math.Inf(1), 0
			w.caps(func(_ int, at, cap float64) {
				if at > 60 && !math.IsInf(cap, 1) {
					least = min(least, cap)
					known++
				}
			})
			w.run(rate, 900)
			served := 0
			for _, s := range sites {
				served += within(s.served, 300, 800)
			}
			return []float64{least, float64(known), float64(served) / 500}
		})
		t.Logf("%v a second: least cap %.1f of 10, %.2f served a second", rate, got[0], got[2])
		if got[0] < 5 || got[1] == 0 || got[2] < 1.5 {
			t.Errorf("%v a second: a cap of 5 is allowed, 1.5 answers a second are due", rate)
		}
	}
}

// Four sites, of which one has nearly all of the capacity, and that one turns bad: to lock it out would make everything
// worse.
func TestQuarantine(t *testing.T) {
	market := func() []*site {
		var sites []*site
		for i := range 4 {
			sites = append(sites, &site{offer: offer{in: 1, out: 3}, ttft: 1.2, speed: 45, places: 4})
			if i == 0 {
				sites[0].places = 80
			}
			sites[i].tools = func(float64) float64 { return 0.005 }
		}
		return sites
	}
	play := func(turn func(*site)) []float64 {
		return median3(func(seed uint64) []float64 {
			sites := market()
			turn(sites[0])
			w := newWorld(t, seed, sites...)
			w.tools = true
			w.run(3, 1200)
			return []float64{float64(w.lost) / float64(w.requests), w.part(0, 600, 1200), float64(w.limits(600, 1200)) / float64(w.requests)}
		})
	}
	plain := play(func(*site) {})
	t.Run("flagged for its tool calls", func(t *testing.T) {
		got := play(func(s *site) { s.tools = func(float64) float64 { return 0.3 } })
		t.Logf("lost, share, 429s: %.4f, unflagged %.4f", got, plain)
		if got[0] > plain[0]+0.001 || got[1] < 0.2 {
			t.Error("requests are lost, or the flagged one serves no overflow")
		}
	})
	t.Run("its error rate is far above the others'", func(t *testing.T) {
		got := median3(func(seed uint64) []float64 {
			sites := market()
			sites[0].mood = during(breaks, 300, 1e9, 0.7)
			w := newWorld(t, seed, sites...)
			w.bare = true
			opened := 0.0
			w.each = func(float64) { opened = max(opened, float64(w.markets[0].ends[0].shut.Load())) }
			w.run(3, 1200)
			return []float64{float64(w.lost) / float64(w.requests), opened, w.part(0, 600, 1200)}
		})
		t.Logf("lost, opened, share: %.4f", got)
		if got[0] > 0.7 || got[1] > 0 {
			t.Error("more are lost than fail, or the breaker opened")
		}
	})
}

// Of two endpoints the bad one opens: the other can carry the load.
func TestBreakerOfTwo(t *testing.T) {
	sites := six()[:2]
	sites[0].in, sites[0].out = 0.05, 0.15 // so cheap that the cost of failed tries alone keeps it in use
	sites[0].mood = during(breaks, 300, 900, 0.8)
	w := newWorld(t, 1, sites...)
	w.bare = true
	opened := 0.0
	w.each = func(at float64) {
		if w.open.Load() > 0 && opened == 0 {
			opened = at
		}
	}
	w.run(4, 1500)
	t.Logf("opened at %.1f, %d failed, share meanwhile %.3f, later %.3f, lost %d", opened, len(sites[0].failed), w.part(0, 400, 900), w.part(0, 1200, 1500), w.lost)
	if opened < 300 || opened > 500 || w.part(0, 400, 900) > 0.15 || w.part(0, 1300, 1500) < 0.5 || w.lost > 0 {
		t.Error("not so")
	}
}
