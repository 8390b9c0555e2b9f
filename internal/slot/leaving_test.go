package slot

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// leavers are the slots on their way out, in a word each.
func (h *house) leavers() []string {
	synctest.Wait()
	list := []string{}
	for _, l := range h.Leaving() {
		list = append(list, fmt.Sprintf("%s/%s %s %d", l.Slot.Node.Name, l.Slot.Name, l.View.State, l.View.Inflight))
	}
	return list
}

func TestLeaving(t *testing.T) {
	elsewhere := func(names ...string) *hearth.Catalog {
		c := catalogOf(names)
		c.Nodes[0].Name = "gpu-2"
		return c
	}
	for _, c := range []struct {
		name  string
		next  *hearth.Catalog
		there bool // the slot stays what it is
	}{
		{"a slot that is removed is seen until its engine is gone", catalogOf([]string{"b"}), false},
		{"and that of a node that is removed", elsewhere("c"), false},
		{"and one that is another node's by now", elsewhere("a"), false},
		{"and one beside a new one", catalogOf([]string{"c", "b"}), false},
		{"one that stays does not leave", catalogOf([]string{"b", "a"}), true},
	} {
		bubble(t, c.name, func(t *testing.T) {
			h := newHouse(t, &gpu{stops: time.Second})
			l, _ := h.lease(h.a)
			if got := h.leavers(); len(got) != 0 {
				t.Errorf("before: %q", got)
			}
			if err := h.Reload(c.next); err != nil {
				t.Fatal(err)
			}
			want := [][]string{{"gpu-1/a draining 1"}, {"gpu-1/a stopping 0"}, {}}
			if c.there {
				want = [][]string{{}, {}, {}}
			}
			got := [][]string{h.leavers()}
			l.Release()
			got = append(got, h.leavers())
			pass(time.Second)
			got = append(got, h.leavers())
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			h.close()
		})
	}
	bubble(t, "of a node that is removed, over another reload, and the end of the gateway waits for it", func(t *testing.T) {
		h := newHouse(t, &gpu{stops: time.Second})
		h.lease(h.a)
		for range 2 {
			if err := h.Reload(elsewhere("c")); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"gpu-1/a draining 1"}, h.leavers()); d != "" {
				t.Error(d)
			}
		}
		h.close()
	})
	bubble(t, "one that comes back is none any more", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.reload([]string{"b"})
		h.reload([]string{"b", "a"})
		if got := h.leavers(); len(got) != 0 {
			t.Errorf("%q", got)
		}
		h.close()
	})
	bubble(t, "of one that failed something is left, or nothing", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour, stops: 500 * time.Millisecond}, func(s *hearth.Slot) { s.StartTimeout = 7 * time.Second })
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		h.reload([]string{"b"})
		if d := cmp.Diff([]string{"gpu-1/a failed 0"}, h.leavers()); d != "" {
			t.Error(d)
		}
		pass(500 * time.Millisecond)
		if got := h.leavers(); len(got) != 0 {
			t.Errorf("%q", got)
		}
		h.close()
	})
}
