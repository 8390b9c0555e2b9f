package hearth

import "slices"

// Params is a set of request parameters, by the names of the chat completions API.
type Params uint64

// paramNames are the parameters that endpoints may take or lack, as the lists of models name them.
var paramNames = [...]string{
	"max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "top_a", "frequency_penalty",
	"presence_penalty", "repetition_penalty", "seed", "logit_bias", "logprobs", "top_logprobs", "stop", "tools",
	"tool_choice", "parallel_tool_calls", "response_format", "structured_outputs", "reasoning", "reasoning_effort",
	"include_reasoning", "verbosity", "web_search_options", "prediction", "modalities", "service_tier", "n",
}

// Sets of parameters that the gateway asks for by name.
var (
	ParamTools          = MustParams("tools")
	ParamResponseFormat = MustParams("response_format")

	// UsualParams are those that OpenAI-compatible upstreams take: what an endpoint is believed to take when nothing is
	// declared about it.
	UsualParams = MustParams("max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed",
		"frequency_penalty", "presence_penalty", "response_format", "structured_outputs", "tools", "tool_choice",
		"parallel_tool_calls", "reasoning", "reasoning_effort", "include_reasoning", "logprobs", "top_logprobs")
)

// ParamOf is the set of the one parameter of that name; empty for a name that is none.
func ParamOf(name string) Params {
	i := slices.Index(paramNames[:], name)
	if i < 0 {
		return 0
	}
	return 1 << i
}

// MustParams is the set of the named parameters. It panics for a name that is none: it is for names in the source.
func MustParams(names ...string) Params {
	var p Params
	for _, n := range names {
		one := ParamOf(n)
		if one == 0 {
			panic("hearth: no parameter " + n)
		}
		p |= one
	}
	return p
}

// ParamNames lists every known parameter.
func ParamNames() []string { return slices.Clone(paramNames[:]) }

// Names lists the parameters of the set in the order of ParamNames.
func (p Params) Names() []string {
	names := []string{}
	for i, n := range paramNames {
		if p&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}
