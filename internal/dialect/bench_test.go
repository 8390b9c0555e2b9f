package dialect

import "testing"

// BenchmarkChunk is what it costs to pass a chunk on, by what is in it.
func BenchmarkChunk(b *testing.B) {
	const head = `{"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1760000000,"model":"gemma-4","choices":[`
	for _, bb := range []struct{ name, first, chunk string }{
		{"content", "", head + `{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`},
		{"content with blanks", "", `{"id": "chatcmpl-abc", "object": "chat.completion.chunk", "created": 1760000000, "model": "gemma-4", "choices": [{"index": 0, "delta": {"content": " word"}, "logprobs": null, "finish_reason": null}]}`},
		{"reasoning", "", head + `{"index":0,"delta":{"reasoning_content":" word"},"logprobs":null,"finish_reason":null}]}`},
		{"parts", "", head + `{"index":0,"delta":{"content":[{"type":"text","text":" word"}]},"finish_reason":null}]}`},
		{"tool call", head + `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]},"finish_reason":null}]}`},
		{"finish", "", head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`},
		{"usage", "", head + `],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}}`},
		{"running timings", "", head + `{"index":0,"delta":{"content":" word"},"finish_reason":null}],"timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.958,"prompt_per_token_ms":30.958,"prompt_per_second":32.301,"predicted_n":2,"predicted_ms":18.3,"predicted_per_token_ms":9.1,"predicted_per_second":55.1}}`},
		{"running usage", "", head + `{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s, in := stamp(), []byte(bb.chunk)
			if bb.first != "" {
				if _, _, err := s.AppendChunk(nil, []byte(bb.first)); err != nil {
					b.Fatal(err)
				}
			}
			var out []byte
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if out, _, err = s.AppendChunk(out[:0], in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAnswer is what it costs to pass a whole answer of some length on.
func BenchmarkAnswer(b *testing.B) {
	in := []byte(vendors[0].whole)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadAnswer(in); err != nil {
			b.Fatal(err)
		}
	}
}
