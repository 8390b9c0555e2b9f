package driver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/slot"
)

// rig is one driver with an engine that can be made to misbehave.
type rig struct {
	slot  *hearth.Slot
	crash func() // the engine dies
	// runs says whether the engine is in memory; nil = that is not the driver's matter.
	runs func() bool
	// begun says whether the start has reached the engine, so that it is loading.
	begun func() bool
	facts hearth.SlotFacts
	// lost: a gateway that is started later cannot know that it runs.
	lost bool
}

// load is how long the engine of a rig takes to be ready; its model is acme/tiny unless it is said to be another.
type build func(t *testing.T, load time.Duration, model string) *rig

func rigs() map[string]build {
	told := hearth.SlotFacts{Window: 4096, Parallel: 2, Model: "acme/tiny"}
	all := map[string]build{
		Exec: func(t *testing.T, load time.Duration, model string) *rig {
			s := engineSlot(t, "--load", load.String(), "--context", "4096", "--parallel", "2")
			s.Command[4] = model
			return &rig{slot: s, facts: told}
		},
		Command: commandRig,
		Docker: func(t *testing.T, load time.Duration, model string) *rig {
			d := startDocker(t, engine.Config{Model: model, Load: load, Context: 4096, Parallel: 2})
			up := func() bool { return d.is() == "running" }
			return &rig{slot: d.slot(), crash: func() { d.end(137, true) }, runs: up, begun: up, facts: told}
		},
		Always: func(t *testing.T, load time.Duration, model string) *rig {
			s := engineSlot(t, "--load", load.String(), "--context", "4096", "--parallel", "2") // somebody else's
			s.Command[4] = model
			other := start(t, s)
			listens(t, other)
			return &rig{slot: &hearth.Slot{Name: "s", Driver: Always, URL: other.URL() + "/", Node: &hearth.Node{}, Model: &hearth.Model{ID: "acme/tiny"}},
				crash: func() { stop(t, other) }, facts: told, lost: true}
		},
	}
	for kind, facts := range map[string]hearth.SlotFacts{
		"":          {Model: "acme/tiny"},
		vllm:        {Window: 4096, Model: "acme/tiny"},
		sglang:      {Window: 4096, Model: "acme/tiny"},
		ollama:      {Window: 4096, Model: "acme/tiny"},
		llamaServer: told, lmStudio: told, tabbyAPI: told,
	} {
		all[strings.TrimSuffix(HTTP+" "+kind, " ")] = func(t *testing.T, load time.Duration, model string) *rig {
			f := startFake(t, kind)
			f.load, f.model = load, model
			return &rig{slot: f.slot(), crash: f.http.Close, runs: func() bool { return f.is() != "unloaded" },
				begun: func() bool { return f.is() == "loading" }, facts: facts}
		}
	}
	return all
}

// commandRig starts a real process in the background of a shell, finds it by a file, and stops it by a signal.
func commandRig(t *testing.T, load time.Duration, model string) *rig {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	file := filepath.Join(t.TempDir(), "pid")
	engine := fmt.Sprintf("'%s' --port %d --model %s --first-token 0s --load %s --context 4096 --parallel 2", self(t), port, model, load)
	// A process that has ended may not be buried for seconds: it is adopted by whoever takes in orphans here.
	const alive = `alive() { [ -n "$1" ] && read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]; }; `
	sh := func(script string) *hearth.Action {
		return &hearth.Action{Command: []string{"sh", "-c", alive + script}}
	}
	runs := func() bool {
		b, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil && pidAlive(pid)
	}
	t.Cleanup(func() {
		if runs() {
			t.Error("the engine is left")
		}
	})
	return &rig{
		slot: &hearth.Slot{
			Name: "s", Driver: Command, URL: "http://" + addr(port), Node: &hearth.Node{Name: "n", Exclusive: true}, Model: &hearth.Model{ID: "acme/tiny"},
			Env: map[string]hearth.Secret{engineMode: "1", raceOptions: endAtOnce, "PIDFILE": hearth.Secret(file)},
			Actions: hearth.Actions{
				Start:  sh(`alive "$(cat "$PIDFILE" 2>/dev/null)" || { echo starting ${model}; ` + engine + ` & echo $! > "$PIDFILE"; }`),
				Stop:   sh(`p=$(cat "$PIDFILE" 2>/dev/null) || exit 0; kill $p 2>/dev/null; while alive $p; do sleep 0.01; done; rm -f "$PIDFILE"`),
				Status: sh(`alive "$(cat "$PIDFILE")"`),
			},
		},
		crash: func() {
			b, _ := os.ReadFile(file)
			pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
			p, _ := os.FindProcess(pid)
			_ = p.Kill()
		},
		runs: runs, begun: runs,
		facts: hearth.SlotFacts{Window: 4096, Parallel: 2, Model: "acme/tiny"},
	}
}

// pidAlive says whether a process is there and no zombie.
func pidAlive(pid int) bool {
	p, err := look(pid)
	return err == nil && !p.dead
}

