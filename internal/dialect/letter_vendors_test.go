package dialect

import "myip.co.kr/hearth"

// vendor is what one kind of upstream sends: the chunks of a stream, and the same answer as a whole body.
type vendor struct {
	name           string
	stream         []string
	whole          string
	text, thought  string // what the caller reads in the end
	finish, native string
	usage          hearth.Usage
}

func counts(prompt, completion int64) hearth.Usage {
	return hearth.Usage{PromptTokens: prompt, CompletionTokens: completion, Reported: true}
}

// vendors hold answers as their servers send them, shortened.
var vendors = []vendor{
	{
		name: "OpenAI", text: "hi there", finish: "stop", native: "stop",
		usage: hearth.Usage{PromptTokens: 9, CompletionTokens: 2, CachedTokens: 4, ReasoningTokens: 1, Reported: true},
		stream: []string{
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"gpt","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"gpt","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":"hi there"},"logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"gpt","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"gpt","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":1}}}`,
		},
		whole: `{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi there","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}},"service_tier":"default","system_fingerprint":"fp_1"}`,
	},
	{
		name: "llama-server without usage", text: "hi there", thought: "hm", finish: "length", native: "length",
		usage: hearth.Usage{PromptTokens: 22, CompletionTokens: 13, CachedTokens: 20, Reported: true},
		stream: []string{
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1760000000,"id":"chatcmpl-2","model":"m.gguf","system_fingerprint":"b1-80fb11a","object":"chat.completion.chunk","timings":{"cache_n":20,"prompt_n":2,"predicted_n":1}}`,
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"hm"}}],"created":1760000000,"id":"chatcmpl-2","model":"m.gguf","object":"chat.completion.chunk"}`,
			`{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"hi there"}}],"created":1760000000,"id":"chatcmpl-2","model":"m.gguf","object":"chat.completion.chunk"}`,
			`{"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1760000000,"id":"chatcmpl-2","model":"m.gguf","object":"chat.completion.chunk","timings":{"cache_n":20,"prompt_n":2,"prompt_ms":1.5,"predicted_n":13,"predicted_ms":4.25}}`,
		},
		whole: `{"choices":[{"finish_reason":"length","index":0,"message":{"role":"assistant","content":"hi there","reasoning_content":"hm"}}],"created":1760000000,"model":"m.gguf","object":"chat.completion","id":"chatcmpl-2","timings":{"cache_n":20,"prompt_n":2,"predicted_n":13}}`,
	},
	{
		name: "vLLM with running counts", text: "hi there", finish: "stop", native: "stop", usage: counts(7, 3),
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0}}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi there"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3,"prompt_tokens_details":null}}`,
	},
	{
		name: "Ollama", text: "hi there", thought: "hm", finish: "stop", native: "stop", usage: counts(26, 8),
		stream: []string{
			`{"id":"chatcmpl-583","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-583","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"hi there"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-583","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}`,
			`{"id":"chatcmpl-583","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":8,"total_tokens":34}}`,
		},
		whole: `{"id":"chatcmpl-583","object":"chat.completion","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"message":{"role":"assistant","content":"hi there","reasoning":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":26,"completion_tokens":8,"total_tokens":34}}`,
	},
	{
		name: "Mistral in parts", text: "hi there", thought: "hm", finish: "stop", native: "stop", usage: counts(5, 6),
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]},"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"hi "},{"type":"text","text":"there"}]},"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","p":"abc","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"total_tokens":11,"completion_tokens":6,"prompt_audio_seconds":{}}}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","tool_calls":null,"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true},{"type":"text","text":"hi there"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"total_tokens":11,"completion_tokens":6}}`,
	},
	{
		name: "DeepSeek", text: "hi there", thought: "hm", finish: "stop", native: "stop",
		usage: hearth.Usage{PromptTokens: 10, CompletionTokens: 4, CachedTokens: 8, ReasoningTokens: 2, Reported: true},
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"hm"},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"hi there","reasoning_content":null},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2,"completion_tokens_details":{"reasoning_tokens":2}}}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there","reasoning_content":"hm"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2,"completion_tokens_details":{"reasoning_tokens":2}}}`,
	},
	{
		name: "Groq", text: "hi there", finish: "stop", native: "stop", usage: counts(3, 4),
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"hi there"},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_1"}}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.1,"prompt_tokens":3,"prompt_time":0.01,"completion_tokens":4,"total_tokens":7}}}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there"},"logprobs":null,"finish_reason":"stop"}],"usage":{"queue_time":0.1,"prompt_tokens":3,"completion_tokens":4,"total_tokens":7},"x_groq":{"id":"req_1"}}`,
	},
	{
		name: "xAI", text: "hi there", thought: "hm", finish: "stop", native: "stop",
		usage: hearth.Usage{PromptTokens: 32, CompletionTokens: 103, CachedTokens: 6, ReasoningTokens: 94, Reported: true},
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"reasoning_content":"hm","role":"assistant"}}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":"hi there","role":"assistant"},"finish_reason":"stop"}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"text_tokens":32,"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94},"num_sources_used":0}}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there","reasoning_content":"hm","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"text_tokens":32,"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}},"system_fingerprint":"fp"}`,
	},
	{
		name: "Google", text: "hi there", finish: "stop", native: "stop",
		usage: hearth.Usage{PromptTokens: 12, CompletionTokens: 1020, ReasoningTokens: 900, Reported: true},
		stream: []string{
			`{"choices":[{"delta":{"content":"hi there","role":"assistant"},"index":0}],"created":1,"id":"c","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":20,"prompt_tokens":12,"total_tokens":932}}`,
			`{"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop","index":0}],"created":1,"id":"c","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":120,"prompt_tokens":12,"total_tokens":1032}}`,
		},
		whole: `{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"hi there","role":"assistant"}}],"created":1,"id":"c","model":"m","object":"chat.completion","usage":{"completion_tokens":120,"prompt_tokens":12,"total_tokens":1032}}`,
	},
	{
		name: "in Anthropic's words", text: "hi there", finish: "stop", native: "end_turn",
		usage: hearth.Usage{PromptTokens: 113, CompletionTokens: 5, CachedTokens: 90, CacheWriteTokens: 20, Reported: true},
		stream: []string{
			`{"id":"msg","choices":[{"index":0,"delta":{"role":"assistant","content":"hi there"}}],"usage":{"input_tokens":3,"cache_read_input_tokens":90,"cache_creation_input_tokens":20,"output_tokens":1}}`,
			`{"id":"msg","choices":[{"index":0,"delta":{},"finish_reason":"end_turn"}],"usage":{"input_tokens":3,"cache_read_input_tokens":90,"cache_creation_input_tokens":20,"output_tokens":5}}`,
		},
		whole: `{"id":"msg","choices":[{"index":0,"message":{"role":"assistant","content":"hi there"},"finish_reason":"end_turn"}],"usage":{"input_tokens":3,"cache_read_input_tokens":90,"cache_creation_input_tokens":20,"output_tokens":5}}`,
	},
	{
		name: "Moonshot", text: "hi there", finish: "stop", native: "stop",
		usage: hearth.Usage{PromptTokens: 19, CompletionTokens: 13, CachedTokens: 10, Reported: true},
		stream: []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi there"},"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":10}}]}`,
		},
		whole: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":10}}`,
	},
	{
		name: "OpenRouter behind us", text: "hi there", thought: "hm", finish: "stop", native: "STOP",
		usage: hearth.Usage{PromptTokens: 2, CompletionTokens: 3, Reported: true, Cost: "0.1"},
		stream: []string{
			`{"id":"gen-1","provider":"Google","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.summary","summary":"hm","format":"x","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}`,
			`{"id":"gen-1","provider":"Google","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"hi there"},"finish_reason":"stop","native_finish_reason":"STOP","logprobs":null}]}`,
			`{"id":"gen-1","provider":"Google","model":"m","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"STOP","logprobs":null}],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"cost":0.1,"is_byok":false,"cost_details":{"upstream_inference_cost":0.1}}}`,
		},
		whole: `{"id":"gen-1","provider":"Google","model":"m","object":"chat.completion","created":1,"choices":[{"logprobs":null,"finish_reason":"stop","native_finish_reason":"STOP","index":0,"message":{"role":"assistant","content":"hi there","refusal":null,"reasoning":"hm","reasoning_details":[{"type":"reasoning.summary","summary":"hm","format":"x","index":0}]}}],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"cost":0.1}}`,
	},
	{
		name: "the bare least", text: "hi there", finish: "stop", usage: hearth.Usage{},
		stream: []string{`null`, `{}`, `{"choices":null}`, `{"choices":[{"delta":{"content":"hi there"},"finish_reason":"null"}]}`},
		whole:  `{"choices":[{"message":{"content":"hi there"}}]}`,
	},
}
