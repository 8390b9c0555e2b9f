package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// What a gateway is told before it ends, and what it was told at its start, must not be told to anybody else.
func TestLeftovers(t *testing.T) {
	bubble(t, "who uses an engine that is stopped all the same knows it before it is gone", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second, stops: 10 * time.Second})
		l, _ := h.lease(h.a)
		h.order(Sleep, h.a)
		pass(time.Minute) // DrainMax
		<-l.Cut
		select {
		case <-l.Gone:
			t.Error("it is gone before it is stopped")
		default:
		}
		pass(cutGrace + time.Second)
		h.state(h.a, hearth.SlotStopping)
		select {
		case <-l.Gone:
		default:
			t.Error("it is not known that it goes")
		}
		h.close()
	})
	bubble(t, "no reload while the gateway ends", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		h.RefuseWaiters()
		if err := h.Reload(catalogOf([]string{"a", "c"})); err == nil {
			t.Error("it is reloaded")
		}
		h.close()
	})
	bubble(t, "orders of before the start do not hold for a node that is configured anew", func(t *testing.T) {
		g := &gpu{load: time.Second}
		g.options.Operator = State{Disabled: []string{"a"}}
		h := newHouse(t, g)
		if !h.View(h.a).Disabled {
			t.Fatal("the order is forgotten")
		}
		other := catalogOf([]string{"b"})
		other.Nodes[0].Name = "gpu-2"
		if err := h.Reload(other); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		c := h.reload([]string{"a"})
		if h.View(c.Slots[0]).Disabled {
			t.Error("an order that is long past holds again")
		}
		h.close()
	})
}
