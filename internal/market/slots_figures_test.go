package market

import (
	"math"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	s := pair(func(s *SlotScenario) { s.Keys = 2 })
	tr := &trace{SlotScenario: &s, from: 100 * time.Second, to: 200 * time.Second}
	w := newWorld(tr)
	add := func(at float64, model, key int, o outcome, wait float64) {
		o.at = seconds(at + wait)
		tr.requests = append(tr.requests, asked{at: seconds(at), model: model, key: key, budget: time.Minute})
		w.outcomes = append(w.outcomes, o)
	}
	granted, refused := outcome{granted: true}, outcome{refused: true}
	add(99, 0, 0, refused, 60) // before
	for i := range 8 {
		add(100+float64(i), 0, 0, granted, float64(i))
	}
	add(110, 1, 1, granted, 40)
	add(120, 1, 1, refused, 60)
	add(200, 0, 0, refused, 60) // after
	w.loads = []load{{from: 80 * time.Second, until: 110 * time.Second}, {from: 150 * time.Second, until: 165 * time.Second}, {from: 190 * time.Second, until: 205 * time.Second}, {from: 201 * time.Second, until: 220 * time.Second}}

	m := measure(w)
	near(t, "loads", m.loads, 100*2.0/9, 1e-9)
	near(t, "served", m.served, 0.9, 1e-9)
	near(t, "worst model", m.minModel, 0.5, 1e-9)
	near(t, "p50", m.p50, 4, 1e-9)
	near(t, "p95", m.p95, 40, 1e-9)
	near(t, "longest", m.longest, 60, 1e-9)
	near(t, "jain", m.jain, 1.5*1.5/(2*1.25), 1e-9)
	near(t, "local", m.local, 0.9, 1e-9)
	near(t, "loading", m.loading, 0.35, 1e-9)

	s.Fallback = true
	m = measure(w)
	near(t, "served with a fallback", m.served, 1, 1e-9)
	near(t, "local with a fallback", m.local, 0.9, 1e-9)
	near(t, "p95 with a fallback", m.p95, 60, 1e-9)
}

func TestJainOfKeys(t *testing.T) {
	tr := &trace{SlotScenario: &SlotScenario{Budgets: []time.Duration{time.Second, time.Minute}}}
	near(t, "keys of two budgets", tr.jainOfKeys([]share{{0, 10}, {10, 10}, {0, 10}, {10, 10}}), 1, 1e-9)
	near(t, "one of a budget's keys", tr.jainOfKeys([]share{{10, 10}, {0, 10}, {10, 10}, {10, 10}}), 0.5, 1e-9)
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		name string
		list []share
		want float64
	}{
		{"all alike", []share{{1, 2}, {5, 10}, {50, 100}}, 1},
		{"one has all", []share{{1, 1}, {0, 1}, {0, 1}, {0, 1}}, 0.25},
		{"who did not ask does not count", []share{{1, 1}, {0, 0}}, 1},
		{"nobody is served", []share{{0, 1}, {0, 1}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) { near(t, "index", jain(c.list), c.want, 1e-9) })
	}
}

func TestAverage(t *testing.T) {
	runs := []run{{loads: 1, longest: 5}, {loads: 2, longest: 9}, {loads: 3, longest: 1}}
	mean, width := overRuns(runs)
	near(t, "mean", mean.LoadsPer100, 2, 1e-9)
	near(t, "width", width.LoadsPer100, 4.303/math.Sqrt(3), 1e-9)
	near(t, "longest", *mean.WaitLongest, 9, 1e-9)
	if _, width = overRuns(runs[:1]); width.LoadsPer100 != 0 {
		t.Errorf("a single run has no interval, not ±%v", width.LoadsPer100)
	}
	near(t, "student", student(30), 2.042, 0.01)
	near(t, "quantile of nothing", quantile(nil, 0.5), 0, 0)
	near(t, "quantile", quantile([]float64{1, 2, 3, 4}, 0.5), 2, 0)
	near(t, "highest quantile", quantile([]float64{1, 2, 3, 4}, 1), 4, 0)
}

// figures are some that pass every gate.
func figures(loads, local float64) SlotFigures {
	f := func(v float64) *float64 { return &v }
	return SlotFigures{loads, f(0.9), f(0.86), f(1), f(2), f(3), f(0.97), f(local), f(0.1)}
}

func TestSlotResult_Gates(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*SlotResult)
		want   string // of which gate fails
	}{
		{"as it is", func(*SlotResult) {}, ""},
		{"a model far behind", func(r *SlotResult) { *r.Policies[PolicyHearth].MinModel = 0.84 }, "worst model served within budget"},
		{"less than FIFO", func(r *SlotResult) { *r.Policies[PolicyFIFO].Served = 0.91 }, "served within budget, against FIFO"},
		{"unfair", func(r *SlotResult) { *r.Policies[PolicyHearth].Jain = 0.94 }, "Jain's index"},
		{"too many loads", func(r *SlotResult) { r.Policies[PolicyClairvoyant] = SlotFigures{LoadsPer100: 6.6} }, "loads, against the bound"},
		{"hardly any loads", func(r *SlotResult) {
			r.Policies[PolicyHearth], r.Policies[PolicyClairvoyant] = figures(0.05, 0.9), SlotFigures{}
		}, ""},
		{"some loads where none are needed", func(r *SlotResult) {
			r.Policies[PolicyHearth], r.Policies[PolicyClairvoyant] = figures(0.06, 0.9), SlotFigures{}
		}, "loads, against the bound"},
		{"too few less than FIFO", func(r *SlotResult) { r.Policies[PolicyFIFO] = figures(19, 0.5) }, "FIFO's loads against hearth's"},
		{"that holds for even mixes only", func(r *SlotResult) {
			r.Policies[PolicyFIFO] = figures(19, 0.5)
			r.Scenario.Models[0].Share, r.Scenario.Models[1].Share = 0.8, 0.2
		}, ""},
		{"and for 60 % only", func(r *SlotResult) { r.Policies[PolicyFIFO], r.Load = figures(19, 0.5), 0.3 }, ""},
		{"better without votes", func(r *SlotResult) { *r.Policies[PolicyNever].LocalShare = 0.95 }, "local share"},
		{"better with more votes", func(r *SlotResult) { *r.Policies[PolicyAlways].LocalShare = 0.95 }, "local share"},
		{"which matters with a fallback only", func(r *SlotResult) {
			*r.Policies[PolicyAlways].LocalShare, r.Scenario.Fallback = 0.95, false
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := SlotResult{Load: 0.6, Scenario: pair(func(s *SlotScenario) { s.Fallback = true }), Policies: map[string]SlotFigures{
				PolicyHearth: figures(10, 0.9), PolicyFIFO: figures(20, 0.5), PolicyClairvoyant: {LoadsPer100: 6.7},
				PolicyNever: figures(9, 0.9), PolicyAlways: figures(11, 0.94),
			}}
			c.change(&r)
			got := ""
			for _, g := range r.Gates() {
				if !g.OK() {
					got += g.Name
				}
			}
			if got != c.want {
				t.Errorf("fails %q, want %q", got, c.want)
			}
		})
	}
}
