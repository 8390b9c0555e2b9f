package chain

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// forecasts is an Outlook of forecasts by "tag model", in which a second of waiting costs one, four before the first token,
// and an answer has 100 tokens of 0.01 s.
func forecasts(fs map[string]Forecast) Outlook {
	return Outlook{
		Of: func(e *hearth.Endpoint) (Forecast, bool) { f, ok := fs[line(e)]; return f, ok },
		Waiting: func(m *hearth.Model) (Waiting, bool) {
			return Waiting{First: 4, Rest: 1, Out: 100, PerToken: 0.01}, m.ID == gemma
		},
	}
}

// tiered gives Gemma a tier mode, its slot a state, and the endpoints of the world forecasts: acme the cheaper one.
func tiered(mode hearth.TierMode, v hearth.SlotView, more ...func(*scene)) func(*scene) {
	return func(s *scene) {
		m := s.Views.Catalog.Models[0]
		m.TierMode, m.SpillAfter = mode, 3*time.Second
		s.slots["gemma"] = v
		s.Outlook = forecasts(map[string]Forecast{
			acmeGemma: {Cost: 10, First: 1, Free: true}, betaGemma: {Cost: 12, First: 0.5, Free: true},
		})
		for _, f := range more {
			f(s)
		}
	}
}

// queued is a ready slot with a queue in which a request would wait so long.
func queued(wait time.Duration) hearth.SlotView {
	return hearth.SlotView{State: hearth.SlotReady, Inflight: 1, Waiting: 2, WaitRest: wait}
}

func foretold(fs map[string]Forecast) func(*scene) {
	return func(s *scene) { s.Outlook = forecasts(fs) }
}

var (
	inFront = []string{localGemma, acmeGemma, betaGemma}
	behind  = []string{acmeGemma, betaGemma, localGemma}
)

var strictCases = []buildCase{
	{name: "strict is local first, however long the queue", req: ask(gemma), given: tiered(hearth.TierStrict, queued(time.Hour)), want: inFront},
	{name: "and so is a model that says nothing", req: ask(gemma), given: tiered("", queued(time.Hour)), want: inFront},
}

