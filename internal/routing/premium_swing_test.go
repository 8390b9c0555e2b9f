package routing

import (
	"math"
	"testing"
)

// A fast endpoint that costs twice as much as the others tempts beyond the ceiling. The value of time gives way within
// minutes, and then it stays where it is: it does not swing.
func TestMaxPremium_Settles(t *testing.T) {
	const bound, until, settled = 0.1, 4200.0, 1200.0
	for _, c := range []struct {
		name string
		rate float64
	}{{"two a second", 2}, {"one in two seconds", 0.5}} {
		t.Run(c.name, func(t *testing.T) {
			got := median3(func(seed uint64) []float64 {
				sites := six()
				sites[5].in, sites[5].out, sites[5].ttft, sites[5].speed = 1.6, 4.8, 0.4, 180
				w := newWorld(t, seed, sites...)
				w.Router = NewRouter(w.cat, Options{Kappa: 3, MaxPremium: bound}, began)
				first, low, high, sum, n, turns, way, last := -1.0, math.Inf(1), 0.0, 0.0, 0.0, 0.0, 1.0, 0.0
				over := 0.0
				w.each = func(at float64) {
					part, kappa, ok := w.Premium("m/m", w.time())
					if !ok {
						return
					}
					if at > 120 && first < 0 && part <= bound {
						first = at
					}
					if at < settled {
						last = kappa
						return
					}
					low, high, sum, n = min(low, kappa), max(high, kappa), sum+part, n+1
					if part > 1.5*bound {
						over++
					}
					if d := math.Log(kappa / last); math.Abs(d) > math.Log(1.5) { // half as much again since it last turned
						if d*way < 0 {
							turns++
						}
						way, last = d, kappa
					}
				}
				w.run(c.rate, until)
				return []float64{first, high / low, sum / n, turns, over / n}
			})
			t.Logf("within the ceiling after %.0f s; then from least to most %.2f, on top %.3f, turns %.0f, part of the time half beyond %.3f", got[0], got[1], got[2], got[3], got[4])
			if got[0] < 0 || got[0] > 720 || got[2] > 1.15*bound || got[2] < 0.7*bound {
				t.Error("the ceiling is not held, or not used")
			}
			if got[1] > 3.5 || got[3] > 8 || got[4] > 0.4 {
				t.Error("it swings")
			}
		})
	}
}
