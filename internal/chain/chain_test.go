package chain

import (
	"slices"
	"testing"

	"myip.co.kr/hearth"
)

// TestBuild is the whole table of named cases, the examples of the seed pages first, then step by step.
func TestBuild(t *testing.T) {
	run(t, slices.Concat(
		seedCases, modelCases, tierCases, filterCases, policyCases, capabilityCases, windowCases, slotCases, healthCases,
		orderCases, sortCases, barCases, cutCases, residentCases,
	))
}

const (
	asleep, starting, ready = hearth.SlotAsleep, hearth.SlotStarting, hearth.SlotReady
	draining, stopping      = hearth.SlotDraining, hearth.SlotStopping
)

// Every JSON snippet of the seed pages that makes a chain, as the request it is read into.
var seedCases = []buildCase{
	{name: `seed: {"models": ["google/gemma-4-26b-a4b", "lgai/exaone-4.0-32b"]} is the chain of three`,
		req: ask(gemma, exaone), given: without(betaGemma), want: []string{localGemma, acmeGemma, localExaone},
		reasons: []string{reasonPriority, reasonPriority, reasonPriority}, notes: []string{}, drops: []string{}},
	{name: "seed: if you want the local EXAONE tried before the external Gemma, put EXAONE first",
		req: ask(exaone, gemma), given: without(betaGemma), want: []string{localExaone, localGemma, acmeGemma}},
	{name: `seed: ["A", "B"] with A at a slot and outside and B outside are three candidates`,
		req: ask(gemma, other), given: without(betaGemma), want: []string{localGemma, acmeGemma, acmeOther}},
	{name: `seed: {"model": gemma, "provider": {"only": ["local-gpu"]}} has nowhere to fall through`,
		req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu"}}), want: []string{localGemma}},
	{name: `seed: {"provider": {"ignore": ["local-gpu"]}} is never local`,
		req: with(ask(gemma), hearth.Preferences{Ignore: []string{"local-gpu"}}), want: []string{acmeGemma, betaGemma}},
	{name: `seed: {"models": [exaone, gemma]}: EXAONE is resident and answers at once`,
		req: ask(exaone, gemma), given: func(s *scene) { s.slot("exaone", ready) },
		want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
	{name: `seed: {"models": [exaone, gemma]}: Gemma is resident and answers at once`,
		req: ask(exaone, gemma), given: func(s *scene) { s.slot("gemma", ready) },
		want:    []string{localGemma, localExaone, acmeGemma, betaGemma},
		reasons: []string{reasonResident, reasonPriority, reasonPrice, reasonPrice}},
	{name: `seed: {"models": [gemma, exaone], "provider": {"only": ["local-gpu"], "allow_fallbacks": true}}`,
		req: with(ask(gemma, exaone), hearth.Preferences{Only: []string{"local-gpu"}}), want: []string{localGemma, localExaone}},
	{name: "seed: allow_fallbacks false cuts the whole chain, the later models' candidates too",
		req: with(ask(gemma, exaone), hearth.Preferences{NoFallbacks: true}), want: []string{localGemma}},
	{name: `seed: "sort": "price" re-sorts everything, a cheaper external provider comes first`,
		req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), want: []string{acmeGemma, localGemma, betaGemma}},
	{name: "seed: without model and models it is the default model",
		req: hearth.Request{}, want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "seed: the same model twice changes nothing",
		req: ask(exaone, exaone, exaone), want: []string{localExaone}, notes: []string{}, drops: []string{}},
	{name: "seed: what cannot be served in a list is simply no candidate",
		req: ask("no/such", exaone), want: []string{localExaone}, notes: []string{"unknown model no/such is no candidate"},
		drops: []string{"no/such @0 unknown_model: no such model"}},
	{name: "seed: a prompt larger than the window removes the local candidate",
		req: hearth.Request{Models: []string{gemma}, Estimate: 32769}, want: []string{acmeGemma, betaGemma}},
	{name: "seed: a slot in cooldown is skipped without trying",
		req: ask(gemma), given: func(s *scene) { s.cool(localGemma) }, want: []string{acmeGemma, betaGemma}},
	{name: "seed: a model without a local slot",
		req: ask(other), want: []string{acmeOther}},
	{name: "seed: max_tokens 1 wakes a slot like any other request",
		req: hearth.Request{Models: []string{exaone}, MaxTokens: 1}, want: []string{localExaone}},
}

// Steps 1 to 3 and 5: the models asked for, and their endpoints.
var modelCases = []buildCase{
	{name: "an alias is its model", req: ask("gpt-4o-mini"), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a model and its alias are one", req: ask(gemma, "gpt-4o-mini"), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "an alias goes before an id of the same name", req: ask(exaone), want: []string{acmeOther},
		given: func(s *scene) { s.Views.Catalog.Aliases[exaone] = other }},
	{name: "first place wins", req: ask(other, gemma, other, exaone), want: []string{acmeOther, localGemma, acmeGemma, betaGemma, localExaone}},
	{name: "two variants of one provider are two endpoints", req: with(ask(gemma), hearth.Preferences{Only: []string{"acme"}}),
		given: func(s *scene) {
			e := *s.at(acmeGemma)
			e.Tag = "acme/bf16"
			s.Views.Catalog.Endpoints = append(s.Views.Catalog.Endpoints, &e)
		}, want: []string{"acme/bf16 " + gemma, acmeGemma}},
	{name: "two nodes are two endpoints", req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu"}}),
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}) }, want: []string{localGemma, "local-gpu/gpu-2 " + gemma}},
	{name: "suffix :floor sorts by price", req: ask(gemma + ":floor"), want: []string{acmeGemma, localGemma, betaGemma},
		reasons: []string{"suffix :floor", "suffix :floor", "suffix :floor"}, notes: []string{}},
	{name: "suffix :nitro sorts by throughput", req: ask(gemma + ":nitro"), want: []string{betaGemma, localGemma, acmeGemma},
		given: func(s *scene) {
			s.measured(betaGemma, 9, 90)
			s.measured(localGemma, 1, 40)
			s.measured(acmeGemma, 2, 30)
		},
		reasons: []string{"suffix :nitro", "suffix :nitro", "suffix :nitro"}},
	{name: "suffix :exacto sorts by tool quality", req: ask(gemma + ":exacto"), want: []string{betaGemma, acmeGemma, localGemma},
		given: func(s *scene) { s.at(betaGemma).ToolQuality, s.at(localGemma).ToolQuality = 0.95, 0.5 }},
	{name: "of several suffixes the last wins", req: ask(gemma + ":nitro:floor"), want: []string{acmeGemma, localGemma, betaGemma},
		given:   func(s *scene) { s.measured(betaGemma, 9, 90) },
		reasons: []string{"suffix :floor", "suffix :floor", "suffix :floor"}},
	{name: "a suffix on an alias", req: ask("gpt-4o-mini:floor"), want: []string{acmeGemma, localGemma, betaGemma}},
	{name: "a suffix sorts its model only", req: ask(gemma+":floor", exaone), want: []string{acmeGemma, localGemma, betaGemma, localExaone},
		reasons: []string{"suffix :floor", "suffix :floor", "suffix :floor", reasonPriority}},
	{name: "an id with a colon is its own model", req: ask(other + ":free"), want: []string{"acme/free " + other + ":free"}, given: free},
	{name: "a sorting suffix behind a suffix of the id", req: ask(other + ":free:floor"), want: []string{"acme/free " + other + ":free"}, given: free,
		reasons: []string{"suffix :floor"}},
	{name: "a sorting suffix before a suffix of the id", req: ask(other + ":floor:free"), want: []string{"acme/free " + other + ":free"}, given: free,
		reasons: []string{"suffix :floor"}},
	{name: "an exact id that ends like a suffix wins", req: ask(other + ":nitro"), want: []string{"acme/turbo " + other + ":nitro"},
		given: func(s *scene) { s.catalogEntry(":nitro", "acme/turbo") }, reasons: []string{reasonPriority}},
	{name: "no fallback to the model without the suffix of an id", req: ask(other+":free", exaone), want: []string{localExaone},
		notes: []string{"unknown model acme/other:free is no candidate"}},
	{name: "openrouter/auto, latest and presets are unknown", req: ask("openrouter/auto", "~google/gemma-latest", "@preset/mine", exaone), want: []string{localExaone},
		notes: []string{"unknown model openrouter/auto is no candidate", "unknown model ~google/gemma-latest is no candidate", "unknown model @preset/mine is no candidate"}},
	{name: "a suffix is written in lower case", req: ask(gemma+":Floor", exaone), want: []string{localExaone}},
}

