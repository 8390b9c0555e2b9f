package chain

import (
	"math"

	"myip.co.kr/hearth"
)

var (
	toolParams   = hearth.MustParams("tools", "response_format", "max_tokens")
	noToolParams = hearth.MustParams("max_tokens", "temperature")
)

// Step 6, what an endpoint cannot do.
var capabilityCases = []buildCase{
	{name: "tools drop only who declares to lack them", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(acmeGemma).Params = noToolParams },
		drops: []string{"acme/fp8:" + gemma + " @1 capability: does not take tools"}},
	{name: "a slot that declares to lack tools", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{acmeGemma, betaGemma},
		given: func(s *scene) { s.at(localGemma).Params = noToolParams }},
	{name: "response_format likewise", req: hearth.Request{Models: []string{gemma}, Params: hearth.ParamResponseFormat}, want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(acmeGemma).Params = noToolParams },
		drops: []string{"acme/fp8:" + gemma + " @1 capability: does not take response_format"}},
	{name: "without tools nobody is asked for them", req: ask(gemma), want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.at(acmeGemma).Params = noToolParams }},
	{name: "who declares tools comes first in its tier", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, betaGemma, acmeGemma},
		given:   func(s *scene) { s.at(betaGemma).Params = toolParams },
		reasons: []string{reasonPriority, reasonPrice, reasonOpen}},
	{name: "of those who declare them the price decides", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, acmeGemma, betaGemma},
		given:   func(s *scene) { s.at(betaGemma).Params, s.at(acmeGemma).Params = toolParams, toolParams },
		reasons: []string{reasonPriority, reasonPrice, reasonPrice}},
	{name: "a soft requirement never skips a tier", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.at(betaGemma).Params, s.at(betaGemma).Priority = toolParams, 60 }},
	{name: "nor does it order own nodes", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, node2, acmeGemma, betaGemma},
		given: func(s *scene) { s.node("gpu-2", hearth.SlotView{}).Params = toolParams }},
	{name: "a drop keeps its place behind those who declare", req: hearth.Request{Models: []string{gemma}, Tools: true}, want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(betaGemma).Params = toolParams; s.cool(acmeGemma) },
		drops: []string{"acme/fp8:" + gemma + " @2 health cooldown: cooling down after failures, back in 1m0s"}},
	{name: "images drop only who declares other input", req: hearth.Request{Models: []string{gemma}, Images: 1, Media: []string{"image"}}, want: []string{localGemma, betaGemma},
		given: func(s *scene) {
			s.at(acmeGemma).Input, s.at(betaGemma).Input = []string{"text"}, []string{"text", "image"}
		},
		drops: []string{"acme/fp8:" + gemma + " @1 capability: does not take image input"}},
	{name: "who declares image input comes first in its tier", req: hearth.Request{Models: []string{gemma}, Media: []string{"image"}}, want: []string{localGemma, betaGemma, acmeGemma},
		given: func(s *scene) { s.at(betaGemma).Input = []string{"text", "image"} }},
	{name: "every kind of media is asked for", req: hearth.Request{Models: []string{gemma}, Media: []string{"image", "audio"}}, want: []string{acmeGemma, betaGemma},
		given: func(s *scene) { s.at(localGemma).Input = []string{"text", "image"} },
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability: does not take audio input"}},
	{name: "a web address never reaches an own engine", req: hearth.Request{Models: []string{gemma}, Images: 1, Media: []string{"image"}, MediaURLs: 1}, want: []string{acmeGemma, betaGemma},
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability: media must be sent as data to own engines, the request has web addresses"}},
	{name: "unless it is fetched", req: hearth.Request{Models: []string{gemma}, Images: 1, Media: []string{"image"}, MediaURLs: 1}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.FetchMedia = true }},
	{name: "an output cap that is too small", req: hearth.Request{Models: []string{gemma}, MaxTokens: 4097}, want: []string{localGemma, betaGemma},
		given: func(s *scene) { s.at(acmeGemma).MaxOutput = 4096 },
		drops: []string{"acme/fp8:" + gemma + " @1 capability: gives at most 4096 tokens, max_tokens is 4097"}},
	{name: "an output cap of just that size", req: hearth.Request{Models: []string{gemma}, MaxTokens: 4096}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.at(acmeGemma).MaxOutput = 4096 }},
	{name: "the output cap of a slot is no reason", req: hearth.Request{Models: []string{gemma}, MaxTokens: 4097}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.at(localGemma).MaxOutput = 4096 }},
}

func engineOf(name string) func(*scene) {
	return func(s *scene) { s.at(localGemma).Slot.Engine = name }
}

