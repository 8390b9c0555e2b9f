package driver

import (
	"errors"
	"log/slog"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// TestFind: of the engines that run when a gateway starts, one per exclusive node is adopted, the others are stopped.
func TestFind(t *testing.T) {
	t.Parallel()
	first, second, third, idle, fourth := startFake(t, vllm), startFake(t, ollama), startFake(t, llamaServer), startFake(t, lmStudio), startFake(t, tabbyAPI)
	c := &hearth.Catalog{Nodes: []*hearth.Node{{Name: "a", Exclusive: true}, {Name: "b"}}}
	for i, f := range []*fake{first, second, third, idle, fourth} {
		s := f.slot()
		s.Name, s.Node = string(rune('1'+i)), c.Nodes[min(i/2, 1)]
		if f != idle {
			f.state = "loaded"
		}
		c.Slots = append(c.Slots, s)
	}
	all, err := New(Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	engines, err := all.Sweep(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if names(engines) != "1 3 5" {
		t.Errorf("adopted: %v", engines)
	}
	if first.is() != "loaded" || second.is() != "unloaded" || third.is() != "loaded" || fourth.is() != "loaded" || idle.is() != "unloaded" {
		t.Errorf("%s %s %s %s %s", first.is(), second.is(), third.is(), fourth.is(), idle.is())
	}
	_, err = (orderDriver{d: all, make: all.docker}).Start(t.Context(), &hearth.Slot{Name: "x", Node: c.Nodes[0], Container: "c", URL: "http://127.0.0.1:1"})
	if busy := (*slot.BusyError)(nil); err == nil || !errors.As(err, &busy) {
		t.Errorf("another engine on the same device: %v", err)
	}
	for _, e := range engines {
		ready(t, e)
		stop(t, e)
	}
}

// TestFindWithoutStatus: an engine that nobody can say of whether it runs is adopted if it answers, but not one whose
// status should say so and does not.
func TestFindWithoutStatus(t *testing.T) {
	t.Parallel()
	cannot := &hearth.Action{Command: []string{"sh", "-c", "kill -9 $$"}}
	for name, c := range map[string]struct {
		status  *hearth.Action
		state   string
		adopted bool
	}{
		"it is ready":                  {nil, "loaded", true},
		"it answers that it is not":    {nil, "unloaded", false},
		"ready, and the status fails":  {cannot, "loaded", false},
		"not ready, and it fails, too": {cannot, "unloaded", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t, "")
			f.state = c.state
			s := f.slot()
			s.Driver, s.Probe = Command, "/health"
			s.Actions = hearth.Actions{Start: &hearth.Action{Command: []string{"true"}}, Stop: &hearth.Action{Command: []string{"true"}}, Status: c.status}
			engines, err := driversIn(t, t.TempDir()).Sweep(t.Context(), &hearth.Catalog{Slots: []*hearth.Slot{s}})
			if err != nil || (engines["s"] != nil) != c.adopted {
				t.Errorf("adopted: %v, %v", engines, err)
			}
			for _, e := range engines {
				if err := e.Leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
