package chain

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Step 6, the names in the caller's conditions and what is disabled.
var filterCases = []buildCase{
	{name: "only a display name", req: with(ask(gemma), hearth.Preferences{Only: []string{"MyIP Local GPU"}}), want: []string{localGemma}},
	{name: "only one node", req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu/gpu-2"}}), want: []string{node2},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}) }},
	{name: "local-gpu holds all own nodes", req: with(ask(gemma), hearth.Preferences{Only: []string{"local-gpu"}}), want: []string{localGemma, node2},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}) }},
	{name: "ignore one node", req: with(ask(gemma), hearth.Preferences{Ignore: []string{"local-gpu/gpu-1"}}), want: []string{node2, acmeGemma, betaGemma},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}) }},
	{name: "only one variant by its tag", req: with(ask(gemma), hearth.Preferences{Only: []string{"acme/fp8"}}), want: []string{acmeGemma}},
	{name: "a base slug is all endpoints of that provider", req: with(ask(gemma, other), hearth.Preferences{Only: []string{"acme"}}), want: []string{acmeGemma, acmeOther}},
	{name: "names in another case", req: with(ask(gemma), hearth.Preferences{Only: []string{"ACME", "Local-GPU"}}), want: []string{localGemma, acmeGemma}},
	{name: "only and ignore together", req: with(ask(gemma), hearth.Preferences{Only: []string{"acme", "beta"}, Ignore: []string{"Beta"}}), want: []string{acmeGemma},
		drops: []string{
			"local-gpu/gpu-1:" + gemma + " @0 conditions: not in provider.only",
			"beta:" + gemma + " @1 conditions: in provider.ignore",
		}},
	{name: "a disabled endpoint", req: ask(gemma), given: func(s *scene) { s.at(localGemma).Disabled = true }, want: []string{acmeGemma, betaGemma},
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 conditions: the endpoint is disabled"}},
	{name: "names that mean nobody are noted", req: with(ask(gemma), hearth.Preferences{Ignore: []string{"local-gup", "beta"}, Order: []string{"ACME/fp8"}}),
		want: []string{acmeGemma, localGemma}, notes: []string{`provider.ignore: there is no provider "local-gup", did you mean local-gpu?`}},
	{name: "a name is cleaned and cut before it is noted", req: with(ask(gemma), hearth.Preferences{Ignore: []string{"evil\r\nSet-Cookie: " + string(make([]byte, 100))}}),
		want:  []string{localGemma, acmeGemma, betaGemma},
		notes: []string{`provider.ignore: there is no provider "evil??Set-Cookie: ??????????????????????????????????????????????…"`}},

	{name: "max_price by the prompt price in the billing currency", want: []string{localGemma, acmeGemma},
		req:   with(ask(gemma), hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: null("30")}}),
		drops: []string{"beta:" + gemma + " @2 conditions: costs 139 KRW per 1M prompt tokens, more than provider.max_price.prompt"}},
	{name: "max_price by the completion price, local ones included", want: []string{acmeGemma},
		req: with(ask(gemma), hearth.Preferences{MaxPrice: hearth.MaxPrice{Completion: null("149.9")}})},
	{name: "max_price by the price of an image", want: []string{localGemma, acmeGemma},
		req:   with(ask(gemma), hearth.Preferences{MaxPrice: hearth.MaxPrice{Image: null("1389")}}),
		given: func(s *scene) { s.at(betaGemma).List.Image = decimal.NewFromInt(1) }},
	{name: "max_price by the price of a request", want: []string{localGemma, acmeGemma},
		req:   with(ask(gemma), hearth.Preferences{MaxPrice: hearth.MaxPrice{Request: null("0")}}),
		given: func(s *scene) { s.at(betaGemma).List.Request = decimal.NewFromInt(1) }},
	{name: "max_price holds for the price with margin", want: []string{localGemma},
		req:   with(ask(gemma), hearth.Preferences{Ignore: []string{"beta"}, MaxPrice: hearth.MaxPrice{Completion: null("150")}}),
		given: func(s *scene) { s.at(acmeGemma).Provider.Margin = decimal.NewFromInt(5) }},

	{name: "quantizations", req: with(ask(gemma), hearth.Preferences{Quantizations: []string{"fp8", "bf16"}}), want: []string{localGemma, acmeGemma},
		given: func(s *scene) { s.at(localGemma).Quantization, s.at(acmeGemma).Quantization = "BF16", "fp8" },
		drops: []string{"beta:" + gemma + " @2 conditions: its quantization is unknown, not in provider.quantizations"}},
	{name: "fp8 accepts mxfp8", req: with(ask(gemma), hearth.Preferences{Quantizations: []string{"fp8"}}), want: []string{acmeGemma},
		given: quantizations("mxfp4", "mxfp8", "nvfp4")},
	{name: "fp4 accepts mxfp4 and nvfp4", req: with(ask(gemma), hearth.Preferences{Quantizations: []string{"fp4"}}), want: []string{localGemma, betaGemma},
		given: quantizations("mxfp4", "mxfp8", "nvfp4")},
	{name: "mxfp8 does not accept fp8", req: with(ask(gemma), hearth.Preferences{Quantizations: []string{"mxfp8"}}), want: []string{acmeGemma},
		given: quantizations("fp8", "mxfp8", "fp4")},
	{name: "unknown accepts what is not declared", req: with(ask(gemma), hearth.Preferences{Quantizations: []string{"unknown"}}), want: []string{betaGemma},
		given: quantizations("fp8", "int4", "")},

	{name: "data_collection deny: not declared fails, local passes", req: with(ask(gemma), hearth.Preferences{NoCollection: true}), want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(betaGemma).NoCollection = true },
		drops: []string{"acme/fp8:" + gemma + " @1 conditions: does not declare that prompts are not collected, provider.data_collection is deny"}},
	{name: "who retains nothing collects nothing", req: with(ask(gemma), hearth.Preferences{NoCollection: true}), want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(betaGemma).ZDR = true }},
	{name: "zdr: not declared fails, local passes", req: with(ask(gemma), hearth.Preferences{ZDR: true}), want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(betaGemma).ZDR, s.at(acmeGemma).NoCollection = true, true },
		drops: []string{"acme/fp8:" + gemma + " @1 conditions: does not declare that nothing is retained, provider.zdr is true"}},

	{name: "require_parameters believes the usual ones where none are declared", want: []string{localGemma, acmeGemma, betaGemma},
		req: with(hearth.Request{Models: []string{gemma}, Params: hearth.MustParams("temperature", "tools", "seed")}, hearth.Preferences{RequireParams: true})},
	{name: "require_parameters drops who does not take them all", want: []string{acmeGemma},
		req:   with(hearth.Request{Models: []string{gemma}, Params: hearth.MustParams("temperature", "top_k", "n")}, hearth.Preferences{RequireParams: true}),
		given: func(s *scene) { s.at(acmeGemma).Params = hearth.MustParams("temperature", "top_k", "n") },
		drops: []string{
			"local-gpu/gpu-1:" + gemma + " @0 conditions: does not take top_k, n, provider.require_parameters is true",
			"beta:" + gemma + " @1 conditions: does not take top_k, n, provider.require_parameters is true",
		}},
	{name: "without require_parameters nobody is dropped for them", want: []string{localGemma, acmeGemma, betaGemma},
		req: hearth.Request{Models: []string{gemma}, Params: hearth.MustParams("top_k", "n")}},
	{name: "the gateway spells the output cap as the provider knows it", want: []string{acmeGemma},
		req: with(hearth.Request{Models: []string{gemma}, MaxTokens: 9, Params: hearth.MustParams("max_completion_tokens")}, hearth.Preferences{RequireParams: true}),
		given: func(s *scene) {
			for _, n := range []string{localGemma, acmeGemma, betaGemma} {
				s.at(n).Params = hearth.MustParams("max_tokens")
			}
			s.at(acmeGemma).Provider.MaxTokensKey = "max_tokens"
		}},
}

