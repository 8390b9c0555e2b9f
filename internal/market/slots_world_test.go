package market

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth/internal/slot"
)

// handmade is a trace of requests of two models A and B, each "at model service", in seconds; loads take 10 s, engines take one
// request at once, everybody waits for 60 s.
func handmade(requests ...string) *trace {
	s := pair(func(s *SlotScenario) {
		for i := range s.Models {
			s.Models[i].LoadTime, s.Models[i].Concurrency = 10*time.Second, 1
		}
	})
	t := &trace{SlotScenario: &s, to: time.Hour, steady: true}
	for _, text := range requests {
		var at, takes float64
		var model string
		if _, err := fmt.Sscanf(text, "%f %s %f", &at, &model, &takes); err != nil {
			panic(err)
		}
		t.requests = append(t.requests, asked{at: seconds(at), model: strings.Index("AB", model), service: seconds(takes), budget: time.Minute})
	}
	return t
}

// told is what became of each request: "granted 10" or "refused 60".
func told(w *world) (list []string) {
	for _, o := range w.outcomes {
		word := "granted"
		if o.refused {
			word = "refused"
		}
		list = append(list, fmt.Sprintf("%s %g", word, o.at.Seconds()))
	}
	return list
}

func TestPolicies(t *testing.T) {
	mixed := []string{"0 A 5", "1 B 5", "2 A 5", "3 B 5"}
	for _, c := range []struct {
		name     string
		policy   func(*world) policy
		requests []string
		want     []string
		loads    int
	}{
		{"FIFO serves in the order in which requests came", func(w *world) policy { return newPlain(w, false) }, mixed,
			[]string{"granted 10", "granted 26", "granted 42", "granted 58"}, 4},
		{"no ageing serves who asks for the loaded model first", func(w *world) policy { return newPlain(w, true) }, mixed,
			[]string{"granted 10", "granted 31", "granted 15", "granted 36"}, 2},
		{"no ageing lets the others wait for as long as somebody asks for the loaded model", func(w *world) policy { return newPlain(w, true) },
			[]string{"0 A 20", "1 B 5", "25 A 20", "45 A 20", "65 A 20"}, []string{"granted 10", "refused 61", "granted 30", "granted 50", "granted 70"}, 1},
		{"a load goes on that nobody waits for any more", func(w *world) policy { return newPlain(w, false) },
			[]string{"0 A 45", "1 B 5", "70 B 5"}, []string{"granted 10", "refused 61", "granted 70"}, 2},
		{"hearth batches by model", func(w *world) policy { return newScheduler(w, slot.VotesCount) }, mixed,
			[]string{"granted 10", "granted 31", "granted 15", "granted 36"}, 2},
		{"hearth does not let the others wait for ever", func(w *world) policy { return newScheduler(w, slot.VotesCount) },
			[]string{"0 A 20", "1 B 5", "25 A 20", "45 A 20", "65 A 20"}, nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := handmade(c.requests...).run(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, told(w)); c.want != nil && d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if c.want == nil && w.outcomes[1].refused {
				t.Errorf("%v", told(w))
			}
			if len(w.loads) != c.loads {
				t.Errorf("%d loads, want %d: %+v", len(w.loads), c.loads, w.loads)
			}
		})
	}
}

func TestScheduler(t *testing.T) {
	t.Run("keys take turns", func(t *testing.T) {
		tr := handmade("0 A 5", "1 A 5", "2 A 5", "3 A 5")
		tr.requests[3].key = 1
		w, err := tr.run(func(w *world) policy { return newScheduler(w, slot.VotesCount) })
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"granted 10", "granted 20", "granted 25", "granted 15"}, told(w)); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
	t.Run("who is served elsewhere does not wait in vain, and its vote counts as it is told to", func(t *testing.T) {
		s := pair(func(s *SlotScenario) {
			s.Fallback, s.Budgets, s.Requests = true, []time.Duration{30 * time.Second}, 1500
			s.Models[0].LoadTime, s.Models[1].LoadTime = time.Minute, time.Minute
		})
		r, err := SimulateSlots(t.Context(), s, 1, 1, func() {})
		if err != nil {
			t.Fatal(err)
		}
		never, always := r.Policies[PolicyNever], r.Policies[PolicyAlways]
		if never.LoadsPer100 > 1 || *never.WaitP50 > 1 || *never.LocalShare < 0.3 || always.LoadsPer100 < 5 {
			t.Errorf("never %v loads, waits %v, share %v; always %v loads", never.LoadsPer100, *never.WaitP50, *never.LocalShare, always.LoadsPer100)
		}
	})
}

// rogue is a policy that does one wrong thing.
type rogue struct {
	*world
	asked, isReady func(w *world)
}

func (r *rogue) ask(int)           { r.asked(r.world) }
func (r *rogue) release(int)       {}
func (r *rogue) ready(int, uint64) { r.isReady(r.world) }
func (r *rogue) ended(int, uint64) {}
func (r *rogue) tick()             {}

func TestWorld_Faults(t *testing.T) {
	start := func(w *world) { w.start(0, 1) }
	nothing := func(*world) {}
	for _, c := range []struct {
		name           string
		asked, isReady func(*world)
		want           string
	}{
		{"two engines", func(w *world) { w.start(0, 1); w.start(1, 2) }, nothing, "another one is there"},
		{"an engine that is not ready", func(w *world) { w.start(0, 1); w.grant(0, 1) }, nothing, "cannot take it"},
		{"an engine of another model", func(w *world) { w.start(1, 1) }, func(w *world) { w.grant(0, 1) }, "cannot take it"},
		{"an engine that is full", start, func(w *world) { w.grant(0, 1); w.outcomes[0] = outcome{}; w.grant(0, 1) }, "cannot take it"},
		{"an engine in use is stopped", start, func(w *world) { w.grant(0, 1); w.stop(0, 1) }, "in use"},
		{"an engine that is not there is stopped", func(w *world) { w.stop(0, 7) }, nothing, "not there"},
		{"two answers", func(w *world) { w.refuse(0); w.refuse(0) }, nothing, "answered twice"},
		{"served after the budget", start, func(w *world) { w.requests[0].budget = time.Second; w.grant(0, 1) }, "too late"},
		{"no answer", nothing, nothing, "never answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := handmade("0 A 5").run(func(w *world) policy { return &rogue{w, c.asked, c.isReady} })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
