package slot

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }

const notice = 30 * time.Millisecond // in which a ready engine must be noticed and the first waiter served

func TestFleet(t *testing.T) {
	for _, load := range []time.Duration{0, 7 * time.Millisecond, 400 * time.Millisecond, 20 * time.Second, 89 * time.Second} {
		bubble(t, "a cold start is served when the load is over/"+load.String(), func(t *testing.T) {
			h := newHouse(t, &gpu{load: load})
			l, took := h.lease(h.a)
			between(t, "the cold start", took, load, load+notice)
			if l.APIKey.Reveal() != "secret-of-model-a" {
				t.Errorf("API key %q", l.APIKey.Reveal())
			}
			l.Release()
			h.close()
		})
	}
	bubble(t, "a warm slot is served at once", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		l.Release()
		l.Release()
		l, took := h.lease(h.a)
		between(t, "the warm request", took, 0, 0)
		if v := h.View(h.a); v.Inflight != 1 || v.Served != 2 || v.Loads != 1 || v.State != hearth.SlotReady {
			t.Errorf("view %+v", v)
		}
		l.Release()
		h.close()
	})
	bubble(t, "two callers at once start one engine", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 3 * time.Second}, func(s *hearth.Slot) { s.Concurrency = 2 })
		x, y := h.ask(t.Context(), h.a, time.Hour), h.ask(t.Context(), h.a, time.Hour)
		(<-x).lease.Release()
		(<-y).lease.Release()
		if h.gpu.starts != 1 {
			t.Errorf("%d engines were started", h.gpu.starts)
		}
		h.close()
	})
	bubble(t, "a budget that ends gives slot_loading at exactly the wait", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 100 * time.Second})
		o := <-h.ask(t.Context(), h.a, time.Hour)
		r := h.refused(o, hearth.SkipLoading)
		between(t, "the wait", o.took, h.a.Wait, h.a.Wait)
		between(t, "retry after", r.RetryAfter, time.Second, time.Second)
		o = <-h.ask(t.Context(), h.a, 4*time.Second)
		h.refused(o, hearth.SkipLoading)
		between(t, "the shorter wait", o.took, 4*time.Second, 4*time.Second)
		_, took := h.lease(h.a) // 94 of 100 s are over
		between(t, "the retry", took, 6*time.Second, 6*time.Second+2*pollMax)
		if h.gpu.starts != 1 {
			t.Errorf("%d engines were started", h.gpu.starts)
		}
		h.close()
	})
	bubble(t, "a waiter who leaves keeps the load going", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := <-h.ask(ctx, h.a, time.Hour)
		if !errors.Is(o.err, context.DeadlineExceeded) || o.took != time.Second {
			t.Errorf("got %v after %v", o.err, o.took)
		}
		synctest.Wait()
		if v := h.View(h.a); v.State != hearth.SlotStarting || v.Waiting != 0 || v.LoadRest != 29*time.Second {
			t.Errorf("view %+v", v)
		}
		pass(10 * time.Second)
		_, took := h.lease(h.a)
		between(t, "the retry", took, 0, 0)
		h.close()
	})
	bubble(t, "a swap waits for the stream in flight, then stops, then starts", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 20 * time.Second, stops: 2 * time.Second})
		stream, _ := h.lease(h.a)
		old := h.gpu.engine()
		b := h.ask(t.Context(), h.b, time.Hour)
		pass(30 * time.Second) // three turns
		synctest.Wait()
		select {
		case <-old.gone:
			t.Fatal("the stream in flight was cut")
		default:
		}
		if v := h.View(h.a); v.State != hearth.SlotDraining || time.Since(v.Since) != 20*time.Second || v.Inflight != 1 {
			t.Errorf("view %+v", v)
		}
		stream.Release()
		o := <-b
		if o.err != nil {
			t.Fatal(o.err)
		}
		between(t, "the swap", o.took, 52*time.Second, 52*time.Second+notice)
		o.lease.Release()
		if v := h.View(h.a); v.State != hearth.SlotAsleep || v.StopTime != 2*time.Second || !v.OtherBusy {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "a busy node is said as such, with the time that a swap takes", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 20 * time.Second})
		l, _ := h.lease(h.a)
		r := h.refused(<-h.ask(t.Context(), h.b, 4*time.Second), hearth.SkipBusy)
		between(t, "retry after", r.RetryAfter, 31*time.Second-notice, 31*time.Second+notice) // 1 s of residence, 30 s expected
		l.Release()
		h.close()
	})
	bubble(t, "the views stand by index", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.b)
		var got []string
		for _, v := range h.Views([]*hearth.Slot{h.a, h.b}, nil) {
			got = append(got, v.State.String())
		}
		if diff := cmp.Diff([]string{"asleep", "ready"}, got); diff != "" {
			t.Error(diff)
		}
		h.close()
	})
}