func null(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func quantizations(local, acme, beta string) func(*scene) {
	return func(s *scene) {
		s.at(localGemma).Quantization, s.at(acmeGemma).Quantization, s.at(betaGemma).Quantization = local, acme, beta
	}
}

func key(k hearth.Key) func(*scene) { return func(s *scene) { s.Key = &k } }

// Step 6, the key policy.
var policyCases = []buildCase{
	{name: "a key without bounds may do everything", req: ask(gemma), given: key(hearth.Key{}), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a key for some models", req: ask(gemma, exaone, other), given: key(hearth.Key{Models: []string{exaone, other}}), want: []string{localExaone, acmeOther},
		drops: []string{
			"local-gpu/gpu-1:" + gemma + " @0 key_policy: the key may not use this model",
			"acme/fp8:" + gemma + " @0 key_policy: the key may not use this model",
			"beta:" + gemma + " @0 key_policy: the key may not use this model",
		}},
	{name: "a key's model by its alias", req: ask(gemma, exaone), given: key(hearth.Key{Models: []string{"gpt-4o-mini"}}), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a model asked for by its alias", req: ask("gpt-4o-mini"), given: key(hearth.Key{Models: []string{gemma}}), want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "a key for some providers", req: ask(gemma), given: key(hearth.Key{Providers: []string{"local-gpu", "acme/fp8"}}), want: []string{localGemma, acmeGemma},
		drops: []string{"beta:" + gemma + " @2 key_policy: the key may not use this provider"}},
	{name: "a key that never leaves the house", req: ask(gemma), given: key(hearth.Key{LocalOnly: true}), want: []string{localGemma}},
	{name: "only does not widen the key", req: with(ask(gemma), hearth.Preferences{Only: []string{"acme", "beta"}}), given: key(hearth.Key{Providers: []string{"beta", "local-gpu"}}), want: []string{betaGemma},
		drops: []string{
			"local-gpu/gpu-1:" + gemma + " @0 conditions: not in provider.only",
			"acme/fp8:" + gemma + " @0 key_policy: the key may not use this provider",
		}},
	{name: "the first stage that fails names the drop", req: with(hearth.Request{Models: []string{gemma}, Estimate: 1e6}, hearth.Preferences{Only: []string{"local-gpu"}}),
		given: func(s *scene) {
			s.Key = &hearth.Key{Providers: []string{"beta", "local-gpu"}}
			s.at(betaGemma).Disabled = true
			s.at(localGemma).Context = 0
			s.cool(betaGemma, acmeGemma)
		}, want: []string{localGemma},
		drops: []string{
			"acme/fp8:" + gemma + " @1 key_policy: the key may not use this provider",
			"beta:" + gemma + " @1 conditions: the endpoint is disabled",
		}},
}

// Step 6, cooldown, rate limit and what cannot be paid.
var healthCases = []buildCase{
	{name: "in cooldown", req: ask(gemma), given: func(s *scene) { s.cool(acmeGemma) }, want: []string{localGemma, betaGemma},
		drops: []string{"acme/fp8:" + gemma + " @1 health cooldown: cooling down after failures, back in 1m0s"}},
	{name: "rate limited", req: ask(gemma), given: func(s *scene) { s.out(hearth.SkipRateLimited, 2500*time.Millisecond, betaGemma) }, want: []string{localGemma, acmeGemma},
		drops: []string{"beta:" + gemma + " @2 health rate_limited: rate limited by the provider, back in 3s"}},
	{name: "back at the very end of the cooldown", req: ask(gemma), given: func(s *scene) { s.cool(acmeGemma); s.Now = now.Add(time.Minute) },
		want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "the place of a drop is the one its price gives it", req: hearth.Request{Models: []string{gemma}, Estimate: 1000}, given: func(s *scene) {
		s.cool(acmeGemma, betaGemma)
		s.serve("middle", "100")
	}, want: []string{localGemma, "middle " + gemma}, drops: []string{
		"acme/fp8:" + gemma + " @1 health cooldown: cooling down after failures, back in 1m0s",
		"beta:" + gemma + " @2 health cooldown: cooling down after failures, back in 1m0s",
	}},
	{name: "the place of a drop under sort", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), given: func(s *scene) { s.cool(localGemma) },
		want: []string{acmeGemma, betaGemma}, drops: []string{"local-gpu/gpu-1:" + gemma + " @1 health cooldown: cooling down after failures, back in 1m0s"}},
	{name: "the place of a drop under order", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta"}}), given: func(s *scene) { s.cool(betaGemma) },
		want: []string{localGemma, acmeGemma}, drops: []string{"beta:" + gemma + " @0 health cooldown: cooling down after failures, back in 1m0s"}},

	{name: "last_resort: a cooled endpoint goes behind everything else", req: ask(gemma, other), given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma) },
		want: []string{localGemma, betaGemma, acmeOther, acmeGemma}, reasons: []string{reasonPriority, reasonPriority, reasonPriority, reasonLastResort}, drops: []string{}},
	{name: "last_resort: two of a tier keep their order", req: ask(gemma), given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma, betaGemma) },
		want: []string{localGemma, acmeGemma, betaGemma}, reasons: []string{reasonPriority, reasonLastResort, reasonLastResort}},
	{name: "last_resort: not the only one of a tier", req: ask(gemma, other), given: func(s *scene) { s.LastResort = true; s.cool(acmeOther) },
		want: []string{localGemma, acmeGemma, betaGemma}, drops: []string{"acme:" + other + " @3 health cooldown: cooling down after failures, back in 1m0s"}},
	{name: "last_resort: not the only one of its tier that may serve the request", req: with(ask(gemma), hearth.Preferences{Ignore: []string{"beta"}}),
		given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma) }, want: []string{localGemma}},
	{name: "last_resort: nor the only one that is not disabled", req: ask(gemma), given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma); s.at(betaGemma).Disabled = true },
		want: []string{localGemma}},
	{name: "last_resort: the others of another priority do not count", req: ask(gemma), given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma); s.at(betaGemma).Priority = 60 },
		want: []string{localGemma, betaGemma}},
	{name: "last_resort: a rate limited one counts to its tier and stays out", req: ask(gemma), given: func(s *scene) {
		s.LastResort = true
		s.cool(acmeGemma)
		s.out(hearth.SkipRateLimited, time.Second, betaGemma)
	}, want: []string{localGemma, acmeGemma}},
	{name: "last_resort: never a slot", req: ask(gemma), given: func(s *scene) { s.LastResort = true; s.cool(localGemma); s.node("gpu-2", hearth.SlotView{}) },
		want: []string{node2, acmeGemma, betaGemma}},
	{name: "last_resort: not while the provider refuses our key", req: ask(gemma), given: func(s *scene) {
		s.LastResort = true
		s.health[acmeGemma] = hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(time.Minute), Account: true}
	}, want: []string{localGemma, betaGemma}, drops: []string{"acme/fp8:" + gemma + " @1 health cooldown: out because the provider refused our key, back in 1m0s"}},
	{name: "last_resort: behind everything under sort too", req: with(ask(gemma), hearth.Preferences{Sort: hearth.SortPrice}), given: func(s *scene) { s.LastResort = true; s.cool(acmeGemma) },
		want: []string{localGemma, betaGemma, acmeGemma}},
	{name: "without the option it is out", req: ask(gemma, other), given: func(s *scene) { s.cool(acmeGemma) }, want: []string{localGemma, betaGemma, acmeOther}},

	{name: "what cannot be paid", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000}, given: credits(200_000_000), // local 0.18, acme 0.0417, beta 0.695
		want: []string{localGemma, acmeGemma}, drops: []string{"beta:" + gemma + " @2 credits over_budget: could cost up to 0.695, more than what the key has left"}},
	{name: "each choice may cost as much", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 200, Choices: 5}, given: credits(179_999_999), want: []string{acmeGemma}},
	{name: "exactly what is left", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000}, given: credits(180_000_000), want: []string{localGemma, acmeGemma}},
	{name: "a nano less than that", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000}, given: credits(179_999_999), want: []string{acmeGemma}},
	{name: "without a cap the endpoint's own one counts", req: hearth.Request{Models: []string{gemma}, Estimate: 1000}, given: func(s *scene) {
		credits(180_000_000)(s)
		s.at(localGemma).MaxOutput, s.at(acmeGemma).MaxOutput = 1001, 1001
	}, want: []string{acmeGemma}},
	{name: "without any cap 500 tokens count", req: hearth.Request{Models: []string{gemma}, Estimate: 1000}, given: credits(105_000_000), want: []string{localGemma, acmeGemma}},
	{name: "the dearest kind of token counts", req: hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 1000}, given: func(s *scene) {
		credits(200_000_000)(s)
		s.at(acmeGemma).List.Reasoning = decimal.NewFromInt(1)
		s.at(localGemma).List.CacheWrite = decimal.NewFromInt(60)
		s.serve("gamma", "1")
	}, want: []string{"gamma " + gemma}},
	{name: "images count", req: hearth.Request{Models: []string{gemma}, Estimate: 1, Images: 2, MaxTokens: 1}, given: func(s *scene) {
		credits(1_000_000_000)(s)
		s.at(localGemma).List.Image = decimal.NewFromInt(1)
	}, want: []string{acmeGemma}},
	{name: "what is free may be used when everything is spent", req: ask(gemma), given: func(s *scene) { credits(-5)(s); s.at(localGemma).List = price("0", "0") }, want: []string{localGemma}},
	{name: "no limit", req: hearth.Request{Models: []string{gemma}, MaxTokens: 1 << 40}, want: []string{localGemma, acmeGemma, betaGemma}},
}

