package driver

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// swept is what a new gateway adopts; it ends with the test.
func swept(t *testing.T, d *Drivers, c *hearth.Catalog) map[string]slot.Engine {
	t.Helper()
	engines, err := d.Sweep(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines {
		t.Cleanup(func() { stop(t, e) })
	}
	return engines
}

func names(engines map[string]slot.Engine) string {
	return strings.Join(slices.Sorted(maps.Keys(engines)), " ")
}

// A gateway that is killed leaves its engines running. The next one finds them.
func TestSweep(t *testing.T) {
	t.Parallel()
	exe := self(t)
	t.Run("an engine that would be started the same way is adopted, and serves", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		if err := os.WriteFile(d.file("a", ".log"), []byte("of another start\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		g := newGateway(t, d.o.Dir)
		pid, beside := g.start("start", "a"), g.start("start", "e")
		g.start("load", "f") // on the node of e, which is not exclusive
		before, _ := d.load("a")
		g.kill()
		c := house(exe)
		f := c.Slots[3]
		f.Command[len(f.Command)-1] = "1h"
		engines := swept(t, d, c)
		if got := names(engines); got != "a e f" {
			t.Fatalf("adopted are %q", got)
		}
		a := engines["a"]
		if pidOf(a) != pid || pidOf(engines["e"]) != beside || !running(t, pid) {
			t.Error("they are other processes")
		}
		ready(t, a)
		if a.APIKey() == "" || a.APIKey().Reveal() != before.Key {
			t.Errorf("key %q", a.APIKey().Reveal())
		}
		if status, body := chat(t, a); status != http.StatusOK || !strings.Contains(body, "I am acme/a") {
			t.Errorf("it answers %d %s", status, body)
		}
		if want := "listening on " + a.URL(); !slices.Contains(a.LogTail(), want) {
			t.Errorf("no %q in %q", want, a.LogTail())
		}
		if slices.Contains(a.LogTail(), "of another start") {
			t.Errorf("log %q", a.LogTail())
		}
		if port, err := strconv.Atoi(a.URL()[strings.LastIndex(a.URL(), ":")+1:]); err != nil || !d.ports.used[port].IsZero() {
			t.Errorf("port of %s is not held", a.URL())
		} else if _, ok := d.ports.used[port]; !ok {
			t.Errorf("port of %s is not held", a.URL())
		}
		if !isHeld(d.file("a", ".lock")) {
			t.Error("its lock is free")
		}
		if err := a.Stop(t.Context(), 5*time.Second); err != nil {
			t.Error(err)
		}
		exited(t, a)
		if running(t, pid) || isHeld(d.file("a", ".lock")) {
			t.Error("it is left")
		}
		ready(t, engines["e"])
	})
	t.Run("one that still loads is adopted too, and a second gateway after that", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		g := newGateway(t, d.o.Dir)
		pid := g.start("load", "b")
		g.kill()
		c := house(exe)
		b := c.Slots[1]
		b.Command[len(b.Command)-1] = "1h"
		for range 2 {
			next, err := New(d.o)
			if err != nil {
				t.Fatal(err)
			}
			engines, err := next.Sweep(t.Context(), c)
			if err != nil || names(engines) != "b" || pidOf(engines["b"]) != pid {
				t.Fatalf("%v, %v", engines, err)
			}
			if r, err := engines["b"].Probe(t.Context()); r.Ready || err != nil {
				t.Errorf("%v, %v", r, err)
			}
			if err := engines["b"].Leave(); err != nil { // as if killed
				t.Error(err)
			}
			<-engines["b"].Exited()
		}
		if !running(t, pid) {
			t.Error("it was stopped")
		}
	})
	t.Run("the end of an adopted engine is seen, and what it leaves behind ends", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		g := newGateway(t, d.o.Dir)
		pid := g.start("start", "a")
		g.kill()
		e := swept(t, d, house(exe))["a"]
		ready(t, e)
		orphan := bystander(t, pid, tagName+"="+d.tag("a"))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := exited(t, e); got != "engine that an earlier gateway started has ended" {
			t.Errorf("exit error %q", got)
		}
		if running(t, orphan) {
			t.Error("what it left behind is left")
		}
		stop(t, e)
		startWith(t, d, house(exe).Slots[0])
	})
	t.Run("an engine of an earlier gateway writes on", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		g := newGateway(t, d.o.Dir)
		pid := g.start("stubborn", "a")
		eventually(t, "it is up", func() bool { b, _ := os.ReadFile(d.file("a", ".log")); return len(b) > 0 })
		g.kill()
		f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/fd/1", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if flags, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/fdinfo/1"); err != nil || !strings.Contains(string(flags), "flags:\t0102001") {
			t.Errorf("its output is not opened to append: %s %v", flags, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Everything that makes it another engine, or no longer sure, stops it.
func TestSweepStops(t *testing.T) {
	exe := self(t)
	slotA := func(change func(*hearth.Slot)) func(*testing.T, *Drivers, *hearth.Catalog) {
		return func(_ *testing.T, _ *Drivers, c *hearth.Catalog) { change(c.Slots[0]) }
	}
	rewrite := func(change func(*record)) func(*testing.T, *Drivers, *hearth.Catalog) {
		return func(t *testing.T, d *Drivers, _ *hearth.Catalog) {
			r, ok := d.load("a")
			if !ok {
				t.Fatal("there is no record")
			}
			change(&r)
			if err := d.save(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, change := range map[string]func(*testing.T, *Drivers, *hearth.Catalog){
		"another argument":    slotA(func(s *hearth.Slot) { s.Command = append(s.Command, "--parallel", "2") }),
		"another variable":    slotA(func(s *hearth.Slot) { s.Env["X"] = "1" }),
		"another directory":   slotA(func(s *hearth.Slot) { s.Dir = "/" }),
		"another model":       slotA(func(s *hearth.Slot) { s.Model = &hearth.Model{ID: "acme/other"} }),
		"another name of it":  slotA(func(s *hearth.Slot) { s.UpstreamModel = "other" }),
		"a fixed port":        slotA(func(s *hearth.Slot) { s.Port = 12345 }),
		"another driver":      slotA(func(s *hearth.Slot) { s.Driver, s.URL = Always, "http://127.0.0.1:1" }),
		"a node elsewhere":    slotA(func(s *hearth.Slot) { s.Node.Remote = new(hearth.Remote) }),
		"no such slot":        func(_ *testing.T, _ *Drivers, c *hearth.Catalog) { c.Slots = c.Slots[1:] },
		"another range":       func(_ *testing.T, d *Drivers, _ *hearth.Catalog) { d.ports.first, d.ports.last = 1, 2 },
		"another start time":  rewrite(func(r *record) { r.Start++ }),
		"another boot":        rewrite(func(r *record) { r.Boot = "another" }),
		"a record that tells": rewrite(func(r *record) { r.ID = "another" }),
		"another process":     rewrite(func(r *record) { r.PID = os.Getpid() }),
		"a process without the tag": func(t *testing.T, d *Drivers, c *hearth.Catalog) {
			p, err := look(bystander(t, 0))
			if err != nil {
				t.Fatal(err)
			}
			rewrite(func(r *record) { r.PID, r.Start = p.pid, p.start })(t, d, c)
		},
		"the record is lost": func(_ *testing.T, d *Drivers, _ *hearth.Catalog) { _ = d.forget("a") },
		"the record is broken": func(_ *testing.T, d *Drivers, _ *hearth.Catalog) {
			_ = os.WriteFile(d.file("a", ".json"), []byte("{"), 0o600)
		},
		"the lock is lost": func(_ *testing.T, d *Drivers, _ *hearth.Catalog) {
			_ = os.Remove(d.file("a", ".lock"))
			_ = d.forget("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := driversIn(t, t.TempDir())
			g := newGateway(t, d.o.Dir)
			pid := g.start("start", "a")
			g.kill()
			c := house(exe)
			change(t, d, c)
			if got := names(swept(t, d, c)); got != "" {
				t.Errorf("adopted are %q", got)
			}
			if running(t, pid) {
				t.Error("it is left")
			}
			if _, err := os.Stat(d.file("a", ".json")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its record is left: %v", err)
			}
		})
	}
	t.Run("its gateway died while it stopped it", func(t *testing.T) {
		t.Parallel()
		d := driversIn(t, t.TempDir())
		g := newGateway(t, d.o.Dir)
		pid := g.start("stubborn", "a")
		eventually(t, "it is up", func() bool { b, _ := os.ReadFile(d.file("a", ".log")); return len(b) > 0 })
		if got := g.tell("stopping", "a"); got != "ok" {
			t.Fatal(got)
		}
		g.kill()
		c := house(exe)
		c.Slots[0].Command, c.Slots[0].StopGrace = []string{"sh", "-c", `trap "" TERM; echo up; while :; do sleep 1000; done`}, 50*time.Millisecond
		begin := time.Now()
		if got := names(swept(t, d, c)); got != "" || running(t, pid) {
			t.Errorf("adopted are %q", got)
		}
		if took := time.Since(begin); took >= defaultGrace {
			t.Errorf("its end took %v, with a grace of 50ms", took)
		}
	})
	t.Run("two on one exclusive node: the later one is adopted", func(t *testing.T) {
		t.Parallel()
		d := driversIn(t, t.TempDir())
		d.o.LockDir = t.TempDir() // so that the device does not keep the second one out
		first := startWith(t, d, house(exe).Slots[0])
		if err := first.Leave(); err != nil {
			t.Fatal(err)
		}
		g := newGateway(t, d.o.Dir)
		g.start("start", "b")
		g.kill()
		if got := names(swept(t, d, house(exe))); got != "b" {
			t.Errorf("adopted are %q", got)
		}
		if <-first.Exited(); running(t, pidOf(first)) {
			t.Error("the earlier one is left")
		}
	})
	t.Run("a sweep that is given up says so", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := d.Sweep(ctx, house(exe)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", e, err)
		}
	})
	t.Run("a copy of the directory has none of its engines", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		g := newGateway(t, d.o.Dir)
		pid := g.start("start", "a")
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(d.o.Dir)); err != nil {
			t.Fatal(err)
		}
		theirs := driversIn(t, filepath.Join(dir, "copy"))
		if got := names(swept(t, theirs, house(exe))); got != "" || !running(t, pid) {
			t.Errorf("adopted are %q, it runs: %v", got, running(t, pid))
		}
	})
	t.Run("nothing to sweep", func(t *testing.T) {
		d, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := d.Sweep(t.Context(), house(exe)); len(e) > 0 || err != nil {
			t.Errorf("%v, %v", e, err)
		}
		if e, err := (execDriver{d}).Start(t.Context(), house(exe).Slots[0]); err == nil {
			t.Errorf("an engine without a directory: %v", e)
		}
	})
}

func TestLeave(t *testing.T) {
	t.Parallel()
	exe := self(t)
	d := driversIn(t, t.TempDir())
	e := startWith(t, d, house(exe).Slots[0])
	ready(t, e)
	for range 2 {
		if err := e.Leave(); err != nil {
			t.Error(err)
		}
	}
	next, err := New(d.o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.id, next.id); diff != "" {
		t.Fatal(diff)
	}
	kept := swept(t, next, house(exe))
	if names(kept) != "a" {
		t.Fatalf("adopted are %q", names(kept))
	}
	ready(t, kept["a"])
	stop(t, kept["a"])
	exited(t, e)
	t.Run("not an engine that has ended, or is being stopped", func(t *testing.T) {
		e := startWith(t, d, house(exe).Slots[1])
		stop(t, e)
		if err := e.Leave(); err == nil {
			t.Error("it was left")
		}
	})
}
