package slot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// locks are node locks of which somebody else may hold one.
type locks struct {
	mu    sync.Mutex
	other bool
	ours  int
}

func (l *locks) lock(*hearth.Node) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.other || l.ours > 0 {
		return nil, errors.New("locked")
	}
	l.ours++
	return func() { l.mu.Lock(); l.ours--; l.mu.Unlock() }, nil
}

func (l *locks) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ours
}

func (l *locks) taken(by bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.other = by
}

func TestLock(t *testing.T) {
	bubble(t, "the node of another gateway is busy until that lets go", func(t *testing.T) {
		l := &locks{other: true}
		h := newHouse(t, &gpu{options: Options{Lock: l.lock}})
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipBusy)
		if r.Message != "the GPU belongs to another gateway" || r.RetryAfter != lockRetry {
			t.Errorf("refusal %+v", r)
		}
		if v := h.state(h.a, hearth.SlotAsleep); !v.Foreign || v.Status() != -3 {
			t.Errorf("view %+v", v)
		}
		pass(12 * time.Second)
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipBusy)
		l.taken(false)
		pass(3*time.Second + time.Millisecond) // 15 s after the first try
		h.lease(h.a)
		h.close()
		if l.held() != 0 {
			t.Error("the lock is kept")
		}
	})
	bubble(t, "the lock is held until the last engine is gone", func(t *testing.T) {
		l := &locks{}
		h := newHouse(t, &gpu{stops: time.Minute, options: Options{Lock: l.lock}})
		h.lease(h.a)
		h.given[0].Release()
		first := make(chan error)
		go func() { first <- h.Close(context.Background()) }()
		pass(59 * time.Second)
		if l.held() != 1 {
			t.Error("the lock is given back with an engine there")
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		h.close()
		if l.held() != 0 {
			t.Error("the lock is kept")
		}
	})
	bubble(t, "a fleet that never owned its node closes", func(t *testing.T) {
		h := newHouse(t, &gpu{options: Options{Lock: (&locks{other: true}).lock}})
		pass(time.Minute)
		h.close()
	})
}

// found makes a GPU with an engine of an earlier gateway.
func found(load time.Duration, slots ...string) *gpu {
	g := &gpu{load: load, options: Options{Adopted: map[string]Engine{}}}
	for _, s := range slots {
		g.options.Adopted[s] = g.make(&hearth.Slot{Model: &hearth.Model{ID: "model-" + s}})
	}
	return g
}

func TestAdopted(t *testing.T) {
	bubble(t, "it is used once its probe says that it is ready, and no load was measured", func(t *testing.T) {
		h := newHouse(t, found(2*time.Second, "a"))
		h.state(h.a, hearth.SlotStarting)
		_, took := h.lease(h.a)
		between(t, "the adoption", took, 2*time.Second, 2*time.Second+notice)
		if v := h.View(h.a); v.Loads != 0 || v.LoadTime != 0 || v.Served != 1 || h.gpu.starts != 0 {
			t.Errorf("view %+v, %d starts", v, h.gpu.starts)
		}
		h.close()
	})
	bubble(t, "it gives way like any other", func(t *testing.T) {
		h := newHouse(t, found(0, "a"))
		pass(time.Second)
		h.lease(h.b)
		h.close()
	})
	bubble(t, "of two on an exclusive node one is stopped", func(t *testing.T) {
		g := found(0, "a", "b")
		h := newHouse(t, g)
		pass(time.Second)
		h.state(h.a, hearth.SlotReady)
		h.state(h.b, hearth.SlotAsleep)
		h.lease(h.a)
		h.close()
	})
	bubble(t, "on the node of another gateway it is stopped", func(t *testing.T) {
		g := found(0, "a")
		g.options.Lock = (&locks{other: true}).lock
		h := newHouse(t, g)
		pass(time.Second)
		if v := h.state(h.a, hearth.SlotAsleep); !v.Foreign || g.engine() != nil {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "one that ends is a failure", func(t *testing.T) {
		g := found(time.Hour, "a")
		h := newHouse(t, g)
		g.engine().die(&ExitError{Code: 1})
		h.state(h.a, hearth.SlotFailed)
		h.close()
	})
	t.Run("of an unknown slot", func(t *testing.T) {
		_, err := NewFleet(catalogOf([]string{"a"}), Options{Adopted: found(0, "c").options.Adopted})
		if !errors.Is(err, ErrNoSlot) {
			t.Errorf("error %v", err)
		}
	})
}

func TestLeave(t *testing.T) {
	keep := func(s *hearth.Slot) { s.OnExit = "keep" }
	told := func(t *testing.T, events <-chan Event, want string) {
		t.Helper()
		last := Event{}
		for e := range events {
			last = e
		}
		if last.To != hearth.SlotAsleep || last.Why != want || last.View.StopTime != 0 {
			t.Errorf("the last event is %+v", last)
		}
	}
	bubble(t, "a ready engine goes on without the gateway", func(t *testing.T) {
		h := newHouse(t, &gpu{stops: time.Hour}, keep)
		l, _ := h.lease(h.a)
		e := h.gpu.engine()
		l.Release()
		events := h.Watch(t.Context())
		begin := time.Now()
		h.close()
		told(t, events, "the engine goes on without the gateway")
		between(t, "the close", time.Since(begin), 0, 0)
		select {
		case <-e.gone:
			t.Error("the engine was stopped")
		default:
		}
		if !e.left.Load() {
			t.Error("the engine was not let go of")
		}
	})
	bubble(t, "those who use it are told first", func(t *testing.T) {
		h := newHouse(t, &gpu{}, keep)
		l, _ := h.lease(h.a)
		e := h.gpu.engine()
		go func() { <-l.Cut; l.Release() }()
		if err := h.Fleet.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !e.left.Load() {
			t.Error("the engine was not let go of")
		}
		h.close()
	})
	bubble(t, "one that cannot be let go of is stopped", func(t *testing.T) {
		h := newHouse(t, &gpu{clings: true}, keep)
		l, _ := h.lease(h.a)
		l.Release()
		events := h.Watch(t.Context())
		h.close()
		told(t, events, "the engine is gone")
	})
	bubble(t, "who uses it for too long knows that it is lost before it is known whether it goes on", func(t *testing.T) {
		h := newHouse(t, &gpu{clings: true, stops: time.Minute}, keep)
		l, _ := h.lease(h.a)
		begin := time.Now()
		gone := make(chan time.Time, 1)
		l.OnGone(func() { gone <- time.Now() })
		if err := h.Fleet.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := (<-gone).Sub(begin); took != cutGrace {
			t.Errorf("told after %v", took)
		}
		l.Release()
	})
	bubble(t, "one that is only starting is stopped", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Minute}, keep)
		a := h.ask(t.Context(), h.a, time.Hour)
		synctest.Wait()
		h.close()
		h.refused(<-a, hearth.SkipLoading)
	})
}

