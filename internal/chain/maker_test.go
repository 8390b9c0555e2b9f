package chain

import (
	"testing"

	"myip.co.kr/hearth"
)

const reading = " goes first, against the order asked for: nobody else can read the reasoning that it made in the history"

// madeBy has the history's reasoning made at an endpoint.
func madeBy(provider, endpoint string, more ...func(*scene)) func(*scene) {
	return func(s *scene) {
		s.Maker = Maker{Endpoint: endpoint, Provider: provider}
		for _, f := range more {
			f(s)
		}
	}
}

func coolBeta(s *scene) { s.cool(betaGemma) }

// earlier puts an endpoint into a tier of its own, before the others.
func earlier(name string) func(*scene) { return func(s *scene) { s.at(name).Priority = 40 } }

func slowBeta(s *scene) { s.measured(betaGemma, 2, 10) }

// betaTwo serves Gemma at one more endpoint of beta's, which costs nothing for a request without a prompt.
func betaTwo(s *scene) {
	e := s.serve("beta-2", "9000")
	e.Provider = s.at(betaGemma).Provider
}

var makerCases = []buildCase{
	{name: "it goes first in its tier, behind own slots", req: ask(gemma), given: madeBy("beta", "beta:"+gemma), want: []string{localGemma, betaGemma, acmeGemma},
		reasons: []string{reasonPriority, reasonMade, reasonPrice}, notes: []string{}},
	{name: "who is first anyway says why", req: ask(gemma), given: madeBy("acme", "acme/fp8:"+gemma), want: []string{localGemma, acmeGemma, betaGemma}, reasons: []string{reasonPriority, reasonMade, reasonPrice}},
	{name: "nobody known, nobody moved", req: ask(gemma), given: madeBy("", ""), want: []string{localGemma, acmeGemma, betaGemma}, reasons: []string{reasonPriority, reasonPrice, reasonPrice}},
	{name: "one that is gone moves nobody", req: ask(gemma), given: madeBy("gone", "gone:"+gemma), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "an own slot moves nobody", req: ask(gemma), given: madeBy(hearth.LocalSlug, "local-gpu/gpu-1:"+gemma), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "an endpoint of its provider will do", req: ask(gemma), given: madeBy("beta", "beta:other"), want: []string{localGemma, betaGemma, acmeGemma}},
	{name: "the endpoint itself before others of its provider", req: ask(gemma), given: madeBy("beta", "beta-2:"+gemma, betaTwo), want: []string{localGemma, "beta-2 " + gemma, acmeGemma, betaGemma}},
	{name: "another of its provider if the endpoint is out", req: ask(gemma), given: madeBy("beta", "beta:"+gemma, betaTwo, coolBeta), want: []string{localGemma, "beta-2 " + gemma, acmeGemma}},
	{name: "the one that is first of its provider", req: ask(gemma), given: madeBy("beta", "gone:"+gemma, betaTwo), want: []string{localGemma, "beta-2 " + gemma, acmeGemma, betaGemma}},
	{name: "another of its provider before the last resort", req: ask(gemma), given: madeBy("beta", "beta:"+gemma, betaTwo, coolBeta, func(s *scene) { s.LastResort = true }), want: []string{localGemma, "beta-2 " + gemma, acmeGemma, betaGemma}},
	{name: "never past another tier", req: ask(gemma), given: madeBy("beta", "beta:"+gemma, earlier(acmeGemma)), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "one in cooldown is out", req: ask(gemma), given: madeBy("beta", "beta:"+gemma, coolBeta), want: []string{localGemma, acmeGemma}},
	{name: "one that is a last resort stays the last", req: ask(gemma), given: madeBy("beta", "beta:"+gemma, coolBeta, func(s *scene) { s.LastResort = true }), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "one that misses a bar stays behind", req: with(ask(gemma), hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 50}}), given: madeBy("beta", "beta:"+gemma, slowBeta), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "in front of those that declare tools", req: hearth.Request{Models: []string{gemma}, Tools: true}, given: madeBy("beta", "beta:"+gemma, func(s *scene) { s.at(acmeGemma).Params = hearth.ParamTools }), want: []string{localGemma, betaGemma, acmeGemma}},
	{name: "inside provider.order", req: with(ask(gemma), hearth.Preferences{Order: []string{"acme", "beta"}}), given: madeBy("beta", "beta:"+gemma), want: []string{betaGemma, acmeGemma, localGemma},
		reasons: []string{reasonMade, reasonOrder, reasonPriority}, notes: []string{"beta" + reading}},
	{name: "before the session", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}}), given: madeBy("beta", "beta:"+gemma, staysAt(acmeGemma)), want: []string{betaGemma, acmeGemma, localGemma}},
	{name: "first in provider.order, and nothing to say", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "acme"}}), given: madeBy("beta", "beta:"+gemma), want: []string{betaGemma, acmeGemma, localGemma},
		reasons: []string{reasonOrder, reasonOrder, reasonPriority}, notes: []string{}},
	{name: "not into provider.order", req: with(ask(gemma), hearth.Preferences{Order: []string{"acme"}}), given: madeBy("beta", "beta:"+gemma, func(s *scene) { s.at(localGemma).Priority = 90 }), want: []string{acmeGemma, betaGemma, localGemma}, notes: []string{}},
	{name: "not past an own slot in provider.order", req: with(ask(gemma), hearth.Preferences{Order: []string{"acme", "local-gpu", "beta"}}), given: madeBy("beta", "beta:"+gemma), want: []string{acmeGemma, localGemma, betaGemma}, notes: []string{}},
	{name: "behind provider.order tiers hold", req: with(ask(gemma), hearth.Preferences{Order: []string{"local-gpu"}}), given: madeBy("beta", "beta:"+gemma, earlier(acmeGemma)), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "not if it is not allowed", req: with(ask(gemma), hearth.Preferences{Only: []string{"acme", "local-gpu"}}), given: madeBy("beta", "beta:"+gemma), want: []string{localGemma, acmeGemma}},
	{name: "under a sort, but not past an own slot", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), given: madeBy("beta", "beta:"+gemma), want: []string{acmeGemma, localGemma, betaGemma}, notes: []string{}},
	{name: "under a sort, over tiers", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice, Ignore: []string{"local-gpu"}}), given: madeBy("beta", "beta:"+gemma, earlier(acmeGemma)), want: []string{betaGemma, acmeGemma},
		reasons: []string{reasonMade, "provider.sort price"}, notes: []string{"beta" + reading}},
	{name: "not under a sort across models", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice, AcrossModels: true, Ignore: []string{"local-gpu"}}), given: madeBy("beta", "beta:"+gemma), want: []string{acmeGemma, betaGemma}, notes: []string{}},
	{name: "alone without fallbacks", req: with(ask(gemma), hearth.Preferences{NoFallbacks: true, Ignore: []string{"local-gpu"}}), given: madeBy("beta", "beta:"+gemma), want: []string{betaGemma}},
}

func TestBuild_Maker(t *testing.T) { run(t, makerCases) }
