package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	third = "acme/third"
	embed = "acme/embed"
)

// beside is a GPU that holds Gemma and Exaone beside each other, a third model that needs the room of one of them, and a small
// one that is always up.
func beside(t *testing.T, available string) *gateway {
	t.Helper()
	return launch(t, func(acme string) string {
		slot := func(name, model, memory, more string, args ...string) string {
			return fmt.Sprintf("      - {name: %s, model: %s, command: %s, context: 32768, concurrency: 2, memory: %s, expected_load: 1s, stop_grace: 200ms, price: {prompt: 30, completion: 150}%s}\n",
				name, model, engineLine(t, model, args), memory, more)
		}
		return fmt.Sprintf(`data_dir: data
local: {name: MyIP Local GPU}
default_model: %[1]s
nodes:
  - name: gpu-1
    exclusive: false
    devices: [{id: 3, memory: 24GiB}]
    turn: 300ms
    min_resident: 0s
    available: %[2]q
    slots:
%[3]sproviders:
  - slug: acme
    name: Acme AI
    base_url: http://%[4]s/v1
    models: [{model: %[1]s, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
shutdown: {lame_duck: 0s, grace: 5s}
`, gemma, available, slot("gemma", gemma, "10GiB", "")+slot("exaone", exaone, "10GiB", "", "--tokens-per-second", "30")+
			slot("third", third, "12GiB", "")+slot("embed", embed, "2GiB", ", resident: always"), acme)
	})
}

// engineOf is the pid of a model's engine, 0 = there is none.
func (g *gateway) engineOf(model string) int {
	g.t.Helper()
	for _, pid := range g.engines() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // one that has just ended has none
		if args := strings.Split(string(line), "\x00"); slices.Contains(args, model) {
			return pid
		}
	}
	return 0
}

// TestBeside: models are up together as far as the memory of the GPU goes, beside one that is always up.
func TestBeside(t *testing.T) {
	t.Parallel()
	g := beside(t, "sun-sat")
	most := watchEngines(g)
	g.until("the companion is up by itself", func() bool { return g.status(embed) == 0 })
	companion := g.engineOf(embed)
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", companion))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=3", "CUDA_DEVICE_ORDER=PCI_BUS_ID"} {
		if !slices.Contains(strings.Split(string(env), "\x00"), want) {
			t.Errorf("the engine's environment lacks %s", want)
		}
	}

	g.served(g.chat(ask(gemma, "")), local, gemma)
	g.served(g.chat(ask(exaone, "")), local, exaone)
	if g.status(gemma) != 0 || g.status(exaone) != 0 || g.engineOf(embed) != companion || len(g.engines()) != 3 {
		t.Fatalf("status gemma %d, exaone %d, engines %v, companion %d", g.status(gemma), g.status(exaone), g.engines(), companion)
	}
	if s := g.status(third); s != -3 {
		t.Errorf("the third model has status %d, want -3: the memory is taken", s)
	}

	stream := g.stream(ask(exaone, `, "stream": true`))
	stream.next(t)
	g.served(g.chat(ask(third, "")), local, third)
	if g.status(gemma) != -3 || g.engineOf(gemma) != 0 {
		t.Errorf("gemma, which nobody used, has status %d and engine %d", g.status(gemma), g.engineOf(gemma))
	}
	if last, done, _ := stream.rest(t); done != "[DONE]" || !strings.Contains(last, `"finish_reason":"stop"`) {
		t.Errorf("the stream was cut by the swap: %s, %s", last, done)
	}
	if n := most(); n > 3 {
		t.Errorf("%d engines at once where three fit", n)
	}
	g.served(g.chat(ask(embed, "")), local, embed)
	if now := g.engineOf(embed); now != companion {
		t.Errorf("the companion has process %d, before %d", now, companion)
	}

	if err := syscall.Kill(companion, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.until("the companion is up again", func() bool { now := g.engineOf(embed); return now != 0 && now != companion && g.status(embed) == 0 })
}

// TestHours: outside of a node's hours requests go to the provider, and a change of the hours holds at once.
func TestHours(t *testing.T) {
	t.Parallel()
	away := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3])
	g := beside(t, away)
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	if g.status(gemma) != -10 || g.status(embed) != -10 || len(g.engines()) != 0 {
		t.Errorf("status %d and %d, engines %v", g.status(gemma), g.status(embed), g.engines())
	}
	text, err := os.ReadFile(g.path("hearth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g.write(string(text), `"`+away+`"`, "sun-sat")
	g.signal(syscall.SIGHUP)
	g.until("the companion is up", func() bool { return g.status(embed) == 0 })
	g.served(g.chat(ask(gemma, "")), local, gemma)

	g.write(string(text))
	g.signal(syscall.SIGHUP)
	g.until("all engines are gone", func() bool { return g.status(gemma) == -10 && len(g.engines()) == 0 })
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
}
