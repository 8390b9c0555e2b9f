package market

import (
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

func TestMicro_Quality(t *testing.T) { atStakes(t, microQuality) }

func microQuality(t *testing.T, v stakes) {
	load := brief(4)
	load.Tools = 0.5
	t.Run("in a market of four in which the flagged one has most of the room no more callers get errors", func(t *testing.T) {
		t.Parallel()
		lost := func(malformed float64) float64 {
			return v.middle(func(seed uint64) float64 {
				w, list := twins(4, 4, seed, load, 1200)
				cheaper(w, list, 0)
				w.places[0].room, w.places[0].truth.queue, w.places[0].malformed = 60, 6, malformed
				flagged := false
				_, f := watched(t, w, list, RoutingCost, seed, v.o, func(p buyer, now float64) {
					flagged = flagged || flaggedNow(p.(*routed), now)
				})
				if malformed > 0.1 && !flagged {
					t.Error("the endpoint was never flagged")
				}
				return f.Lost
			})
		}
		clean, broken := lost(0.005), lost(0.4)
		t.Logf("lost %.4f with the flag, %.4f without", broken, clean)
		if broken > clean+0.002 {
			t.Errorf("%.4f of the callers get an error, without the flag %.4f", broken, clean)
		}
	})
	t.Run("five malformed tool calls of a hundred move traffic with tools and no other", func(t *testing.T) {
		t.Parallel()
		shares := func(malformed float64) (tools, plain float64) {
			part := func(with bool) float64 {
				return v.middle(func(seed uint64) float64 {
					w, list := twins(6, 60, seed, load, 1500)
					cheaper(w, list, 0)
					w.places[0].malformed = malformed
					tries, _ := watched(t, w, list, RoutingCost, seed, v.o, nil)
					n, hits := 0.0, 0.0
					for i := range tries {
						if q := &tries[i]; q.number == 0 && q.sent > 300 && q.tools == with {
							if n++; q.endpoint == 0 {
								hits++
							}
						}
					}
					return hits / n
				})
			}
			return part(true), part(false)
		}
		tools, plain := shares(0.005)
		badTools, badPlain := shares(0.055)
		t.Logf("with tools %.2f, then %.2f; without %.2f, then %.2f", tools, badTools, plain, badPlain)
		if badTools > 0.8*tools {
			t.Errorf("the share with tools is %.2f, it was %.2f", badTools, tools)
		}
		if badPlain < 0.9*plain {
			t.Errorf("the share without tools is %.2f, it was %.2f", badPlain, plain)
		}
	})
}

// flaggedNow says whether the first endpoint is flagged for its tool calls.
func flaggedNow(p *routed, now float64) bool {
	var tier []hearth.Candidate
	for _, e := range p.catalog.Endpoints {
		tier = append(tier, hearth.Candidate{Endpoint: e})
	}
	why := make([]routing.Terms, len(tier))
	p.router.Order(&routing.Ask{In: 1000, Tools: true}, tier, why, at(now))
	for i := range why {
		if why[i].Endpoint == 0 {
			return why[i].Flagged
		}
	}
	return false
}

func TestMicro_Newcomer(t *testing.T) { atStakes(t, microNewcomer) }

func microNewcomer(t *testing.T, v stakes) {
	t.Run("a newcomer has half of its final share within a minute", func(t *testing.T) {
		t.Parallel()
		var finals []float64
		took := v.middle(func(seed uint64) float64 {
			w, list := twins(6, 60, seed, brief(4), 1800)
			const new = 5
			cheaper(w, list, new)
			list[new].TTFT, list[new].TPS = list[new].TTFT/1.5, list[new].TPS*1.5
			p := w.places[new]
			p.Listing, p.fixed, p.prefill = list[new], p.fixed/1.5, p.prefill*1.5
			w.known = new
			w.script = []change{{600, func(w *bazaar) error { w.known = new + 1; return w.buyer.listed(list, w.now) }}}
			tries, _ := watched(t, w, list, RoutingCost, seed, v.o, nil)
			final, _ := partOf(tries, new, 1200, 1800)
			finals = append(finals, final)
			for at := 600.0; at < 1500; at += 5 {
				if p, _ := partOf(tries, new, at-10, at+10); at > 605 && p >= final/2 {
					return at - 600
				}
			}
			return 900
		})
		final := v.middle(func(seed uint64) float64 { return finals[seed-1] })
		t.Logf("%.0f s, a share of %.2f in the end", took, final)
		if final < v.pick(0.3, 0.3, 0.15) { // of six
			t.Errorf("the newcomer has a share of %.2f in the end", final)
		}
		if took > 60 {
			t.Errorf("it takes %.0f s", took)
		}
	})
}
