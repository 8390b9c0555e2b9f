package upstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is an upstream that speaks raw bytes over real sockets.
type peer struct {
	l        net.Listener
	accepted atomic.Int32
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	requests []string // raw headers of each
	closed   chan struct{}
}

// listen starts a peer that answers each request with script. What script leaves open stays open until the test's end.
func listen(t *testing.T, script func(c net.Conn, n int)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{l: l, closed: make(chan struct{}, 100)}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.wg.Go(func() { p.talk(c, script) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *peer) talk(c net.Conn, script func(net.Conn, int)) {
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			select {
			case p.closed <- struct{}{}:
			default: // nobody counts so many
			}
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		p.mu.Lock()
		p.requests = append(p.requests, raw.String())
		n := len(p.requests)
		p.mu.Unlock()
		raw.Reset()
		script(c, n)
	}
}

func (p *peer) url() string { return "http://" + p.l.Addr().String() }

// greets listens and answers whatever comes first with raw bytes, and then ends. It returns its address.
func greets(t *testing.T, raw string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, raw)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// says is a script: the bytes, and then the end of the connection or not.
func says(raw string, closes bool) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, raw)
		if closes {
			c.Close()
		}
	}
}

// resets is a script that sends the bytes and then a RST instead of an orderly end.
func resets(raw string) func(net.Conn, int) {
	return func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, raw)
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

const (
	head     = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	chunked  = head + "Transfer-Encoding: chunked\r\n\r\n"
	untilEOF = head + "Connection: close\r\n\r\n"
	lastPart = "0\r\n\r\n"
)

// answers is a whole answer of a type.
func answers(contentType, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
}

// part is one part of a chunked body.
func part(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// event is one event, framed.
func event(data string) string { return "data: " + data + "\n\n" }

func word(w string) string {
	return event(fmt.Sprintf(`{"id":"up-1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, w))
}

var (
	role   = event(`{"id":"up-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	finish = event(`{"id":"up-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	usage  = event(`{"id":"up-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	done   = event(`[DONE]`)
	oops   = event(`{"error":{"code":503,"message":"no capacity"}}`)
)

// endpoint makes a client for one external endpoint, at an upstream under base.
func endpoint(t testing.TB, base string, edit ...func(*hearth.Provider)) (*Client, *hearth.Endpoint) {
	t.Helper()
	p := &hearth.Provider{
		Slug: "acme", Name: "Acme", Kind: hearth.External, BaseURL: base, APIKey: "9f8e7d6c-5b4a-key", Currency: "KRW",
		Limits: hearth.Limits{Connect: 5 * time.Second, FirstByte: time.Minute, Answer: time.Minute, Idle: time.Minute, Total: time.Hour},
	}
	for _, f := range edit {
		f(p)
	}
	e := &hearth.Endpoint{Model: &hearth.Model{ID: "m/m"}, Provider: p, Tag: "acme", UpstreamModel: "m"}
	return clientOf(t, e), e
}

// engineAt makes a client for one local endpoint.
func engineAt(t testing.TB, url string) (*Client, *hearth.Endpoint) {
	t.Helper()
	m := &hearth.Model{ID: "m/m"}
	e := &hearth.Endpoint{
		Model: m, Tag: "local-gpu/n", Slot: &hearth.Slot{Name: "s", Node: &hearth.Node{Name: "n"}, Model: m, URL: url},
		Provider: &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW", Limits: hearth.Limits{Connect: time.Second, FirstByte: time.Minute, Answer: time.Minute, Idle: time.Minute}},
	}
	return clientOf(t, e), e
}

func clientOf(t testing.TB, e *hearth.Endpoint) *Client {
	t.Helper()
	return clientWith(t, Options{Agent: "hearth/test"}, e)
}

func clientWith(t testing.TB, o Options, e *hearth.Endpoint) *Client {
	t.Helper()
	cat := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{e.Model}, Providers: []*hearth.Provider{e.Provider}, Endpoints: []*hearth.Endpoint{e}}
	if e.Slot != nil {
		cat.Nodes, cat.Slots = []*hearth.Node{e.Slot.Node}, []*hearth.Slot{e.Slot}
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	c, err := New(cat, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// result is what became of an attempt.
type result struct {
	end     string // "next", "cut", "answer", "served", "broken" or "gone"
	failure *Failure
	text    string // what the caller got to read
	stream  *Stream
	opened  *Opened
	err     error
}

func (r *result) String() string {
	s := r.end
	if r.text != "" {
		s += " " + r.text
	}
	if r.failure != nil {
		s += ": " + r.failure.Message
		if r.failure.Raw != "" {
			s += ": " + r.failure.Raw
		}
	}
	return s
}

// attempt makes one attempt to its end, for a caller who reads everything. There must be no other one meanwhile: the
// memory for answers is looked at.
func attempt(ctx context.Context, c *Client, call *Call) *result {
	r := amongOthers(ctx, c, call)
	if held := c.answers.held.Load(); held != 0 {
		panic(fmt.Sprintf("%d bytes of the memory for answers did not come back", held))
	}
	return r
}

// amongOthers is attempt where several are made at once.
func amongOthers(ctx context.Context, c *Client, call *Call) *result {
	call.Stamp, call.Body = &dialect.Stamp{ID: "gen-1", Model: "m/m", Provider: "Acme"}, []byte(`{"model":"m"}`)
	o, f, err := c.Open(ctx, call)
	r := &result{opened: o, failure: f, err: err}
	switch {
	case err != nil:
		r.end = "gone"
	case f != nil:
		r.end = "next"
	case o.Cut != nil:
		r.end, r.failure = "cut", o.Cut
	case o.Answer != nil:
		r.end = "answer"
		r.text = readable(o.Answer.Append(nil, call.Stamp, hearth.Bill{}))
		o.Free()
	default:
		w := httptest.NewRecorder()
		end := o.Stream.Copy(w, time.Minute)
		r.end, r.failure, r.stream, r.text, r.err = end.Verdict.String(), end.Failure, o.Stream, readable(w.Body.Bytes()), end.Err
	}
	return r
}

func readable(b []byte) string {
	var s strings.Builder
	for {
		_, rest, ok := bytes.Cut(b, []byte(`"content":"`))
		text, rest, whole := bytes.Cut(rest, []byte(`"`))
		if !ok || !whole {
			return s.String()
		}
		s.Write(text)
		b = rest
	}
}
