package app_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestServer_Unauthorised(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	disabled, key, err := w.app.Accounts.Create(t.Context(), hearth.Key{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.app.Accounts.Disable(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, header, says string }{
		{"no header", "", "No API key was sent"},
		{"wrong scheme", "Authorization: Basic dXNlcjpwYXNz", "Bearer"},
		{"no key behind the scheme", "Authorization: Bearer ", "holds no API key"},
		{"unknown key", "Authorization: Bearer sk-myip-unknown", "not known here"},
		{"a key with a character too many", "Authorization: Bearer " + w.user + "x", "not known here"},
		{"disabled key", "Authorization: Bearer " + disabled, "disabled"},
		{"a key of 40 kB", "Authorization: Bearer " + strings.Repeat("k", 40_000), "cannot be an API key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, route := range []string{"POST /api/v1/chat/completions", "POST /v1/chat/completions", "POST /api/v1/chain", "GET /api/v1/generation?id=gen-1"} {
				method, path, _ := strings.Cut(route, " ")
				r := w.call(method, path, ask(gemma, ""), c.header)
				e := r.fault(t)
				if r.status != 401 || e.Error.Type != "unauthorized" || e.Error.Metadata.ErrorType != "authentication" {
					t.Errorf("%s: %d %s", route, r.status, r.body)
				}
				if !strings.Contains(e.Error.Message, c.says) {
					t.Errorf("%s: message %q does not say %q", route, e.Error.Message, c.says)
				}
				if got := r.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
					t.Errorf("%s: WWW-Authenticate = %q", route, got)
				}
				if got := r.header.Get("X-Should-Retry"); got != "false" {
					t.Errorf("%s: X-Should-Retry = %q", route, got)
				}
			}
		})
	}
	if n := w.acme.Seen().Requests + w.beta.Seen().Requests; n != 0 {
		t.Errorf("%d requests without a key reached a provider", n)
	}
}

func TestServer_UnauthorisedBody(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	t.Run("64 MiB with a length are not read", func(t *testing.T) {
		before := w.read.Load()
		conn := dial(t, w)
		fmt.Fprintf(conn, "POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 64<<20)
		answered := make(chan struct{})
		go func() { // sends until the gateway hangs up
			chunk := bytes.Repeat([]byte("x"), 32<<10)
			for range 64 << 20 / len(chunk) {
				if _, err := conn.Write(chunk); err != nil {
					break
				}
			}
			close(answered)
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 401 || !resp.Close {
			t.Errorf("status %d, Connection: close = %v, body %s", resp.StatusCode, resp.Close, body)
		}
		if n := w.read.Load() - before; n > 64<<10 {
			t.Errorf("%d bytes were read", n)
		}
		conn.Close()
		<-answered
	})
	t.Run("an endless chunked body is not read either", func(t *testing.T) {
		before := w.read.Load()
		conn := dial(t, w)
		fmt.Fprint(conn, "POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			chunk := append([]byte("8000\r\n"), bytes.Repeat([]byte("x"), 0x8000)...)
			chunk = append(chunk, "\r\n"...)
			for {
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("status %d", resp.StatusCode)
		}
		<-ended // the gateway hung up
		if n := w.read.Load() - before; n > 300<<10 {
			t.Errorf("%d bytes were read", n)
		}
	})
	t.Run("a caller who asks first is told at once", func(t *testing.T) {
		conn := dial(t, w)
		fmt.Fprintf(conn, "POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "401") {
			t.Errorf("answer %q, %v, want 401 and no 100", line, err)
		}
	})
}

func dial(t *testing.T, w *world) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestServer_GenerationID(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	id := regexp.MustCompile(`^gen-[0-9A-HJKMNP-TV-Z]{26}$`)
	seen := map[string]bool{}
	for _, c := range []struct {
		name, body, key string
		status          int
	}{
		{"an answer", ask(qwen, ""), w.user, 200},
		{"a stream", ask(qwen, `,"stream":true`), w.user, 200},
		{"no key", ask(qwen, ""), "", 401},
		{"a body that is no JSON", "{", w.user, 400},
		{"an unknown model", ask("no/such", ""), w.user, 404},
		{"a slot that cannot start", ask(broken, ""), w.user, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := w.raw(t, "POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer "+c.key+
				fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(c.body))+c.body)
			head, _, _ := strings.Cut(raw, "\r\n\r\n")
			lines := strings.Split(head, "\r\n")
			if !strings.HasPrefix(lines[0], fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
				t.Fatalf("answer %s", raw)
			}
			got := ""
			for _, name := range []string{"X-MyIP-Generation-Id: ", "X-Generation-Id: "} {
				i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name) })
				if i < 0 {
					t.Fatalf("no header %q, spelled so, in\n%s", name, head)
				}
				v := strings.TrimPrefix(lines[i], name)
				if !id.MatchString(v) || got != "" && got != v {
					t.Errorf("%s%s (the other name says %q)", name, v, got)
				}
				got = v
			}
			if seen[got] {
				t.Errorf("id %s came twice", got)
			}
			seen[got] = true
			if c.status == 200 {
				for _, want := range []string{"X-MyIP-Provider: Acme AI", "X-MyIP-Model: " + qwen} {
					if !slices.Contains(lines, want) {
						t.Errorf("no line %q in\n%s", want, head)
					}
				}
			}
		})
	}
}

