package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"testing"
	"time"

	"myip.co.kr/hearth"
)

// wire is a caller's own connection to the gateway.
type wire struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (g *gateway) dial(t testing.TB) *wire {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &wire{t, c, bufio.NewReader(c)}
}

// head is a request's head, as far as the blank line.
func (g *gateway) head(lines ...string) string {
	return "POST /api/v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

func (g *gateway) bearer() string { return "Authorization: Bearer " + g.user }

// reply reads one answer. A connection that was closed without one is status 0.
func (w *wire) reply() (status int, body string, header http.Header) {
	w.t.Helper()
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Errorf("the answer broke off: %v after %.300q", err, b)
	}
	return resp.StatusCode, string(b), resp.Header
}

const plainQuestion = `{"model":"author/model","messages":[{"role":"user","content":"hi"}]}`

// A request that is not well-formed on the wire is refused, and nothing of it reaches an upstream.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url()})
	n := fmt.Sprintf("Content-Length: %d", len(plainQuestion))
	for name, c := range map[string]struct {
		text   string
		status int // 0 = the connection may also just be closed
	}{
		"no HTTP":                             {"hello\r\n\r\n", 400},
		"a bare CR in a header":               {g.head(g.bearer(), "X-Title: a\rX-Evil: 1", n) + plainQuestion, 400},
		"a NUL in a header":                   {g.head(g.bearer(), "X-Title: a\x00b", n) + plainQuestion, 400},
		"a space before the colon":            {g.head(g.bearer(), "X-Title : a", n) + plainQuestion, 400},
		"a header that is continued":          {g.head(g.bearer(), "X-Title: a", " X-Evil: 1", ":no name", n) + plainQuestion, 400},
		"two lengths":                         {g.head(g.bearer(), n, "Content-Length: 5") + plainQuestion, 400},
		"a length that is no number":          {g.head(g.bearer(), "Content-Length: 5x") + plainQuestion, 400},
		"a negative length":                   {g.head(g.bearer(), "Content-Length: -5") + plainQuestion, 400},
		"an unknown transfer encoding":        {g.head(g.bearer(), "Transfer-Encoding: xchunked") + plainQuestion, 501},
		"a piece with a size that is none":    {g.head(g.bearer(), "Transfer-Encoding: chunked") + "zz\r\n" + plainQuestion + "\r\n0\r\n\r\n", 400},
		"a piece of negative size":            {g.head(g.bearer(), "Transfer-Encoding: chunked") + "-5\r\n" + plainQuestion + "\r\n0\r\n\r\n", 400},
		"a size that overflows":               {g.head(g.bearer(), "Transfer-Encoding: chunked") + "fffffffffffffffff\r\n" + plainQuestion + "\r\n0\r\n\r\n", 400},
		"1 MB of headers":                     {g.head(g.bearer(), "X-Big: "+strings.Repeat("a", 1<<20), n) + plainQuestion, 431},
		"two hosts":                           {g.head(g.bearer(), "Host: other", n) + plainQuestion, 400},
		"a method that is none":               {"GE T /v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n", 400},
		"a path that is none":                 {"GET /v1/models%zz HTTP/1.1\r\nHost: gateway\r\n\r\n", 400},
		"a body without a length":             {g.head(g.bearer()) + plainQuestion, 400},
		"a body that ends before its length":  {g.head(g.bearer(), "Content-Length: 1000") + plainQuestion, 400},
		"a piece that ends before its length": {g.head(g.bearer(), "Transfer-Encoding: chunked") + "ff\r\n" + plainQuestion, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w := g.dial(t)
			io.WriteString(w, c.text)
			_ = w.Conn.(*net.TCPConn).CloseWrite()
			if status, body, _ := w.reply(); status != c.status && status != 0 {
				t.Errorf("want %d, got %d %.500s", c.status, status, body)
			}
		})
	}
	if n := up.chats.Load(); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// Two requests cannot be hidden in one.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url()})
	second := strings.Replace(g.head(g.bearer(), "Content-Length: 66"), "/api/v1/chat", "/v1/chat", 1)
	w := g.dial(t)
	io.WriteString(w, g.head(g.bearer(), "Content-Length: 5", "Transfer-Encoding: chunked")+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(plainQuestion), plainQuestion)+second)
	_ = w.Conn.(*net.TCPConn).CloseWrite()
	_, _, _ = w.reply()
	for _, q := range up.asks() { // net/http lets chunked win; it must then be one whole request
		if !strings.Contains(string(q.body), `"content":"hi"`) {
			t.Errorf("reached the upstream: %s", q.body)
		}
	}
	if n := up.chats.Load(); n > 1 {
		t.Errorf("%d requests of one", n)
	}
}

