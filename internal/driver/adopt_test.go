package driver

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// successor is a gateway that comes after another one of the same directory.
func successor(t *testing.T, o Options, c *hearth.Catalog) (*slot.Fleet, *Drivers) {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := d.Sweep(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f, err := slot.NewFleet(c, slot.Options{Driver: d.For, Lock: d.Lock, Adopted: adopted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f, d
}

// patient is the house with slots that wait.
func patient(exe string) *hearth.Catalog {
	c := house(exe)
	for _, s := range c.Slots {
		s.Wait, s.StartTimeout, s.Concurrency, s.Queue = time.Minute, time.Minute, 2, 8
	}
	return c
}

func TestFleetAfterAGatewayThatWasKilled(t *testing.T) {
	t.Parallel()
	d := driversIn(t, t.TempDir())
	g := newGateway(t, d.o.Dir)
	pid := g.start("start", "a")
	g.kill()
	c := patient(self(t))
	f, _ := successor(t, d.o, c)
	l := acquire(t, f, c.Slots[0])
	if status, body := chat(t, l); status != http.StatusOK || !strings.Contains(body, "I am acme/a") {
		t.Errorf("it answers %d %s", status, body)
	}
	if r, ok := d.load("a"); !ok || r.PID != pid || !running(t, pid) {
		t.Errorf("the engine was started anew: %+v", r)
	}
	l.Release()
	l = acquire(t, f, c.Slots[1]) // a swap
	if running(t, pid) || leaders(t, d) != 1 {
		t.Error("the adopted engine is left beside another")
	}
	l.Release()
}

func TestFleetThatKeepsItsEngine(t *testing.T) {
	t.Parallel()
	d := driversIn(t, t.TempDir())
	c := patient(self(t))
	for _, s := range c.Slots {
		s.OnExit = "keep"
	}
	c.Slots[2].OnExit = "stop"
	first, _ := successor(t, d.o, c)
	for _, s := range []*hearth.Slot{c.Slots[0], c.Slots[2]} {
		acquire(t, first, s).Release()
	}
	kept, _ := d.load("a")
	stopped, _ := d.load("e")
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !running(t, kept.PID) || running(t, stopped.PID) {
		t.Fatal("the wrong one was kept")
	}
	for _, s := range c.Slots {
		s.OnExit = "stop"
	}
	second, _ := successor(t, d.o, c)
	acquire(t, second, c.Slots[0]).Release()
	if r, _ := d.load("a"); r.PID != kept.PID {
		t.Error("the kept engine was not adopted")
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running(t, kept.PID) {
		t.Error("it is left")
	}
}
