package driver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// gatewayMode in the environment makes this test binary a gateway that keeps its slots in the directory named there.
const gatewayMode = "HEARTH_TEST_GATEWAY"

// house is two models on one exclusive node and two beside them, run by the program exe as engine.
func house(exe string) *hearth.Catalog {
	gpu, cpu := &hearth.Node{Name: "gpu", Exclusive: true}, &hearth.Node{Name: "cpu"}
	c := &hearth.Catalog{Nodes: []*hearth.Node{gpu, cpu}}
	for i, name := range []string{"a", "b", "e", "f"} {
		s := &hearth.Slot{
			Index: i, Name: name, Driver: Exec, Node: gpu, Model: &hearth.Model{ID: "acme/" + name}, StopGrace: 5 * time.Second,
			Command: []string{exe, "--port", "${port}", "--model", "${model}", "--first-token", "0s", "--load", "0s"},
			Env:     map[string]hearth.Secret{engineMode: "1", raceOptions: endAtOnce, "LLAMA_API_KEY": "${api_key}"},
		}
		if name > "b" {
			s.Node = cpu
		}
		c.Slots = append(c.Slots, s)
	}
	return c
}

// gatewayMain obeys the words on its standard input until it is killed, and answers each with a line.
func gatewayMain(dir string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	d, err := New(Options{Log: slog.New(slog.DiscardHandler), Dir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g := &gatewayRole{d, house(exe), make(map[string]slot.Engine)}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, name, _ := strings.Cut(in.Text(), " ")
		fmt.Println(g.obey(verb, name))
	}
	return 0
}

// rolePause is the pace of looking whether a word has been obeyed.
const rolePause = time.Millisecond

type gatewayRole struct {
	d       *Drivers
	c       *hearth.Catalog
	engines map[string]slot.Engine
}

func (g *gatewayRole) obey(verb, name string) string {
	switch verb {
	case "start", "load", "stubborn":
		for _, s := range g.c.Slots {
			if s.Name == name {
				conf := *s
				switch verb {
				case "load":
					conf.Command = append(conf.Command[:len(conf.Command)-1:len(conf.Command)-1], "1h")
				case "stubborn":
					conf.Command = []string{"sh", "-c", `trap "" TERM; echo up; while :; do sleep 1000; done`}
				}
				e, err := execDriver{g.d}.Start(context.Background(), &conf)
				if err != nil {
					return err.Error()
				}
				g.engines[name] = e
				return strconv.Itoa(e.(*process).now.PID)
			}
		}
	case "ready":
		for ; ; within(nil, nil, rolePause) {
			if r, err := g.engines[name].Probe(context.Background()); r.Ready || err != nil {
				return fmt.Sprint(err)
			}
		}
	case "stop":
		return fmt.Sprint(g.engines[name].Stop(context.Background(), 10*time.Second))
	case "stopping":
		go func() { _ = g.engines[name].Stop(context.Background(), time.Hour) }() // until it is killed
		for ; ; within(nil, nil, rolePause) {
			if _, ok := g.d.load(name); !ok {
				return "ok"
			}
		}
	case "leave":
		return fmt.Sprint(g.engines[name].Leave())
	}
	return "?"
}

// gateway is a gateway in a process of its own.
type gateway struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func newGateway(t *testing.T, dir string) *gateway {
	t.Helper()
	g := &gateway{t: t, cmd: exec.Command(self(t))}
	g.cmd.Env = append(os.Environ(), gatewayMode+"="+dir)
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.out = bufio.NewScanner(out)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.kill)
	return g
}

// tell sends the gateway a word and returns its answer.
func (g *gateway) tell(verb, name string) string {
	g.t.Helper()
	if _, err := fmt.Fprintln(g.in, verb, name); err != nil {
		g.t.Fatal(err)
	}
	if !g.out.Scan() {
		g.t.Fatalf("the gateway gives no answer to %s %s: %v", verb, name, g.out.Err())
	}
	return g.out.Text()
}

// start has the gateway start an engine, wait until it is ready if it can be, and returns the process.
func (g *gateway) start(verb, name string) int {
	g.t.Helper()
	pid, err := strconv.Atoi(g.tell(verb, name))
	if err != nil {
		g.t.Fatal(err)
	}
	if verb == "start" {
		if got := g.tell("ready", name); got != "<nil>" {
			g.t.Fatal(got)
		}
	}
	return pid
}

// kill is kill -9.
func (g *gateway) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // it was killed
}

// driversIn is what a gateway with the slots in dir has. At the end of the test nothing is left that it, or one before
// it, has started.
func driversIn(t *testing.T, dir string) *Drivers {
	t.Helper()
	d, err := New(Options{Log: slog.New(slog.DiscardHandler), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range residents(t, d) { // the test is over: no grace
			p.signal(syscall.SIGKILL)
		}
		if _, err := d.Sweep(context.Background(), new(hearth.Catalog)); err != nil {
			t.Error(err)
		}
		if left := residents(t, d); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return d
}

// residents are the living processes of the directory.
func residents(t *testing.T, d *Drivers) []proc {
	t.Helper()
	all, err := scan()
	if err != nil {
		t.Fatal(err)
	}
	var out []proc
	for _, p := range all {
		if !p.dead && strings.HasPrefix(p.tag, d.id+"/") {
			out = append(out, p)
		}
	}
	return out
}

// startWith starts an engine that is stopped at the end of the test at the latest.
func startWith(t *testing.T, d *Drivers, s *hearth.Slot) slot.Engine {
	t.Helper()
	e, err := execDriver{d}.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

// running says whether a process is there and alive.
func running(t *testing.T, pid int) bool {
	t.Helper()
	p, err := look(pid)
	return err == nil && !p.dead
}

// groupAlive says whether a process of the group still runs.
func groupAlive(t *testing.T, group int) bool {
	t.Helper()
	all, err := scan()
	if err != nil {
		t.Error(err)
	}
	return slices.ContainsFunc(all, func(p proc) bool { return p.group == group && !p.dead })
}

// number waits for a file that holds a number.
func number(t *testing.T, path string) (n int) {
	t.Helper()
	eventually(t, "there is a number in "+path, func() bool {
		b, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return n
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
