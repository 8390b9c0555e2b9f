package slot

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// What is predicted of a slot gets shorter as time goes by, without a step of the slot: but no shorter than the load that
// has not begun.
func TestLoadRestAges(t *testing.T) {
	rest := func(t *testing.T, h *house, state hearth.SlotState, want time.Duration) {
		t.Helper()
		synctest.Wait()
		if v := h.View(h.a); v.State != state || v.LoadRest.Round(time.Second/10) != want {
			t.Errorf("%v, ready in %v; want %v, %v", v.State, v.LoadRest, state, want)
		}
	}
	const s = time.Second
	bubble(t, "starting", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour})
		h.ask(t.Context(), h.a, 0)
		h.ask(t.Context(), h.a, time.Hour)
		rest(t, h, hearth.SlotStarting, 30*s)
		pass(10 * s)
		rest(t, h, hearth.SlotStarting, 20*s)
		pass(30 * s)
		rest(t, h, hearth.SlotStarting, 0)
		pass(time.Minute)
		h.close()
	})
	bubble(t, "draining, then stopping", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 5 * s, stops: 8 * s})
		l, _ := h.lease(h.a)
		h.order(Sleep, h.a)
		pass(20 * s)
		l.Release()
		pass(8 * s) // now it is known how long it drains and stops
		h.lease(h.a)
		h.order(Sleep, h.a)
		rest(t, h, hearth.SlotDraining, 33*s)
		pass(15 * s)
		rest(t, h, hearth.SlotDraining, 18*s)
		h.given[1].Release()
		rest(t, h, hearth.SlotStopping, 13*s)
		pass(7 * s)
		rest(t, h, hearth.SlotStopping, 6*s)
		h.close()
	})
	bubble(t, "what takes longer than it did before", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 5 * s})
		h.lease(h.a)
		h.order(Drain, h.a)
		pass(20 * s)
		rest(t, h, hearth.SlotDraining, 5*s)
		h.close()
	})
	bubble(t, "failed", func(t *testing.T) {
		h := newHouse(t, &gpu{refuses: errors.New("no")})
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		rest(t, h, hearth.SlotFailed, 31*s)
		pass(s / 2)
		rest(t, h, hearth.SlotFailed, 30*s+s/2)
		h.close()
	})
}

// A ready engine may end without having died of anything: its device is not ours any more. Who uses it is told.
func TestGoneThoughNotDead(t *testing.T) {
	bubble(t, "the device is not ours any more", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.gpu.engine().die(&BusyError{Message: "another owns the device"})
		synctest.Wait()
		select {
		case <-l.Gone:
		default:
			t.Error("the lease is of an engine that is no more")
		}
		if v := h.state(h.a, hearth.SlotAsleep); v.LastError != "another owns the device" || !v.OtherBusy {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
}
