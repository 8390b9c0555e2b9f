package market

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"myip.co.kr/hearth/internal/slot"
)

// TestHasty: callers who would not wait for a load do not bring their model turns
// at the cost of the others.
func TestHasty(t *testing.T) {
	play := func(perSecond float64) (served [2]float64) {
		s := pair(func(s *SlotScenario) { s.Models[0].Share, s.Models[1].Share, s.Load = 0.8, 0.2, 0.3 })
		w := newWorld(newTrace(&s, 5))
		r := rand.New(rand.NewPCG(1, 2))
		for at := 0.0; perSecond > 0 && at < w.to.Seconds(); at += r.ExpFloat64() / perSecond {
			w.requests = append(w.requests, asked{at: seconds(at), model: 1, service: time.Second, budget: time.Second})
		}
		slices.SortStableFunc(w.requests, func(a, b asked) int { return cmp.Compare(a.at, b.at) })
		w.outcomes = make([]outcome, len(w.requests))
		w.play(newScheduler(w, slot.VotesCount))
		if len(w.faults) > 0 {
			t.Fatal(w.faults)
		}
		var all [2]float64
		for i, q := range w.requests {
			if q.budget == time.Second {
				continue
			}
			all[q.model]++
			if w.outcomes[i].granted {
				served[q.model]++
			}
		}
		return [2]float64{served[0] / all[0], served[1] / all[1]}
	}
	without := play(0)
	for _, perSecond := range []float64{0.05, 0.5, 2} {
		with := play(perSecond)
		for m := range with {
			if with[m] < without[m]-0.03 {
				t.Errorf("%g such requests a second: %.3f of model %d are served, %.3f without them", perSecond, with[m], m, without[m])
			}
		}
		t.Log(without, with)
	}
}
