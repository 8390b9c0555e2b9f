package driver

import (
	"errors"
	"slices"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// Each device of an exclusive node is held by the engine that has it to itself, and by none that lives beside it.
func TestDevices(t *testing.T) {
	t.Parallel()
	locks := t.TempDir()
	one, two := driversIn(t, t.TempDir()), driversIn(t, t.TempDir())
	one.o.LockDir, two.o.LockDir = locks, locks
	node := &hearth.Node{Name: "n", Exclusive: true, Devices: []hearth.Device{{ID: 0}, {ID: 1}}}
	of := func(name string, devices ...int) *hearth.Slot {
		s := shell("exec sleep 1000")
		s.Name, s.Node, s.Devices = name, node, devices
		return s
	}
	first := startWith(t, one, of("first", 1))
	startWith(t, two, of("other", 0))
	companion := of("companion")
	companion.Companion = true
	startWith(t, two, companion)
	var busy *slot.BusyError
	for _, s := range []*hearth.Slot{of("again", 1), of("both"), of("zero", 0)} {
		if e, err := (execDriver{two}).Start(t.Context(), s); !errors.As(err, &busy) {
			t.Errorf("%s: %v, %v", s.Name, e, err)
		}
	}
	place, err := two.occupy(t.Context(), companion)
	if err != nil || place != nil {
		t.Errorf("a companion occupies %v, %v", place, err)
	}
	stop(t, first)
	startWith(t, two, of("again", 1)) // the attempt for both has left neither held
	if place, err := two.occupy(t.Context(), of("ordered", 0, 1)); !errors.As(err, &busy) {
		t.Errorf("a second engine occupies %v, %v", place, err)
	}
}

// Of what a gateway finds, engines on devices of their own and companions are adopted beside each other.
func TestChoose_Devices(t *testing.T) {
	t.Parallel()
	exe := self(t)
	d := driversIn(t, t.TempDir())
	g := newGateway(t, d.o.Dir)
	g.start("start", "a")
	g.start("start", "e")
	g.start("start", "f")
	g.kill()
	c := house(exe)
	gpu := &hearth.Node{Name: "gpu", Exclusive: true, Devices: []hearth.Device{{ID: 0}, {ID: 1}}}
	c.Nodes = []*hearth.Node{gpu}
	for i, devices := range [][]int{{0}, {0}, {1}, nil} {
		c.Slots[i].Node, c.Slots[i].Devices, c.Slots[i].Companion = gpu, devices, devices == nil
	}
	c.Slots[0].Companion = false
	engines := swept(t, d, c)
	if got := names(engines); got != "a e f" {
		t.Errorf("adopted are %q", got)
	}
	c = house(exe)
	for _, s := range c.Slots {
		s.Node, s.Devices = gpu, []int{1}
	}
	next, err := New(d.o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := next.Sweep(t.Context(), c)
	if err != nil || len(all) != 1 {
		t.Errorf("on one device %q are adopted, %v", names(all), err)
	}
	if !slices.Contains([]string{"a", "e", "f"}, names(all)) {
		t.Errorf("adopted is %q", names(all))
	}
	for _, e := range all {
		t.Cleanup(func() { stop(t, e) })
	}
}
