package e2e

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// write puts an edited configuration in the place of the gateway's: of each two edits the second for the first.
func (g *gateway) write(text string, edits ...string) {
	g.t.Helper()
	next := g.path("hearth.yaml.next")
	if err := os.WriteFile(next, []byte(strings.NewReplacer(edits...).Replace(text)), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(next, g.path("hearth.yaml")); err != nil {
		g.t.Fatal(err)
	}
}

// logged waits until the log says something.
func (g *gateway) logged(text string) {
	g.t.Helper()
	g.until("the log says "+text, func() bool { return strings.Contains(g.log.String(), text) })
}

// TestReload: a running gateway takes over what its configuration says, and its engines go on.
func TestReload(t *testing.T) {
	t.Parallel()
	g := start(t, world{gemmaArgs: []string{"--tokens-per-second", "20"}})
	read, err := os.ReadFile(g.path("hearth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	g.served(g.chat(ask(gemma, "")), local, gemma)
	pids := g.engines()

	s := g.stream(ask(gemma, `, "stream": true, "max_tokens": 60`))
	g.write(text, "name: MyIP Local GPU", "name: Ours", "currency: KRW", "currency: KRW\nlisten: 127.0.0.1:1")
	g.signal(syscall.SIGHUP)
	g.logged(`msg="configuration reloaded" changes="local.name changed"`)
	if strings.Contains(g.log.String(), "needs_restart=\"listen") {
		t.Error("--listen is no change of the file's")
	}
	g.served(g.chat(ask(gemma, "")), "Ours", gemma)
	if body, done, _ := s.rest(t); done != "[DONE]" || strings.Contains(body, `"error"`) {
		t.Errorf("the stream ended with %s", done)
	}

	g.write(text, "currency: KRW", "currency: KRW\ntimezone: Nowhere", "exchange_rates: {USD: 1390}", "exchange_rates: {USD: dear}")
	g.signal(syscall.SIGHUP)
	g.logged("hearth.yaml:2: timezone: ")
	g.logged("exchange_rates.USD: ")
	g.served(g.chat(ask(gemma, "")), "Ours", gemma)

	g.write(text, "name: MyIP Local GPU", "name: Seen by itself") // nobody says so
	g.logged(`msg="configuration reloaded" changes="local.name changed" needs_restart=""`)
	g.until("the file is read", func() bool { return strings.Count(g.log.String(), `msg="configuration reloaded"`) == 2 })
	g.served(g.chat(ask(gemma, "")), "Seen by itself", gemma)
	if now := g.engines(); !slices.Equal(now, pids) {
		t.Errorf("engines %v, before %v", now, pids)
	}

	g.write(text, "name: gemma,", "name: moved,", "name: MyIP Local GPU", "name: Another slot")
	g.signal(syscall.SIGHUP)
	g.until("the file is read", func() bool { return strings.Count(g.log.String(), `msg="configuration reloaded"`) == 3 })
	g.until("the new slot serves", func() bool { return g.chat(ask(gemma, "")).header.Get("X-MyIP-Provider") == "Another slot" })
	if !gone(pids[0]) {
		t.Error("the engine of a slot that is gone still runs")
	}
}

// TestReload_Node: so does a machine whose slots gateways elsewhere use.
func TestReload_Node(t *testing.T) {
	t.Parallel()
	m := startMachine(t, "unix")
	g := gatewayOf(t, m)
	g.until("the machine is known", func() bool { return g.status(gemma) == -2 })
	g.served(g.chat(ask(gemma, "")), local, gemma)
	text, err := os.ReadFile(m.path("node.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(old, to string) {
		if err := os.WriteFile(m.path("node.yaml"), []byte(strings.Replace(string(text), old, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	write("concurrency: 2", "concurrency: two")
	m.until("the mistake is told", func() bool { return strings.Contains(m.log.String(), "configuration refused") })
	g.served(g.chat(ask(gemma, "")), local, gemma)
	write("concurrency: 2", "concurrency: 1")
	m.until("the change is told", func() bool { return strings.Contains(m.log.String(), "nodes.gpu.slots.gemma.concurrency changed") })
	g.served(g.chat(ask(gemma, "")), local, gemma)
	if pids := g.engines(); len(pids) != 1 {
		t.Errorf("engines %v", pids)
	}
}
