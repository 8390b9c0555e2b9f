package slot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// order gives an order that must be obeyed.
func (h *house) order(verb Verb, s *hearth.Slot) {
	h.t.Helper()
	o := Order{Verb: verb, Slot: s.Name}
	if verb == Pause || verb == Resume {
		o = Order{Verb: verb, Node: s.Node.Name}
	}
	if err := h.Order(h.t.Context(), o); err != nil {
		h.t.Fatalf("%s %s: %v", verb, s.Name, err)
	}
}

func (h *house) state(s *hearth.Slot, want hearth.SlotState) hearth.SlotView {
	h.t.Helper()
	synctest.Wait()
	v := h.View(s)
	if v.State != want {
		h.t.Fatalf("slot %s is %s, want %s: %+v", s.Name, v.State, want, v)
	}
	return v
}

func TestOrders(t *testing.T) {
	bubble(t, "wake, sleep, drain, disable, enable", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 3 * time.Second, stops: time.Second})
		h.order(Wake, h.a)
		h.state(h.a, hearth.SlotStarting)
		pass(4 * time.Second)
		_, took := h.lease(h.a)
		between(t, "the request after the wake", took, 0, 0)
		h.given[0].Release()
		h.order(Sleep, h.a)
		h.state(h.a, hearth.SlotStopping)
		pass(2 * time.Second)
		h.state(h.a, hearth.SlotAsleep)
		h.order(Drain, h.a)
		if v := h.state(h.a, hearth.SlotAsleep); !v.Drained || v.Status() != -10 {
			t.Errorf("view %+v", v)
		}
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		h.order(Disable, h.a)
		h.order(Enable, h.a)
		if v := h.state(h.a, hearth.SlotAsleep); v.Drained || v.Disabled {
			t.Errorf("view %+v", v)
		}
		h.lease(h.a)
		h.close()
	})
	bubble(t, "a pause refuses at once, and its end is the end", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		if err := h.Order(t.Context(), Order{Verb: Pause, Node: "gpu-1", For: 2 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipBusy)
		if r.RetryAfter != time.Hour || h.View(h.b).Status() != -10 {
			t.Errorf("refusal %+v, view %+v", r, h.View(h.b))
		}
		pass(2*time.Hour + time.Millisecond)
		if v := h.state(h.a, hearth.SlotAsleep); !v.Paused.IsZero() {
			t.Errorf("view %+v", v)
		}
		h.lease(h.a)
		h.close()
	})
	bubble(t, "orders that make no sense", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		for want, o := range map[error]Order{
			ErrNoSlot: {Verb: Wake, Slot: "c"}, ErrNoNode: {Verb: Pause, Node: "a"}, ErrNoVerb: {Verb: "explode", Slot: "a"},
		} {
			if err := h.Order(t.Context(), o); !errors.Is(err, want) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		h.order(Disable, h.a)
		if err := h.Order(t.Context(), Order{Verb: Wake, Slot: "a"}); err == nil || !strings.Contains(err.Error(), "disabled") {
			t.Errorf("waking a disabled slot: %v", err)
		}
		h.close()
		if err := h.Order(t.Context(), Order{Verb: Wake, Slot: "b"}); err == nil {
			t.Error("a closed fleet obeys")
		}
	})
	bubble(t, "those who hold leases are told at the end of the longest drain, and not before", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		h.order(Drain, h.a)
		begin := time.Now()
		<-l.Cut
		between(t, "the drain", time.Since(begin), h.a.DrainMax, h.a.DrainMax)
		l.Release()
		h.state(h.a, hearth.SlotAsleep)
		h.close()
	})
	bubble(t, "whoever does not let go after the cut holds nothing up", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		h.order(Sleep, h.a)
		pass(h.a.DrainMax + cutGrace - time.Millisecond)
		h.state(h.a, hearth.SlotDraining)
		pass(time.Millisecond)
		h.state(h.a, hearth.SlotAsleep)
		again, _ := h.lease(h.a)
		select {
		case <-again.Cut:
			t.Error("the next lease is cut")
		case <-l.Cut:
		}
		h.close()
	})
}

