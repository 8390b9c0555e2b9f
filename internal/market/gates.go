package market

import (
	"fmt"
	"math"
	"slices"
)

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
		for _, g := range c.Scenarios[i].gates() {
			g.Name = c.Scenarios[i].Name + " " + g.Name
			list = append(list, g)
		}
	}
	return list
}

// gates are those that each scenario has to pass.
func (s *Played) gates() (list []Gate) {
	for _, other := range [...]string{InverseSquare, PriceCooldown} {
		if v, ok := s.Vs[other]; ok {
			list = append(list, Gate{other + " user cost", v.UserCost, 0.02, false})
		}
	}
	if v, ok := s.Vs[InverseSquare]; ok && !s.Saturated {
		list = append(list, against(InverseSquare, v, -0.169, 0.163, -0.67, 0.06)...)
	}
	return list
}

// Missed is in how many scenarios one gate is missed, and by how much: 0.05 is five points, as a cost of +11 % where +6 %
// is wanted.
type Missed struct {
	Gate      string  `json:"gate"`
	Scenarios int     `json:"scenarios"` // that it holds for
	Missed    int     `json:"missed"`    // of these
	Mean      float64 `json:"mean"`      // of those that miss it
	Most      float64 `json:"most"`
}

// misses sum up, gate by gate, what became of those of the scenarios.
func (c *Comparison) misses() []Missed {
	var list []Missed
	for i := range c.Scenarios {
		for _, g := range c.Scenarios[i].gates() {
			k := slices.IndexFunc(list, func(m Missed) bool { return m.Gate == g.Name })
			if k < 0 {
				k, list = len(list), append(list, Missed{Gate: g.Name})
			}
			m := &list[k]
			if m.Scenarios++; g.OK() {
				continue
			}
			by := math.Abs(g.Got - g.Want)
			m.Missed, m.Mean, m.Most = m.Missed+1, m.Mean+by, max(m.Most, by)
		}
	}
	for i := range list {
		list[i].Mean /= float64(max(list[i].Missed, 1))
	}
	return list
}

func against(name string, v Change, ttft, e2e, limits, cost float64) []Gate {
	return []Gate{
		{name + " ttft", v.TTFT, ttft, false}, {name + " e2e", v.E2E, e2e, true},
		{name + " 429s", v.Rate429, limits, false}, {name + " cost", v.Cost, cost, false},
	}
}
