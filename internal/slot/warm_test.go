package slot

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// yard is a fleet of one node, where each slot has a device of its own that holds one engine. A bubble's clock begins on Saturday,
// 2000-01-01, 00:00 UTC.
type yard struct {
	*Fleet
	t    *testing.T
	cat  *hearth.Catalog
	gpus map[string]*gpu
}

func newYard(t *testing.T, load time.Duration, node func(*hearth.Node), slots ...func(*hearth.Slot)) *yard {
	t.Helper()
	names := []string{"a", "b", "c"}[:len(slots)]
	y := &yard{t: t, cat: catalogOf(names), gpus: map[string]*gpu{}}
	node(y.cat.Nodes[0])
	for i, f := range slots {
		f(y.cat.Slots[i])
		y.gpus[names[i]] = &gpu{t: t, load: load, stops: time.Second}
	}
	var err error
	y.Fleet, err = NewFleet(y.cat, Options{
		Driver: func(s *hearth.Slot) (Driver, error) { return y.gpus[s.Name], nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that failed half-way; else it is closed already
		if err := y.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return y
}

func (y *yard) close() {
	y.t.Helper()
	if err := y.Close(context.Background()); err != nil {
		y.t.Errorf("close: %v", err)
	}
	for name, g := range y.gpus {
		if e := g.engine(); e != nil {
			y.t.Errorf("the engine of %s is left", name)
		}
	}
}

// lease asks for a slot by its place, and wants to be served after so long.
func (y *yard) lease(slot int, after time.Duration) *Lease {
	y.t.Helper()
	begin := time.Now()
	l, err := y.Acquire(context.Background(), Ask{Slot: y.cat.Slots[slot], Budget: time.Hour})
	if err != nil {
		y.t.Fatalf("acquire: %v", err)
	}
	between(y.t, "the wait", time.Since(begin), after, after+30*time.Millisecond+pollMax)
	return l
}

// state wants a slot to be in a state now.
func (y *yard) state(slot int, want hearth.SlotState) hearth.SlotView {
	y.t.Helper()
	v := y.View(y.cat.Slots[slot])
	if v.State != want {
		y.t.Errorf("slot %d is %v at %v, want %v", slot, v.State, time.Now().UTC().Format(time.TimeOnly), want)
	}
	return v
}

// until lets the bubble's clock come to a time of the first day.
func until(t time.Duration) {
	pass(time.Until(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(t)))
}

func TestHours(t *testing.T) {
	plain := func(*hearth.Slot) {}
	bubble(t, "the hours end while a stream is in flight: it ends by itself, and the engine only then", func(t *testing.T) {
		y := newYard(t, 10*time.Second, func(n *hearth.Node) { n.Available = daily(8, 19) }, plain, plain)
		until(7 * time.Hour)
		_, err := y.Acquire(t.Context(), Ask{Slot: y.cat.Slots[0], Budget: time.Hour})
		refusedAs(t, err, hearth.SkipBusy, time.Hour, "the GPU is outside of its hours")
		if v := y.state(0, hearth.SlotAsleep); v.Status() != -10 || !v.Shut.Equal(time.Date(2000, 1, 1, 8, 0, 0, 0, time.UTC)) {
			t.Errorf("status %d until %v", v.Status(), v.Shut)
		}
		until(8*time.Hour + time.Second)
		if v := y.state(0, hearth.SlotAsleep); v.Status() != -2 || !v.Shut.IsZero() {
			t.Errorf("status %d until %v", v.Status(), v.Shut)
		}
		stream := y.lease(0, 10*time.Second)
		until(18*time.Hour + 59*time.Minute + 58*time.Second)
		waits := make(chan error, 1)
		go func() {
			_, err := y.Acquire(context.Background(), Ask{Slot: y.cat.Slots[0], Budget: time.Hour})
			waits <- err
		}()
		refusedAs(t, <-waits, hearth.SkipBusy, time.Hour, "the GPU is outside of its hours")
		between(t, "the end of the day", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), 19*time.Hour, 19*time.Hour+time.Millisecond)
		if v := y.state(0, hearth.SlotDraining); v.Status() != -10 || v.Inflight != 1 {
			t.Errorf("status %d, %d in flight", v.Status(), v.Inflight)
		}
		until(22 * time.Hour) // far longer than drain_max
		select {
		case <-stream.Cut:
			t.Error("the stream is cut")
		case <-stream.Gone:
			t.Error("the engine went under the stream")
		default:
		}
		stream.Release()
		until(22*time.Hour + 2*time.Second)
		y.state(0, hearth.SlotAsleep)
		if e := y.gpus["a"].engine(); e != nil {
			t.Error("the engine is left after the last stream")
		}
		until(32*time.Hour + time.Second)
		y.lease(1, 10*time.Second).Release()
		y.close()
	})
	bubble(t, "a node that starts outside of its hours waits for them, with its companion", func(t *testing.T) {
		y := newYard(t, time.Second, func(n *hearth.Node) { n.Available = daily(8, 19) }, plain, func(s *hearth.Slot) {
			s.Companion, s.KeepWarm = true, &hearth.Calendar{}
		})
		until(8*time.Hour - time.Second)
		y.state(1, hearth.SlotAsleep)
		until(8*time.Hour + 2*time.Second)
		y.state(1, hearth.SlotReady)
		y.lease(1, 0).Release()
		y.close()
	})
}

func refusedAs(t *testing.T, err error, word hearth.SkipReason, after time.Duration, message string) {
	t.Helper()
	r, ok := err.(*Refusal)
	if !ok || r.Word != word || r.RetryAfter != after || r.Message != message {
		t.Errorf("got %#v, want %s after %v: %s", err, word, after, message)
	}
}

func TestKeepWarm(t *testing.T) {
	bubble(t, "it is up by itself, and never in the way of a model in demand", func(t *testing.T) {
		y := newYard(t, 10*time.Second, func(*hearth.Node) {}, func(s *hearth.Slot) { s.KeepWarm = within(6, 20) }, func(*hearth.Slot) {})
		until(6*time.Hour - time.Second)
		y.state(0, hearth.SlotAsleep)
		until(6*time.Hour + 11*time.Second)
		y.state(0, hearth.SlotReady)
		y.lease(0, 0).Release()
		until(7 * time.Hour)
		l := y.lease(1, 11*time.Second) // 1 s for the one to stop, 10 s for the other to load
		for range 300 {                 // one request after the other, with pauses, for hours
			pass(30 * time.Second)
			l.Release()
			pass(50 * time.Second)
			l = y.lease(1, 0)
		}
		l.Release()
		if starts := y.gpus["b"].starts; starts != 1 {
			t.Errorf("the model in demand was started %d times", starts)
		}
		pass(warmAfter - time.Second)
		y.state(1, hearth.SlotReady)
		pass(13 * time.Second) // 1 s is left, 1 s to stop, 10 s to load
		y.state(1, hearth.SlotAsleep)
		y.state(0, hearth.SlotReady)
		y.lease(0, 0).Release()
		y.close()
	})
}

// A companion that was sent to sleep is to be up again from the moment at which it is woken, whatever else is ordered before it
// can be started.
func TestCompanion_WokenAndDrained(t *testing.T) {
	s := newSim(t, hearth.Node{Exclusive: true}, &hearth.Slot{Companion: true, KeepWarm: &hearth.Calendar{}, Wait: time.Minute, StartTimeout: time.Minute})
	s.do(event{kind: evTick})
	for _, line := range []string{"ready a", "sleep a", "wake a", "drain a", "ended a", "enable a"} {
		s.run(line)
	}
	if want := []string{"0s start a", "0s stop a", "0s start a"}; !slices.Equal(s.log, want) {
		t.Errorf("%q, want %q", s.log, want)
	}
}

func TestBeside(t *testing.T) {
	bubble(t, "two models on one device, and a third that needs the room of one", func(t *testing.T) {
		room := func(gibs int64) func(*hearth.Slot) { return func(s *hearth.Slot) { s.Memory = gibs * gib } }
		y := newYard(t, 10*time.Second, func(n *hearth.Node) {
			n.Exclusive, n.Devices = false, []hearth.Device{{Memory: 24 * gib}}
		}, room(12), room(12), func(s *hearth.Slot) { s.Memory = 12 * gib })
		a := y.lease(0, 10*time.Second)
		b := y.lease(1, 10*time.Second)
		if v := y.View(y.cat.Slots[2]); !v.OtherBusy || v.Status() != -3 {
			t.Errorf("the third: %+v", v)
		}
		a.Release()
		pass(time.Minute)
		c := y.lease(2, 11*time.Second)
		if y.gpus["b"].starts != 1 || y.gpus["a"].engine() != nil {
			t.Error("the one that was in use had to go, not the idle one")
		}
		b.Release()
		c.Release()
		y.close()
	})
}