func TestOperator(t *testing.T) {
	bubble(t, "what operators ordered outlives the fleet", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		if diff := cmp.Diff(State{}, h.Operator()); diff != "" {
			t.Error(diff)
		}
		h.order(Drain, h.a)
		h.order(Disable, h.b)
		if err := h.Order(t.Context(), Order{Verb: Pause, Node: "gpu-1", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := h.Operator()
		want := State{Drained: []string{"a"}, Disabled: []string{"b"}, Paused: map[string]time.Time{"gpu-1": time.Now().Add(time.Hour)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		h.close()
		pass(time.Minute)
		got.Drained = append(got.Drained, "of another time")
		h = newHouse(t, &gpu{options: Options{Operator: got}})
		if diff := cmp.Diff(want, h.Operator()); diff != "" {
			t.Error(diff)
		}
		pass(time.Hour)
		delete(want.Paused, "gpu-1")
		want.Paused = nil
		if diff := cmp.Diff(want, h.Operator()); diff != "" {
			t.Errorf("after the pause: %s", diff)
		}
		h.close()
	})
}

func TestWatch(t *testing.T) {
	bubble(t, "every step with its reason, until the watcher leaves", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second, stops: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		events := h.Watch(ctx)
		h.lease(h.a)
		b := h.ask(t.Context(), h.b, time.Hour)
		pass(7 * time.Second)
		h.given[0].Release()
		(<-b).lease.Release()
		h.order(Drain, h.b)
		pass(2 * time.Second)
		h.order(Disable, h.b)
		synctest.Wait()
		var got []string
		for len(events) > 0 {
			e := <-events
			got = append(got, fmt.Sprintf("%s %s %s>%s: %s", e.Node, e.Model, e.From, e.To, e.Why))
			if e.Slot == "" || e.At.IsZero() || e.View.Since.IsZero() || e.Missed != 0 {
				t.Errorf("event %+v", e)
			}
		}
		want := []string{
			"gpu-1 model-a asleep>starting: a request waits for it",
			"gpu-1 model-a starting>ready: the engine is ready",
			"gpu-1 model-a ready>draining: another model is waited for: b",
			"gpu-1 model-a draining>stopping: nobody uses it",
			"gpu-1 model-a stopping>asleep: the engine is gone",
			"gpu-1 model-b asleep>starting: a request waits for it",
			"gpu-1 model-b starting>ready: the engine is ready",
			"gpu-1 model-b ready>draining: the operator drains it",
			"gpu-1 model-b draining>stopping: nobody uses it",
			"gpu-1 model-b stopping>asleep: the engine is gone",
			"gpu-1 model-b asleep>asleep: the operator disables it",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		cancel()
		if _, ok := <-events; ok {
			t.Error("the channel is not closed")
		}
		h.close()
	})
	bubble(t, "a watcher that does not keep up loses the oldest and knows how many; nobody waits for it", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		events := h.Watch(t.Context())
		const orders = 1000
		for range orders / 2 {
			h.order(Disable, h.a)
			h.order(Enable, h.a)
		}
		h.close()
		seen, missed, last := 0, 0, Event{}
		for e := range events { // the end of the fleet ends it
			seen, missed, last = seen+1, missed+e.Missed, e
		}
		if seen != watchRoom || seen+missed != orders || last.View.Disabled {
			t.Errorf("%d seen, %d missed, the last is %+v", seen, missed, last)
		}
		if _, ok := <-h.Watch(t.Context()); ok {
			t.Error("a closed fleet can be watched")
		}
	})
}

func TestLogTail(t *testing.T) {
	bubble(t, "of the engine that is there, and of the one before", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		if tail, err := h.LogTail("a"); err != nil || tail != nil {
			t.Errorf("before the first start: %q, %v", tail, err)
		}
		want := []string{"loading", "out of memory"}
		l, _ := h.lease(h.a)
		tail, err := h.LogTail("a")
		if diff := cmp.Diff(want, tail); diff != "" || err != nil {
			t.Error(diff, err)
		}
		l.Release()
		h.order(Sleep, h.a)
		h.state(h.a, hearth.SlotAsleep)
		if tail, err = h.LogTail("a"); !cmp.Equal(want, tail) || err != nil {
			t.Errorf("of the engine before: %q, %v", tail, err)
		}
		if _, err := h.LogTail("c"); !errors.Is(err, ErrNoSlot) {
			t.Errorf("of no slot: %v", err)
		}
		h.close()
	})
	t.Run("a view shows few of many lines, and not all of a long one", func(t *testing.T) {
		tail := []string{"one", "two", "", strings.Repeat("é", 1000), " three\xff ", ""}
		got := withLast("engine exited with code 1", tail)
		if want := "engine exited with code 1: two | " + strings.Repeat("é", 100) + "… | three?"; got != want {
			t.Errorf("got %q", got)
		}
		if got := withLast("so", nil); got != "so" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a caller is told reasons, not lines", func(t *testing.T) {
		for line, want := range map[string]string{
			"CUDA error: Out Of Memory at /home/me/secret": ": out of memory",
			"llama_model_load: error loading model: /x":    ": the model could not be loaded",
			"hello from /home/me":                          "",
		} {
			if got := reason([]string{"x", line, "y"}); got != want {
				t.Errorf("%q gives %q", line, got)
			}
		}
		if got := reason(append([]string{"out of memory"}, make([]string, reasonLines)...)); got != "" {
			t.Errorf("a line of long ago gives %q", got)
		}
	})
}
