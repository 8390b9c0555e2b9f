package dialect

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

func TestAppendChunk_toolCalls(t *testing.T) {
	calls := func(s *Stamp, deltas ...string) string {
		var b strings.Builder
		for _, d := range deltas {
			got, _, err := s.AppendChunk(nil, []byte(`{"created":1,"choices":[{"index":0,"delta":{"tool_calls":[`+d+`]}}]}`))
			if err != nil {
				return err.Error()
			}
			_, rest, _ := strings.Cut(string(got), `"tool_calls":[`)
			rest, _, _ = strings.Cut(rest, `]`)
			b.WriteString(rest + ";")
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, want string
		in         []string
	}{
		{"as they should be", `{"id":"a","index":0,"type":"function"};{"x":1,"index":0};{"id":"b","index":1,"type":"function"};{"x":2,"index":1};{"x":3,"index":0};`,
			[]string{`{"index":0,"id":"a"}`, `{"index":0,"x":1}`, `{"index":1,"id":"b"}`, `{"index":1,"x":2}`, `{"index":0,"x":3}`}},
		{"always 0", `{"id":"a","index":0,"type":"function"};{"id":"b","index":1,"type":"function"};{"x":1,"index":1};`, []string{`{"index":0,"id":"a"}`, `{"index":0,"id":"b"}`, `{"index":0,"x":1}`}},
		{"no number at all", `{"id":"a","index":0,"type":"function"},{"id":"b","index":1,"type":"function"};{"x":1,"index":1};`, []string{`{"id":"a"},{"id":"b"}`, `{"x":1}`}},
		{"id in every delta", `{"id":"a","index":0,"type":"function"};{"id":"a","index":0};{"id":"b","index":1,"type":"function"};`, []string{`{"id":"a"}`, `{"id":"a"}`, `{"id":"b"}`}},
		{"null in the place of what was said before (SGLang)", `{"id":"a","type":"function","function":{"name":"f","arguments":""},"index":0};{"function":{"arguments":"{"},"index":0};`,
			[]string{`{"id":"a","index":0,"type":"function","function":{"name":"f","arguments":""}}`, `{"id":null,"index":0,"type":null,"function":{"name":null,"arguments":"{"}}`}},
		{"no type (Mistral)", `{"id":"a","function":{"name":"f","arguments":"{}"},"index":0,"type":"function"};`, []string{`{"id":"a","function":{"name":"f","arguments":"{}"},"index":0}`}},
		{"an id that is a number", `{"id":"7","index":0,"type":"function"};{"id":"7","index":0};`, []string{`{"id":7}`, `{"id":7}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := calls(stamp(), tt.in...); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	t.Run("a stop after tool calls is tool_calls", func(t *testing.T) {
		s := stamp()
		calls(s, `{"id":"a"}`)
		_, c, _ := s.AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
		if c.Finish != "tool_calls" || c.Native != "stop" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("a call without an id gets one", func(t *testing.T) {
		const id = `"id":"call_[A-Z2-7]{26}"`
		got := calls(stamp(), `{"index":0,"id":"","function":{"name":"f"}}`, `{"index":0,"function":{"arguments":"{}"}}`, `{"index":1,"function":{"name":"g"}}`)
		want := `^\{"function":\{"name":"f"\},"index":0,` + id + `,"type":"function"\};\{"function":\{"arguments":"\{\}"\},"index":0\};\{"function":\{"name":"g"\},"index":1,` + id + `,"type":"function"\};$`
		if !regexp.MustCompile(want).MatchString(got) {
			t.Error(got)
		}
		a, err := ReadAnswer([]byte(`{"choices":[{"message":{"tool_calls":[{"function":{"name":"f"}}]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		want = `"tool_calls":\[\{"function":\{"name":"f","arguments":"\{\}"\},` + id + `,"type":"function"\}\]`
		if got := string(a.Append(nil, stamp(), hearth.Bill{})); !regexp.MustCompile(want).MatchString(got) {
			t.Error(got)
		}
	})
	t.Run("a stream that ends without one is tool_calls", func(t *testing.T) {
		s := stamp()
		calls(s, `{"id":"a"}`)
		if got := string(s.AppendFinal(nil, "stop", "", hearth.Usage{}, hearth.Bill{})); !strings.Contains(got, `"finish_reason":"tool_calls","native_finish_reason":null`) {
			t.Error(got)
		}
	})
}

// TestAppendChunk_noArguments: "" is no JSON, so the end of the stream makes an empty object of it.
func TestAppendChunk_noArguments(t *testing.T) {
	const none = `{"id":"a","index":0,"type":"function","function":{"name":"f","arguments":""}}`
	for _, tt := range []struct{ name, begin, end, want string }{
		{"in an empty delta", none, `{"index":0,"delta":{},"finish_reason":"stop"}`, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"`},
		{"before the delta is read", none, `{"finish_reason":"tool_calls","delta":{"content":""},"index":0}`, `"delta":{"content":"","tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"index":0,"finish_reason":"tool_calls"`},
		{"without a delta", none, `{"index":0,"finish_reason":"tool_calls"}`, `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"`},
		{"into the list of the last delta", none, `{"index":0,"delta":{"tool_calls":[{"id":"b","index":1,"type":"function","function":{"name":"g"}}]},"finish_reason":"tool_calls"}`,
			`"delta":{"tool_calls":[{"id":"b","type":"function","function":{"name":"g"},"index":1},{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"`},
		{"not for what has arguments", `{"id":"a","index":0,"function":{"name":"f","arguments":"{"}},{"index":0,"function":{"arguments":""}}`, `{"index":0,"delta":{},"finish_reason":"tool_calls"}`, `"delta":{},"finish_reason":"tool_calls"`},
		{"not for what was cut off", none, `{"index":0,"delta":{},"finish_reason":"length"}`, `"delta":{},"finish_reason":"length"`},
		{"not for another choice", none, `{"index":1,"delta":{},"finish_reason":"tool_calls"}`, `"delta":{},"finish_reason":"tool_calls"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stamp()
			_, _, err := s.AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[`+tt.begin+`]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := s.AppendChunk([]byte("pre"), []byte(`{"choices":[`+tt.end+`]}`))
			if err != nil || !strings.Contains(string(got), tt.want) || !jsontext.Value(got[3:]).IsValid() {
				t.Errorf("%v\n got %s\nwant %s", err, got, tt.want)
			}
			again, _, _ := s.AppendChunk(nil, []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
			if n := strings.Count(string(got)+string(again), `{"index":0,"function":{"arguments":"{}"}}`); n > 1 {
				t.Errorf("filled in %d times", n)
			}
		})
	}
}