func credits(n hearth.Nano) func(*scene) { return func(s *scene) { s.Left = &n } }

// A quantization that is written in capitals, or not at all, is one and the same.
func TestQuantized_IsTotal(t *testing.T) {
	for _, q := range []string{"", "unknown", "UNKNOWN"} {
		if !quantized(q, []string{"int4", "unknown"}) || quantized(q, []string{"int4"}) {
			t.Errorf("%q", q)
		}
	}
}

// An endpoint that nothing speaks for is dropped at the first stage; with each obstacle gone the next one names the drop.
func TestBuild_StagesInOrder(t *testing.T) {
	s := newScene()
	e := s.at(acmeOther)
	e.Context = 10
	s.cool(acmeOther)
	credits(0)(s)
	s.Key = &hearth.Key{LocalOnly: true}
	req := with(hearth.Request{Models: []string{other}, Estimate: 11}, hearth.Preferences{Ignore: []string{"acme"}})
	in := s.input(t, &req)
	for _, step := range []struct {
		stage hearth.Stage
		lift  func()
		want  hearth.ErrorType
	}{
		{hearth.StageKey, func() { in.Key = nil }, hearth.ErrNotAllowed},
		{hearth.StageConditions, func() { req.Prefs.Ignore = nil }, hearth.ErrNoEndpoints},
		{hearth.StageCapability, func() { e.Context = 11 }, hearth.ErrContextLength},
		{hearth.StageHealth, func() { in.Now = now.Add(time.Hour) }, hearth.ErrCoolingDown},
		{hearth.StageCredits, func() { in.Left = nil }, hearth.ErrInsufficientCredits},
	} {
		c, err := Build(in)
		if err == nil || err.Type != step.want || len(c.Drops) != 1 || c.Drops[0].Stage != step.stage {
			t.Fatalf("at stage %s: %v, drops %v", step.stage, err, dropLines(c.Drops))
		}
		step.lift()
	}
	if c, err := Build(in); err != nil || len(c.Candidates) != 1 {
		t.Fatal(c, err)
	}
}
