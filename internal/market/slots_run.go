package market

import (
	"context"
	"errors"
	"fmt"
	"math"

	"myip.co.kr/hearth/internal/slot"
)

// Names of the policies that a scenario is played with.
const (
	PolicyHearth   = "hearth"
	PolicyFIFO     = "fifo"
	PolicyNoAgeing = "no-ageing"

	// No policies, but bounds: the fewest loads with which anybody could serve in time what hearth served, knowing all
	// in advance, who changes turns as hearth promises to; and who need not, where the first
	// is known to need more.
	PolicyClairvoyant = "clairvoyant"
	PolicyFree        = "clairvoyant-free"

	// With a fallback: what hearth would be with other rules for the votes of those who were not let wait.
	PolicyNever  = "hearth-never-votes"
	PolicyAlways = "hearth-always-votes"
)

// slotPolicies are the policies that are played, in the order in which they are shown.
var slotPolicies = []struct {
	name     string
	fallback bool // only where somebody else serves
	make     func(*world) policy
}{
	{PolicyHearth, false, func(w *world) policy { return newScheduler(w, slot.VotesCount) }},
	{PolicyFIFO, false, func(w *world) policy { return newPlain(w, false) }},
	{PolicyNoAgeing, false, func(w *world) policy { return newPlain(w, true) }},
	{PolicyNever, true, func(w *world) policy { return newScheduler(w, slot.VotesNever) }},
	{PolicyAlways, true, func(w *world) policy { return newScheduler(w, slot.VotesAlways) }},
}

// SlotPolicies are the names of all policies, in the order in which they are shown.
func SlotPolicies() []string {
	return []string{PolicyHearth, PolicyFIFO, PolicyNoAgeing, PolicyClairvoyant, PolicyFree, PolicyNever, PolicyAlways}
}

// SlotResult is what became of one scenario.
type SlotResult struct {
	Name     string                 `json:"name"`
	Load     float64                `json:"load"`
	Policies map[string]SlotFigures `json:"policies"`

	Scenario SlotScenario           `json:"-"`
	Widths   map[string]SlotFigures `json:"-"` // half of the intervals in which the means lie with 95 %
}

// SimulateSlots plays a scenario several times, with the seeds from seed on, and says after each run that it is done.
func SimulateSlots(ctx context.Context, s SlotScenario, seed uint64, runs int, done func()) (SlotResult, error) {
	if err := s.Check(); err != nil {
		return SlotResult{}, err
	}
	r := SlotResult{Name: s.Name, Load: s.Load, Scenario: s, Policies: map[string]SlotFigures{}, Widths: map[string]SlotFigures{}}
	got := map[string][]run{}
	for n := range runs {
		t := newTrace(&s, seed+uint64(n))
		for _, p := range slotPolicies {
			if p.fallback && !s.Fallback {
				continue
			}
			if err := ctx.Err(); err != nil {
				return SlotResult{}, err
			}
			w, err := t.run(p.make)
			if err != nil {
				return SlotResult{}, fmt.Errorf("%s, policy %s, seed %d: %w", s.Name, p.name, t.seed, err)
			}
			m := measure(w)
			got[p.name] = append(got[p.name], m)
			if p.name == PolicyHearth {
				keeps, free := clairvoyant(w)
				got[PolicyClairvoyant] = append(got[PolicyClairvoyant], run{loads: w.per100(keeps)})
				got[PolicyFree] = append(got[PolicyFree], run{loads: w.per100(free)})
			}
		}
		done()
	}
	for name, list := range got {
		mean, width := overRuns(list)
		if name == PolicyClairvoyant || name == PolicyFree {
			mean, width = SlotFigures{LoadsPer100: mean.LoadsPer100}, SlotFigures{LoadsPer100: width.LoadsPer100}
		}
		r.Policies[name], r.Widths[name] = mean, width
	}
	if r.Policies[PolicyFree].LoadsPer100 == r.Policies[PolicyClairvoyant].LoadsPer100 {
		delete(r.Policies, PolicyFree)
		delete(r.Widths, PolicyFree)
	}
	return r, nil
}

// run plays the trace with a policy. A policy that does what a GPU cannot is an error.
func (t *trace) run(with func(*world) policy) (*world, error) {
	w := newWorld(t)
	w.play(with(w))
	if len(w.faults) > 0 {
		return nil, errors.New(w.faults[0])
	}
	return w, nil
}

// per100 is so many loads for 100 of the measured requests that the GPU served.
func (w *world) per100(loads int) float64 { return 100 * float64(loads) / max(1, w.servedHere()) }

// servedHere is how many of the measured requests the GPU served.
func (w *world) servedHere() float64 {
	n := 0.0
	for i, r := range w.requests {
		if w.outcomes[i].granted && r.at >= w.from && r.at < w.to {
			n++
		}
	}
	return n
}

// SlotGate is a condition that a scenario's figures are held against.
type SlotGate struct {
	Name string
	Got  float64
	Want float64
	Most bool // Want is the most that may be; else the least
}

// OK says whether the gate is passed.
func (g SlotGate) OK() bool {
	if g.Most {
		return g.Got <= g.Want
	}
	return g.Got >= g.Want
}

func (g SlotGate) String() string {
	sign := "≥"
	if g.Most {
		sign = "≤"
	}
	return fmt.Sprintf("%s: %.3f, want %s %.3f", g.Name, g.Got, sign, g.Want)
}

// fewLoads are loads per 100 requests that are none to speak of, and more than a bound of nearly none by chance.
const fewLoads = 0.05

// Gates are the conditions that hold for this scenario.
func (r *SlotResult) Gates() []SlotGate {
	h, fifo := r.Policies[PolicyHearth], r.Policies[PolicyFIFO]
	gates := []SlotGate{
		{"worst model served within budget", *h.MinModel, *h.Served - 0.05, false},
		{"served within budget, against FIFO", *h.Served, *fifo.Served, false},
		{"Jain's index", *h.Jain, 0.95, false},
		{"loads, against the bound", h.LoadsPer100, 1.5*r.Policies[PolicyClairvoyant].LoadsPer100 + fewLoads, true},
	}
	if r.Scenario.Fallback {
		better := max(*r.Policies[PolicyNever].LocalShare, *r.Policies[PolicyAlways].LocalShare)
		gates = append(gates, SlotGate{"local share", *h.LocalShare, 0.95 * better, false})
	}
	if r.Scenario.even() && math.Abs(r.Load-0.6) < 0.005 {
		gates = append(gates, SlotGate{"FIFO's loads against hearth's", ratio(fifo.LoadsPer100, h.LoadsPer100), 2, false})
	}
	return gates
}

// ratio is a/b, where nothing of nothing is 1.
func ratio(a, b float64) float64 {
	switch {
	case b > 0:
		return a / b
	case a == 0:
		return 1
	}
	return a / 1e-3
}