// What a caller writes into names comes back in errors, headers and records as text, never as a line of its own.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url()})
	const evil = "X-Evil: 1"
	for _, line := range []string{`\r\n`, `\n`, `\r`, `\u2028`, `\u0000`, `\u0085`, `\r\n\r\n`} {
		for name, body := range map[string]string{
			"model":    `{"model":"a/b` + line + evil + `",` + hi + `}`,
			"models":   `{"models":["a/b` + line + evil + `","author/model"],` + hi + `}`,
			"suffix":   `{"models":["author/model:` + line + evil + `","author/model"],` + hi + `}`,
			"provider": `{"provider":{"order":["a` + line + evil + `"]},` + hi + `}`,
			"only":     `{"provider":{"only":["a` + line + evil + `"]},` + hi + `}`,
			"plugin":   `{"plugins":[{"id":"a` + line + evil + `"}],` + hi + `}`,
			"user":     `{"user":"a` + line + evil + `",` + hi + `}`,
			"key":      `{"a` + line + evil + `":1,` + hi + `}`,
			"route":    `{"route":"a` + line + evil + `",` + hi + `}`,
		} {
			t.Run(name+" "+line, func(t *testing.T) {
				w := g.dial(t)
				io.WriteString(w, g.head(g.bearer(), fmt.Sprintf("Content-Length: %d", len(body)), "Connection: close")+body)
				b, err := io.ReadAll(w.r)
				if err != nil {
					t.Fatal(err)
				}
				head, _, _ := strings.Cut(string(b), "\r\n\r\n")
				for l := range strings.Lines(head) {
					if strings.HasPrefix(strings.TrimSpace(l), "X-Evil") || strings.ContainsAny(strings.TrimSuffix(l, "\r\n"), "\r\n\x00") {
						t.Errorf("a line of its own: %q in %q", l, head)
					}
				}
				if strings.HasPrefix(head, "HTTP/1.1 5") {
					t.Errorf("%s", b)
				}
			})
		}
	}
	for _, q := range up.asks() {
		if q.header.Get("X-Evil") != "" {
			t.Errorf("reached the upstream: %v", q.header)
		}
	}
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// Ids in paths and queries are looked up and nothing else.
func TestPathTricks(t *testing.T) {
	t.Parallel()
	g := start(t, setup{primary: "http://127.0.0.1:1"})
	for _, id := range []string{
		"..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e", "..", ".", "%00", "a%00b/c", "%0d%0aX-Evil:%201", "a/b%0d%0aX-Evil:1", "%ff%fe", "%c0%ae%c0%ae/x",
		"'%20OR%201=1--", "%22;drop%20table%20keys", "author%2Fmodel%2f..%2f..", "<script>alert(1)</script>", "author/model/../../keys", "//", "%25252e", strings.Repeat("a", 5000),
		strings.Repeat("%2f", 2000), "author/model;x=1", "author\\model", "~author/model-latest", "@preset/x",
	} {
		for _, path := range []string{"/api/v1/models/" + id + "/endpoints", "/v1/model/" + id, "/api/v1/generation?id=" + id, "/" + id, "/api/v1/" + id} {
			t.Run(fmt.Sprintf("%.60s", path), func(t *testing.T) {
				w := g.dial(t)
				fmt.Fprintf(w, "GET %s HTTP/1.1\r\nHost: gateway\r\n%s\r\nConnection: close\r\n\r\n", strings.ReplaceAll(path, " ", "%20"), g.bearer())
				status, body, header := w.reply()
				if status < 300 || status >= 500 || header.Get("X-Evil") != "" {
					t.Errorf("%d %.300s", status, body)
				}
				if ct := header.Get("Content-Type"); status >= 400 && ct != "application/json" {
					t.Errorf("%s: %.300s", ct, body)
				}
			})
		}
	}
}

// A body that no key stands behind is not read.
func TestHugeBodyWithoutKey(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"with a length":       {"Content-Length: 67108864"},
		"in pieces":           {"Transfer-Encoding: chunked"},
		"under a bad key":     {"Content-Length: 67108864", "Authorization: Bearer sk-myip-0000000000000000"},
		"with an expectation": {"Content-Length: 67108864", "Expect: 100-continue"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, setup{primary: "http://127.0.0.1:1"})
			w := g.dial(t)
			io.WriteString(w, g.head(lines...))
			sent := make(chan int64, 1)
			go func() {
				chunk := []byte(strings.Repeat("a", 32<<10))
				if strings.HasPrefix(lines[0], "Transfer") {
					chunk = []byte(part(string(chunk)))
				}
				var n int64
				for n < 64<<20 {
					m, err := w.Write(chunk)
					n += int64(m)
					if err != nil {
						break
					}
				}
				sent <- n
			}()
			if status, body, _ := w.reply(); status != 401 {
				t.Errorf("%d %s", status, body)
			}
			w.Close()
			<-sent
			if n := g.read.Load(); n > 64<<10+4<<10 { // the headers, and what is read together with them
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// One tenant's record is no other's, and an answer does not tell whether it exists.
func TestTenants(t *testing.T) {
	t.Parallel()
	up := serve(t, well(twenty))
	g := start(t, setup{primary: up.url()})
	other, _, err := g.app.Accounts.Create(t.Context(), hearth.Key{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	a := g.chat(t, question(""))
	_ = a.read()
	theirs := g.call(t, other, "GET", "/api/v1/generation?id="+a.generation(), "")
	none := g.call(t, other, "GET", "/api/v1/generation?id="+strings.Repeat("0", len(a.generation())), "")
	if theirs.status != 404 || none.status != 404 || strings.ReplaceAll(string(theirs.body), a.generation(), "") != strings.ReplaceAll(string(none.body), strings.Repeat("0", len(a.generation())), "") {
		t.Errorf("another key's record: %d %s\nno record: %d %s", theirs.status, theirs.body, none.status, none.body)
	}
	if mine := g.record(t, a); mine.ID != a.generation() {
		t.Errorf("my own: %+v", mine)
	}
	if got := g.call(t, "", "GET", "/api/v1/generation?id="+a.generation(), ""); got.status != 401 {
		t.Errorf("without a key: %d", got.status)
	}
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
