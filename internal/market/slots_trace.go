package market

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// asked is one request of a trace.
type asked struct {
	at      time.Duration // since the beginning
	model   int
	key     int
	service time.Duration // in an engine
	budget  time.Duration
}

// trace is what comes in one run. Every policy gets the same.
type trace struct {
	*SlotScenario
	seed     uint64
	requests []asked
	from, to time.Duration // what is measured: from then on, and before
	steady   bool          // loads always take their time, no more and no less
}

// newTrace draws a run of a scenario.
func newTrace(s *SlotScenario, seed uint64) *trace {
	t := &trace{SlotScenario: s, seed: seed}
	rate := s.rate()
	end := float64(s.Requests) / rate
	for i := range s.Models {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for _, at := range arrivals(r, rate*s.Models[i].Share, s.Burst, end) {
			t.requests = append(t.requests, t.draw(r, at, i))
		}
	}
	slices.SortStableFunc(t.requests, func(a, b asked) int { return cmp.Compare(a.at, b.at) })
	t.from, t.to = seconds(warmUp*end), seconds(end)
	return t
}

func (t *trace) draw(r *rand.Rand, at float64, model int) asked {
	a := asked{at: seconds(at), model: model, key: r.IntN(t.Keys)}
	if t.Greedy && r.IntN(2) == 0 {
		a.key = 0
	}
	mean := t.Models[model].Service.Seconds()
	a.service = max(time.Millisecond, seconds(mean*math.Exp(t.Sigma*r.NormFloat64()-t.Sigma*t.Sigma/2)))
	a.budget = t.Budgets[a.key%len(t.Budgets)]
	return a
}

// arrivals draws when requests of a model come before end, in seconds: a Poisson process whose rate is, in turns, that
// of a burst and that between bursts.
func arrivals(r *rand.Rand, rate, burst, end float64) (list []float64) {
	high := burstMean.Seconds() / (burstMean + quietMean).Seconds() // part of the time
	rates := [2]float64{rate / (1 - high + burst*high)}
	rates[1] = rates[0] * burst
	means := [2]float64{quietMean.Seconds(), burstMean.Seconds()}
	phase := 0
	if r.Float64() < high {
		phase = 1
	}
	for from := 0.0; from < end; phase = 1 - phase {
		to := min(end, from+r.ExpFloat64()*means[phase])
		for at := from + r.ExpFloat64()/rates[phase]; at < to; at += r.ExpFloat64() / rates[phase] {
			list = append(list, at)
		}
		from = to
	}
	return list
}

// loadTime is how long the n-th load of a run takes.
func (t *trace) loadTime(model, n int) time.Duration {
	if t.steady {
		return t.Models[model].LoadTime
	}
	r := rand.New(rand.NewPCG(t.seed^0x6c6f6164, uint64(model)<<32|uint64(n)))
	return t.Models[model].LoadTime + time.Duration(float64(t.Models[model].LoadTime)*loadJitter*(2*r.Float64()-1))
}

// leastLoad is the shortest a load of a model can be.
func (m *SlotModel) leastLoad() time.Duration {
	return m.LoadTime - time.Duration(float64(m.LoadTime)*loadJitter)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