// raw sends bytes as they are and reads the answer to its end.
func (w *world) raw(t *testing.T, request string) string {
	t.Helper()
	conn := dial(t, w)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServer_Routes(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	t.Run("unknown", func(t *testing.T) {
		for _, path := range []string{"/", "/api/v1", "/api/v1/nothing", "/api/v2/models", "/v1/chat/completions/x", "/api/v1/models/a/b/c/endpoints", "/한글%00%1b"} {
			r := w.call("POST", path, "{}")
			if e := r.fault(t); r.status != 404 || e.Error.Type != "not_found" || !strings.Contains(e.Error.Message, "/api/v1") {
				t.Errorf("POST %s: %d %s", path, r.status, r.body)
			}
		}
	})
	t.Run("wrong method", func(t *testing.T) {
		for _, c := range []struct{ method, path, allow string }{
			{"GET", "/api/v1/chat/completions", "OPTIONS, POST"},
			{"PUT", "/v1/chat/completions", "OPTIONS, POST"},
			{"DELETE", "/api/v1/models", "GET, HEAD, OPTIONS"},
			{"POST", "/api/v1/models/" + gemma + "/endpoints", "GET, HEAD, OPTIONS"},
			{"POST", "/health", "GET, HEAD, OPTIONS"},
			{"PATCH", "/api/v1/generation", "GET, HEAD, OPTIONS"},
		} {
			r := w.call(c.method, c.path, "")
			if e := r.fault(t); r.status != 405 || r.header.Get("Allow") != c.allow || r.header.Get("X-Should-Retry") != "false" || e.Error.Code != 405 {
				t.Errorf("%s %s: %d, Allow %q: %s", c.method, c.path, r.status, r.header.Get("Allow"), r.body)
			}
		}
	})
	t.Run("a base URL with a slash at its end", func(t *testing.T) {
		for _, request := range []string{
			"POST /api/v1//chat/completions HTTP/1.1\r\n", "GET //v1///models HTTP/1.1\r\n", "GET /v1//models/" + url.PathEscape(gemma) + "/endpoints HTTP/1.1\r\n",
		} {
			body := ask(qwen, "")
			raw := w.raw(t, request+"Host: h\r\nConnection: close\r\nAuthorization: Bearer "+w.user+fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(body))+body)
			if !strings.HasPrefix(raw, "HTTP/1.1 200 ") {
				t.Errorf("%s: %s", request, raw)
			}
		}
	})
	t.Run("HEAD", func(t *testing.T) {
		if r := w.call("HEAD", "/health", ""); r.status != 200 || len(r.body) != 0 {
			t.Errorf("%d %q", r.status, r.body)
		}
	})
}

