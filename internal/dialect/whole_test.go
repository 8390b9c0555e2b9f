package dialect

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestAppendWhole(t *testing.T) {
	usage := hearth.Usage{PromptTokens: 1, CompletionTokens: 2, Reported: true}
	for _, tt := range []struct {
		name, in, want string
		fact           Chunk
	}{
		{"text", "\xef\xbb\xbf" + `{"id":"u","object":"chat.completion","created":5,"model":"m","system_fingerprint":null,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
			chunkHead + `,"created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":"hi","refusal":null},"logprobs":null,"finish_reason":"stop","native_finish_reason":"stop"}]}`,
			Chunk{Content: true, Size: 2, Finish: "stop", Native: "stop", UpstreamID: "u", Usage: usage}},
		{"tool calls get numbers and arguments", `{"created":5,"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}},{"id":"a","function":{"name":"f","arguments":{"b":1}}}]},"finish_reason":"stop"}]}`,
			chunkHead + `,"created":5,"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"index":0},{"id":"a","function":{"name":"f","arguments":"{\"b\":1}"},"index":1,"type":"function"}]},"index":0,"finish_reason":"tool_calls","native_finish_reason":"stop"}]}`,
			Chunk{Content: true, Size: 181, Finish: "tool_calls", Native: "stop"}},
		{"no finish reason", `{"created":5,"choices":[{"message":{"content":"hi"},"delta":{"content":"again"},"finish_reason":null}]}`,
			chunkHead + `,"created":5,"choices":[{"delta":{"role":"assistant","content":"hi"},"index":0,"finish_reason":"stop","native_finish_reason":null}]}`,
			Chunk{Content: true, Size: 2, Finish: "stop"}},
		{"a delta before the message", `{"created":5,"choices":[{"delta":{"content":"again"},"message":{"content":"hi"},"finish_reason":"stop"}]}`,
			chunkHead + `,"created":5,"choices":[{"delta":{"role":"assistant","content":"hi"},"index":0,"finish_reason":"stop","native_finish_reason":"stop"}]}`,
			Chunk{Content: true, Size: 2, Finish: "stop", Native: "stop"}},
		{"nothing said is no end", `{"created":5,"choices":[{"index":0,"message":{"content":""}}]}`,
			chunkHead + `,"created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":null}]}`, Chunk{}},
		{"an error", `{"error":{"message":"busy","code":"503"}}`, "", Chunk{Skip: true, Err: &UpstreamError{Code: 503, Message: "busy"}}},
		{"no choices", `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, "", Chunk{Skip: true, Usage: usage}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, c, err := stamp().AppendWhole([]byte("pre"), []byte(tt.in))
			if d := cmp.Diff("pre"+tt.want, string(got)); d != "" || err != nil {
				t.Error(err, d)
			}
			if d := cmp.Diff(tt.fact, c); d != "" {
				t.Error(d)
			}
			if tt.want != "" && !jsontext.Value(got[3:]).IsValid() {
				t.Error("not valid JSON")
			}
		})
	}
	t.Run("no JSON object", func(t *testing.T) {
		for _, in := range []string{"", "null", "[]", "<html>", `{"choices":[`} {
			if got, _, err := stamp().AppendWhole([]byte("pre"), []byte(in)); err == nil || string(got) != "pre" {
				t.Errorf("%q accepted: %q", in, got)
			}
		}
	})
	t.Run("the last chunk repeats its finish reason", func(t *testing.T) {
		s := stamp()
		if _, _, err := s.AppendWhole(nil, []byte(`{"created":5,"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}]}}]}`)); err != nil {
			t.Fatal(err)
		}
		if got := string(s.AppendFinal(nil, "", "", hearth.Usage{}, hearth.Bill{})); !strings.Contains(got, `"finish_reason":"tool_calls"`) || !strings.Contains(got, `"created":5`) {
			t.Error(got)
		}
	})
}
