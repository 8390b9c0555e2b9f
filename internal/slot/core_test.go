package slot

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// words are decisions in short: "start 0", "stop 0", "grant 7", "refuse 7 slot_busy", "alarm 10s".
func words(list []Decision) (got []string) {
	for _, d := range list {
		switch d.Kind {
		case CoreStart:
			got = append(got, fmt.Sprintf("start %d", d.Slot))
		case CoreStop:
			got = append(got, fmt.Sprintf("stop %d", d.Slot))
		case CoreGrant:
			got = append(got, fmt.Sprintf("grant %d", d.ID))
		case CoreRefuse:
			got = append(got, fmt.Sprintf("refuse %d %s", d.ID, d.Refusal.Word))
		case CoreAlarm:
			got = append(got, "alarm")
		}
	}
	return got
}

// has says which of the decisions is the wanted one.
func has(t *testing.T, list []Decision, want string) Decision {
	t.Helper()
	for i, w := range words(list) {
		if w == want {
			return list[i]
		}
	}
	t.Fatalf("no %q among %q", want, words(list))
	return Decision{}
}

func coreOf(slots int, change func(*hearth.Slot)) *Core {
	node := &hearth.Node{Exclusive: true, Turn: 10 * time.Second}
	var list []*hearth.Slot
	for i := range slots {
		s := &hearth.Slot{Index: i, Name: string(rune('a' + i)), Node: node, Model: &hearth.Model{}, Concurrency: 1, Queue: 10, Wait: time.Minute, QueueWait: 5 * time.Second}
		change(s)
		list = append(list, s)
	}
	return NewCore(node, list, t0)
}

func TestCore(t *testing.T) {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	up := func(t *testing.T, slots int) *Core {
		c := coreOf(slots, func(*hearth.Slot) {})
		d := has(t, c.Ask(at(0), CoreAsk{ID: 1, Slot: 0, Budget: time.Hour}), "start 0")
		has(t, c.Ready(at(10), 0, d.Run), "grant 1")
		return c
	}
	t.Run("a request has its engine started, uses it and gives it back", func(t *testing.T) {
		c := up(t, 1)
		if v := c.View(at(11), 0); v.State != hearth.SlotReady || v.Inflight != 1 || v.Loads != 1 {
			t.Errorf("%+v", v)
		}
		c.Release(at(12), 1)
		if v := c.View(at(12), 0); v.Inflight != 0 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("a swap stops one engine before the other is started", func(t *testing.T) {
		c := up(t, 2)
		c.Ask(at(11), CoreAsk{ID: 2, Slot: 1, Budget: time.Hour})
		d := has(t, c.Release(at(30), 1), "stop 0")
		has(t, c.Ended(at(31), 0, d.Run), "start 1")
	})
	t.Run("who leaves has no engine started", func(t *testing.T) {
		c := up(t, 2)
		c.Ask(at(11), CoreAsk{ID: 2, Slot: 1, Budget: time.Hour})
		c.Cancel(at(12), 2)
		if got := words(c.Release(at(30), 1)); len(got) > 0 && got[0] == "stop 0" {
			t.Errorf("%q", got)
		}
	})
	t.Run("the alarm ends a wait that lasted as long as it may", func(t *testing.T) {
		c := up(t, 1)
		d := has(t, c.Ask(at(11), CoreAsk{ID: 2, Slot: 0, Budget: 20 * time.Second}), "alarm")
		if !d.At.Equal(at(31)) {
			t.Errorf("the alarm rings at %v", d.At)
		}
		has(t, c.Tick(at(31)), "refuse 2 slot_busy")
	})
	t.Run("who has somewhere else to go waits for as long as the slot has such ones wait", func(t *testing.T) {
		c := up(t, 1)
		d := has(t, c.Ask(at(11), CoreAsk{ID: 2, Slot: 0, Budget: 20 * time.Second, HasNext: true}), "alarm")
		if !d.At.Equal(at(16)) {
			t.Errorf("the alarm rings at %v", d.At)
		}
	})
	t.Run("a slot that would do as well serves", func(t *testing.T) {
		c := up(t, 2)
		c.Release(at(11), 1)
		if d := has(t, c.Ask(at(12), CoreAsk{ID: 2, Slot: 1, Also: []int{0}, Budget: time.Hour}), "grant 2"); d.Slot != 0 {
			t.Errorf("slot %d serves", d.Slot)
		}
	})
	t.Run("keys take turns, and batch ones come last", func(t *testing.T) {
		c := up(t, 1)
		for id, key := range []string{"x", "x", "y"} {
			c.Ask(at(11), CoreAsk{ID: uint64(10 + id), Slot: 0, Key: key, Budget: time.Hour, Class: map[string]hearth.Class{"x": hearth.Batch}[key]})
		}
		var order []string
		for id, now := uint64(1), 12; len(order) < 3; now++ {
			list := c.Release(at(now), id)
			for i, w := range words(list) {
				if list[i].Kind == CoreGrant {
					order, id = append(order, w), list[i].ID
				}
			}
		}
		if d := cmp.Diff([]string{"grant 12", "grant 10", "grant 11"}, order); d != "" {
			t.Error(d)
		}
		c = up(t, 1)
		for id, key := range []string{"x", "x", "y"} {
			c.Ask(at(11), CoreAsk{ID: uint64(10 + id), Slot: 0, Key: key, Budget: time.Hour})
		}
		has(t, c.Release(at(12), 1), "grant 10")
		has(t, c.Release(at(13), 10), "grant 12")
	})
}
