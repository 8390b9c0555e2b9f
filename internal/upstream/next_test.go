package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

const oneAnswer = `{"choices":[{"message":{"content":"one"},"finish_reason":"stop"}]}`

// follow makes the client of a catalog with the endpoint changed, and the changed endpoint.
func follow(t *testing.T, c *Client, e *hearth.Endpoint, o Options, change func(*hearth.Endpoint)) (*Client, *hearth.Endpoint) {
	t.Helper()
	p, n := *e.Provider, *e
	n.Provider = &p
	if e.Slot != nil {
		s := *e.Slot
		n.Slot = &s
	}
	change(&n)
	cat := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{n.Model}, Providers: []*hearth.Provider{n.Provider}, Endpoints: []*hearth.Endpoint{&n}}
	if n.Slot != nil {
		cat.Slots = []*hearth.Slot{n.Slot}
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	next, err := c.Next(cat, o, cat.From(&hearth.Catalog{Endpoints: []*hearth.Endpoint{e}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Close)
	return next, &n
}

// ended waits until so many connections were closed by us.
func (p *peer) ended(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-p.closed:
		case <-time.After(30 * time.Second):
			t.Fatal("a connection is still open")
		}
	}
}

func (p *peer) stillOpen(t *testing.T) {
	t.Helper()
	select {
	case <-p.closed:
		t.Error("a connection was closed")
	default:
	}
}

