package upstream

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// There are upstreams that put a whole answer into an event of a stream, behind pieces of it or in their place.
func TestWholeAnswerInAnEvent(t *testing.T) {
	const head = `{"id":"up-1","object":"chat.completion","choices":[`
	one := event(head + `{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}]}`)
	for _, c := range []struct{ name, body, want, finish string }{
		{"in place of pieces", one + usage + done, "served one two", "stop"},
		{"behind a role", role + one + done, "served one two", "stop"},
		{"without an end", one, "served one two", "stop"},
		{"without a finish reason", event(head+`{"message":{"content":"one"}}]}`) + done, "served one", "stop"},
		{"behind the pieces", role + word("one ") + word("two") + one + done, "served one two", "stop"},
		{"a choice in each", one + event(head+`{"index":1,"message":{"content":" three"},"finish_reason":"stop"}]}`) + done, "served one two three", "stop"},
		{"beside a delta", event(head+`{"delta":{"content":"one"},"message":{"content":"two"}}]}`) + finish + done, "served one", "stop"},
		{"a call of a tool", event(head+`{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]},"finish_reason":"stop"}]}`) + done, "served", "tool_calls"},
		{"of nothing", event(head+`{"message":{"content":""}}]}`) + done, "next: the stream ended before its first token", ""},
		{"of an error", event(head + `{"message":{"content":"one"}}],"error":{"code":503,"message":"no capacity"}}`), "next: provider answered with an error: no capacity", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(chunked+part(c.body)+lastPart, false))
			client, e := endpoint(t, p.url())
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
			if got := r.String(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if r.stream != nil && c.finish == "stop" && r.stream.Finish != c.finish {
				t.Errorf("finish reason %q", r.stream.Finish)
			}
		})
	}
	t.Run("once in the caller's stream", func(t *testing.T) {
		p := listen(t, says(chunked+part(one+done)+lastPart, false))
		client, e := endpoint(t, p.url())
		w := httptest.NewRecorder()
		end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, time.Minute)
		got := w.Body.String()
		if end.Verdict != hearth.Served || strings.Count(got, `"delta":{"role":"assistant","content":"one two"}`) != 1 || strings.Contains(got, `"message"`) || strings.Count(got, "data: ") != 1 {
			t.Errorf("%+v %s", end, got)
		}
	})
}
