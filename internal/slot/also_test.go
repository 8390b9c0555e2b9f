package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestAlso(t *testing.T) {
	bubble(t, "the lease says which slot serves, as the caller named it", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.b)
		l.Release()
		c := h.reload([]string{"a", "b"})
		l, err := h.Acquire(t.Context(), Ask{Slot: h.a, Also: []*hearth.Slot{h.b, {Name: "x", Node: h.a.Node}}, Budget: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h.given = append(h.given, l)
		if l.Slot != h.b || l.URL != "http://model-b" {
			t.Errorf("the lease is of %s at %s", l.Slot.Name, l.URL)
		}
		if h.View(c.Slots[1]).Inflight != 1 || h.View(c.Slots[0]).Waiting != 0 {
			t.Errorf("views %+v", h.Views(c.Slots, nil))
		}
		h.close()
	})
	bubble(t, "one of another node is never waited for", func(t *testing.T) {
		c, more := catalogOf([]string{"a", "b"}), catalogOf([]string{"c", "d"})
		more.Nodes[0].Name = "gpu-2"
		for _, s := range more.Slots {
			s.Index += 2
		}
		c.Nodes, c.Slots = append(c.Nodes, more.Nodes...), append(c.Slots, more.Slots...)
		g := &gpu{t: t}
		f, err := NewFleet(c, Options{Driver: func(*hearth.Slot) (Driver, error) { return g, nil }})
		if err != nil {
			t.Fatal(err)
		}
		take := func(ask Ask, want *hearth.Slot) {
			t.Helper()
			ask.Budget = time.Hour
			l, err := f.Acquire(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			if l.Slot != want {
				t.Errorf("the lease is of %s", l.Slot.Name)
			}
			l.Release()
		}
		take(Ask{Slot: c.Slots[1]}, c.Slots[1])
		take(Ask{Slot: c.Slots[0], Also: []*hearth.Slot{c.Slots[3], c.Slots[1]}}, c.Slots[1]) // d is where b is, of its own node
		take(Ask{Slot: c.Slots[0], Also: []*hearth.Slot{c.Slots[3]}}, c.Slots[0])
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
