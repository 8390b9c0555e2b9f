package market

import (
	"math"
	"math/rand/v2"
	"testing"

	"myip.co.kr/hearth/internal/routing"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 42)) }

// A world of the spec's small tests: six endpoints that are alike, the first a quarter cheaper, for a quarter of an hour
// from the tenth minute on something else.
const (
	strikes = 600.0
	heals   = 1500.0
)

func struck(t *testing.T, o routing.Options, seed uint64, rate float64, strike func(p *place)) []tried {
	w, list := twins(6, 60, seed, brief(rate), 2400)
	cheaper(w, list, 0)
	w.script = []change{{strikes, func(w *bazaar) error { strike(w.places[0]); return nil }}}
	tries, _ := watched(t, w, list, RoutingCost, seed, o, nil)
	return tries
}

func failures(tries []tried, endpoint int, from, until float64) float64 {
	n := 0.0
	for i := range tries {
		if q := &tries[i]; q.endpoint == endpoint && q.how == failed && q.sent >= from && q.sent < until {
			n++
		}
	}
	return n
}

func TestMicro_Outage(t *testing.T) { atStakes(t, microOutage) }

func microOutage(t *testing.T, v stakes) {
	for _, c := range []struct {
		name   string
		strike func(p *place)
		most   float64 // failed tries
		back   float64 // seconds
	}{
		{"errors", func(p *place) { p.forcedOutage = episode{heals, 1} }, 30, 300},
		// Where time is cheap nearly all requests are on their way to the favourite before the first of them is known to hang.
		{"hangs", func(p *place) { p.forcedHang = episode{heals, 1} }, v.pick(30, 40, 30), v.pick(300, 300, 480)},
	} {
		t.Run("in a fast outage by "+c.name+" few tries fail, and the traffic comes back", func(t *testing.T) {
			t.Parallel()
			var back []float64
			fails := v.middle(func(seed uint64) float64 {
				tries := struck(t, v.o, seed, 4, c.strike)
				before, _ := partOf(tries, 0, 200, strikes)
				back = append(back, reached(tries, 0, heals, 2400, before/2))
				return failures(tries, 0, strikes, heals)
			})
			again := v.middle(func(seed uint64) float64 { return back[seed-1] })
			t.Logf("failed tries %.0f, half of the share after %.0f s", fails, again)
			if fails > c.most {
				t.Errorf("%.0f tries fail, at most %.0f may", fails, c.most)
			}
			if again > c.back {
				t.Errorf("half of the share is back after %.0f s, not %.0f", again, c.back)
			}
		})
	}
}

func TestMicro_Herding(t *testing.T) { atStakes(t, microHerding) }

func microHerding(t *testing.T, v stakes) {
	t.Run("twins share no more unevenly than by chance", func(t *testing.T) {
		t.Parallel()
		ratio := v.middle(func(seed uint64) float64 {
			w, list := twins(4, 30, seed, brief(8), 1800)
			tries, _ := watched(t, w, list, RoutingCost, seed, v.o, nil)
			sum, windows := 0.0, 0.0
			for at := 200.0; at < 1800; at += 5 {
				for e := range list {
					p, n := partOf(tries, e, at, at+5)
					sum, windows = sum+(p-0.25)*(p-0.25)/(0.25*0.75/math.Max(1, float64(n))), windows+1
				}
			}
			return math.Sqrt(sum / windows)
		})
		t.Logf("%.2f of chance", ratio)
		// Where time is dear what is measured of four equals is told apart by its noise.
		if most := v.pick(1.2, 1.2, 1.6); ratio > most {
			t.Errorf("shares scatter %.2f times as much as by chance, not %g", ratio, most)
		}
	})
}

func TestMicro_Limits(t *testing.T) { atStakes(t, microLimits) }

func microLimits(t *testing.T, v stakes) {
	t.Run("when an endpoint's room changes 429s stay rare", func(t *testing.T) {
		t.Parallel()
		worst := v.middle(func(seed uint64) float64 {
			w, list := twins(6, 12, seed, brief(4), 2700)
			cheaper(w, list, 0)
			for _, p := range w.places {
				p.truth.queue = 0
			}
			w.script = []change{
				{900, func(w *bazaar) error { w.places[0].room = 36; return nil }},
				{1800, func(w *bazaar) error { w.places[0].room = 6; return nil }},
			}
			tries, _ := watched(t, w, list, RoutingCost, seed, v.o, nil)
			most := 0.0
			for _, span := range [][2]float64{{300, 900}, {1000, 1800}, {1900, 2700}} {
				limits, n := 0.0, 0.0
				for i := range tries {
					if q := &tries[i]; q.sent >= span[0] && q.sent < span[1] {
						if q.number == 0 {
							n++
						}
						if q.how == limited {
							limits++
						}
					}
				}
				most = max(most, limits/n)
			}
			return most
		})
		t.Logf("429s per request %.4f", worst)
		if worst > 0.01 {
			t.Errorf("%.4f 429s per request, at most 0.01 may be", worst)
		}
	})
	t.Run("an overload does not shrink the caps below half of what there is", func(t *testing.T) {
		t.Parallel()
		const room = 12.0
		least := v.middle(func(seed uint64) float64 {
			load := brief(2 * 2 * room / 5) // twice what two endpoints can serve
			w, list := twins(2, room, seed, load, 900)
			low := math.Inf(1)
			watched(t, w, list, RoutingCost, seed, v.o, func(p buyer, now float64) {
				if now < 60 {
					return
				}
				for _, e := range p.(*routed).router.Overview(modelID, at(now)) {
					if e.Cap > 0 {
						low = min(low, e.Cap)
					}
				}
			})
			return low
		})
		t.Logf("lowest cap %.1f of %.0f", least, room)
		if least < room/2 {
			t.Errorf("the cap falls to %.1f, the room is %.0f", least, room)
		}
		if math.IsInf(least, 1) {
			t.Error("no cap was learned")
		}
	})
}
