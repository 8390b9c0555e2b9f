package chain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// After a failure the rest of the same tier follows the present state, and nothing else moves.
func TestRerank(t *testing.T) {
	gamma := "gamma " + gemma
	three := func(s *scene) { // own nodes, all asleep when the chain is built
		s.node("gpu-2", hearth.SlotView{})
		s.node("gpu-3", hearth.SlotView{})
	}
	for _, tc := range []struct {
		name  string
		req   hearth.Request
		given func(*scene)
		then  func(*scene) // the state after the failure
		tried int          // place in the chain that failed
		want  []string     // what is left, after it
	}{
		{"own nodes by their state now", ask(gemma), three, func(s *scene) { s.slots["gemma-gpu-3"] = hearth.SlotView{State: ready} }, 0,
			[]string{node3, node2, acmeGemma, betaGemma}},
		{"nothing new, nothing moves", ask(gemma), three, nil, 0, []string{node2, node3, acmeGemma, betaGemma}},
		{"only what was not tried", ask(gemma), three, func(s *scene) { s.slots["gemma-gpu-3"] = hearth.SlotView{State: ready} }, 1, []string{node3, acmeGemma, betaGemma}},
		{"an external tier by its rank", ask(gemma), func(s *scene) { s.serve("gamma", "1") }, func(s *scene) { s.Rank = backwards }, 1, []string{betaGemma, acmeGemma}},
		{"an external tier by price without one", ask(gemma), func(s *scene) { s.serve("gamma", "1"); s.Rank = backwards }, func(s *scene) { s.Rank = nil }, 1, []string{gamma, acmeGemma}},
		{"an external tier by its rank, behind who made the history", ask(gemma), func(s *scene) { s.serve("gamma", "1") }, func(s *scene) { s.Rank, s.Maker = backwards, Maker{Provider: "acme"} }, 1, []string{acmeGemma, betaGemma}},
		{"the next tier stays", ask(gemma), nil, func(s *scene) { s.Rank = backwards }, 0, []string{acmeGemma, betaGemma}},
		{"another priority stays", ask(gemma), func(s *scene) { s.at(betaGemma).Priority = 60; s.serve("gamma", "1").Priority = 60 }, func(s *scene) { s.Rank = backwards }, 1, []string{gamma, betaGemma}},
		{"the next model stays", ask(gemma, exaone), func(s *scene) { s.at(acmeGemma).Disabled, s.at(betaGemma).Disabled = true, true }, func(s *scene) { s.slot("exaone", ready) }, 0, []string{localExaone}},
		{"nothing under order", with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu"}}), three, func(s *scene) { s.slots["gemma-gpu-3"] = hearth.SlotView{State: ready} }, 0, []string{node2, node3, acmeGemma, betaGemma}},
		{"nothing under sort", with(ask(gemma), hearth.Preferences{Sort: hearth.SortLatency}), func(s *scene) {
			s.measured(betaGemma, 1, 1)
			s.measured(acmeGemma, 2, 1)
			s.serve("gamma", "1000")
			s.measured(gamma, 0.5, 1)
			s.at(localGemma).Disabled = true
		}, nil, 0, []string{betaGemma, acmeGemma}},
		{"nothing under a suffix", ask("gpt-4o-mini:nitro"), func(s *scene) {
			s.measured(betaGemma, 1, 5)
			s.measured(acmeGemma, 2, 1)
			s.serve("gamma", "1000")
			s.measured(gamma, 0.5, 9)
			s.at(localGemma).Disabled = true
		}, nil, 0, []string{betaGemma, acmeGemma}},
		{"the suffix of another model is no reason", ask(exaone+":nitro", gemma), three, func(s *scene) { s.slots["gemma-gpu-3"] = hearth.SlotView{State: ready} }, 1,
			[]string{node3, node2, acmeGemma, betaGemma}},
		{"the first mention of a model counts", ask(gemma, gemma+":nitro"), three, func(s *scene) { s.slots["gemma-gpu-3"] = hearth.SlotView{State: ready} }, 0,
			[]string{node3, node2, acmeGemma, betaGemma}},
		{"who misses a bar stays behind", with(ask(gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}}), func(s *scene) {
			s.serve("gamma", "1")
			s.measured(gamma, 2, 1)
			s.at(localGemma).Disabled = true
		}, nil, 0, []string{betaGemma, gamma}},
		{"a bar that is missed since", with(ask(gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}}), func(s *scene) { s.serve("gamma", "1") },
			func(s *scene) { s.measured(acmeGemma, 2, 1) }, 1, []string{betaGemma, acmeGemma}},
		{"who declares tools stays in front", hearth.Request{Models: []string{gemma}, Tools: true}, func(s *scene) { s.serve("gamma", "1").Params = toolParams; s.at(betaGemma).Params = toolParams }, nil, 1,
			[]string{betaGemma, acmeGemma}},
		{"a last resort stays the last", ask(gemma), func(s *scene) { s.LastResort = true; s.cool(acmeGemma); s.serve("gamma", "1") }, nil, 1, []string{betaGemma, acmeGemma}},
		{"the last one has nothing behind it", ask(exaone), nil, nil, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			if tc.given != nil {
				tc.given(s)
			}
			c, err := Build(s.input(t, &tc.req))
			if err != nil {
				t.Fatal(err)
			}
			if tc.then != nil {
				tc.then(s)
			}
			got := Rerank(s.input(t, &tc.req), c.Candidates[tc.tried], c.Candidates[tc.tried+1:])
			if d := cmp.Diff(tc.want, lines(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRerank_DoesNotAllocate(t *testing.T) {
	s := newScene()
	for _, p := range []string{"gamma", "delta", "epsilon"} {
		s.serve(p, "1")
	}
	req := ask(gemma)
	in := s.input(t, &req)
	c, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { Rerank(in, c.Candidates[1], c.Candidates[2:]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// If the estimate alone would remove the last candidate and that slot is ready, its engine is asked.
func TestRecount(t *testing.T) {
	long := hearth.Request{Models: []string{exaone}, Estimate: 40000}
	waiting := func(engine string, st hearth.SlotState) func(*scene) {
		return func(s *scene) {
			s.at(localExaone).Slot.Engine = engine
			s.slot("exaone", st)
		}
	}
	both := func(s *scene) {
		waiting("llama-server", ready)(s)
		engineOf("vllm")(s)
		s.slot("gemma", ready)
	}
	for _, tc := range []struct {
		name  string
		req   hearth.Request
		given func(*scene)
		want  string
	}{
		{"a ready llama-server counts", long, waiting("llama-server", ready), localExaone},
		{"vLLM too", long, waiting("vllm", ready), localExaone},
		{"an engine that cannot count", long, waiting("ollama", ready), ""},
		{"an engine nothing is known of", long, waiting("", ready), ""},
		{"a slot that is asleep is not woken for it", long, waiting("llama-server", asleep), ""},
		{"nor is a starting one asked", long, waiting("llama-server", starting), ""},
		{"a chain with candidates needs no count", hearth.Request{Models: []string{exaone, gemma}, FromList: true, Estimate: 40000}, waiting("llama-server", ready), ""},
		{"media is not counted", hearth.Request{Models: []string{exaone}, Estimate: 40000, Media: []string{"audio"}}, waiting("llama-server", ready), ""},
		{"nor are images", hearth.Request{Models: []string{exaone}, Estimate: 1, Images: 9}, waiting("llama-server", ready), ""},
		{"an endpoint that is out for another reason", hearth.Request{Models: []string{exaone}, Estimate: 40000, Tools: true},
			func(s *scene) { waiting("llama-server", ready)(s); s.at(localExaone).Params = noToolParams }, ""},
		{"an endpoint in cooldown", long, func(s *scene) { waiting("llama-server", ready)(s); s.cool(localExaone) }, ""},
		{"an endpoint whose cooldown is over", long, func(s *scene) { waiting("llama-server", ready)(s); s.cool(localExaone); s.Now = now.Add(time.Minute) }, localExaone},
		{"an endpoint that was counted", with(hearth.Request{Models: []string{gemma}, Estimate: 40000}, hearth.Preferences{Only: []string{"local-gpu"}}),
			func(s *scene) { both(s); exact(40000)(s) }, ""},
		{"the next one after it", with(hearth.Request{Models: []string{gemma, exaone}, FromList: true, Estimate: 40000}, hearth.Preferences{Only: []string{"local-gpu"}}),
			func(s *scene) { both(s); exact(40000)(s) }, localExaone},
		{"the first in the chain", with(hearth.Request{Models: []string{gemma, exaone}, FromList: true, Estimate: 40000}, hearth.Preferences{Only: []string{"local-gpu"}}), both, localGemma},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.given(s)
			in := s.input(t, &tc.req)
			c, _ := Build(in)
			got := ""
			e := Recount(in, c)
			if e != nil {
				got = line(e)
			}
			if got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			if e == nil {
				return
			}
			counts := map[int]int{e.Index: e.Context}
			for i, n := range in.Exact {
				counts[i] = n
			}
			in.Exact = counts
			c, err := Build(in)
			if err != nil || line(c.Candidates[0].Endpoint) != tc.want {
				t.Errorf("counted as fitting: %v, %v", lines(c.Candidates), err)
			}
			in.Exact[e.Index]++
			if c, err := Build(in); err == nil || Recount(in, c) == e {
				t.Errorf("counted as too long: %v", lines(c.Candidates))
			}
		})
	}
}
