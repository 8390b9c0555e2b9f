package upstream

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// Whatever an answer is called, it is read for what it is.
func TestWrongContentType(t *testing.T) {
	const whole = `{"id":"up-1","choices":[{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	sse := role + word("one ") + word("two") + finish + usage + done
	for _, as := range []string{"text/event-stream", "application/json", "application/json; charset=utf-8", "text/plain", "text/html", "application/octet-stream", "application/x-ndjson", "nonsense", ""} {
		for _, c := range []struct {
			name   string
			stream bool
			body   string
			want   string
		}{
			{"SSE for a stream", true, sse, "served one two"},
			{"SSE behind blanks for a stream", true, "\r\n \n\n" + sse, "served one two"},
			{"SSE behind a byte order mark", true, "\xef\xbb\xbf" + sse, "served one two"},
			{"JSON for a stream", true, whole, "served one two"},
			{"JSON behind blanks for a stream", true, strings.Repeat("\n ", 5000) + whole + "\n", "served one two"},
			{"JSON behind a byte order mark", true, "\xef\xbb\xbf" + whole, "served one two"},
			{"error for a stream", true, `{"error":{"code":503,"message":"no capacity"}}`, "next: provider answered with an error: no capacity"},
			{"list of one error for a stream", true, `[{"error":{"code":503,"message":"no capacity"}}]`, "next: provider answered without a JSON answer"},
			{"page for a stream", true, "<!doctype html><title>Sign in</title>", "next: provider answered with a page where a stream was asked for"},
			{"text for a stream", true, "sorry", "next: the stream ended before its first token"},
			{"blanks for a stream", true, " \n\n ", "next: the stream ended before its first token"},
			{"half of a JSON for a stream", true, whole[:80], "next: provider answered without a JSON answer"},
			{"two JSON texts for a stream", true, whole + "\n" + whole, "next: provider answered without a JSON answer"},
			{"JSON without choices for a stream", true, `{"id":"x"}`, "next: provider answered without an answer"},
			{"JSON of an empty choice for a stream", true, `{"choices":[{"message":{"content":""},"finish_reason":"error"}]}`, "next: provider answered with an error: the upstream ended its answer with an error"},
			{"older vLLM's error for a stream", true, `{"object":"error","message":"no capacity","code":503}`, "next: provider answered with an error: no capacity"},
			{"JSON", false, whole, "answer one two"},
			{"SSE", false, sse, "next: provider answered without a JSON answer"},
			{"page", false, "<!doctype html>", "next: provider answered without a JSON answer"},
		} {
			t.Run(as+"/"+c.name, func(t *testing.T) {
				head := "HTTP/1.1 200 OK\r\n"
				if as != "" {
					head += "Content-Type: " + as + "\r\n"
				}
				p := listen(t, says(fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(c.body), c.body), false))
				client, e := endpoint(t, p.url())
				r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: c.stream})
				if got := r.String(); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if r.stream != nil && (!r.stream.Usage.Reported || r.stream.Finish != "stop" || r.stream.UpstreamID != "up-1" || r.stream.FirstAt.IsZero()) {
					t.Errorf("facts: %+v", r.stream)
				}
			})
		}
	}
}

// A whole answer that is passed on as a stream is one event, larger than any buffer or not.
func TestAnswerAsStream(t *testing.T) {
	text := strings.Repeat("01234567", 1<<18)
	body := fmt.Sprintf(`{"choices":[{"message":{"content":%q}}]}`, text)
	for _, c := range []struct{ name, body, want string }{
		{"without a finish reason", `{"choices":[{"message":{"content":"one"}}]}`, "one"},
		{"of 2 MiB", body, text},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(answers("application/json", c.body), false))
			client, e := endpoint(t, p.url())
			s := commit(t, client, &Call{Endpoint: e, Stream: true})
			if held := client.answers.held.Load(); held < int64(len(c.body)) {
				t.Errorf("%d bytes are held of the memory for answers", held)
			}
			w := httptest.NewRecorder()
			end := s.Copy(w, time.Minute)
			got := w.Body.String()
			if end.Verdict != hearth.Served || readable(w.Body.Bytes()) != c.want || strings.Count(got, "\n\n") != 1 || !strings.HasPrefix(got, `data: {"id":"gen-1","object":"chat.completion.chunk"`) {
				t.Errorf("%+v, %.200q", end, got)
			}
			if held := client.answers.held.Load(); held != 0 {
				t.Errorf("%d bytes did not come back", held)
			}
		})
	}
	t.Run("tool calls", func(t *testing.T) {
		p := listen(t, says(answers("application/json", `{"created":7,"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`), false))
		client, e := endpoint(t, p.url())
		w := httptest.NewRecorder()
		s := commit(t, client, &Call{Endpoint: e, Stream: true})
		end := s.Copy(w, time.Minute)
		want := `data: {"id":"gen-1","object":"chat.completion.chunk","model":"m/m","provider":"Acme","created":7,"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"index":0}]},"index":0,"finish_reason":"tool_calls","native_finish_reason":"tool_calls"}]}` + "\n\n"
		if d := cmp.Diff(want, w.Body.String()); d != "" || end.Verdict != hearth.Served || s.Finish != "tool_calls" {
			t.Errorf("%+v %s\n%s", end, s.Finish, d)
		}
	})
	t.Run("the caller is gone", func(t *testing.T) {
		p := listen(t, says(answers("application/json", body), false))
		client, e := endpoint(t, p.url())
		call := &Call{Endpoint: e, Stream: true, Stamp: &dialect.Stamp{}}
		o, f, err := client.Open(t.Context(), call)
		if err != nil || f != nil {
			t.Fatal(f, err)
		}
		w := &sluggish{ResponseRecorder: httptest.NewRecorder(), err: fmt.Errorf("broken pipe")}
		if end := o.Stream.Copy(w, time.Minute); end.Verdict != hearth.Gone || client.answers.held.Load() != 0 {
			t.Errorf("%+v, %d bytes held", end, client.answers.held.Load())
		}
	})
}
