package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// An engine that takes its time to stop delays those who wait for its device, and nobody else.
func TestSlowStop(t *testing.T) {
	t.Parallel()
	const more = ", concurrency: 2, wait: 1m"
	slow := strings.Replace(place("gemma", gemma, quick(t, gemma), ", devices: [0]"+more), "stop_grace: 200ms", "stop_grace: 1m", 1)
	g := nodes(t, "  - {name: gpu-1, devices: [{id: 0}, {id: 1}], turn: 200ms, min_resident: 0s, slots: [\n"+
		slow+place("exaone", exaone, quick(t, exaone), ", devices: [0]"+more)+place("embed", embed, quick(t, embed), ", devices: [1]"+more)+"    ]}\n"+
		"  - {name: gpu-2, turn: 200ms, min_resident: 0s, slots: [\n"+place("third", third, quick(t, third), more)+place("fourth", "acme/fourth", quick(t, "acme/fourth"), more)+"    ]}\n", gemma)
	g.served(g.chat(ask(gemma, "")), local, gemma)
	g.served(g.chat(ask(third, "")), local, third)
	pid := g.engineOf(gemma)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // it hears no SIGTERM until it goes on
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	waits := g.asked(ask(exaone, ""))
	stops := func() bool { return g.slot("gemma").State == "stopping" && g.engineOf(gemma) == pid }
	g.until("the engine is told to end", stops)

	for _, c := range []struct{ what, model string }{
		{"a slot that is up on another node", third},
		{"a turn change on another node", "acme/fourth"},
		{"a start on another device of the node", embed},
		{"a slot that is up on another device of the node", embed},
		{"a turn change back", third},
	} {
		g.served(g.chat(ask(c.model, "")), local, c.model)
		if !stops() || len(waits) != 0 {
			t.Fatalf("%s was answered when the slow engine had ended", c.what)
		}
	}
	r := g.chat(ask(gemma, ""), "X-MyIP-Max-Wait", "0.1") // nor is the way out blocked
	if g.served(r, "Acme AI", gemma); !stops() {
		t.Error("the next candidate was tried when the slow engine had ended")
	}
	if s := g.slot("exaone"); s.Waiting != 1 || s.State != "asleep" {
		t.Errorf("exaone: %+v", s)
	}
	for _, args := range [][]string{{"slots"}, {"pause", "gpu-2", "--for", "1h"}, {"resume", "gpu-2"}} {
		if out := output(t, g.dir, args...); !stops() {
			t.Errorf("hearth %s was done when the slow engine had ended: %s", strings.Join(args, " "), out)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	g.served(<-waits, local, exaone)
	g.until("its device is another's", func() bool { return g.engineOf(gemma) == 0 && g.status(gemma) == -3 })
}