var spillCases = []buildCase{
	{name: "spill: a wait of three seconds more than elsewhere is borne", req: ask(gemma), given: tiered(hearth.TierSpill, queued(3500*time.Millisecond)), want: inFront},
	{name: "spill: a longer one is not", req: ask(gemma), given: tiered(hearth.TierSpill, queued(3501*time.Millisecond)), want: behind,
		reasons: []string{reasonPrice, reasonPrice, "spilled: its first token is expected in 3.5 s, in 0.5 s at the tier before it"}},
	{name: "spill: what was measured of the slot is added to its wait", req: ask(gemma), want: behind,
		given: tiered(hearth.TierSpill, queued(2*time.Second), func(s *scene) { s.measured(localGemma, 1.6, 50) })},
	{name: "spill: the rest of a load counts", req: ask(gemma), given: tiered(hearth.TierSpill, hearth.SlotView{State: hearth.SlotStarting, LoadRest: 10 * time.Second}), want: behind},
	{name: "spill: without a forecast what was measured there counts", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierSpill, queued(5*time.Second), foretold(nil), func(s *scene) { s.measured(acmeGemma, 2.5, 50); s.measured(betaGemma, 2, 50) })},
	{name: "spill: and without that what is usual", req: ask(gemma), given: tiered(hearth.TierSpill, queued(4201*time.Millisecond), foretold(nil)), want: behind},
	{name: "spill: an endpoint that cannot have the request is no better", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierSpill, queued(time.Minute), foretold(map[string]Forecast{acmeGemma: {First: 1}, betaGemma: {First: 1}}))},
	{name: "spill: nor is one in cooldown", req: ask(gemma), want: []string{localGemma, betaGemma},
		given: tiered(hearth.TierSpill, queued(4*time.Second), func(s *scene) { s.cool(acmeGemma) },
			foretold(map[string]Forecast{acmeGemma: {First: 0.5, Free: true}, betaGemma: {First: 2, Free: true}}))},
	{name: "spill: a slot of the same priority as external endpoints vies with them", req: ask(gemma), want: behind,
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) { s.at(localGemma).Priority = 50 })},
	{name: "spill: and on past the next tier if the one after that is better too", req: ask(gemma), want: behind,
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) { s.at(betaGemma).Priority = 60 })},
	{name: "spill: but not past one that is not", req: ask(gemma), want: []string{betaGemma, localGemma, acmeGemma},
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) { s.at(acmeGemma).Priority = 60 },
			foretold(map[string]Forecast{betaGemma: {First: 1, Free: true}, acmeGemma: {First: 58, Free: true}}))},
	{name: "spill: past a tier that cannot serve to one that can", req: ask(gemma), want: behind,
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) { s.at(betaGemma).Priority = 60 },
			foretold(map[string]Forecast{acmeGemma: {First: 1}, betaGemma: {First: 1, Free: true}}))},
	{name: "spill: of two slots only the slow one", req: ask(gemma), want: []string{node2, acmeGemma, betaGemma, localGemma},
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) { s.node("gpu-2", hearth.SlotView{State: hearth.SlotReady}) })},
	{name: "spill: two slow ones keep their order", req: ask(gemma), want: []string{acmeGemma, betaGemma, localGemma, node2},
		given: tiered(hearth.TierSpill, queued(time.Minute), func(s *scene) {
			s.node("gpu-2", hearth.SlotView{State: hearth.SlotReady, Inflight: 1, Waiting: 9, WaitRest: time.Hour})
		})},
	{name: "spill: a slot that lets nobody in stays, and is passed over", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierSpill, hearth.SlotView{State: hearth.SlotReady, Drained: true, WaitRest: time.Hour})},
	{name: "spill: one elsewhere is no other", req: ask(gemma), want: behind,
		given: tiered(hearth.TierSpill, hearth.SlotView{WaitRest: time.Hour}, func(s *scene) { s.Views.Catalog.Nodes[0].Remote = &hearth.Remote{} })},
	{name: "spill: but of whose machine nothing was heard lately, it stays and is passed over", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierSpill, hearth.SlotView{Unknown: true, WaitRest: time.Hour}, func(s *scene) { s.Views.Catalog.Nodes[0].Remote = &hearth.Remote{} })},
	{name: "spill: a caller's order is left as it is", want: []string{localGemma, acmeGemma, betaGemma},
		req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu", "acme"}}), given: tiered(hearth.TierSpill, queued(time.Hour))},
	{name: "spill: with one model only, in a list of two", req: ask(gemma, exaone), want: []string{acmeGemma, betaGemma, localGemma, localExaone},
		given: tiered(hearth.TierSpill, queued(time.Minute))},
	{name: "spill: without another tier there is nowhere to go", req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu", "nobody"}}),
		given: tiered(hearth.TierSpill, queued(time.Hour)), want: []string{localGemma}},
}

