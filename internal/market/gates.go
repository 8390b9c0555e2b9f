package market

import "fmt"

// Gate is a promise, and what was measured of it.
type Gate struct {
	Name string
	Got  float64
	Want float64
	Over bool // Got must be at least Want, not at most
}

// OK says whether the promise is kept.
func (g Gate) OK() bool {
	if g.Over {
		return g.Got >= g.Want
	}
	return g.Got <= g.Want
}

func (g Gate) String() string {
	how := "at most"
	if g.Over {
		how = "at least"
	}
	return fmt.Sprintf("%s: %+.1f %%, %s %+.1f %%", g.Name, 100*g.Got, how, 100*g.Want)
}

// Gates hold a comparison against what is promised of the reporting half: the means, that nobody pays more in all, and in
// each scenario that has room for what comes the figures that a large public router published of its own change from
// prices alone to a routing cost.
func (c *Comparison) Gates() []Gate {
	var list []Gate
	if v, ok := c.Vs[InverseSquare]; ok {
		list = append(list, against(InverseSquare, v, -0.35, 0.5, -0.85, 0.06)...)
	}
	if v, ok := c.Vs[PriceCooldown]; ok {
		list = append(list, Gate{PriceCooldown + " ttft", v.TTFT, -0.5, false}, Gate{PriceCooldown + " cost", v.Cost, 0.06, false})
	}
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		for _, other := range [...]string{InverseSquare, PriceCooldown} {
			if v, ok := s.Vs[other]; ok {
				list = append(list, Gate{s.Name + " " + other + " user cost", v.UserCost, 0.02, false})
			}
		}
		if v, ok := s.Vs[InverseSquare]; ok && !s.Saturated {
			list = append(list, against(s.Name+" "+InverseSquare, v, -0.169, 0.163, -0.67, 0.06)...)
		}
	}
	return list
}

func against(name string, v Change, ttft, e2e, limits, cost float64) []Gate {
	return []Gate{
		{name + " ttft", v.TTFT, ttft, false}, {name + " e2e", v.E2E, e2e, true},
		{name + " 429s", v.Rate429, limits, false}, {name + " cost", v.Cost, cost, false},
	}
}
