package market

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Drawn draws scenarios from the shapes that real markets have: what holds in the two halves must hold in these, too. The
// same seed draws the same ones, the first of them first.
func Drawn(seed uint64, n int) []Scenario {
	list := make([]Scenario, n)
	for i := range list {
		list[i] = invent(rand.New(rand.NewPCG(mix(seed), uint64(i)+1)))
		list[i].Name = fmt.Sprintf("random-%d-%03d", seed, i+1)
	}
	return list
}

// Bounds of what is drawn.
const (
	rareRate, denseRate = 0.05, 30.0 // requests per second
	fewRequests         = 2500.0     // of a scenario
	manyRequests        = 12000.0
	shortest, longest   = 600.0, 100_000.0 // seconds
)

func invent(r *rand.Rand) Scenario {
	between := func(a, b float64) float64 { return a + (b-a)*r.Float64() }
	times := func(a, b float64) float64 { return a * math.Pow(b/a, r.Float64()) } // as many per doubling
	s := Scenario{
		Endpoints: int(times(4, 34)), Tight: times(0.6, 2),
		Shape: Shape{
			Price: times(0.05, 5), PriceSpread: between(0.2, 0.87), TPS: times(30, 150), SpeedSpread: between(0.5, 1.4), TTFT: times(0.3, 3),
			WaitSpread: between(0.35, 0.77), OutputFactor: between(1.5, 5), CacheFactor: pick(r, []float64{0.1, 0.2, 0.5, 1}, []float64{0.2, 0.4, 0.1, 0.3}),
		},
	}
	rate := times(rareRate, denseRate)
	if s.Load = Chats(rate); r.Float64() < 0.5 {
		s.Load = Agents(rate)
		s.Load.Turns, s.Load.Think = between(3, 15), times(1, 60)
	}
	s.Load.Prompt, s.Load.Output, s.Load.Tools = times(200, 6000), times(60, 1000), r.Float64()
	if r.Float64() < 0.35 {
		s.Load.Burst = times(2, 10)
	}
	if s.Storm = 1; r.Float64() < 0.35 {
		s.Storm = between(2, 4)
	}
	switch u := r.Float64(); {
	case u < 0.12:
		s.Dominant = true
	case u < 0.24:
		s.Newcomer = true
	case u < 0.36:
		s.PriceCut = true
	}
	s.Seconds = clamp(times(fewRequests, manyRequests)/rate, shortest, longest)
	return s
}