// The slot's own price is 30 per million prompt tokens and 150 per million of the answer, which is 0.015 for 100 tokens; its
// seconds cost four each before the first token, and one in all from there on.
var costCases = []buildCase{
	{name: "cost: a slot that is up is cheaper than what is charged elsewhere", req: ask(gemma), given: tiered(hearth.TierCost, queued(2*time.Second)), want: inFront,
		reasons: []string{"own slot at 9.015 KRW with its wait: no external endpoint behind it costs less", reasonPrice, reasonPrice}},
	{name: "cost: a wait puts it behind those that cost less", req: ask(gemma), given: tiered(hearth.TierCost, queued(2500*time.Millisecond)), want: []string{acmeGemma, localGemma, betaGemma},
		reasons: []string{reasonPrice, "own slot at 11.015 KRW with its wait: those before it cost less", reasonPrice}},
	{name: "cost: a long one behind all", req: ask(gemma), given: tiered(hearth.TierCost, queued(3*time.Second)), want: behind},
	{name: "cost: what was measured of the slot counts", req: ask(gemma), want: []string{acmeGemma, localGemma, betaGemma}, // 0.5 s, then 3.5 s: 5.5 with the wait of 1.5 s
		given: tiered(hearth.TierCost, queued(1500*time.Millisecond), func(s *scene) { s.measured(localGemma, 0.5, 25) })},
	{name: "cost: the first place stands for the cheapest of its tier", req: ask(gemma), want: []string{betaGemma, localGemma, acmeGemma},
		given: tiered(hearth.TierCost, queued(2300*time.Millisecond), func(s *scene) { // 10.2
			s.Rank = func([]hearth.Candidate) {} // as configured
		}, foretold(map[string]Forecast{acmeGemma: {Cost: 12, Free: true}, betaGemma: {Cost: 9, Free: true}}))},
	{name: "cost: those behind it stand for themselves", req: ask(gemma), want: []string{betaGemma, localGemma, acmeGemma, "gamma " + gemma},
		given: tiered(hearth.TierCost, queued(2300*time.Millisecond), func(s *scene) {
			s.Rank = func([]hearth.Candidate) {}
			s.serve("gamma", "1")
		}, foretold(map[string]Forecast{betaGemma: {Cost: 9, Free: true}, acmeGemma: {Cost: 12, Free: true}, "gamma " + gemma: {Cost: 9.5, Free: true}}))},
	{name: "cost: even if a dear one was drawn", req: ask(gemma), want: []string{acmeGemma, betaGemma, localGemma},
		given: tiered(hearth.TierCost, queued(2300*time.Millisecond), foretold(map[string]Forecast{acmeGemma: {Cost: 12, Free: true}, betaGemma: {Cost: 9, Free: true}}))},
	{name: "cost: before those that cannot have the request", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierCost, queued(time.Hour), foretold(map[string]Forecast{acmeGemma: {Cost: 1}, betaGemma: {Cost: 1}}))},
	{name: "cost: an endpoint that is out says nothing of the others", req: ask(gemma), want: []string{betaGemma, localGemma},
		given: tiered(hearth.TierCost, queued(time.Hour), func(s *scene) { s.cool(acmeGemma) })},
	{name: "cost: priority still orders the external endpoints", req: ask(gemma), want: []string{betaGemma, localGemma, acmeGemma},
		given: tiered(hearth.TierCost, queued(2300*time.Millisecond), func(s *scene) { s.at(acmeGemma).Priority = 60 },
			foretold(map[string]Forecast{acmeGemma: {Cost: 11, Free: true}, betaGemma: {Cost: 2, Free: true}}))},
	{name: "cost: two slots by what they cost", req: ask(gemma), want: []string{node2, acmeGemma, localGemma, betaGemma},
		given: tiered(hearth.TierCost, queued(2500*time.Millisecond), func(s *scene) { s.node("gpu-2", queued(time.Second)) })},
	{name: "cost: a slot that lets nobody in stays in front", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierCost, hearth.SlotView{State: hearth.SlotReady, Drained: true, WaitRest: time.Hour})},
	{name: "cost: without anybody who knows what waiting is worth, by priority", req: ask(gemma), want: inFront,
		given: tiered(hearth.TierCost, queued(time.Hour), func(s *scene) { s.Outlook = Outlook{} })},
	{name: "cost: the caller's sort is left as it is", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}),
		given: tiered(hearth.TierCost, queued(time.Hour)), want: []string{acmeGemma, localGemma, betaGemma}},
}

func TestTierMode(t *testing.T) {
	run(t, strictCases)
	run(t, spillCases)
	run(t, costCases)
}

