package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestAnswerOnTheWire(t *testing.T) {
	const (
		good  = `{"id":"up-1","choices":[{"index":0,"message":{"role":"assistant","content":"one"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
		empty = "next: provider answered without an answer"
		cut   = "cut: the answer was cut off"
	)
	ofJSON := func(body string) func(net.Conn, int) { return says(answers("application/json", body), false) }
	for _, c := range []struct {
		name   string
		script func(net.Conn, int)
		want   string
	}{
		{"a good answer", ofJSON(good), "answer one"},
		{"in parts", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+part(good[:50])+part(good[50:])+lastPart, false), "answer one"},
		{"until the end of the connection", says("HTTP/1.1 200 OK\r\n\r\n"+good, true), "answer one"},
		{"behind interim answers", says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"+answers("application/json", good), false), "answer one"},
		{"wrong content type", says(answers("text/plain", good), false), "answer one"},
		{"finish reason without content", ofJSON(`{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`), "answer"},
		{"content without finish reason", ofJSON(`{"choices":[{"message":{"content":"one"}}]}`), "answer one"},

		{"empty body", ofJSON(""), "next: provider answered without a JSON answer"},
		{"no content", says("HTTP/1.1 204 No Content\r\n\r\n", false), "next: provider answered without a JSON answer"},
		{"no JSON", ofJSON("<html>"), "next: provider answered without a JSON answer"},
		{"no object", ofJSON("[]"), "next: provider answered without a JSON answer"},
		{"half of the JSON", ofJSON(good[:90]), "next: provider answered without a JSON answer"},
		{"half of the JSON until the end of the connection", says("HTTP/1.1 200 OK\r\n\r\n"+good[:90], true), "next: provider answered without a JSON answer"},
		{"SSE", says(chunked+part(word("one")+finish+done)+lastPart, false), "next: provider answered without a JSON answer"},
		{"compressed", says("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n\x1f\x8b", false), "next: provider answered in a content encoding that was not asked for"},
		{"no choices", ofJSON(`{"id":"x"}`), empty},
		{"choices null", ofJSON(`{"choices":null}`), empty},
		{"choices empty", ofJSON(`{"choices":[]}`), empty},
		{"empty choice", ofJSON(`{"choices":[{}]}`), empty},
		{"error alone", ofJSON(`{"error":{"code":503,"message":"no capacity"}}`), "next: provider answered with an error: no capacity"},
		{"error of the older vLLM", ofJSON(`{"object":"error","message":"no capacity","code":503}`), "next: provider answered with an error: no capacity"},
		{"error beside an empty choice", ofJSON(`{"error":{"code":503,"message":"no capacity"},"choices":[{"message":{"content":""}}]}`), "next: provider answered with an error: no capacity"},
		{"error beside a whole answer", ofJSON(`{"error":{"code":200,"message":"a warning"},"choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}`), "answer one"},
		{"error in a choice", ofJSON(`{"choices":[{"message":{"content":"one"},"finish_reason":"error","error":{"code":503,"message":"no capacity"}}]}`), "next: provider answered with an error: no capacity"},
		{"finish reason error", ofJSON(`{"choices":[{"message":{"content":"one"},"finish_reason":"error"}]}`), "next: provider answered with an error: the upstream ended its answer with an error"},

		{"cut", says("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"+good, true), cut},
		{"cut of a promise of 64 MiB", says("HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n"+good, true), cut},
		{"cut before its first byte", says("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", true), cut},
		{"cut between parts", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+part(good), true), cut},
		{"reset", resets("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + good), cut},
		{"longer than its length, and all of it JSON", says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "+fmt.Sprint(len(good))+"\r\n\r\n"+good+good, true), "answer one"},
		{"longer than its length", says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 90\r\n\r\n"+good, true), "next: provider answered without a JSON answer"},
		{"promise past the limit", says("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{", false), "cut: the answer is larger than 64 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, c.script)
			client, e := endpoint(t, p.url())
			r := attempt(t.Context(), client, &Call{Endpoint: e})
			if got := r.String(); got != c.want {
				t.Fatalf("got %s (%v), want %s", got, r.failure, c.want)
			}
			if r.failure != nil && (r.failure.Blame != hearth.BlameEndpoint || r.failure.TimedOut || r.end == "cut" && r.failure.Status != 200) {
				t.Errorf("failure = %+v", r.failure)
			}
		})
	}
}

func TestFailureOnTheWire(t *testing.T) {
	tests := []struct {
		name    string
		script  func(net.Conn, int)
		want    string
		blame   hearth.Blame
		timeout bool
	}{
		{"closed before headers", says("", true), "next: the connection broke before an answer", hearth.BlameEndpoint, false},
		{"reset before headers", resets(""), "next: connection reset", hearth.BlameEndpoint, false},
		{"reset inside of the headers", resets("HTTP/1.1 200 OK\r\nContent-"), "next: the connection broke before an answer", hearth.BlameEndpoint, false},
		{"no HTTP", says("SSH-2.0-OpenSSH_9.6\r\n", true), "next: provider does not speak HTTP", hearth.BlameEndpoint, false},
		{"a header of 10 MB", says("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 10<<20)+"\r\n\r\n", true), "next: provider sent headers of more than 256 KiB", hearth.BlameEndpoint, false},
		{"headers without end", says("HTTP/1.1 200 OK\r\n"+strings.Repeat("X: y\r\n", 1<<17), true), "next: provider sent headers of more than 256 KiB", hearth.BlameEndpoint, false},
		{"interim answers without end", says(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 1<<15), true), "next: provider sent headers of more than 256 KiB", hearth.BlameEndpoint, false},
		{"redirect", says("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://192.0.2.1/steal\r\nContent-Length: 0\r\n\r\n", false), "next: provider answered 307 Temporary Redirect", hearth.BlameEndpoint, false},
		{"switching protocols, and then nothing", says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", false), "next: provider answered 101 Switching Protocols", hearth.BlameEndpoint, false},
		{"redirect whose text does not come", says("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 99\r\n\r\n", false), "next: provider answered 302 Found", hearth.BlameEndpoint, false},
		{"rate limit", says("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nslow", false), "next: provider answered 429 Too Many Requests: slow", hearth.BlameRateLimit, false},
		{"error that quotes the key", says("HTTP/1.1 500 x\r\nContent-Length: 27\r\n\r\nbad key \"9f8e7d6c-5b4a-key\"", false), "next: provider answered 500 Internal Server Error", hearth.BlameEndpoint, false},
		{"error in an unknown encoding", says("HTTP/1.1 500 x\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n\x1f\x8b", false), "next: provider answered 500 Internal Server Error: Internal Server Error", hearth.BlameEndpoint, false},
		{"error that is cut", says("HTTP/1.1 500 x\r\nContent-Length: 27\r\n\r\noops", true), "next: provider answered 500 Internal Server Error: oops", hearth.BlameEndpoint, false},
		{"error of 10 MB", says(fmt.Sprintf("HTTP/1.1 500 x\r\nContent-Length: %d\r\n\r\n<title>oops</title>%s", 10<<20, strings.Repeat("x", 10<<20)), true), "next: provider answered 500 Internal Server Error: oops", hearth.BlameEndpoint, false},
	}
	for _, c := range tests {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", c.name, stream), func(t *testing.T) {
				p := listen(t, c.script)
				client, e := endpoint(t, p.url())
				r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: stream})
				if got := r.String(); got != c.want || r.failure.Blame != c.blame || r.failure.TimedOut != c.timeout {
					t.Errorf("got %s, %+v; want %s", got, r.failure, c.want)
				}
				if p.accepted.Load() != 1 {
					t.Errorf("%d connections, want 1", p.accepted.Load())
				}
			})
		}
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	plain := greets(t, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	alert := greets(t, "\x15\x03\x01\x00\x02\x02\x28") // handshake failure
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	defer stranger.Close()
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, c := range []struct{ name, url, want string }{
		{"refused", "http://" + closed, "next: connection refused"},
		{"no such name", "http://provider.invalid", "next: the provider's name does not resolve"},
		{"no TLS", "https://" + plain, "next: TLS failure"},
		{"TLS alert", "https://" + alert, "next: TLS failure"},
		{"certificate of a stranger", stranger.URL, "next: TLS failure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, e := endpoint(t, c.url)
			r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
			if got := r.String(); got != c.want || r.failure.Blame != hearth.BlameEndpoint {
				t.Errorf("got %s (%v), want %s", got, r.failure.Err, c.want)
			}
		})
	}
}

func TestErrorBodyIsBounded(t *testing.T) {
	const size = 64 << 20
	stopped := make(chan int64, 1)
	p := listen(t, func(c net.Conn, _ int) {
		n, _ := io.WriteString(c, fmt.Sprintf("HTTP/1.1 500 x\r\nContent-Length: %d\r\n\r\n", size))
		text := bytes.Repeat([]byte("x"), 64<<10)
		sent := int64(n)
		for sent < size {
			n, err := c.Write(text)
			if sent += int64(n); err != nil {
				break
			}
		}
		stopped <- sent
	})
	client, e := endpoint(t, p.url())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := attempt(t.Context(), client, &Call{Endpoint: e})
	runtime.ReadMemStats(&after)
	if r.end != "next" || len(r.failure.Raw) > 1000 {
		t.Errorf("got %.200s", r)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<20 {
		t.Errorf("%d bytes were allocated for an error", grown)
	}
	if sent := <-stopped; sent >= size {
		t.Error("the whole error was read")
	}
}

func TestConnections(t *testing.T) {
	good := answers("application/json", `{"choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}`)
	stream := chunked + part(role+word("one")+finish+usage+done) + lastPart
	for _, c := range []struct {
		name   string
		answer string
		stream bool
		conns  int32
	}{
		{"stream", stream, true, 1},
		{"stream whose end comes later", chunked + part(word("one")+finish+done+": bye\n\n") + part(": bye\n\n") + lastPart, true, 1},
		{"stream without [DONE]", chunked + part(word("one")+finish) + lastPart, true, 1},
		{"answer", good, false, 1},
		{"error", "HTTP/1.1 500 x\r\nContent-Length: 1\r\n\r\nx", true, 1},
		{"stream that does not end after [DONE]", chunked + part(word("one")+finish+done), true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(c.answer, false))
			client, e := endpoint(t, p.url())
			for range 3 {
				if r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: c.stream}); r.end == "broken" {
					t.Fatal(r)
				}
			}
			if got := p.accepted.Load(); got != c.conns {
				t.Errorf("%d connections for 3 attempts, want %d", got, c.conns)
			}
		})
	}
	t.Run("closed by the server while idle", func(t *testing.T) {
		// The server takes the second request on the kept connection and closes without a byte: what a client sees
		// whose request crosses the server's own idle timeout.
		p := listen(t, func(c net.Conn, n int) {
			if n == 2 {
				c.Close()
				return
			}
			_, _ = io.WriteString(c, good)
		})
		client, e := endpoint(t, p.url())
		for i := range 2 {
			if r := attempt(t.Context(), client, &Call{Endpoint: e}); r.String() != "answer one" {
				t.Fatalf("attempt %d: %v (%v)", i, r, r.failure.Err)
			}
		}
		if got := p.accepted.Load(); got != 2 || len(p.requests) != 3 {
			t.Errorf("%d connections, %d requests; want 2 and 3", got, len(p.requests))
		}
		for _, raw := range p.requests {
			if strings.Contains(strings.ToLower(raw), "idempotency") || !strings.HasSuffix(raw, "\r\n\r\n"+`{"model":"m"}`) {
				t.Errorf("sent %q", raw)
			}
		}
	})
	t.Run("a fresh connection that breaks is not tried again", func(t *testing.T) {
		p := listen(t, says("", true))
		client, e := endpoint(t, p.url())
		if r := attempt(t.Context(), client, &Call{Endpoint: e}); r.end != "next" || len(p.requests) != 1 {
			t.Errorf("got %v after %d requests", r, len(p.requests))
		}
	})
}