func TestFailures(t *testing.T) {
	bubble(t, "an exit while loading is a failure at once", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Minute, dies: 1234 * time.Millisecond})
		o := <-h.ask(t.Context(), h.a, time.Hour)
		r := h.refused(o, hearth.SkipFailed)
		between(t, "the failure", o.took, 1234*time.Millisecond, 1234*time.Millisecond)
		if want := "engine exited with code 1: out of memory; see the gateway's log"; r.Message != want || r.RetryAfter != time.Second {
			t.Errorf("refusal %+v", r)
		}
		o = <-h.ask(t.Context(), h.a, time.Hour)
		h.refused(o, hearth.SkipFailed)
		between(t, "the refusal in the back-off", o.took, 0, 0)
		if v := h.View(h.a); v.State != hearth.SlotFailed || v.LastError != "engine exited with code 1: loading | out of memory" {
			t.Errorf("view %+v", v)
		}
		pass(time.Second)
		h.state(h.a, hearth.SlotAsleep)
		h.gpu.change(0, 0)
		_, took := h.lease(h.a)
		between(t, "the start after the back-off", took, 0, 0)
		h.close()
	})
	bubble(t, "a driver's error tells callers nothing of the inside", func(t *testing.T) {
		h := newHouse(t, &gpu{refuses: errors.New("fork/exec /secret/path: no such file")})
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		if r.Message != "engine could not be started" {
			t.Errorf("message %q", r.Message)
		}
		if v := h.View(h.a); v.LastError != "fork/exec /secret/path: no such file" {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "a start past its limit has failed and its engine is stopped", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour, stops: time.Second}, func(s *hearth.Slot) { s.StartTimeout = 7 * time.Second })
		o := <-h.ask(t.Context(), h.a, time.Hour)
		h.refused(o, hearth.SkipFailed)
		between(t, "the failure", o.took, 7*time.Second, 7*time.Second)
		h.gpu.change(0, 0)
		_, took := h.lease(h.b)
		between(t, "the other model, once the engine is gone", took, time.Second, time.Second)
		h.close()
	})
	bubble(t, "a crash is mended by the next request, the stale lease harms nobody", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		old, _ := h.lease(h.a)
		h.gpu.engine().die(&ExitError{Code: -1, Signal: "killed"})
		synctest.Wait()
		if v := h.state(h.a, hearth.SlotAsleep); v.LastError != "engine ended by signal: killed: loading | out of memory" {
			t.Errorf("view %+v", v)
		}
		again, took := h.lease(h.a)
		between(t, "the restart", took, time.Second, time.Second+notice)
		old.Release()
		synctest.Wait()
		if v := h.View(h.a); v.Inflight != 1 {
			t.Errorf("%d in flight", v.Inflight)
		}
		h.gpu.engine().die(&ExitError{Code: -1, Signal: "killed"})
		synctest.Wait()
		r := h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipFailed)
		if r.RetryAfter != time.Second || r.Message != "engine ended by signal: killed: out of memory; see the gateway's log" {
			t.Errorf("refusal of a crash loop %+v", r)
		}
		pass(r.RetryAfter)
		_, took = h.lease(h.a)
		between(t, "the restart after it", took, time.Second, time.Second+notice)
		again.Release()
		h.close()
	})
	bubble(t, "a driver that blocks holds up nobody but its node", func(t *testing.T) {
		g := &gpu{blocks: make(chan struct{})}
		h := newHouse(t, g)
		a := h.ask(t.Context(), h.a, 3*time.Second)
		synctest.Wait()
		b := h.ask(t.Context(), h.b, 4*time.Second)
		h.refused(<-a, hearth.SkipLoading)
		h.refused(<-b, hearth.SkipBusy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := h.Fleet.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close says %v", err)
		}
		between(t, "the close", time.Since(begin), time.Second+killWait, time.Second+killWait)
		close(g.blocks)
		h.close()
	})
	bubble(t, "a probe that hangs does not hide the exit", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Minute})
		a := h.ask(t.Context(), h.a, time.Hour)
		synctest.Wait()
		e := h.gpu.engine()
		e.deaf.Store(true)
		pass(20 * time.Second)
		e.die(&ExitError{Code: 3})
		o := <-a
		h.refused(o, hearth.SkipFailed)
		between(t, "the failure", o.took, 20*time.Second, 20*time.Second)
		close(e.deafEnd)
		h.close()
	})
}

