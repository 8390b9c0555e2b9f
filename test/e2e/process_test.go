package e2e

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (g *gateway) signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) != nil }

func TestShutdown(t *testing.T) {
	t.Parallel()
	t.Run("no new work, the stream in flight finishes, engines stop, exit 0", func(t *testing.T) {
		t.Parallel()
		g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "10"}, more: "shutdown: {lame_duck: 2s, grace: 30s}"})
		s := g.stream(ask(gemma, `, "stream": true`))
		s.next(t)
		pids := g.engines()
		g.signal(syscall.SIGTERM)
		g.until("not ready any more", func() bool {
			resp, err := http.Get(g.base + "/ready")
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == 503
		})
		last, done, _ := s.rest(t)
		if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"stop"`) {
			t.Errorf("the stream ended with %s, %s", last, done)
		}
		if code := g.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if !gone(pids[0]) {
			t.Error("the engine is still there")
		}
	})
	t.Run("what outlasts the grace gets an error event", func(t *testing.T) {
		t.Parallel()
		g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "1"}, more: "shutdown: {lame_duck: 0s, grace: 200ms}"})
		s := g.stream(ask(gemma, `, "stream": true`))
		s.next(t)
		g.signal(syscall.SIGTERM)
		last, done, _ := s.rest(t)
		if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"error"`) || !strings.Contains(last, "shutting down") {
			t.Errorf("the stream ended with %s, %s", last, done)
		}
		if code := g.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("a waiter for a slot is refused with 503", func(t *testing.T) {
		t.Parallel()
		g := start(t, world{gemmaArgs: []string{"--load", "1m"}})
		got := make(chan reply, 1)
		go func() { got <- g.chat(ask(gemma, `, "provider": {"only": ["local-gpu"]}`)) }()
		g.until("it waits", func() bool { return g.status(gemma) == -1 })
		g.signal(syscall.SIGTERM)
		if r := <-got; r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", r.status, r.body)
		}
		if code := g.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("a second signal does not wait", func(t *testing.T) {
		t.Parallel()
		g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "1"}, more: "shutdown: {lame_duck: 30s, grace: 5m}"})
		s := g.stream(ask(gemma, `, "stream": true`))
		s.next(t)
		g.signal(syscall.SIGTERM)
		g.until("it began", func() bool { return strings.Contains(g.log.String(), "shutting down") })
		g.signal(syscall.SIGTERM)
		if _, done, _ := s.rest(t); done != "[DONE]" {
			t.Errorf("the stream ended with %s", done)
		}
		if code := g.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestLostTerminal(t *testing.T) {
	t.Parallel()
	t.Run("the reader of the log goes away first, as in a pipeline that is interrupted", func(t *testing.T) {
		g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "30"}})
		g.signal(syscall.SIGTERM)
		g.end()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		g.out = w
		g.run()
		w.Close()
		s := g.stream(ask(gemma, `, "stream": true`))
		s.next(t)
		pids := g.engines()
		r.Close()
		g.signal(syscall.SIGTERM)
		if last, done, _ := s.rest(t); done != "[DONE]" || !strings.Contains(last, `"finish_reason":"stop"`) {
			t.Errorf("the stream ended with %s, %s", last, done)
		}
		if code := g.end(); code != 0 || !gone(pids[0]) {
			t.Errorf("exit code %d, engine gone %v", code, gone(pids[0]))
		}
	})
}

// Every answer whose last byte was read is in the records after kill -9 and a restart, with its cost.
func TestKillNine(t *testing.T) {
	t.Parallel()
	g := start(t, world{})
	var ids []string
	for range 20 {
		r := g.chat(ask(gemma, `, "provider": {"ignore": ["local-gpu"]}`))
		g.served(r, "Acme AI", gemma)
		ids = append(ids, r.header.Get("X-Generation-Id"))
	}
	g.served(g.chat(ask(gemma, "")), local, gemma)
	engines := g.engines()
	g.signal(syscall.SIGKILL)
	g.end()
	for _, pid := range engines { // the gateway of this test could not stop it
		_ = syscall.Kill(pid, syscall.SIGTERM)
		g.until("the engine ends", func() bool { return gone(pid) })
	}
	g.run()
	for _, id := range ids {
		r := g.call("GET", "/generation?id="+id, "")
		if r.status != 200 || !strings.Contains(r.body, `"finish_reason":"stop"`) || strings.Contains(r.body, `"total_cost":0,`) {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	began := time.Now()
	g.served(g.chat(ask(gemma, "")), local, gemma)
	t.Logf("served %s after the restart", time.Since(began))
}