func TestWhatIsSent(t *testing.T) {
	p := listen(t, says("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", false))
	client, e := endpoint(t, p.url()+"/api/v1", func(p *hearth.Provider) {
		p.Headers = map[string]hearth.Secret{"x-org": "org-12345678", "user-agent": "other/1"}
	})
	attempt(t.Context(), client, &Call{Endpoint: e})
	want := "POST /api/v1/chat/completions HTTP/1.1\r\nHost: " + p.l.Addr().String() + "\r\nUser-Agent: other/1\r\nContent-Length: 13\r\n" +
		"Accept: text/event-stream, application/json\r\nAuthorization: Bearer 9f8e7d6c-5b4a-key\r\nContent-Type: application/json\r\nX-Org: org-12345678\r\n\r\n" + `{"model":"m"}`
	if len(p.requests) != 1 || p.requests[0] != want {
		t.Errorf("sent %q,\nwant %q", p.requests, want)
	}
}

// A caller who leaves during a non-stream body is not an endpoint that broke off.
func TestCallerLeavesOnTheWire(t *testing.T) {
	left := errors.New("left")
	for _, c := range []struct{ name, sent string }{
		{"before headers", ""},
		{"in the body", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"},
		{"in the text of an error", "HTTP/1.1 500 x\r\nContent-Length: 500\r\n\r\n{"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			p := listen(t, func(conn net.Conn, _ int) {
				_, _ = io.WriteString(conn, c.sent)
				cancel(left)
			})
			client, e := endpoint(t, p.url())
			if r := attempt(ctx, client, &Call{Endpoint: e}); !errors.Is(r.err, left) || r.opened != nil || r.failure != nil {
				t.Errorf("got %v, err %v", r, r.err)
			}
			select {
			case <-p.closed:
			case <-time.After(30 * time.Second):
				t.Error("the upstream was not told")
			}
		})
	}
}
