package dialect

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func stamp() *Stamp { return &Stamp{ID: "gen-1", Model: "a/b", Provider: "Acme", Created: 99} }

const chunkHead = `{"id":"gen-1","object":"chat.completion.chunk","model":"a/b","provider":"Acme"`

func TestAppendChunk(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", `{"id":"up-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`,
			chunkHead + `,"created":5,"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`},
		{"least", `{"choices":[{"delta":{"content":"hi"}}]}`, chunkHead + `,"choices":[{"delta":{"content":"hi"},"index":0,"finish_reason":null}],"created":99}`},
		{"unknown fields and spelling stay", `{"x":1.50,"choices":[{"index":0,"delta":{"content":"\u00e9","y":{"z": 1}},"w":[1, 2]}],"service_tier":null}`,
			chunkHead + `,"x":1.50,"choices":[{"index":0,"delta":{"content":"\u00e9","y":{"z": 1}},"w":[1, 2],"finish_reason":null}],"service_tier":null,"created":99}`},
		{"null fingerprint goes, a real one stays", `{"system_fingerprint":null,"choices":[{"index":0,"delta":{}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"fingerprint stays", `{"system_fingerprint":"fp","choices":[{"index":0,"delta":{}}]}`, chunkHead + `,"system_fingerprint":"fp","choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"provider of the upstream is replaced", `{"provider":"Evil","created":null,"choices":[{"index":0,"delta":{}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"usage is taken out", `{"usage":{"prompt_tokens":1,"completion_tokens":2},"choices":[{"index":0,"delta":{}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"finish", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"stop"}],"created":99}`},
		{"finish in another's words", `{"choices":[{"finish_reason":"MAX_TOKENS","index":0,"delta":{}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":"length","native_finish_reason":"MAX_TOKENS"}],"created":99}`},
		{"native finish is kept", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"end_turn"}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"end_turn"}],"created":99}`},
		{"empty finish is none", `{"choices":[{"index":0,"delta":{},"finish_reason":""}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"role", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"created":99}`},
		{"null role goes", `{"choices":[{"index":0,"delta":{"role":null,"content":"x","tool_calls":null}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"created":99}`},
		{"other role goes", `{"choices":[{"index":0,"delta":{"role":"model"}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"delta null", `{"choices":[{"index":0,"delta":null}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"finish_reason":null}],"created":99}`},
		{"two choices", `{"choices":[{"index":1,"delta":{"content":"b"}},null,{"index":0,"delta":{"content":"a"}}]}`, chunkHead + `,"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null},{"index":0,"delta":{"content":"a"},"finish_reason":null}],"created":99}`},
		{"reasoning gets details", `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}]},"finish_reason":null}],"created":99}`},
		{"content in parts", `{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},{"type":"text","text":"\u0062"}]}}]}`,
			chunkHead + `,"choices":[{"index":0,"delta":{"reasoning":"hm","content":"a\u0062","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}]},"finish_reason":null}],"created":99}`},
		{"logprobs of the older API", `{"choices":[{"index":0,"delta":{},"logprobs":{"token_logprobs":[1]}}]}`, chunkHead + `,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],"created":99}`},
		{"arguments as an object", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":{"a":"b"}}}]}}]}`,
			chunkHead + `,"choices":[{"index":0,"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"b\"}"},"index":0,"type":"function"}]},"finish_reason":null}],"created":99}`},
		{"nulls that strict clients refuse", `{"choices":[{"index":0,"delta":{"content":"x","audio":null,"function_call":null,"reasoning_details":null,"refusal":null,"y":null}}]}`,
			chunkHead + `,"choices":[{"index":0,"delta":{"content":"x","refusal":null,"y":null},"finish_reason":null}],"created":99}`},
		{"details in no more than one place", `{"choices":[{"index":0,"delta":{"reasoning_details":[],"reasoning":"hm"}}]}`,
			chunkHead + `,"choices":[{"index":0,"delta":{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}]},"finish_reason":null}],"created":99}`},
		{"reasoning in no more than one place", `{"choices":[{"index":0,"delta":{"content":[{"thinking":"hm"}],"reasoning":"hm"}}]}`,
			chunkHead + `,"choices":[{"index":0,"delta":{"reasoning":"hm","content":"","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}]},"finish_reason":null}],"created":99}`},
		{"null", `null`, ""},
		{"no choices", `{"choices":[]}`, ""},
		{"choices null", `{"choices":null,"usage":null}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, c, err := stamp().AppendChunk([]byte("pre"), []byte(tt.in))
			if d := cmp.Diff("pre"+tt.want, string(got)); d != "" || err != nil {
				t.Error(err, d)
			}
			if c.Skip != (tt.want == "") {
				t.Errorf("skip %v", c.Skip)
			}
			if tt.want != "" && !jsontext.Value(got[3:]).IsValid(jsontext.AllowDuplicateNames(false)) {
				t.Error("not valid JSON")
			}
		})
	}
}

func TestAppendChunk_facts(t *testing.T) {
	content := func(t *testing.T, delta string) bool {
		_, c, err := stamp().AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":`+delta+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return c.Content
	}
	t.Run("content-bearing or not", func(t *testing.T) {
		for delta, want := range map[string]bool{
			`{}`: false, `{"role":"assistant"}`: false, `{"content":""}`: false, `{"content":null}`: false, `{"tool_calls":[]}`: false,
			`{"content":" "}`: true, `{"reasoning":"x"}`: true, `{"reasoning_content":"x"}`: true, `{"refusal":"no"}`: true,
			`{"reasoning_details":[{}]}`: true, `{"tool_calls":[{"index":0}]}`: true, `{"content":[{"text":"x"}]}`: true, `{"content":[]}`: false,
		} {
			if content(t, delta) != want {
				t.Errorf("%s: %v", delta, !want)
			}
		}
	})
	t.Run("usage, id, finish", func(t *testing.T) {
		_, c, err := stamp().AppendChunk(nil, []byte(`{"id":"up-1","choices":[],"usage":{"prompt_tokens":12.0,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`))
		want := Chunk{Skip: true, UpstreamID: "up-1", Usage: hearth.Usage{PromptTokens: 12, CompletionTokens: 3, CachedTokens: 4, Reported: true}}
		if d := cmp.Diff(want, c); d != "" || err != nil {
			t.Error(err, d)
		}
	})
	t.Run("errors in the stream", func(t *testing.T) {
		for in, want := range map[string]UpstreamError{
			`{"error":{"message":"out of memory","type":"server_error","code":500}}`:         {Code: 500, Type: "server_error", Message: "out of memory"},
			`{"object":"error","message":"no such model","type":"NotFoundError","code":404}`: {Code: 404, Type: "NotFoundError", Message: "no such model"},
			`{"error":"busy"}`: {Code: 502, Message: "busy"},
			`{"error":{"code":429,"message":"slow down"},"choices":[{"index":0,"delta":{"content":"x"}}]}`: {Code: 429, Message: "slow down"},
			`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`:                                 {Code: 502, Message: "the upstream ended its answer with an error"},
			`{"choices":[{"index":0,"delta":{},"error":{"code":503,"message":"gone"}}]}`:                   {Code: 503, Message: "gone"},
		} {
			got, c, err := stamp().AppendChunk(nil, []byte(in))
			if err != nil || c.Err == nil || len(got) != 0 || cmp.Diff(want, *c.Err) != "" {
				t.Errorf("%s: %v %+v %q", in, err, c.Err, got)
			}
		}
	})
	t.Run("malformed", func(t *testing.T) {
		for _, in := range []string{``, ` `, `{`, `{"choices":[{]}`, `{"choices":[{"index":0,"delta":{"content":"x"}}]`, `{"a":1}}`, `{"a":1} x`, `[1]`, `"x"`, `nul`, `{"a":"` + "\n" + `"}`, `{"a":"\x"}`, `{"a":01}`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"choices":[1,]}`, strings.Repeat(`{"a":`, 2000), `{"choices":[` + strings.Repeat(`{},`, 128) + `{}]}`} {
			if got, _, err := stamp().AppendChunk([]byte("pre"), []byte(in)); err == nil || string(got) != "pre" {
				t.Errorf("%.40q: %v %q", in, err, got)
			}
		}
	})
}

func TestAppendFinal(t *testing.T) {
	t.Run("one choice, both finish reasons, usage", func(t *testing.T) {
		bill := hearth.Bill{Cost: 1_500_000, PromptCost: 500_000, CompletionCost: 1_000_000, Currency: "KRW", ListIn: "USD",
			Rate: decimal.RequireFromString("1390.5"), Margin: decimal.RequireFromString("0.1"), Upstream: decimal.RequireFromString("0.0000001")}
		u := hearth.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 4, ReasoningTokens: 2, Reported: true}
		got := string(stamp().AppendFinal(nil, "length", "MAX_TOKENS", u, bill))
		want := chunkHead + `,"created":99,"choices":[{"index":0,"delta":{},"finish_reason":"length","native_finish_reason":"MAX_TOKENS"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,` +
			`"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0,"audio_tokens":0,"video_tokens":0},"completion_tokens_details":{"reasoning_tokens":2,"image_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":null,"rejected_prediction_tokens":null},` +
			`"cost":0.0015,"is_byok":false,"cost_details":{"currency":"KRW","upstream_inference_cost":0.0015,"upstream_inference_prompt_cost":0.0005,"upstream_inference_completions_cost":0.001,"provider_cost":0.0000001,"provider_currency":"USD","exchange_rate":1390.5,"margin":0.1}}}`
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
	t.Run("a price step and a reported price", func(t *testing.T) {
		got := string(stamp().AppendFinal(nil, "stop", "stop", hearth.Usage{}, hearth.Bill{Currency: "KRW", Tariff: `"night"`, Reported: true}))
		if !strings.HasSuffix(got, `,"exchange_rate":1,"margin":0,"tariff":"\"night\"","price_reported":true}}}`) {
			t.Error(got)
		}
	})
	t.Run("all chunks of a stream have one time", func(t *testing.T) {
		s := stamp()
		s.AppendChunk(nil, []byte(`{"created":5,"choices":[{"index":0,"delta":{}}]}`))
		if got := string(s.AppendFinal(nil, "stop", "", hearth.Usage{}, hearth.Bill{})); !strings.Contains(got, `"created":5,`) {
			t.Error(got)
		}
	})
	t.Run("the finish reason is that of the first choice", func(t *testing.T) {
		s := stamp()
		s.AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"eos"}]}`))
		_, c, _ := s.AppendChunk(nil, []byte(`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`))
		if c.Finish != "stop" || c.Native != "eos" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("nothing reported", func(t *testing.T) {
		got := string(stamp().AppendFinal(nil, "", "", hearth.Usage{}, hearth.Bill{Currency: "KRW"}))
		if !strings.Contains(got, `"finish_reason":"stop","native_finish_reason":null`) || !strings.Contains(got, `"total_tokens":0`) || !strings.Contains(got, `"cost":0,`) || !strings.Contains(got, `"exchange_rate":1,"margin":0}`) || !jsontext.Value(got).IsValid() {
			t.Error(got)
		}
	})
}

func BenchmarkAppendChunk(b *testing.B) {
	in := []byte(`{"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1760000000,"model":"gemma-4","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	s := stamp()
	var out []byte
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, _, err = s.AppendChunk(out[:0], in); err != nil {
			b.Fatal(err)
		}
	}
}
