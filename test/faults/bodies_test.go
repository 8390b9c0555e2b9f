package faults

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// badBodies are no chat requests. param is the field that the error names.
func badBodies() []badBody {
	return []badBody{
		{"nothing", "", ""},
		{"not JSON", "model=author/model", ""},
		{"half of the JSON", plainQuestion[:40], ""},
		{"rubbish behind it", plainQuestion + "}", ""},
		{"a list", "[" + plainQuestion + "]", ""},
		{"a comma too many", strings.Replace(plainQuestion, "}]}", "}],}", 1), ""},
		{"the model twice", `{"model":"author/model","model":"author/sister",` + hi + `}`, "model"},
		{"the model twice, in capitals", `{"model":"author/model","MODEL":"author/sister",` + hi + `}`, "MODEL"},
		{"the model twice, escaped", `{"model":"author/model","\u006dodel":"author/sister",` + hi + `}`, "model"},
		{"provider.only twice", `{"provider":{"only":["local-gpu"],"only":["primary"]},` + hi + `}`, "provider.only"},
		{"broken UTF-8 in the model", "{\"model\":\"author/mod\xffel\"," + hi + "}", "model"},
		{"ten thousand models", `{"models":[` + strings.Repeat(`"author/model",`, 9_999) + `"author/model"],` + hi + `}`, "models"},
		{"a model of a megabyte", `{"model":"` + strings.Repeat("m", 1<<20) + `",` + hi + `}`, "model"},
		{"a hundred thousand brackets", `{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `,` + hi + `}`, ""},
		{"a hundred thousand braces", `{"x":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + `,` + hi + `}`, ""},
		{"brackets without end", `{"messages":` + strings.Repeat("[", 1_000_000), "messages[0]"},
		{"brackets in a message", `{"messages":[{"role":"user","content":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}]}`, ""},
		{"a number beyond all numbers", `{"max_tokens":1e999999999,` + hi + `}`, "max_tokens"},
		{"a number of a megabyte", `{"max_tokens":` + strings.Repeat("9", 1<<20) + `,` + hi + `}`, "max_tokens"},
		{"messages as a text", `{"messages":"hi"}`, "messages"},
		{"a web search", `{"plugins":[{"id":"web"}],` + hi + `}`, "plugins[0].id"},
	}
}

type badBody struct{ name, body, param string }

// Whatever the body, the answer is an error in JSON that a program can read, and no upstream hears of it.
func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url()})
	for _, c := range badBodies() {
		t.Run(c.name, func(t *testing.T) {
			a := g.chat(t, c.body)
			got := a.read()
			if a.status != 400 || c.param != "" && string(got.fault.Param) != fmt.Sprintf("%q", c.param) {
				t.Errorf("want 400 for %s, got %d %.500s", c.param, a.status, a.body)
			}
			if len(a.body) > 8<<10 {
				t.Errorf("an error of %d bytes", len(a.body))
			}
			if rec := g.call(t, g.user, "GET", "/api/v1/generation?id="+a.generation(), ""); rec.status != 404 || !strings.Contains(string(rec.body), "not_recorded") {
				t.Errorf("its record: %d %.300s", rec.status, rec.body)
			}
		})
	}
	if n := up.chats.Load(); n != 0 {
		t.Errorf("%d of them reached the upstream", n)
	}
	if a := g.chat(t, question("")); a.read().text != twenty {
		t.Errorf("afterwards: %s", a.body)
	}
}

// Bodies that are on their way hold memory; what is over the budget is refused until some of it is given back.
func TestBodyBudget(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url(), more: "request: {max_body: 1MiB, max_body_total: 2MiB}\n"})
	var held []*wire
	for range 2 {
		w := g.dial(t)
		io.WriteString(w, g.head(g.bearer(), "Content-Length: 1048576", "Expect: 100-continue"))
		if line, err := w.r.ReadString('\n'); !strings.Contains(line, " 100 ") { // its body is wanted: it has its part of the budget
			t.Fatalf("%q %v", line, err)
		}
		held = append(held, w)
	}
	a := g.chat(t, question(""))
	if got := a.read(); got.fault == nil || got.fault.Type != "overloaded" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, w := range held {
		w.Close()
	}
	until(t, "the budget is given back", func() bool { return g.chat(t, question("")).status == 200 })
}

func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url(), more: "request: {max_body: 64KiB}\n"})
	t.Run("with a length", func(t *testing.T) {
		a := g.chat(t, question(`,"x":"`+strings.Repeat("x", 64<<10)+`"`))
		if got := a.read(); a.status != 413 || got.fault.Type != "payload_too_large" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("in pieces that never end", func(t *testing.T) {
		before := g.read.Load()
		w := g.dial(t)
		io.WriteString(w, g.head(g.bearer(), "Transfer-Encoding: chunked"))
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				if _, err := io.WriteString(w, part(longWord)); err != nil {
					return
				}
			}
		}()
		if status, body, _ := w.reply(); status != 413 {
			t.Errorf("%d %s", status, body)
		}
		w.Close()
		<-stopped
		if n := g.read.Load() - before; n > 1<<20 {
			t.Errorf("%d bytes were read", n)
		}
	})
	if n := up.chats.Load(); n != 0 {
		t.Errorf("%d of them reached the upstream", n)
	}
}

// meteredListener counts what the gateway reads from its callers.
type meteredListener struct {
	net.Listener
	n *atomic.Int64
}

func (l meteredListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &meteredConn{c.(*net.TCPConn), l.n}, nil
}

// meteredConn keeps the TCPConn's own methods, which net/http looks for.
type meteredConn struct {
	*net.TCPConn
	n *atomic.Int64
}

func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.n.Add(int64(n))
	return n, err
}