func TestClosing(t *testing.T) {
	bubble(t, "refusing waiters refuses them and who comes later, leases stay", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		waiting, other := h.ask(t.Context(), h.a, time.Hour), h.ask(t.Context(), h.b, time.Hour)
		synctest.Wait()
		h.RefuseWaiters()
		h.refused(<-waiting, hearth.SkipLoading)
		h.refused(<-other, hearth.SkipLoading)
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipLoading)
		if h.gpu.engine() == nil {
			t.Error("the engine was stopped")
		}
		l.Release()
		h.close()
		l.Release()
		h.refused(<-h.ask(t.Context(), h.a, time.Hour), hearth.SkipLoading)
	})
	bubble(t, "closing while an engine starts leaves none", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Minute, stops: time.Second})
		a := h.ask(t.Context(), h.a, time.Hour)
		pass(5 * time.Second)
		begin := time.Now()
		h.close()
		between(t, "the close", time.Since(begin), time.Second, time.Second)
		h.refused(<-a, hearth.SkipLoading)
	})
	bubble(t, "closing out of time kills", func(t *testing.T) {
		h := newHouse(t, &gpu{stops: time.Hour})
		l, _ := h.lease(h.a)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		if err := h.Fleet.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		between(t, "the close", time.Since(begin), 3*time.Second, 3*time.Second)
		if h.gpu.engine() != nil {
			t.Error("the engine is left")
		}
		l.Release() // nobody is there to take it back
		if err := h.Fleet.Close(t.Context()); err != nil {
			t.Errorf("closed again: %v", err)
		}
	})
	bubble(t, "a thousand waiters who leave leave nothing", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second}, func(s *hearth.Slot) { s.Queue, s.Concurrency = 5000, 3 })
		ctx, cancel := context.WithCancel(t.Context())
		var waiting []<-chan outcome
		for range 1000 {
			waiting = append(waiting, h.ask(ctx, h.a, time.Hour))
		}
		time.AfterFunc(time.Second, cancel) // together with the engine's being ready: some have it granted
		served := 0
		for _, w := range waiting {
			if o := <-w; o.err == nil {
				served++
				o.lease.Release()
			}
		}
		synctest.Wait()
		if v := h.View(h.a); v.Inflight != 0 || v.Waiting != 0 {
			t.Errorf("view %+v after %d were served", v, served)
		}
		h.close()
	})
}
