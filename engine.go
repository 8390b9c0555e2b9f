package hearth

import (
	"maps"
	"slices"
)

// Engine is what the gateway knows of a kind of inference server: how it treats a request that does not fit, and which
// keys of a request would give a caller power over the operator's machine.
type Engine struct {
	Deny []string // keys of the body that never reach it; "a.b" is key b in the object a
	// RefusesCap: it rejects a request whose output cap is larger than the rest of the window, instead of stopping there.
	RefusesCap bool
	// Truncates: a prompt that is too long is cut silently and answered all the same.
	Truncates bool
	// Counts says how it counts a prompt exactly before it runs it.
	Counts Counting
	// Running says how it is asked to tell, with each piece of a stream, what has been used so far.
	Running Running
}

// Running is a way in which engines tell of a stream what has been used so far.
type Running uint8

const (
	RunningNot     Running = iota // none, or not known
	RunningUsage                  // stream_options.continuous_usage_stats: usage in every chunk, that of its own choice (vLLM, SGLang)
	RunningTimings                // timings_per_token: timings in every chunk (llama-server)
)

// Counting is a way in which engines count the tokens of a prompt.
type Counting uint8

const (
	CountsNot      Counting = iota // no route, or not known
	CountsTemplate                 // POST /apply-template, then POST /tokenize (llama-server)
	CountsChat                     // POST /tokenize with the messages (vLLM, SGLang)
)

// engines are known by the word in a slot's engine key. An empty word is an engine nothing is known of.
var engines = map[string]Engine{
	"":             {},
	"llama-server": {Deny: []string{"id_slot", "lora", "n_predict"}, Counts: CountsTemplate, Running: RunningTimings},
	"vllm": {
		Deny:       []string{"chat_template", "prompt_logprobs", "kv_transfer_params", "priority", "truncate_prompt_tokens"},
		RefusesCap: true, Counts: CountsChat, Running: RunningUsage,
	},
	"sglang":    {RefusesCap: true, Running: RunningUsage},
	"ollama":    {Deny: []string{"options.num_ctx"}, Truncates: true},
	"lm-studio": {Truncates: true},
	"tabbyapi":  {},
}

// EngineOf is what is known of the engine with that name; ok is false for a name that is none.
func EngineOf(name string) (e Engine, ok bool) {
	e, ok = engines[name]
	return e, ok
}

// EngineNames lists the engines that something is known of, in alphabetical order.
func EngineNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(engines)), func(name string) bool { return name == "" })
}
