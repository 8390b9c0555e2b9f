package market

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDrawn(t *testing.T) {
	t.Parallel()
	list := Drawn(7, 400)
	var agents, bursts, storms, dominant, newcomers, cuts int
	for i := range list {
		s := &list[i]
		n, rate := float64(s.Endpoints), s.Load.Rate
		if n < 4 || n > 34 || rate < rareRate || rate > denseRate || s.Tight < 0.6 || s.Tight > 2 || s.Seconds < shortest || s.Seconds > longest {
			t.Errorf("%s: %+v", s.Name, s)
		}
		if requests := rate * s.Seconds; requests > manyRequests*1.001 && s.Seconds > shortest || requests < fewRequests*0.999 && s.Seconds < longest {
			t.Errorf("%s: %.0f requests", s.Name, requests)
		}
		if s.Shape.OutputFactor < 1.5 || s.Shape.CacheFactor > 1 || s.Shape.Price < 0.05 || s.Shape.Price > 5 || math.IsNaN(s.Shape.TTFT) {
			t.Errorf("%s: %+v", s.Name, s.Shape)
		}
		for n, is := range map[*int]bool{&agents: s.Load.Turns > 1, &bursts: s.Load.Burst > 1, &storms: s.Storm > 1, &dominant: s.Dominant, &newcomers: s.Newcomer, &cuts: s.PriceCut} {
			if is {
				*n++
			}
		}
	}
	for name, c := range map[string][2]int{"agents": {agents, 200}, "bursts": {bursts, 140}, "storms": {storms, 140}, "dominant": {dominant, 48}, "newcomers": {newcomers, 48}, "price cuts": {cuts, 48}} {
		if math.Abs(float64(c[0]-c[1])) > 4*math.Sqrt(float64(c[1])) {
			t.Errorf("%d with %s, about %d are drawn", c[0], name, c[1])
		}
	}
	if list[0].Name != "random-7-001" || list[399].Name != "random-7-400" {
		t.Errorf("%s, %s", list[0].Name, list[399].Name)
	}
	if d := cmp.Diff(list[:20], Drawn(7, 20)); d != "" {
		t.Errorf("the same seed, other scenarios: %s", d)
	}
	other := Drawn(8, 1)[0]
	if other.Name = list[0].Name; cmp.Equal(list[0], other) {
		t.Error("another seed, the same scenario")
	}
}

func TestComparison_Misses(t *testing.T) {
	t.Parallel()
	played := func(cost float64, saturated bool) Played {
		return Played{Saturated: saturated, Vs: map[string]Change{InverseSquare: {TTFT: -0.5, E2E: 0.5, Rate429: -0.9, Cost: cost, UserCost: cost - 0.2}}}
	}
	c := &Comparison{Scenarios: []Played{played(0.06, false), played(0.11, false), played(0.25, false), played(0.25, true)}}
	want := []Missed{
		{InverseSquare + " user cost", 4, 2, 0.03, 0.03}, {InverseSquare + " ttft", 3, 0, 0, 0}, {InverseSquare + " e2e", 3, 0, 0, 0},
		{InverseSquare + " 429s", 3, 0, 0, 0}, {InverseSquare + " cost", 3, 2, 0.12, 0.19},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if d := cmp.Diff(want, c.misses(), near); d != "" {
		t.Error(d)
	}
}
