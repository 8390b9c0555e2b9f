package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestNode(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"tls", "unix", "clear"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			g := gatewayOf(t, startMachine(t, listen, "--tokens-per-second", "30"))
			g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
			g.served(g.chat(ask(gemma, "")), local, gemma)
			if s := g.acme.Seen().Requests; s != 0 {
				t.Errorf("%d prompts left the house", s)
			}
			swapCutsNothing(t, g, 20)
		})
	}
}

// TestNode_Streams: each event comes when the engine has made it.
func TestNode_Streams(t *testing.T) {
	t.Parallel()
	g := gatewayOf(t, startMachine(t, "tls", "--tokens-per-second", "5"))
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	s := g.stream(ask(gemma, `, "stream": true`))
	first := time.Now()
	s.next(t)
	for range 5 {
		s.next(t)
	}
	if took := time.Since(first); took < 400*time.Millisecond {
		t.Errorf("five events of a slow engine came within %s: they were held back", took)
	}
	s.resp.Body.Close()
	g.until("the engine is free again", func() bool {
		return strings.Contains(g.call("GET", "/models/"+gemma+"/endpoints", "").body, `"inflight":0`)
	})
}

func TestNode_WrongToken(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "tls")
	g := gatewayOf(t, m, "TOKEN", "another-token-0123456789abcdef")
	g.until("the log says why", func() bool { return strings.Contains(g.log.String(), "does not accept the token") })
	if s := g.status(gemma); s != -5 {
		t.Errorf("status %d", s)
	}
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	r := g.chat(ask(exaone, ""))
	if r.status != 503 || !strings.Contains(r.body, "slot_failed") || strings.Contains(r.body, "token") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := len(g.engines()); n != 0 {
		t.Errorf("%d engines were started", n)
	}
	if strings.Contains(g.log.String()+m.log.String(), "another-token") {
		t.Error("a token is in the log")
	}
}

// TestNode_Killed: the machine dies in the middle of a stream, and comes back.
func TestNode_Killed(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "tls", "--tokens-per-second", "20")
	g := gatewayOf(t, m)
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	s := g.stream(ask(gemma, endless))
	s.next(t)
	m.kill()
	died := time.Now()
	last, done, _ := s.rest(t)
	if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"error"`) || !strings.Contains(last, "does not answer") {
		t.Errorf("the stream ended with %s, %s", last, done)
	}
	g.until("it is not known any more", func() bool { return g.status(gemma) == -5 })
	if took := time.Since(died); took > 7*time.Second { // pings would find out in 8
		t.Errorf("the loss was found out after %s", took)
	}
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	if r := g.chat(ask(exaone, "")); r.status != 503 || !strings.Contains(r.body, "slot_failed") {
		t.Errorf("%d %s", r.status, r.body)
	}
	m.run()
	g.until("it is known again", func() bool { return g.status(gemma) == 0 }) // its engine was adopted
	g.served(g.chat(ask(gemma, "")), local, gemma)
	if n := len(g.engines()); n != 0 { // adopted ones are no children
		t.Errorf("%d engines beside the adopted one", n)
	}
	if r := g.call("GET", "/generation?id="+s.resp.Header.Get("X-Generation-Id"), ""); !strings.Contains(r.body, "does not answer") {
		t.Errorf("record %s", r.body)
	}
}

// TestNode_GatewayKilled: a gateway that dies leaves nothing behind in the machine.
func TestNode_GatewayKilled(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "tls", "--tokens-per-second", "1")
	g := gatewayOf(t, m)
	other := gatewayOf(t, m)
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	s, waits := g.stream(ask(gemma, `, "stream": true`)), g.stream(ask(gemma, `, "stream": true`))
	s.next(t)
	waits.next(t)
	busy := func(n string) bool {
		return strings.Contains(other.call("GET", "/models/"+gemma+"/endpoints", "").body, `"inflight":`+n)
	}
	other.until("the other gateway sees both requests", func() bool { return busy("2") })
	g.signal(syscall.SIGKILL)
	other.until("both places are free", func() bool { return busy("0") })
	fresh := other.stream(ask(gemma, `, "stream": true, "provider": {"only": ["local-gpu"]}`))
	fresh.next(t)
}

// TestNode_TwoGateways: whoever asks, one model is resident, and all get their answer.
func TestNode_TwoGateways(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "tls")
	gateways := []*gateway{gatewayOf(t, m), gatewayOf(t, m)}
	for _, g := range gateways {
		g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	}
	residents := watchEngines(gateways[0])
	var wg sync.WaitGroup
	for i := range 12 {
		g, model := gateways[i%2], []string{gemma, exaone}[i/2%2]
		wg.Go(func() { g.served(g.chat(ask(model, `, "provider": {"only": ["local-gpu"]}`)), local, model) })
	}
	wg.Wait()
	if most := residents(); most != 1 {
		t.Errorf("%d engines at once", most)
	}
}

// TestNode_Drains: what the machine has begun it finishes, and what comes new goes elsewhere.
func TestNode_Drains(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "tls", "--tokens-per-second", "8")
	g := gatewayOf(t, m)
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	s := g.stream(ask(gemma, `, "stream": true`))
	s.next(t)
	pids := g.engines()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.until("it begins to end", func() bool { return strings.Contains(m.log.String(), "shutting down") })
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	if r := g.chat(ask(exaone, "")); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "shutting down") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if last, done, _ := s.rest(t); done != "[DONE]" || !strings.Contains(last, `"finish_reason":"stop"`) {
		t.Errorf("the stream ended with %s, %s", last, done)
	}
	if code := m.end(); code != 0 || !gone(pids[0]) {
		t.Errorf("exit code %d, engine gone %v", code, gone(pids[0]))
	}
}

// TestNode_EngineKilled: the death of an engine is the engine's failure, not the machine's loss.
func TestNode_EngineKilled(t *testing.T) {
	t.Parallel()
	g := gatewayOf(t, startMachine(t, "tls", "--tokens-per-second", "20"))
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	s := g.stream(ask(gemma, endless))
	s.next(t)
	if err := syscall.Kill(g.engines()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	last, done, _ := s.rest(t)
	if done != "[DONE]" || !strings.Contains(last, `"finish_reason":"error"`) || strings.Contains(last, "does not answer") {
		t.Errorf("the stream ended with %s, %s", last, done)
	}
	if g.status(gemma) == -5 && strings.Contains(g.log.String(), "its slots are not used") {
		t.Error("the machine was taken for lost")
	}
	g.until("it was started again", func() bool { return g.chat(ask(gemma, "")).header.Get("X-Myip-Provider") == local })
}

// TestNode_Refuses: a machine without node_server or with an open door does not begin.
func TestNode_Refuses(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "clear")
	second := runOnce(t, m.dir, "node", "--config", m.path("node.yaml"))
	if !strings.Contains(second, "in use") {
		t.Errorf("a second owner: %s", second)
	}
	g := gatewayOf(t, m)
	if out := runOnce(t, g.dir, "node", "--config", g.path("hearth.yaml")); !strings.Contains(out, "no node_server") {
		t.Errorf("a gateway's configuration: %s", out)
	}
	resp, err := http.Get(m.url + "/v1/views")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
}