func TestProbes(t *testing.T) {
	bubble(t, "what a ready engine says of itself is taken on", func(t *testing.T) {
		h := newHouse(t, &gpu{facts: hearth.SlotFacts{Window: 4096, Parallel: 1}}, func(s *hearth.Slot) { s.Concurrency = 0 })
		h.lease(h.a)
		waiting := h.ask(t.Context(), h.a, time.Hour)
		h.gpu.engine().says.Store(&Report{Ready: true, Facts: hearth.SlotFacts{Window: 8192, Parallel: 2, Model: "m", Warning: "w"}})
		o := <-waiting
		between(t, "the second place", o.took, checkEvery, checkEvery)
		h.given = append(h.given, o.lease)
		if got, want := h.View(h.a).Facts, (hearth.SlotFacts{Window: 8192, Parallel: 2, Model: "m", Warning: "w"}); got != want {
			t.Errorf("facts %+v", got)
		}
		h.close()
	})
	bubble(t, "an engine that has another model by now serves nobody, and has failed if that lasts", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.gpu.engine().says.Store(&Report{Why: "it lists other models: x"})
		pass(checkEvery)
		synctest.Wait()
		l.Release()
		waiting := h.ask(t.Context(), h.a, time.Hour)
		synctest.Wait()
		if v := h.state(h.a, hearth.SlotReady); v.Inflight != 0 || v.Waiting != 1 || v.Facts.Warning != "it lists other models: x" {
			t.Errorf("view %+v", v)
		}
		o := <-waiting
		between(t, "the next engine", o.took, unreadyMax, unreadyMax+pollMax)
		h.given = append(h.given, o.lease)
		if v := h.state(h.a, hearth.SlotReady); h.gpu.starts != 2 || v.LastError != "engine is not ready any more: it lists other models: x: loading | out of memory" {
			t.Errorf("%d starts, view %+v", h.gpu.starts, v)
		}
		h.close()
	})
	bubble(t, "an engine that is used and says that it is not ready is not stopped, and may come back", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.gpu.engine().says.Store(&Report{})
		pass(10 * time.Minute)
		h.state(h.a, hearth.SlotReady)
		h.gpu.engine().says.Store(nil)
		pass(time.Second)
		l.Release()
		_, took := h.lease(h.a)
		between(t, "the next", took, 0, 0)
		h.close()
	})
	bubble(t, "an engine that does not answer in time is left alone", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		e := h.gpu.engine()
		e.deaf.Store(true)
		pass(10 * time.Minute)
		h.state(h.a, hearth.SlotReady)
		close(e.deafEnd)
		h.close()
	})
	bubble(t, "a device that is not free is said as such", func(t *testing.T) {
		g := &gpu{refuses: &BusyError{Message: "another program uses the GPU's memory"}}
		h := newHouse(t, g)
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipBusy)
		if r.Message != "another program uses the GPU's memory" || r.RetryAfter != busyRetry {
			t.Errorf("refusal %+v", r)
		}
		if v := h.state(h.a, hearth.SlotAsleep); v.Status() != -3 || v.LastError != r.Message {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "the last lines of a start that took too long are seen when it is gone", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour, stops: time.Second}, func(s *hearth.Slot) { s.StartTimeout = 7 * time.Second })
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		pass(900 * time.Millisecond)
		if v := h.state(h.a, hearth.SlotFailed); v.LastError != "engine was not ready within 7s" {
			t.Errorf("view %+v", v)
		}
		pass(200 * time.Millisecond)
		synctest.Wait()
		if v := h.View(h.a); v.LastError != "engine was not ready within 7s: loading | out of memory" {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
}