func (w *world) chatAt(path string) reply {
	w.t.Helper()
	return w.call("POST", path, ask(qwen, ""), "Authorization: Bearer "+w.user)
}

func TestServer_CORS(t *testing.T) {
	t.Run("any origin", func(t *testing.T) {
		w := startWorld(t, "")
		r := w.call("OPTIONS", "/api/v1/chat/completions", "", "Origin: https://app.example", "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: authorization,content-type,x-myip-max-wait")
		allowed := strings.Split(strings.ReplaceAll(strings.ToLower(r.header.Get("Access-Control-Allow-Headers")), " ", ""), ",")
		for _, name := range []string{"authorization", "content-type", "http-referer", "x-title", "x-session-id", "x-myip-max-wait"} {
			if !slices.Contains(allowed, name) {
				t.Errorf("a page may not send %s: %v", name, allowed)
			}
		}
		if r.status != 204 || r.header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(r.header.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("preflight: %d %v", r.status, r.header)
		}
		for _, path := range []string{"/api/v1/chat/completions", "/nothing", "/health"} {
			r := w.call("POST", path, "", "Origin: https://app.example")
			if r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Expose-Headers") != "*" {
				t.Errorf("POST %s: %d without the origin: %v", path, r.status, r.header)
			}
		}
		if r := w.chat(ask(qwen, `,"stream":true`), "Origin: https://app.example"); r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("stream: %d %v", r.status, r.header)
		}
	})
	t.Run("one origin", func(t *testing.T) {
		w := startWorld(t, `cors_origins: ["https://app.example"]`)
		preflight := func(origin string) reply {
			return w.call("OPTIONS", "/v1/models", "", "Origin: "+origin, "Access-Control-Request-Method: GET")
		}
		if r := preflight("https://app.example"); r.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(strings.Join(r.header.Values("Vary"), ","), "Origin") {
			t.Errorf("the origin is not let in: %v", r.header)
		}
		for _, origin := range []string{"https://evil.example", "https://app.example.evil.example", "null", "http://app.example"} {
			if r := preflight(origin); r.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s is let in: %v", origin, r.header)
			}
		}
		if r := w.call("GET", "/v1/models", ""); !strings.Contains(strings.Join(r.header.Values("Vary"), ","), "Origin") {
			t.Errorf("a cache would give the answer without an origin to everybody: %v", r.header)
		}
	})
}

func TestServer_Ready(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	if r := w.call("GET", "/health", ""); r.status != 200 || string(r.body) != `{"status":"ok"}` {
		t.Errorf("/health: %d %s", r.status, r.body)
	}
	if r := w.call("GET", "/ready", ""); r.status != 200 || string(r.body) != `{"status":"ready"}` {
		t.Errorf("/ready: %d %s", r.status, r.body)
	}
	w.app.Server.Drain()
	r := w.call("GET", "/ready", "")
	if e := r.fault(t); r.status != 503 || e.Error.Type != "overloaded" || r.header.Get("Retry-After") != "1" {
		t.Errorf("/ready while draining: %d %v %s", r.status, r.header, r.body)
	}
	if r := w.call("GET", "/health", ""); r.status != 200 {
		t.Errorf("/health while draining: %d", r.status)
	}
	if r := w.chatAt("/v1/chat/completions"); r.status != 200 {
		t.Errorf("a request while draining: %d %s", r.status, r.body)
	}
}

// Whoever waits for a slot when the gateway shuts down is refused at once: the slot will not serve them.
func TestShutdown_RefusesWaiters(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	got := make(chan reply, 1)
	go func() { got <- w.chat(ask(exaone, "")) }()
	eventually(t, "the slot starts", func() bool {
		return strings.Contains(string(w.call("GET", "/api/v1/models/"+exaone+"/endpoints", "").body), `"state":"starting"`)
	})
	go w.end()
	r := <-got
	if e := r.fault(t); r.status != 503 || e.Error.Type != "model_loading" || !strings.Contains(e.Error.Message, "shutting down") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
