package market

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSlotScenarios(t *testing.T) {
	var names []string
	has := map[string]bool{}
	for _, s := range SlotScenarios() {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		names = append(names, s.Name)
		has["one key"] = has["one key"] || s.Keys == 1
		has["a greedy key"] = has["a greedy key"] || s.Greedy
		has["bursts"] = has["bursts"] || s.Burst == 8
		has["no bursts"] = has["no bursts"] || s.Burst == 1
		has["fallback"] = has["fallback"] || s.Fallback
		has["alone"] = has["alone"] || !s.Fallback
		has["two even models at 60 %"] = has["two even models at 60 %"] || s.even() && s.Load == 0.6
		has[strings.Repeat("m", len(s.Models))] = true
		for _, m := range s.Models {
			has["load "+m.LoadTime.String()] = true
		}
		for _, b := range s.Budgets {
			has["budget "+b.String()] = true
		}
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(SlotScenarios()) || n < 20 {
		t.Errorf("%d different names of %d scenarios", n, len(SlotScenarios()))
	}
	for _, want := range []string{
		"one key", "a greedy key", "bursts", "no bursts", "fallback", "alone", "two even models at 60 %", "mm", "mmm", "mmmm",
		"load 5s", "load 15s", "load 1m0s", "budget 30s", "budget 1m0s", "budget 2m0s",
	} {
		if !has[want] {
			t.Errorf("the list has nothing with %s", want)
		}
	}
}

// pair is a scenario of two models, changed.
func pair(change func(*SlotScenario)) SlotScenario {
	s := DefaultSlotScenario()
	s.Name, s.Load, s.Budgets = "pair", 0.6, []time.Duration{time.Minute}
	for range 2 {
		s.Models = append(s.Models, SlotModel{Share: 0.5, LoadTime: 15 * time.Second, Service: 4 * time.Second, Concurrency: 4})
	}
	change(&s)
	return s
}

func TestSlotScenario_Check(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*SlotScenario)
		want   string
	}{
		{"as it is", func(*SlotScenario) {}, ""},
		{"no model", func(s *SlotScenario) { s.Models = nil }, "models"},
		{"too many models", func(s *SlotScenario) { s.Models = make([]SlotModel, 17) }, "models"},
		{"no load", func(s *SlotScenario) { s.Load = 0 }, "the load"},
		{"a load that is no number", func(s *SlotScenario) { s.Load = math.NaN() }, "the load"},
		{"an endless load", func(s *SlotScenario) { s.Load = math.Inf(1) }, "the load"},
		{"bursts that are none", func(s *SlotScenario) { s.Burst = 0.5 }, "bursts"},
		{"a sigma below 0", func(s *SlotScenario) { s.Sigma = -1 }, "sigma"},
		{"a sigma that is no number", func(s *SlotScenario) { s.Sigma = math.NaN() }, "sigma"},
		{"no budget", func(s *SlotScenario) { s.Budgets = nil }, "budget"},
		{"a short budget", func(s *SlotScenario) { s.Budgets[0] = 0 }, "a budget"},
		{"no keys", func(s *SlotScenario) { s.Keys = 0 }, "keys"},
		{"too many keys", func(s *SlotScenario) { s.Keys = 1001 }, "keys"},
		{"a turn below 0", func(s *SlotScenario) { s.Turn = -1 }, "a turn"},
		{"too few requests", func(s *SlotScenario) { s.Requests = 99 }, "requests"},
		{"too many requests", func(s *SlotScenario) { s.Requests = 1_000_001 }, "requests"},
		{"a share of nothing", func(s *SlotScenario) { s.Models[0].Share = 0 }, "a model's share"},
		{"shares of more than all", func(s *SlotScenario) { s.Models[0].Share = 0.6 }, "add up to 1.1"},
		{"a load in no time", func(s *SlotScenario) { s.Models[1].LoadTime = 0 }, "a load takes"},
		{"a request in no time", func(s *SlotScenario) { s.Models[1].Service = 0 }, "a request takes"},
		{"no concurrency", func(s *SlotScenario) { s.Models[1].Concurrency = 0 }, "an engine works on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pair(c.change)
			err := s.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestTrace(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*SlotScenario)
		check  func(*testing.T, *trace)
	}{
		{"requests come as often as the load says", func(s *SlotScenario) {}, func(t *testing.T, tr *trace) {
			work := 0.0
			for _, r := range tr.requests {
				work += r.service.Seconds() / 4
			}
			near(t, "load", work/tr.to.Seconds(), 0.6, 0.02)
		}},
		{"bursts leave the load as it is, and are as dense as they should", func(s *SlotScenario) { s.Burst = 8 }, func(t *testing.T, tr *trace) {
			near(t, "rate", float64(len(tr.requests))/tr.to.Seconds(), 0.6, 0.02)
			if d := dispersion(tr, 0); d < 4 {
				t.Errorf("the counts of half minutes vary by %.1f times what a Poisson process has", d)
			}
		}},
		{"without bursts nothing clusters", func(s *SlotScenario) {}, func(t *testing.T, tr *trace) {
			near(t, "dispersion", dispersion(tr, 0), 1, 0.1)
		}},
		{"models, keys and budgets have their shares", func(s *SlotScenario) {
			s.Models[0].Share, s.Models[1].Share = 0.8, 0.2
			s.Keys, s.Greedy, s.Budgets = 4, true, []time.Duration{time.Second, time.Minute}
		}, func(t *testing.T, tr *trace) {
			near(t, "first model", part(tr, func(r asked) bool { return r.model == 0 }), 0.8, 0.01)
			near(t, "greedy key", part(tr, func(r asked) bool { return r.key == 0 }), 0.5+0.5/4, 0.01)
			near(t, "budget", part(tr, func(r asked) bool { return r.budget == tr.Budgets[r.key%2] }), 1, 0)
		}},
		{"service times have a long tail", func(s *SlotScenario) {}, func(t *testing.T, tr *trace) {
			near(t, "above twice the mean", part(tr, func(r asked) bool { return r.service > 8*time.Second }), 0.116, 0.01)
			near(t, "below half the mean", part(tr, func(r asked) bool { return r.service < 2*time.Second }), 0.423, 0.01)
		}},
		{"sigma 0 is no tail", func(s *SlotScenario) { s.Sigma = 0 }, func(t *testing.T, tr *trace) {
			near(t, "the mean", part(tr, func(r asked) bool { return r.service == 4*time.Second }), 1, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pair(c.change)
			s.Requests = 50000
			c.check(t, newTrace(&s, 1))
		})
	}
}

func near(t *testing.T, what string, got, want, off float64) {
	t.Helper()
	if math.Abs(got-want) > off {
		t.Errorf("%s: %.4f, want %.4f ± %.4f", what, got, want, off)
	}
}

func part(tr *trace, is func(asked) bool) float64 {
	var s share
	for _, r := range tr.requests {
		s.add(is(r))
	}
	return s.part()
}

// dispersion is the variance of the counts of a model's requests in half minutes, over their mean: 1 for a Poisson process.
func dispersion(tr *trace, model int) float64 {
	counts := make([]float64, int(tr.to/(30*time.Second)))
	for _, r := range tr.requests {
		if i := int(r.at / (30 * time.Second)); r.model == model && i < len(counts) {
			counts[i]++
		}
	}
	mean, squares := 0.0, 0.0
	for _, c := range counts {
		mean += c / float64(len(counts))
	}
	for _, c := range counts {
		squares += (c - mean) * (c - mean) / float64(len(counts))
	}
	return squares / mean
}
