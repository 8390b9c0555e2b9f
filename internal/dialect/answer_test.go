package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestAnswer(t *testing.T) {
	head := `{"id":"gen-1","object":"chat.completion","model":"a/b","provider":"Acme"`
	usage := `,"usage":` + string(AppendUsage(nil, hearth.Usage{}, hearth.Bill{Currency: "KRW"}, hearth.Money{})) + `}`
	for _, tt := range []struct{ name, in, want string }{
		{"least", `{"choices":[{"message":{"content":"hi"}}]}`,
			head + `,"created":99,"system_fingerprint":null,"choices":[{"message":{"role":"assistant","content":"hi","refusal":null},"index":0,"logprobs":null,"finish_reason":"stop","native_finish_reason":null}]`},
		{"full", "\xef\xbb\xbf" + `{"id":"u","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"tool_calls":null,"x":1.0},"logprobs":null,"finish_reason":"stop"}],"usage":{},"timings":{"a":1}}`,
			head + `,"created":7,"system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"x":1.0},"logprobs":null,"finish_reason":"stop","native_finish_reason":"stop"}],"timings":{"a":1}`},
		{"tool calls", `{"created":7,"choices":[{"index":0,"message":{"role":"model","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":"stop"}]}`,
			head + `,"system_fingerprint":null,"created":7,"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"refusal":null},"logprobs":null,"finish_reason":"tool_calls","native_finish_reason":"stop"}]`},
		{"vLLM", `{"created":7,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
			head + `,"system_fingerprint":null,"created":7,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null,"reasoning":null},"logprobs":null,"stop_reason":null,"finish_reason":"stop","native_finish_reason":"stop"}]`},
		{"two choices", `{"created":7,"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"eos"},{"index":1,"message":null,"finish_reason":"length"}]}`,
			head + `,"system_fingerprint":null,"created":7,"choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop","native_finish_reason":"eos"},{"index":1,"message":{"role":"assistant","content":null,"refusal":null},"logprobs":null,"finish_reason":"length","native_finish_reason":"length"}]`},
		{"no choices", `{"created":7,"choices":null}`, head + `,"system_fingerprint":null,"created":7,"choices":[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := ReadAnswer([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want+usage, string(a.Append(nil, stamp(), hearth.Bill{Currency: "KRW"}))); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("facts", func(t *testing.T) {
		a, err := ReadAnswer([]byte(`{"id":"u","choices":[{"message":{"content":""},"finish_reason":"max_tokens"},{"message":{"reasoning":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":6}}`))
		if err != nil || !a.Content || a.Choices != 2 || a.Finish != "length" || a.Native != "max_tokens" || a.UpstreamID != "u" || a.Usage.CompletionTokens != 6 || a.Err != nil {
			t.Errorf("%v %+v", err, a)
		}
		a, err = ReadAnswer([]byte(`{"error":{"message":"no"}}`))
		if err != nil || a.Err == nil || a.Err.Message != "no" || a.Choices != 0 || a.Content {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		for _, in := range []string{"", "null", "[]", "<html>", `{"choices":[`, `{"a":1}{`, "1"} {
			if _, err := ReadAnswer([]byte(in)); err == nil {
				t.Errorf("%q accepted", in)
			}
		}
	})
}

func TestUsage(t *testing.T) {
	for in, want := range map[string]hearth.Usage{
		`{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}`: {PromptTokens: 10, CompletionTokens: 4, CachedTokens: 3, CacheWriteTokens: 2, ReasoningTokens: 1, Reported: true},
		`{"prompt_tokens":10,"completion_tokens":4,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}`:                                                                                {PromptTokens: 10, CompletionTokens: 4, CachedTokens: 8, Reported: true},
		`{"prompt_tokens":12.0,"completion_tokens":1.2e1,"prompt_tokens_details":null}`:                                                                                                      {PromptTokens: 12, CompletionTokens: 12, Reported: true},
		`{"prompt_tokens":10,"completion_tokens":4,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":6}}`:                                                                    {PromptTokens: 10, CompletionTokens: 10, ReasoningTokens: 6, Reported: true},
		`{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":99}}`:                                                                                            {PromptTokens: 10, CompletionTokens: 4, Reported: true},
		`{"prompt_tokens":10,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":99},"prompt_tokens_details":{"cached_tokens":9}}`:                                         {PromptTokens: 10, CompletionTokens: 4, CachedTokens: 9, Reported: true},
		`{"prompt_tokens":-1,"completion_tokens":4}`:                  {},
		`{"prompt_tokens":9223372036854775807,"completion_tokens":4}`: {},
		`{"prompt_tokens":1e300,"completion_tokens":4}`:               {},
		`{"prompt_tokens":"10","completion_tokens":4}`:                {},
		`{"prompt_tokens":1.5,"completion_tokens":4}`:                 {},
		`{"prompt_tokens":10}`:                                        {},
		`null`:                                                        {}, `{}`: {}, `7`: {}, `[]`: {},
	} {
		t.Run(in, func(t *testing.T) {
			_, c, err := stamp().AppendChunk(nil, []byte(`{"choices":[],"usage":`+in+`}`))
			if d := cmp.Diff(want, c.Usage); d != "" || err != nil {
				t.Error(err, d)
			}
		})
	}
}

func TestReadError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   UpstreamError
	}{
		{"OpenAI", 400, `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			UpstreamError{Code: 400, Type: "invalid_request_error", Reason: "context_length_exceeded", Param: "messages", Message: "too long"}},
		{"llama-server", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}`,
			UpstreamError{Code: 400, Type: "exceed_context_size_error", Message: "the request exceeds the available context size"}},
		{"vLLM", 404, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","param":null,"code":404}`,
			UpstreamError{Code: 404, Type: "NotFoundError", Message: "The model x does not exist."}},
		{"Ollama", 404, `{"error":"model 'x' not found"}`, UpstreamError{Code: 404, Message: "model 'x' not found"}},
		{"FastAPI", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, UpstreamError{Code: 422, Message: `[{"loc":["body"],"msg":"field required"}]`}},
		{"Google", 429, `[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}]`, UpstreamError{Code: 429, Reason: "RESOURCE_EXHAUSTED", Message: "Quota"}},
		{"OpenRouter", 403, `{"error":{"code":403,"message":"Provider returned error","metadata":{"raw":"flagged","reasons":["violence"],"provider_name":"X"}}}`,
			UpstreamError{Code: 403, Message: "Provider returned error", Raw: "flagged", Moderation: true}},
		{"plain text", 503, "Loading model\r\n", UpstreamError{Code: 503, Message: "Loading model"}},
		{"HTML with a title", 502, "<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1></body></html>", UpstreamError{Code: 502, Message: "502 Bad Gateway"}},
		{"HTML without", 500, "<h1>Oops</h1><p>try later</p>", UpstreamError{Code: 500, Message: "Oops try later"}},
		{"empty", 500, "", UpstreamError{Code: 500, Message: "Internal Server Error"}},
		{"cut JSON", 500, `{"error":{"message":"half`, UpstreamError{Code: 500, Message: `{"error":{"message":"half`}},
		{"absurd code", 500, `{"error":{"message":"x","code":7}}`, UpstreamError{Code: 500, Message: "x"}},
		{"secrets and addresses", 401, `{"error":{"message":"Incorrect API key sk-proj-abcdefghijklmnop1234, see https://platform.example.com/keys or http://10.1.2.3:8000/v1\u0000\nat http://gpu-7:80 Bearer abcdefghijk"}}`,
			UpstreamError{Code: 401, Message: "Incorrect API key [redacted], see https://platform.example.com/keys or [address] at [address] Bearer [redacted]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(&tt.want, ReadError(tt.status, []byte(tt.body))); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("a message is bounded", func(t *testing.T) {
		e := ReadError(500, []byte(`{"error":"`+strings.Repeat("한", 100_000)+`"}`))
		if len(e.Message) > maxMessageBytes || !strings.HasSuffix(e.Message, "한…") {
			t.Error(len(e.Message))
		}
	})
}