// A slot that stands behind external endpoints only because it is not up is wanted up.
func TestSpilled(t *testing.T) {
	asleep := hearth.SlotView{LoadRest: 30 * time.Second, WaitRest: 30 * time.Second}
	for _, tc := range []struct {
		name string
		mode hearth.TierMode
		view hearth.SlotView
		more func(*scene)
		want bool
	}{
		{"spill: one that sleeps", hearth.TierSpill, asleep, nil, true},
		{"spill: one behind another model", hearth.TierSpill, hearth.SlotView{OtherBusy: true, WaitRest: time.Minute}, nil, true},
		{"spill: not one that is on its way", hearth.TierSpill, hearth.SlotView{State: hearth.SlotStarting, LoadRest: time.Minute}, nil, false},
		{"spill: nor one that has a queue", hearth.TierSpill, queued(time.Minute), nil, false},
		{"cost: one that would be the cheapest", hearth.TierCost, asleep, nil, true},
		{"cost: not one that would be dearer all the same", hearth.TierCost, asleep, func(s *scene) { s.at(localGemma).List = price("0", "100000") }, false},
		{"cost: nor one with a queue", hearth.TierCost, queued(time.Minute), nil, false},
		{"strict: none", hearth.TierStrict, asleep, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tiered(tc.mode, tc.view)(s)
			if tc.more != nil {
				tc.more(s)
			}
			req := ask(gemma)
			c, err := Build(s.input(t, &req))
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(c.Candidates, func(c hearth.Candidate) bool { return c.Endpoint.Local() })
			if got := c.Candidates[i]; got.Spilled != tc.want {
				t.Errorf("at place %d because of %q: %v", i, got.Reason, got.Spilled)
			}
		})
	}
}

// outlook knows something of some endpoints.
func (d drawn) outlook(c *hearth.Catalog) Outlook {
	known := make([]bool, len(c.Endpoints))
	fs := make([]Forecast, len(c.Endpoints))
	for i := range fs {
		known[i] = !d.flip("unknown", 2)
		fs[i] = Forecast{Cost: pick(d, "cost", 0.01, 1, 5), First: pick(d, "first", 0.5, 2, 8), Free: !d.flip("not free", 2)}
	}
	w := Waiting{First: pick(d, "worth", 0, 0.4, 2), Rest: 0.1, Out: 100, PerToken: 0.02}
	return Outlook{
		Of:      func(e *hearth.Endpoint) (Forecast, bool) { return fs[e.Index], known[e.Index] },
		Waiting: func(*hearth.Model) (Waiting, bool) { return w, true },
	}
}

// No tier mode drops a candidate or adds one; external endpoints keep the order that they have under strict, and so does
// everything where the caller chose an order. Under spill a slot never moves forward.
func TestTierMode_MovesSlotsAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawn{T: rt}.input()
		in.Request.Prefs.NoFallbacks = false
		moded, _ := Build(in)
		was := make([]hearth.TierMode, len(in.Views.Catalog.Models))
		for i, m := range in.Views.Catalog.Models {
			was[i], m.TierMode = m.TierMode, hearth.TierStrict
		}
		strict, _ := Build(in)
		byName := func(cs []hearth.Candidate) []string { return slices.Sorted(slices.Values(lines(cs))) }
		if d := cmp.Diff(byName(strict.Candidates), byName(moded.Candidates)); d != "" {
			rt.Fatal("candidates: " + d)
		}
		external := func(cs []hearth.Candidate) []string {
			return lines(slices.DeleteFunc(slices.Clone(cs), func(c hearth.Candidate) bool { return c.Endpoint.Local() }))
		}
		if d := cmp.Diff(external(strict.Candidates), external(moded.Candidates)); d != "" {
			rt.Fatal("external candidates: " + d)
		}
		if p := in.Request.Prefs; len(p.Order) > 0 || p.Sort != "" {
			if d := cmp.Diff(lines(strict.Candidates), lines(moded.Candidates)); d != "" {
				rt.Fatal("under the caller's order: " + d)
			}
		}
		if slices.Contains(was, hearth.TierCost) || in.Request.Prefs.AcrossModels {
			return
		}
		others := func(cs []hearth.Candidate, of *hearth.Endpoint) (n int) {
			for _, c := range cs {
				if c.Endpoint == of {
					return n
				}
				if !c.Endpoint.Local() {
					n++
				}
			}
			return n
		}
		for _, c := range strict.Candidates {
			if c.Endpoint.Local() && others(moded.Candidates, c.Endpoint) < others(strict.Candidates, c.Endpoint) {
				rt.Fatalf("%s has moved forward: %v, strict %v", line(c.Endpoint), lines(moded.Candidates), lines(strict.Candidates))
			}
		}
	})
}
