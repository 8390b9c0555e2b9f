package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// fleetOf is a fleet of slots that cannot be started, so many on one node.
func fleetOf(t *testing.T, n int, s slot.State) *slot.Fleet {
	t.Helper()
	c := &hearth.Catalog{}
	node := &hearth.Node{Name: "gpu-1"}
	for i := range n {
		c.Slots = append(c.Slots, &hearth.Slot{Index: i, Name: fmt.Sprintf("s%d", i), Node: node, Driver: "exec"})
	}
	f, err := slot.NewFleet(c, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return nil, nil }, Operator: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

func reopened(t *testing.T, dir string) slot.State {
	t.Helper()
	_, s, err := openOrders(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOrders_Kept(t *testing.T) {
	dir := t.TempDir()
	o, s, err := openOrders(dir)
	if err != nil || !cmp.Equal(s, slot.State{}) {
		t.Fatalf("%+v %v", s, err)
	}
	f := fleetOf(t, 3, s)
	for _, order := range []slot.Order{
		{Slot: "s1", Verb: slot.Disable}, {Slot: "s2", Verb: slot.Drain}, {Slot: "s0", Verb: slot.Drain}, {Node: "gpu-1", Verb: slot.Pause, For: time.Hour},
		{Slot: "s0", Verb: slot.Enable},
	} {
		if err := o.obey(t.Context(), f, order); err != nil {
			t.Fatal(err)
		}
	}
	kept := reopened(t, dir)
	want := slot.State{Disabled: []string{"s1"}, Drained: []string{"s2"}, Paused: map[string]time.Time{"gpu-1": kept.Paused["gpu-1"]}}
	if d := cmp.Diff(want, kept); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if left := time.Until(kept.Paused["gpu-1"]); left < 59*time.Minute || left > time.Hour {
		t.Errorf("paused for another %s", left)
	}
	if d := cmp.Diff(kept, fleetOf(t, 3, kept).Operator()); d != "" {
		t.Errorf("after a restart (-want +got):\n%s", d)
	}
	if err := o.obey(t.Context(), f, slot.Order{Slot: "nobody", Verb: slot.Drain}); !errors.Is(err, slot.ErrNoSlot) {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v %v: something is left over", left, err)
	}
}

func TestOrders_AtOnce(t *testing.T) {
	const n = 20
	dir := t.TempDir()
	o, s, err := openOrders(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := fleetOf(t, n, s)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := o.obey(t.Context(), f, slot.Order{Slot: fmt.Sprintf("s%d", i), Verb: slot.Drain}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := reopened(t, dir); len(got.Drained) != n {
		t.Errorf("%d of %d orders are kept", len(got.Drained), n)
	}
}

func TestOrders_Errors(t *testing.T) {
	t.Run("a file that is no such thing", func(t *testing.T) {
		for _, text := range []string{"", "{", `{"disabled": "s1"}`, `{"paused": {"gpu-1": "soon"}}`, `{"disabled": []}{}`, `{"disabled": [], "disabled": []}`} {
			dir := t.TempDir()
			path := filepath.Join(dir, "operator.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := openOrders(dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
	t.Run("a newer one", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "operator.json"), []byte(`{"drained": ["s1", "gone"], "cordoned": true}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := reopened(t, dir); len(s.Drained) != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a place that cannot be written to", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		o, s, err := openOrders(dir)
		if err != nil {
			t.Fatal(err)
		}
		f := fleetOf(t, 1, s)
		err = o.obey(t.Context(), f, slot.Order{Slot: "s0", Verb: slot.Drain})
		e, ok := errors.AsType[*hearth.Error](err)
		if !ok || e.Type != hearth.ErrInternal || !strings.Contains(e.Message, "a restart will forget it") || strings.Contains(e.Message, dir) || e.Err == nil {
			t.Fatalf("%v", err)
		}
		if got := f.Operator(); len(got.Drained) != 1 {
			t.Error("the order does not hold")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := o.obey(t.Context(), f, slot.Order{Slot: "s0", Verb: slot.Drain}); err != nil { // which changes nothing now
			t.Fatal(err)
		}
		if got := reopened(t, dir); len(got.Drained) != 1 {
			t.Errorf("what could not be written before is not made up for: %+v", got)
		}
	})
}