// The section "Context window".
var windowCases = []buildCase{
	{name: "a prompt of exactly the window stays", req: hearth.Request{Models: []string{gemma}, Estimate: 32768}, want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "one token more does not", req: hearth.Request{Models: []string{gemma}, Estimate: 32769}, want: []string{acmeGemma, betaGemma},
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability context_length: prompt estimated at 32769 tokens, window 32768"}},
	{name: "an external window likewise", req: hearth.Request{Models: []string{gemma}, Estimate: 40000}, want: []string{betaGemma},
		given: func(s *scene) { s.at(acmeGemma).Context = 39999 }},
	{name: "an unknown window holds anything", req: hearth.Request{Models: []string{other}, Estimate: 1e9}, want: []string{acmeOther}},
	{name: "images count at the endpoint's own weight", req: hearth.Request{Models: []string{gemma}, Estimate: 10, Images: 8}, want: []string{acmeGemma, betaGemma}},
	{name: "a lighter weight", req: hearth.Request{Models: []string{gemma}, Estimate: 10, Images: 8}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { s.at(localGemma).ImageTokens = 256 }},
	{name: "max_tokens does not count to the prompt", req: hearth.Request{Models: []string{gemma}, Estimate: 32768, MaxTokens: 32768}, want: []string{localGemma, acmeGemma, betaGemma}},
	{name: "the engine's own count takes the place of estimate and images", req: hearth.Request{Models: []string{gemma}, Estimate: 40000, Images: 9}, want: []string{localGemma, acmeGemma, betaGemma},
		given: exact(32768)},
	{name: "and decides against too", req: hearth.Request{Models: []string{gemma}, Estimate: 1}, want: []string{acmeGemma, betaGemma}, given: exact(32769),
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability context_length: prompt of 32769 tokens, window 32768"}},

	{name: "vLLM gets a lowered cap, and the note says so", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 4096}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("vllm"), notes: []string{"max_tokens lowered to 768 for local-gpu/gpu-1:" + gemma + ": its engine refuses more than what is left of its window of 32768"}},
	{name: "SGLang too", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 4096}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("sglang"), notes: []string{"max_tokens lowered to 768 for local-gpu/gpu-1:" + gemma + ": its engine refuses more than what is left of its window of 32768"}},
	{name: "a cap that just fits goes through", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 768}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("vllm"), notes: []string{}},
	{name: "llama-server stops at the window by itself", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 4096}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("llama-server"), notes: []string{}},
	{name: "without a cap nothing is lowered", req: hearth.Request{Models: []string{gemma}, Estimate: 32000}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("vllm"), notes: []string{}},
	{name: "a window that is just full leaves one token", req: hearth.Request{Models: []string{gemma}, Estimate: 32768, MaxTokens: 5}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("vllm"), notes: []string{"max_tokens lowered to 1 for local-gpu/gpu-1:" + gemma + ": its engine refuses more than what is left of its window of 32768"}},
	{name: "the engine's own count says what is left", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 4096}, want: []string{localGemma, acmeGemma, betaGemma},
		given: func(s *scene) { engineOf("vllm")(s); exact(30000)(s) },
		notes: []string{"max_tokens lowered to 2768 for local-gpu/gpu-1:" + gemma + ": its engine refuses more than what is left of its window of 32768"}},
	{name: "nothing is said of a candidate that was cut", req: with(hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: 4096}, hearth.Preferences{Order: []string{"acme"}, NoFallbacks: true}),
		given: engineOf("vllm"), want: []string{acmeGemma}, notes: []string{}},
	{name: "a lowered cap can be paid", req: hearth.Request{Models: []string{gemma}, Estimate: 32000, MaxTokens: math.MaxInt32}, want: []string{localGemma},
		given: func(s *scene) { engineOf("vllm")(s); credits(2_000_000_000)(s) }},

	{name: "an engine that cuts silently: near the window one token per byte", req: hearth.Request{Models: []string{gemma}, Estimate: 24577, Bytes: 32769}, want: []string{acmeGemma, betaGemma},
		given: engineOf("ollama"),
		drops: []string{"local-gpu/gpu-1:" + gemma + " @0 capability context_length: the prompt may have 32769 tokens, window 32768, and its engine cuts a longer one without a word"}},
	{name: "three quarters of the window are far enough from it", req: hearth.Request{Models: []string{gemma}, Estimate: 24576, Bytes: 99999}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("ollama")},
	{name: "as many bytes as tokens in the window cannot be too many", req: hearth.Request{Models: []string{gemma}, Estimate: 30000, Bytes: 32768}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("lm-studio")},
	{name: "images count to the bound", req: hearth.Request{Models: []string{gemma}, Estimate: 24000, Bytes: 28673, Images: 1}, want: []string{acmeGemma, betaGemma},
		given: engineOf("lm-studio")},
	{name: "other engines refuse a prompt that is too long themselves", req: hearth.Request{Models: []string{gemma}, Estimate: 30000, Bytes: 99999}, want: []string{localGemma, acmeGemma, betaGemma},
		given: engineOf("llama-server")},
	{name: "the bound is for own engines", req: hearth.Request{Models: []string{gemma}, Estimate: 131000, Bytes: 999999}, want: []string{acmeGemma, betaGemma}, given: engineOf("ollama")},
}

// exact is the count of the slot's own engine.
func exact(tokens int) func(*scene) {
	return func(s *scene) { s.Exact = map[int]int{2: tokens} } // the place of local-gpu in the world
}
