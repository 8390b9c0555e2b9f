package driver

import (
	"io"
	"strings"
	"testing"
)

// At whatever moment a gateway is killed, there is never more than one engine on the device, the next gateway adopts it or
// ends it, and there is no orphan.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	d := driversIn(t, t.TempDir())
	exe := self(t)
	words := []string{"start a", "ready a", "stop a", "load b", "stop b", "start b", "ready b", "leave b"}
	for round := range 3 * len(words) {
		verb, name, _ := strings.Cut(words[round%len(words)], " ")
		if round/len(words) > moments(verb) {
			continue
		}
		g := newGateway(t, d.o.Dir)
		for _, w := range words[:round%len(words)] {
			verb, name, _ := strings.Cut(w, " ")
			g.tell(verb, name)
		}
		if _, err := io.WriteString(g.in, words[round%len(words)]+"\n"); err != nil {
			t.Fatal(err)
		}
		atMoment(t, d, verb, name, round/len(words))
		g.kill()
		if n := leaders(t, d); n > 1 {
			t.Fatalf("round %d: %d engines on one device", round, n)
		}
		engines, err := d.Sweep(t.Context(), house(exe))
		if err != nil {
			t.Fatal(err)
		}
		if n := leaders(t, d); n != len(engines) {
			t.Errorf("round %d: %d engines run, %d are adopted", round, n, len(engines))
		}
		for name, e := range engines {
			ready(t, e)
			if _, body := chat(t, e); !strings.Contains(body, "I am acme/"+name) {
				t.Errorf("round %d: slot %s answers %s", round, name, body)
			}
			stop(t, e)
		}
		if left := residents(t, d); len(left) > 0 {
			t.Fatalf("round %d: left are %v", round, left)
		}
	}
}

// moments are those of a word after the first, at which nothing of it is seen yet.
func moments(verb string) int {
	switch verb {
	case "start", "load":
		return 2
	case "stop":
		return 1
	}
	return 0
}

// atMoment waits until a word has been obeyed so far: not at all, nearly, or all but for the answer.
func atMoment(t *testing.T, d *Drivers, verb, name string, n int) {
	t.Helper()
	start := verb == "start" || verb == "load"
	if n == 0 {
		return
	}
	eventually(t, "the moment comes", func() bool {
		if start && n == 1 {
			return isHeld(d.file(name, ".lock"))
		}
		_, recorded := d.load(name)
		return recorded == start
	})
}

// leaders counts the engines that run.
func leaders(t *testing.T, d *Drivers) (n int) {
	t.Helper()
	for _, p := range residents(t, d) {
		if p.pid == p.group {
			n++
		}
	}
	return n
}