func TestClient_Next(t *testing.T) {
	ctx := context.Background()
	t.Run("connections to the same address are kept, for another key too", func(t *testing.T) {
		p := listen(t, says(answers("application/json", oneAnswer), false))
		c, e := endpoint(t, p.url())
		attempt(ctx, c, &Call{Endpoint: e})
		next, n := follow(t, c, e, c.opt, func(e *hearth.Endpoint) { e.Provider.APIKey, e.Provider.Limits.Idle = "another key", time.Hour })
		c.Retire(next)
		for _, to := range []*Client{next, c} {
			if r := attempt(ctx, to, &Call{Endpoint: n}); r.String() != "answer one" {
				t.Error(r)
			}
		}
		if got := p.accepted.Load(); got != 1 || !strings.Contains(p.requests[1], "Bearer another key") || strings.Contains(p.requests[2], "another key") {
			t.Errorf("%d connections: %q", got, p.requests)
		}
		p.stillOpen(t)
	})
	for name, change := range map[string]func(*hearth.Endpoint){
		"another address":       func(e *hearth.Endpoint) { e.Provider.BaseURL = "http://127.0.0.1:1/v1" },
		"another account":       func(e *hearth.Endpoint) { e.Provider.Slug, e.Tag = "beta", "beta" },
		"another connect limit": func(e *hearth.Endpoint) { e.Provider.Limits.Connect++ },
	} {
		t.Run("idle connections are closed: "+name, func(t *testing.T) {
			p := listen(t, says(answers("application/json", oneAnswer), false))
			c, e := endpoint(t, p.url())
			attempt(ctx, c, &Call{Endpoint: e})
			next, _ := follow(t, c, e, c.opt, change)
			p.stillOpen(t)
			c.Retire(next)
			p.ended(t, 1)
		})
	}
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	for name, say := range map[string][2]string{
		"an answer": {"", answers("application/json", oneAnswer)},
		"a stream": {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(word("one")),
			chunk(finish+done) + "0\r\n\r\n"},
		"an error": {"", "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}"},
	} {
		t.Run("connections in use are closed with their last request: "+name, func(t *testing.T) {
			asked, goOn := make(chan struct{}), make(chan struct{})
			p := listen(t, func(c net.Conn, _ int) {
				_, _ = io.WriteString(c, say[0])
				asked <- struct{}{}
				<-goOn
				_, _ = io.WriteString(c, say[1])
			})
			c, e := endpoint(t, p.url())
			got := make(chan string)
			go func() {
				r := amongOthers(ctx, c, &Call{Endpoint: e, Stream: name == "a stream"})
				got <- r.end
			}()
			<-asked
			for p := range c.pools { // with nothing to close yet
				p.retired.Store(true)
			}
			p.stillOpen(t)
			goOn <- struct{}{}
			if end, want := <-got, map[string]string{"an answer": "answer", "a stream": "served", "an error": "next"}[name]; end != want {
				t.Errorf("the request ended with %q", end)
			}
			p.ended(t, 1)
		})
	}
	t.Run("what was found out is kept where the endpoint is", func(t *testing.T) {
		c, e := endpoint(t, "http://127.0.0.1:1")
		same := func(*hearth.Endpoint) {}
		next, _ := follow(t, c, e, c.opt, same)
		c.plainFromNowOn(0) // by a request that began before
		last, n := follow(t, next, e, c.opt, same)
		other, _ := follow(t, last, n, c.opt, func(e *hearth.Endpoint) { e.UpstreamModel = "other" })
		if !next.PlainOnly(0) || !last.PlainOnly(0) || other.PlainOnly(0) {
			t.Errorf("%v, %v, %v", next.PlainOnly(0), last.PlainOnly(0), other.PlainOnly(0))
		}
	})
	t.Run("the memory of answers counts for both, within the newer bound", func(t *testing.T) {
		c, e := endpoint(t, "http://127.0.0.1:1")
		next, _ := follow(t, c, e, Options{AnswerTotal: 100}, func(*hearth.Endpoint) {})
		c.answers.take(60)
		if next.answers.take(41) || !next.answers.take(40) || c.answers.held.Load() != 100 {
			t.Errorf("%d bytes are held", c.answers.held.Load())
		}
		c.answers.held.Store(0)
	})
	t.Run("connections to engines are kept as long as the same may be reached", func(t *testing.T) {
		c, e := engineAt(t, "http://127.0.0.1:1")
		call := &Call{Endpoint: e, EngineURL: "http://127.0.0.1:1"}
		before, err := c.targetOf(call)
		if err != nil {
			t.Fatal(err)
		}
		same, _ := follow(t, c, e, c.opt, func(e *hearth.Endpoint) { e.Slot.Context = 7 })
		far, _ := follow(t, same, e, c.opt, func(e *hearth.Endpoint) { e.Slot.URL = "http://10.0.0.7:1" })
		if c.Retire(same); before.pool.retired.Load() {
			t.Error("retired although they are kept")
		}
		if after, err := same.targetOf(call); err != nil || after != before {
			t.Errorf("not kept: %v", err)
		}
		if same.Retire(far); !before.pool.retired.Load() || !far.trust.allows(net.IPv4(10, 0, 0, 7)) {
			t.Error("kept although others may be reached")
		}
	})
	t.Run("connections to an engine are closed when another has its place", func(t *testing.T) {
		c, e := engineAt(t, "http://127.0.0.1:1")
		before, err := c.targetOf(&Call{Endpoint: e, EngineURL: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []*Call{{Endpoint: e, EngineURL: "http://127.0.0.1:2"}, {Endpoint: e, EngineURL: "http://127.0.0.1:2", EngineKey: "another key"}} {
			after, err := c.targetOf(call)
			if err != nil || !before.pool.retired.Load() || after.pool.retired.Load() {
				t.Errorf("%v: the former's connections are kept, or the present one's are not", err)
			}
			before = after
		}
	})
}

// Connections that only learn of the end of a request a moment late are closed too.
func TestPool_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		defer theirs.Close()
		p := &pool{Transport: externalTransport(time.Second, func(context.Context, string, string) (net.Conn, error) { return mine, nil })}
		p.retired.Store(true)
		p.left()
		closed := make(chan time.Duration)
		began := time.Now()
		go func() {
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
			_, _ = io.Copy(io.Discard, theirs)
			closed <- time.Since(began)
		}()
		req, err := http.NewRequest(http.MethodGet, "http://acme.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if after := <-closed; after != lateClose {
			t.Errorf("closed after %s", after)
		}
	})
}