// free adds an entry of the catalog whose id holds a colon.
func free(s *scene) { s.catalogEntry(":free", "acme/free") }

func (s *scene) catalogEntry(suffix, tag string) {
	c := s.Views.Catalog
	m := &hearth.Model{ID: other + suffix}
	c.Models = append(c.Models, m)
	c.Endpoints = append(c.Endpoints, &hearth.Endpoint{Model: m, Provider: c.Providers[1], Tag: tag, Priority: 50})
}

const node2, node3 = "local-gpu/gpu-2 " + gemma, "local-gpu/gpu-3 " + gemma

// Step 4: the order inside a tier.
var tierCases = []buildCase{
	{name: "an external tier goes by expected price, not by the configuration", req: ask(gemma), want: []string{localGemma, acmeGemma, betaGemma},
		reasons: []string{reasonPriority, reasonPrice, reasonPrice}},
	{name: "of one price by tag", req: ask(gemma), given: func(s *scene) { s.at(betaGemma).List = s.at(acmeGemma).List },
		want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "the length of the answer decides", req: hearth.Request{Models: []string{gemma}, Estimate: 1, MaxTokens: 100000},
		given: func(s *scene) { s.serve("input-only", "100") }, want: []string{localGemma, "input-only " + gemma, acmeGemma, betaGemma}},
	{name: "an answer of 500 tokens is expected when none is set", req: hearth.Request{Models: []string{gemma}, Estimate: 1000}, // acme: 0.0278
		given: func(s *scene) { s.serve("dearer", "27.9"); s.serve("cheaper", "27.7") },
		want:  []string{localGemma, "cheaper " + gemma, acmeGemma, "dearer " + gemma, betaGemma}},
	{name: "tiers go by priority before price", req: ask(gemma), given: func(s *scene) { s.at(betaGemma).Priority = 40 },
		want: []string{localGemma, betaGemma, acmeGemma}},
	{name: "an external endpoint goes before the slot only if it is configured so", req: ask(gemma), given: func(s *scene) { s.at(betaGemma).Priority = -1 },
		want: []string{betaGemma, localGemma, acmeGemma}},
	{name: "of one priority the local ones come first", req: ask(gemma), given: func(s *scene) { s.at(localGemma).Priority = 50 },
		want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a rank orders the external tier and says why", req: ask(gemma), given: func(s *scene) { s.Rank = backwards },
		want: []string{localGemma, betaGemma, acmeGemma}, reasons: []string{reasonPriority, "backwards", "backwards"}},
	{name: "the local tier is never ranked", req: ask(gemma), given: func(s *scene) {
		s.Rank = backwards
		s.node("gpu-2", hearth.SlotView{})
	}, want: []string{localGemma, node2, betaGemma, acmeGemma}},
	{name: "what is out does not come before the rank", req: ask(gemma), given: func(s *scene) {
		s.cool(acmeGemma)
		s.serve("gamma", "1")
		s.Rank = func(tier []hearth.Candidate) {
			if len(tier) != 2 {
				panic("a tier of two was expected")
			}
			backwards(tier)
		}
	}, want: []string{localGemma, betaGemma, "gamma " + gemma}},
	{name: "ready with a free place before ready without", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: ready, Inflight: 1}
		s.node("gpu-2", hearth.SlotView{State: ready})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}, reasons: []string{reasonLocal, reasonLocal, reasonPrice, reasonPrice}},
	{name: "ready by what is waited for, per place", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: ready, Inflight: 1, Waiting: 2}
		s.node("gpu-2", hearth.SlotView{State: ready, Inflight: 4, Waiting: 4}).Slot.Concurrency = 4
		s.node("gpu-3", hearth.SlotView{State: ready, Inflight: 1})
	}, want: []string{node3, node2, localGemma, acmeGemma, betaGemma}},
	{name: "starting by what is left of the load", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: starting, LoadRest: 20e9}
		s.node("gpu-2", hearth.SlotView{State: starting, LoadRest: 10e9})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
	{name: "a full slot before a starting one", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: starting}
		s.node("gpu-2", hearth.SlotView{State: ready, Inflight: 1, Waiting: 60})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
	{name: "starting before asleep", req: ask(gemma), given: func(s *scene) {
		s.node("gpu-2", hearth.SlotView{State: starting, LoadRest: 90e9})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
	{name: "asleep on a free node before asleep behind another model", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: asleep, OtherBusy: true}
		s.node("gpu-2", hearth.SlotView{State: stopping})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
	{name: "a draining slot stands with those behind another model", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: draining}
		s.node("gpu-2", hearth.SlotView{State: asleep})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
	{name: "failed last", req: ask(gemma), given: func(s *scene) {
		s.slots["gemma"] = hearth.SlotView{State: hearth.SlotFailed}
		s.node("gpu-2", hearth.SlotView{State: asleep, OtherBusy: true})
	}, want: []string{node2, localGemma, acmeGemma, betaGemma}},
}

// backwards is a rank of a test.
func backwards(tier []hearth.Candidate) {
	(&builder{Input: Input{Request: &hearth.Request{}}}).sortByPrice(tier)
	slices.Reverse(tier)
	for i := range tier {
		tier[i].Reason = "backwards"
	}
}

// TestBuild_FromTheCatalogAlone: where nothing is known of the present, every slot sleeps and every endpoint is healthy.
func TestBuild_FromTheCatalogAlone(t *testing.T) {
	s := newScene()
	s.node("gpu-2", hearth.SlotView{})
	s.at(localGemma).Slot.Engine = "llama-server"
	req := with(ask(exaone, gemma), hearth.Preferences{MaxLatency: hearth.Percentiles{P50: 1}})
	in := s.input(t, &req)
	in.Views = Views{Catalog: in.Views.Catalog}
	c, err := Build(in)
	if err != nil || !slices.Equal(lines(c.Candidates), []string{localExaone, localGemma, node2, acmeGemma, betaGemma}) {
		t.Fatal(lines(c.Candidates), err)
	}
	if rest := Rerank(in, c.Candidates[1], c.Candidates[2:]); !slices.Equal(lines(rest), []string{node2, acmeGemma, betaGemma}) {
		t.Errorf("reranked: %v", lines(rest))
	}
	req = with(hearth.Request{Models: []string{gemma + ":nitro"}, Estimate: 40000}, hearth.Preferences{Only: []string{"local-gpu"}})
	if c, err = Build(in); err == nil || Recount(in, c) != nil {
		t.Errorf("%v; a slot that sleeps is asked to count", err)
	}
}
