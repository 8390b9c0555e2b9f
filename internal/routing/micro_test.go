package routing

import (
	"math"
	"slices"
	"testing"
)

// during is a mood that holds for some time, with some odds for each request.
func during(m mood, from, to, odds float64) func(float64, *draws) mood {
	return func(at float64, d *draws) mood {
		if at >= from && at < to && d.next() < odds {
			return m
		}
		return fine
	}
}

// median3 plays a scene with three seeds and returns the median of what it measures, figure by figure.
func median3(play func(seed uint64) []float64) []float64 { return medians(3, play) }

// medians is median3 with as many seeds, an odd number of them.
func medians(seeds uint64, play func(seed uint64) []float64) []float64 {
	var all [][]float64
	for seed := range seeds {
		for i, x := range play(seed) {
			if seed == 0 {
				all = append(all, nil)
			}
			all[i] = append(all[i], x)
		}
	}
	out := make([]float64, len(all))
	for i, x := range all {
		slices.Sort(x)
		out[i] = x[len(x)/2]
	}
	return out
}

// since is when, counted from a time, a site's share of 30 s is back at a bar; 1e9 = never.
func (w *world) since(i int, from, to, bar float64) float64 {
	for at := from; at+30 <= to; at += 10 {
		if w.part(i, at, at+30) >= bar {
			return at - from
		}
	}
	return 1e9
}

// Six equal sites, the favourite a quarter cheaper, has an episode of 10 minutes.
func TestEpisodes(t *testing.T) {
	for _, c := range []struct {
		name                 string
		mood                 mood
		odds, rate           float64
		fails, during, again float64 // at most: failed tries, share in the episode's second half, seconds to half the share
	}{
		{"outage", breaks, 1, 4, 30, 0.02, 300},
		{"outage at a low rate", breaks, 1, 0.4, 20, 0.10, 460},
		{"hang", hangs, 1, 4, 30, 0.03, 300},
		{"brown-out", crawls, 1, 4, 0, 0.05, 330},
		{"three in ten fail", breaks, 0.3, 4, 70, 0.12, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := medians(9, func(seed uint64) []float64 { // the seconds until back scatter
				sites := six()
				sites[0].mood = during(c.mood, 400, 1000, c.odds)
				w := newWorld(t, seed, sites...)
				w.run(c.rate, 1600)
				before := w.part(0, 200, 400)
				return []float64{float64(len(sites[0].failed)), w.part(0, 700, 1000), w.since(0, 1000, 1600, before/2), float64(w.lost), before}
			})
			t.Logf("failed tries, share, seconds until back, lost, share before: %.3g", got)
			if got[4] < 0.6 {
				t.Errorf("the favourite had a share of %.2f only", got[4])
			}
			if got[0] > c.fails || got[1] > c.during || got[2] > c.again || got[3] > 0 {
				t.Errorf("at most %v, %v and %v are allowed, and nothing lost", c.fails, c.during, c.again)
			}
		})
	}
}

// Where an answer takes a tenth of a second, what failed tries take elsewhere must not keep anybody away.
func TestEpisodes_FastAnswers(t *testing.T) {
	got := median3(func(seed uint64) []float64 {
		sites := six()[:3]
		for _, s := range sites {
			s.ttft, s.speed, s.fails = 0.1, 20000, 0.05
		}
		sites[0].ttft = 0.13 // cheaper by a quarter, slower by a third
		sites[0].mood = during(breaks, 400, 440, 1)
		w := newWorld(t, seed, sites...)
		w.run(4, 1200)
		before := w.part(0, 200, 400)
		return []float64{float64(len(sites[0].failed)), w.since(0, 440, 1200, before/2), before}
	})
	t.Logf("failed tries, seconds until back, share before: %.3g", got)
	if got[0] > 30 || got[1] > 120 || got[2] < 0.15 {
		t.Error("at most 30 failed tries and 120 s are allowed")
	}
}

func TestNewcomer(t *testing.T) {
	for _, c := range []struct{ rate, within float64 }{{4, 60}, {0.4, 120}} {
		got := median3(func(seed uint64) []float64 {
			sites := six()
			sites[0].ttft, sites[0].speed = 0.12, 20000
			w := newWorld(t, seed, sites...)
			w.absent(0, 300)
			w.run(c.rate, 1500)
			final := w.part(0, 1000, 1500)
			for at := 300.0; at < 1500; at += 5 {
				if w.part(0, at, at+20) >= final/2 {
					return []float64{at - 300, final}
				}
			}
			return []float64{1e9, final}
		})
		t.Logf("at %v a second: half of its final share after %.3g s, final %.2f", c.rate, got[0], got[1])
		if got[0] > c.within || got[1] < 0.7 {
			t.Errorf("at %v a second: %v s allowed", c.rate, c.within)
		}
	}
}

// Four equal sites: how much more their shares of a second's requests scatter than independent draws would.
func TestHerding(t *testing.T) {
	got := median3(func(seed uint64) []float64 {
		sites := six()[1:5]
		for _, s := range sites {
			s.places = 40
		}
		w := newWorld(t, seed, sites...)
		w.run(12, 900)
		var sum, n float64
		for at := 300.0; at < 900; at += 5 {
			all := 0.0
			for _, s := range sites {
				all += float64(within(s.tried, at, at+5))
			}
			for _, s := range sites {
				d := float64(within(s.tried, at, at+5)) - all/4
				sum += d * d / (all * 0.25 * 0.75)
				n++
			}
		}
		return []float64{math.Sqrt(sum / n), w.wait / float64(w.waits)}
	})
	t.Logf("herding ratio %.2f, ttft %.2f s", got[0], got[1])
	if got[0] > 1.2 {
		t.Error("1.2 is allowed")
	}
}

// The favourite takes 12, then 36, then 6 requests at once.
func TestCapacity(t *testing.T) {
	got := median3(func(seed uint64) []float64 {
		sites := six()
		w := newWorld(t, seed, sites...)
		s := sites[0]
		s.places = 12
		w.each = func(at float64) {
			switch {
			case at >= 1600:
				s.places = 6
			case at >= 800:
				s.places = 36
			}
		}
		w.run(4, 2400)
		rate := func(from, to float64) float64 {
			return float64(w.limits(from, to)) / max(float64(within(s.tried, from, to)), 1)
		}
		return []float64{
			rate(300, 800), float64(within(s.tried, 700, 800)), float64(within(s.tried, 1500, 1600)), float64(w.limits(1600, 1660)), rate(1700, 2400),
			float64(within(s.tried, 2300, 2400)), float64(w.lost),
		}
	})
	t.Logf("429 rate %.4f, tries in 100 s %v, %v after the raise; in the cut's first minute %v 429s, then %.4f, tries %v; lost %v", got[0], got[1], got[2], got[3], got[4], got[5], got[6])
	if got[0] > 0.01 || got[2] < 1.5*got[1] || got[3] > 20 || got[4] > 0.015 || got[5] < 20 {
		t.Error("not so")
	}
}
