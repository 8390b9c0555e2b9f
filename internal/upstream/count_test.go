package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	simulated "myip.co.kr/hearth/internal/engine"
)

const counted = `{"model":"m","messages":[{"role":"user","content":"안녕? What is 12345 \"x\"\n"}],"tools":[{"type":"function","function":{"name":"f"}}]}`

// counting makes a client for a local endpoint of a kind of engine.
func counting(t *testing.T, kind, url string) (*Client, *Call) {
	c, e := engineAt(t, url)
	e.Slot.Engine = kind
	return c, &Call{Endpoint: e, EngineURL: url, EngineKey: "engine-key", Body: []byte(counted)}
}

// TestCount_engine asks a real engine: its count is what it then charges for.
func TestCount_engine(t *testing.T) {
	e := simulated.New(simulated.Config{Model: "m", APIKey: "engine-key"})
	srv := httptest.NewServer(e)
	defer srv.Close()
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/chat/completions", strings.NewReader(counted))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer engine-key")
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var told struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.UnmarshalRead(resp.Body, &told); err != nil || told.Usage.Prompt < 20 {
		t.Fatal(err, told)
	}
	for _, kind := range []string{"llama-server", "vllm"} {
		for _, base := range []string{srv.URL, srv.URL + "/"} {
			t.Run(kind+" at "+strings.TrimPrefix(base, srv.URL), func(t *testing.T) {
				c, call := counting(t, kind, base)
				done := 0
				call.Done = func() { done++ }
				if n, err := c.Count(t.Context(), call); n != told.Usage.Prompt || err != nil || done != 1 {
					t.Errorf("%d, %v, done %d times; the engine charges %d", n, err, done, told.Usage.Prompt)
				}
			})
		}
	}
	t.Run("the wrong key", func(t *testing.T) {
		c, call := counting(t, "llama-server", srv.URL)
		call.EngineKey = "another-key"
		if n, err := c.Count(t.Context(), call); err == nil || n != 0 || strings.Contains(err.Error(), "another-key") {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("an engine without the routes", func(t *testing.T) {
		if err := e.Set(simulated.EngineControl{Fault: simulated.NoCount}); err != nil {
			t.Fatal(err)
		}
		c, call := counting(t, "vllm", srv.URL)
		if n, err := c.Count(t.Context(), call); err == nil || n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestCount_nobody: what is not an engine of the house, or does not count, is not asked.
func TestCount_nobody(t *testing.T) {
	p := listen(t, says(answers("application/json", `{"count":7}`), false))
	for _, kind := range []string{"", "sglang", "ollama", "lm-studio", "tabbyapi", "nobody-knows"} {
		t.Run("engine "+kind, func(t *testing.T) {
			c, call := counting(t, kind, p.url())
			done := 0
			call.Done = func() { done++ }
			if n, err := c.Count(t.Context(), call); err == nil || n != 0 || done != 1 {
				t.Errorf("%d, %v, done %d times", n, err, done)
			}
		})
	}
	t.Run("external", func(t *testing.T) {
		c, e := endpoint(t, p.url())
		e.Slot = &hearth.Slot{Engine: "vllm"} // the provider's kind decides, whatever else is said
		if n, err := c.Count(t.Context(), &Call{Endpoint: e, EngineURL: p.url(), Body: []byte(counted)}); err == nil || n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("an address outside of the house", func(t *testing.T) {
		c, call := counting(t, "vllm", "http://127.0.0.1:1")
		call.EngineURL = "http://192.0.2.1:9"
		if n, err := c.Count(t.Context(), call); err == nil || n != 0 || !strings.Contains(err.Error(), errNotLocal.Error()) || strings.Contains(err.Error(), "192.0.2.1") {
			t.Errorf("%d, %v", n, err)
		}
	})
	if n := p.accepted.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestCount_hostile: an engine may answer anything.
func TestCount_hostile(t *testing.T) {
	const huge = maxCount + 1<<20
	redirect := "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
	for _, tt := range []struct {
		name, kind, raw string
		want            int // 0 = an error
	}{
		{"a number", "vllm", answers("application/json", `{"count":7,"max_model_len":9}`), 7},
		{"a list", "vllm", answers("application/json", `{"x":{"count":1},"tokens":[1,{"id":2},[3]]}`), 3},
		{"a number beside a list", "vllm", answers("application/json", `{"tokens":[1,2],"count":7}`), 7},
		{"nothing", "vllm", answers("application/json", ""), 0},
		{"no object", "vllm", answers("application/json", `[7]`), 0},
		{"not JSON", "vllm", answers("text/html", `<html>7</html>`), 0},
		{"no count", "vllm", answers("application/json", `{}`), 0},
		{"no token", "vllm", answers("application/json", `{"tokens":[]}`), 0},
		{"a count that is a text", "vllm", answers("application/json", `{"count":"7"}`), 0},
		{"half a token", "vllm", answers("application/json", `{"count":7.5}`), 0},
		{"less than none", "vllm", answers("application/json", `{"count":-7}`), 0},
		{"more than can be", "vllm", answers("application/json", `{"count":99999999999}`), 0},
		{"more than a number holds", "vllm", answers("application/json", `{"count":99999999999999999999999}`), 0},
		{"a list without an end", "vllm", answers("application/json", `{"tokens":[1,2`), 0},
		{"a list that ends in another bracket", "vllm", answers("application/json", `{"tokens":[1,2}`), 0},
		{"a body that is cut", "vllm", head + "Content-Length: 100\r\n\r\n{\"count\":7", 0},
		{"a list beyond the bound", "vllm", answers("application/json", `{"tokens":[`+strings.Repeat(strings.Repeat("1", 999)+",", huge/1000)+`1]}`), 0},
		{"blanks beyond the bound", "vllm", answers("application/json", `{`+strings.Repeat(" ", huge)+`"count":7}`), 0},
		{"an error", "vllm", strings.Replace(answers("application/json", `{"count":7}`), "200 OK", "500 Oops", 1), 0},
		{"a redirect", "vllm", redirect, 0},
		{"no prompt", "llama-server", answers("application/json", `{}`), 0},
		{"a prompt that is no text", "llama-server", answers("application/json", `{"prompt":7}`), 0},
		{"a prompt with an image", "llama-server", answers("application/json", `{"prompt":"look: <__media__>","tokens":[1]}`), 0},
		{"a prompt beyond the bound", "llama-server", answers("application/json", `{"prompt":"`+strings.Repeat("a", huge)+`"}`), 0},
		{"one answer for both", "llama-server", answers("application/json", `{"prompt":"a","tokens":[1,2]}`), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := listen(t, says(tt.raw, true))
			c, call := counting(t, tt.kind, p.url())
			var done atomic.Int32
			call.Done = func() { done.Add(1) }
			n, err := c.Count(t.Context(), call)
			if n != tt.want || (err == nil) != (tt.want > 0) || err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%d, %v", n, err)
			}
			for _, raw := range p.requests {
				if strings.HasPrefix(raw, "POST /elsewhere") {
					t.Error("a redirect was followed")
				}
			}
			if len(p.requests) == 2 && !strings.HasSuffix(p.requests[1], "\r\n\r\n"+`{"content":"a","add_special":true,"parse_special":true}`) {
				t.Errorf("sent %q", p.requests[1])
			}
			soon(t, func() bool { return done.Load() == 1 })
		})
	}
}

// soon polls until what is asked for is so.
func soon(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(5 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not within five seconds")
		}
	}
}

// TestCount_slow: whatever the engine does, the caller waits two seconds for it.
func TestCount_slow(t *testing.T) {
	for name, tt := range map[string]struct {
		talk  func(net.Conn)
		leave time.Duration // when the caller leaves, 0 = never
		want  time.Duration
	}{
		"silent":                     {func(net.Conn) {}, 0, countWait},
		"silent and the caller left": {func(net.Conn) {}, 300 * time.Millisecond, 300 * time.Millisecond},
		"one byte a second": {func(c net.Conn) {
			_, err := io.WriteString(c, head+"Content-Length: 100000\r\n\r\n{")
			for ; err == nil; _, err = io.WriteString(c, " ") {
				<-time.After(time.Second)
			}
		}, 0, countWait},
		"in time": {func(c net.Conn) {
			<-time.After(countWait - time.Millisecond)
			_, _ = io.WriteString(c, answers("application/json", `{"count":7}`))
		}, 0, countWait - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { countSlowly(t, tt.talk, tt.leave, tt.want, name == "in time") })
		})
	}
}

func countSlowly(t *testing.T, talk func(net.Conn), leave, want time.Duration, ok bool) {
	_, call := counting(t, "vllm", "http://127.0.0.1:1")
	theirs := make(chan net.Conn, 1)
	c := clientWith(t, Options{LocalDial: func(context.Context, string, string) (net.Conn, error) {
		ours, peer := net.Pipe()
		theirs <- peer
		return ours, nil
	}}, call.Endpoint)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		peer := <-theirs
		defer peer.Close()
		req, err := http.ReadRequest(bufio.NewReader(peer))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		talk(peer)
		_, _ = io.Copy(io.Discard, peer)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if leave > 0 {
		time.AfterFunc(leave, cancel)
	}
	start := time.Now()
	n, err := c.Count(ctx, call)
	if d := time.Since(start); d != want || ok != (err == nil) || ok != (n == 7) {
		t.Errorf("after %v: %d, %v", d, n, err)
	}
	if leave > 0 && !errors.Is(ctx.Err(), context.Canceled) {
		t.Error("the caller did not leave")
	}
	c.Close()
	<-gone
}
