package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// A view tells the shortest time in which a slot can be ready, and that is how long those who have a choice must be able to wait.
func TestSoonest(t *testing.T) {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	c := coreOf(2, func(*hearth.Slot) {})
	check := func(s int, want ...time.Duration) {
		t.Helper()
		for i, d := range want {
			if v := c.View(at(s), i); v.Soonest != d*time.Second {
				t.Errorf("after %d s, slot %d (%s): %v, not %v s", s, i, v.State, v.Soonest, d)
			}
		}
	}
	check(0, 0, 0)
	a := has(t, c.Ask(at(0), CoreAsk{ID: 1, Slot: 0, Budget: time.Hour}), "start 0")
	check(4, 0, 0) // nobody knows how long a load takes
	has(t, c.Ready(at(10), 0, a.Run), "grant 1")
	c.Ask(at(10), CoreAsk{ID: 2, Slot: 1, Budget: time.Hour})
	c.Tick(at(20))
	has(t, c.Release(at(24), 1), "stop 0") // drained for 4 s
	check(25, 10, 0)                       // no stop was seen yet
	b := has(t, c.Ended(at(27), 0, a.Run), "start 1")
	has(t, c.Ready(at(47), 1, b.Run), "grant 2")
	check(47, 10, 0)
	c.Release(at(48), 2)
	d := has(t, c.Ask(at(80), CoreAsk{ID: 3, Slot: 0, Budget: time.Hour}), "stop 1") // idle for longer than the loads there and back
	check(81, 10, 20)
	a = has(t, c.Ended(at(82), 1, d.Run), "start 0")
	check(86, 6, 6+20)
	has(t, c.Ready(at(92), 0, a.Run), "grant 3")
	check(92, 0, 27) // the shortest drain of 4 s and stop of 3 s
	late := c.Ask(at(93), CoreAsk{ID: 4, Slot: 1, Budget: 27*time.Second - 1, HasNext: true})
	if has(t, late, "refuse 4 slot_busy"); c.View(at(93), 1).Votes != 1 {
		t.Errorf("%+v", c.View(at(93), 1))
	}
	c.Ask(at(93), CoreAsk{ID: 5, Slot: 1, Budget: 27 * time.Second, HasNext: true})
	if v := c.View(at(93), 1); v.Waiting != 1 {
		t.Errorf("%+v", v)
	}
}

// What is left of a load passes by itself.
func TestSoonest_Passes(t *testing.T) {
	for state, most := range map[hearth.SlotState]time.Duration{hearth.SlotStarting: 7 * time.Second, hearth.SlotAsleep: 10 * time.Second} {
		var c cell
		c.view.Store(&published{hearth.SlotView{State: state, Soonest: 10 * time.Second}, time.Now().Add(-3 * time.Second)})
		if got := c.now().Soonest; got > most || state == hearth.SlotAsleep && got < most {
			t.Errorf("%v for 3 s: %v, not %v", state, got, most)
		}
		c.view.Store(&published{hearth.SlotView{State: state, Soonest: time.Second}, time.Now().Add(-3 * time.Second)})
		if got := c.now().Soonest; got < 0 {
			t.Errorf("%v: %v", state, got)
		}
	}
}