// TestContract is what every driver must keep.
func TestContract(t *testing.T) {
	for name, make := range rigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			t.Run("ready after the load, with what the engine says of itself, and gone after the stop", func(t *testing.T) {
				contractLife(t, make(t, longLoad, "acme/tiny"))
			})
			t.Run("an engine with another model is never ready", func(t *testing.T) { contractOther(t, make(t, 0, "acme/big")) })
			t.Run("an engine that dies is noticed", func(t *testing.T) { contractCrash(t, make(t, 0, "acme/tiny")) })
			t.Run("stop while it loads", func(t *testing.T) { contractEarlyStop(t, make(t, 400*time.Millisecond, "acme/tiny")) })
			t.Run("stop in a hurry", func(t *testing.T) { contractHurry(t, make(t, 0, "acme/tiny")) })
			t.Run("an ended context starts nothing", func(t *testing.T) { contractNoStart(t, make(t, 0, "acme/tiny")) })
			t.Run("a probe obeys its context", func(t *testing.T) { contractProbe(t, make(t, 0, "acme/tiny")) })
			t.Run("what is left alone goes on, and is found again", func(t *testing.T) { contractLeave(t, make(t, 0, "acme/tiny")) })
		})
	}
}

// longLoad is so long that an engine still loads when it is looked at first, also on a busy machine.
const longLoad = 1500 * time.Millisecond

func contractLife(t *testing.T, r *rig) {
	begin := time.Now()
	e := start(t, r.slot)
	if got, err := e.Probe(t.Context()); got.Ready || err != nil {
		t.Errorf("the probe of a loading engine says %+v, %v", got, err)
	}
	var got slot.Report
	eventually(t, "the engine is ready", func() bool {
		var err error
		if got, err = e.Probe(t.Context()); err != nil {
			t.Fatalf("probe: %v", err)
		}
		return got.Ready
	})
	if took := time.Since(begin); took < longLoad && r.slot.Driver != Always {
		t.Errorf("ready after %v", took)
	}
	if got.Facts != r.facts {
		t.Errorf("it says %+v, want %+v", got.Facts, r.facts)
	}
	if strings.HasSuffix(e.URL(), "/") {
		t.Errorf("URL %q", e.URL())
	}
	if status, body := chat(t, e); status != http.StatusOK || !strings.Contains(body, "I am acme/tiny") {
		t.Errorf("the engine answers %d %s", status, body)
	}
	select {
	case <-e.Exited():
		t.Error("the engine is said to have exited")
	default:
	}
	stop(t, e)
	if r.runs != nil && r.runs() {
		t.Error("it still runs")
	}
	stop(t, e)
}

func contractOther(t *testing.T, r *rig) {
	r.slot.UpstreamModel = "acme/tiny" // by which the engine may be known; it has another
	e := start(t, r.slot)
	said := ""
	eventually(t, "it says what is wrong", func() bool {
		got, err := e.Probe(t.Context())
		if got.Ready {
			t.Fatalf("ready: %+v", got)
		}
		if said = got.Why; err != nil {
			said = err.Error()
		}
		return strings.Contains(said, "acme/big") || strings.Contains(said, "acme/tiny") // of what it has, or of what it has not
	})
}

func contractCrash(t *testing.T, r *rig) {
	e := start(t, r.slot)
	ready(t, e)
	if r.slot.Driver == Exec {
		r.crash = func() { _ = syscall.Kill(pidOf(e), syscall.SIGKILL) }
	}
	r.crash()
	eventually(t, "the end is noticed", func() bool {
		select {
		case <-e.Exited():
			return e.ExitError() != nil
		default:
		}
		_, err := e.Probe(t.Context())
		return err != nil
	})
	stop(t, e)
}

func contractEarlyStop(t *testing.T, r *rig) {
	e := start(t, r.slot)
	if r.begun != nil {
		eventually(t, "it loads", r.begun)
	}
	stop(t, e)
	if r.runs != nil && r.runs() {
		t.Error("it still runs")
	}
	if r.runs != nil { // and it does not come up later
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); <-tick.C {
			if r.runs() {
				t.Fatal("it came up after it was stopped")
			}
		}
	}
}

func contractHurry(t *testing.T, r *rig) {
	e := start(t, r.slot)
	ready(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Stop(ctx, time.Hour); err != nil {
		t.Error(err)
	}
	if r.runs != nil && r.runs() {
		t.Error("it still runs")
	}
}

func contractNoStart(t *testing.T, r *rig) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := driverOf(t, r.slot).Start(ctx, r.slot); err == nil {
		t.Errorf("it gives %v", e)
	}
}

func contractProbe(t *testing.T, r *rig) {
	e := start(t, r.slot)
	ready(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := e.Probe(ctx); got.Ready || err != nil {
		t.Errorf("it says %+v, %v", got, err)
	}
}

func contractLeave(t *testing.T, r *rig) {
	dir := t.TempDir()
	gateway := func() *Drivers {
		d, err := New(Options{Log: slog.New(slog.DiscardHandler), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := gateway()
	if r.slot.Preset == sglang {
		lull(t, first, r.slot)
	}
	d, err := first.For(r.slot)
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Start(t.Context(), r.slot)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, e)
	if err := e.Leave(); err != nil {
		t.Fatal(err)
	}
	if r.runs != nil && !r.runs() {
		t.Fatal("it does not run any more")
	}
	twin := *r.slot // on the same node: the engine that runs is the one that stays
	twin.Name, twin.Driver, twin.Command, twin.Port = "twin", Exec, []string{"true"}, 1
	found, err := gateway().Sweep(t.Context(), &hearth.Catalog{Nodes: []*hearth.Node{r.slot.Node}, Slots: []*hearth.Slot{r.slot, &twin}})
	if err != nil {
		t.Fatal(err)
	}
	again, ok := found["s"]
	if ok == r.lost {
		t.Fatalf("found: %v", found)
	}
	if r.lost {
		if r.slot.Driver != Always {
			stop(t, start(t, r.slot))
		}
		return
	}
	t.Cleanup(func() { stop(t, again) })
	ready(t, again)
	stop(t, again)
	if r.runs != nil && r.runs() {
		t.Error("it still runs")
	}
}
