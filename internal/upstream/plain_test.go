package upstream

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

func refusal(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// plainCall is a call that can do without stream_options. made counts how often it had to.
func plainCall(e *hearth.Endpoint, made *int) *Call {
	return &Call{Endpoint: e, Stream: true, Plain: func() ([]byte, func(), bool) { *made++; return []byte(`{"plain":1}`), nil, true }}
}

func TestStreamOptionsRefused(t *testing.T) {
	stream := chunked + part(word("one")+finish+done) + lastPart
	const openAI = `{"error":{"message":"Unrecognized request argument supplied: stream_options","code":null}}`
	for _, c := range []struct {
		name     string
		first    string // answer
		second   string
		want     string
		requests int
		remember bool
	}{
		{"by an argument's name", refusal(400, openAI), stream, "served one", 2, true},
		{"by include_usage", refusal(400, `{"error":"include_usage is not supported"}`), stream, "served one", 2, true},
		{"in the param", refusal(400, `{"error":{"message":"unknown field","param":"stream_options.include_usage"}}`), stream, "served one", 2, true},
		{"in what lies behind", refusal(400, `{"error":{"message":"Provider returned error","metadata":{"raw":"stream_options: extra inputs"}}}`), stream, "served one", 2, true},
		{"counts on the way", refusal(400, `{"error":{"message":"Unknown parameter: continuous_usage_stats"}}`), stream, "served one", 2, true},
		{"timings on the way", refusal(400, `{"error":{"message":"unexpected field","param":"timings_per_token"}}`), stream, "served one", 2, true},
		{"422 of a validator", refusal(422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`), stream, "served one", 2, true},
		{"and then an answer in JSON", refusal(400, openAI), answers("application/json", `{"choices":[{"message":{"content":"one"}}]}`), "served one", 2, true},
		{"and then another fault", refusal(400, openAI), refusal(400, `{"error":"no such tool"}`), "next: provider answered 400 Bad Request: no such tool", 2, false},
		{"and then once more", refusal(400, openAI), refusal(400, openAI), "next: provider answered 400 Bad Request: Unrecognized request argument supplied: stream_options", 2, false},
		{"and then a fault of the endpoint", refusal(400, openAI), refusal(500, ""), "next: provider answered 500 Internal Server Error: Internal Server Error", 2, false},
		{"another 400", refusal(400, `{"error":"bad"}`), stream, "next: provider answered 400 Bad Request: bad", 1, false},
		{"a 500 that speaks of them", refusal(500, openAI), stream, "next: provider answered 500 Internal Server Error: Unrecognized request argument supplied: stream_options", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, func(conn net.Conn, n int) {
				_, _ = io.WriteString(conn, map[bool]string{true: c.first, false: c.second}[n == 1])
			})
			client, e := endpoint(t, p.url())
			made := 0
			r := attempt(t.Context(), client, plainCall(e, &made))
			if got := r.String(); got != c.want || len(p.requests) != c.requests || made != c.requests-1 {
				t.Errorf("got %s after %d requests, want %s after %d", got, len(p.requests), c.want, c.requests)
			}
			if c.requests == 2 && !strings.HasSuffix(p.requests[1], "\r\n\r\n"+`{"plain":1}`) {
				t.Errorf("sent %q", p.requests[1])
			}
			if got := client.PlainOnly(e.Index); got != c.remember {
				t.Errorf("PlainOnly = %v", got)
			}
		})
	}
	t.Run("a body that cannot do without", func(t *testing.T) {
		p := listen(t, says(refusal(400, openAI), false))
		client, e := endpoint(t, p.url())
		if r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true}); r.end != "next" || len(p.requests) != 1 {
			t.Errorf("got %v after %d requests", r, len(p.requests))
		}
	})
	t.Run("no memory for another body", func(t *testing.T) {
		p := listen(t, says(refusal(400, openAI), false))
		client, e := endpoint(t, p.url())
		r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true, Plain: func() ([]byte, func(), bool) { return nil, nil, false }})
		if r.String() != "next: no memory is left for the body of this request" || !r.failure.Overloaded || r.failure.Blame != hearth.BlameNobody || len(p.requests) != 1 {
			t.Errorf("got %v, %+v after %d requests", r, r.failure, len(p.requests))
		}
	})
	t.Run("each body comes back, once", func(t *testing.T) {
		p := listen(t, func(conn net.Conn, n int) {
			_, _ = io.WriteString(conn, map[bool]string{true: refusal(400, openAI), false: stream}[n == 1])
		})
		client, e := endpoint(t, p.url())
		made, back := 0, make(chan struct{}, 4)
		call := plainCall(e, &made)
		second := make(chan struct{}, 4)
		call.Done = func() { back <- struct{}{} }
		call.Plain = func() ([]byte, func(), bool) { return []byte("{}"), func() { second <- struct{}{} }, true }
		attempt(t.Context(), client, call)
		client.Close()
		<-back
		<-second
		if len(back) != 0 || len(second) != 0 {
			t.Error("a body came back more than once")
		}
	})
}

// The second try has what is left of the limit, not another one.
func TestStreamOptionsRefused_InTime(t *testing.T) {
	const openAI = `{"error":"stream_options?"}`
	for _, c := range []struct {
		name  string
		delay time.Duration // of the refusal
		at    time.Duration // when the attempt is over
	}{{"at once", 0, 5 * s}, {"late", 4 * s, 5 * s}, {"at the last moment", 5*s - 1, 5 * s}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bubble{start: time.Now(), closed: make(chan time.Duration, 10)}
				client, e := endpoint(t, "http://upstream", limits(5*s, 0, time.Minute, 0))
				requests := 0
				dialled(client, e, b.dial(func(n int) []line {
					if requests = n; n == 1 {
						return []line{{c.delay, "HTTP/1.1 400 x\r\nConnection: close\r\nContent-Length: " + fmt.Sprint(len(openAI)) + "\r\n\r\n" + openAI}}
					}
					return nil
				}))
				made := 0
				r := attempt(t.Context(), client, plainCall(e, &made))
				if r.String() != "next: no first token within the limit" || time.Since(b.start) != c.at || requests != 2 {
					t.Errorf("got %v after %v and %d requests", r, time.Since(b.start), requests)
				}
				client.Close()
			})
		})
	}
	t.Run("it is forgotten after a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, e := endpoint(t, "http://upstream")
			if client.PlainOnly(e.Index) {
				t.Error("known before anybody asked")
			}
			client.plainFromNowOn(e.Index)
			<-time.After(plainFor - 1)
			if !client.PlainOnly(e.Index) {
				t.Error("forgotten too soon")
			}
			<-time.After(1)
			if client.PlainOnly(e.Index) {
				t.Error("never forgotten")
			}
		})
	})
}

// A call that is never sent gives its body back all the same.
func TestBodyComesBack_NothingWasSent(t *testing.T) {
	client, e := engineAt(t, "http://127.0.0.1:1")
	back := 0
	call := &Call{Endpoint: e, EngineURL: "http://\x7f", Done: func() { back++ }, Stamp: &dialect.Stamp{}}
	if _, f, _ := client.Open(t.Context(), call); f == nil || back != 1 {
		t.Errorf("%+v, came back %d times", f, back)
	}
}
