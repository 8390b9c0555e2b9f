package slot

import (
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// hurried asks for a slot, with somebody else who could serve and less time than a load takes.
func (h *house) hurried(s *hearth.Slot) visit {
	h.t.Helper()
	v := <-h.visit(h.t.Context(), Ask{Slot: s, Budget: time.Second, HasNext: true}, 0)
	if v.err == nil {
		h.t.Fatalf("%s served who had no time for its load", s.Name)
	}
	return v
}

func TestHopelessWait(t *testing.T) {
	bubble(t, "who could not be served in time is told at once, and the resident model stays", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.a, time.Minute)
		engine := h.gpu.engine()
		v := h.hurried(h.b)
		if r := h.refused(outcome{err: v.err}, hearth.SkipBusy); v.waited() != 0 || r.RetryAfter < time.Second {
			t.Errorf("told after %v: %v, retry after %v", v.waited(), r, r.RetryAfter)
		}
		if n := h.View(h.b).Votes; n != 1 {
			t.Errorf("%d votes", n)
		}
		<-long
		pass(10 * time.Second)
		if h.gpu.engine() != engine || h.View(h.b).State != hearth.SlotAsleep {
			t.Error("a request that was not let wait has changed the model")
		}
		h.calm()
	})
	bubble(t, "with time for it one waits and is served: local first", func(t *testing.T) {
		h := shuttle(t)
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: 4 * time.Second, HasNext: true}, 0)
		if v.err != nil {
			t.Error(v.err)
		}
		between(t, "the swap", v.waited(), 3*time.Second, 3*time.Second+notice)
		h.calm()
	})
	bubble(t, "who has nowhere else to go waits in any case, to the end of the budget", func(t *testing.T) {
		h := shuttle(t)
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: time.Second}, 0)
		h.refused(outcome{err: v.err}, hearth.SkipBusy)
		between(t, "the refusal", v.waited(), time.Second, time.Second)
		pass(time.Minute)
		h.state(h.b, hearth.SlotReady) // the load goes on for the retry
		h.calm()
	})
	bubble(t, "in doubt one waits: of a model that never loaded nobody knows how long that takes", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 900 * time.Millisecond})
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: time.Second, HasNext: true}, 0)
		if v.err != nil {
			t.Error(v.err)
		}
		h.calm()
	})
	bubble(t, "who waits already is told as soon as it is hopeless, not at the end", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.a, time.Minute)
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: 20 * time.Second, HasNext: true}, 0)
		if v.err == nil || v.waited() > 18*time.Second || v.waited() < 15*time.Second {
			t.Errorf("told after %v: %v", v.waited(), v.err)
		}
		<-long
		pass(time.Minute)
		h.calm()
	})
}

func TestHopelessWait_WhatCounts(t *testing.T) {
	bubble(t, "a question beside a request leaves no vote", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.a, time.Minute)
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: time.Second, HasNext: true, Brief: true}, 0)
		if n := h.View(h.b).Votes; v.err == nil || v.waited() != 0 || n != 0 {
			t.Errorf("%v after %v, %d votes", v.err, v.waited(), n)
		}
		<-long
		h.calm()
	})
	bubble(t, "nothing is hopeless while another slot that would do may come free", func(t *testing.T) {
		h := shuttle(t)
		busy := h.come(h.a, 500*time.Millisecond)
		v := <-h.visit(t.Context(), Ask{Slot: h.b, Also: []*hearth.Slot{h.a}, Budget: time.Second, HasNext: true}, 0)
		if v.err != nil || v.slot != h.a || v.waited() != 500*time.Millisecond {
			t.Errorf("after %v: %v", v.waited(), v.err)
		}
		<-busy
		h.calm()
	})
	bubble(t, "the drain counts, as far as one was seen", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.a, h.a.Node.Turn+4*time.Second)
		<-h.come(h.b, time.Second) // after a drain of 4 s
		<-long
		<-h.come(h.a, time.Second)
		pass(time.Minute)
		long = h.come(h.a, 30*time.Second)
		if v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: 6 * time.Second, HasNext: true}, 0); v.err == nil || v.waited() != 0 {
			t.Errorf("told after %v: %v", v.waited(), v.err)
		}
		<-long
		pass(time.Minute)
		h.calm()
	})
}

func TestVotesInTheLoop(t *testing.T) {
	bubble(t, "a card that has nothing to do is given to the model that was asked for in vain", func(t *testing.T) {
		h := shuttle(t)
		pass(time.Hour)
		h.hurried(h.b)
		pass(4 * time.Second)
		h.state(h.b, hearth.SlotReady)
		if v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: time.Second, HasNext: true}, 0); v.waited() != 0 || v.err != nil {
			t.Errorf("the next one waited %v, %v", v.waited(), v.err)
		}
		h.calm()
	})
	bubble(t, "but not to and fro: the next such swap is only made when it has been idle for long", func(t *testing.T) {
		h := shuttle(t)
		pass(time.Hour)
		h.hurried(h.b)
		pass(8 * time.Second)
		h.state(h.b, hearth.SlotReady)
		h.hurried(h.a)
		pass(10 * time.Second)
		h.state(h.b, hearth.SlotReady)
		h.calm()
	})
	bubble(t, "a card at work is not, for single requests", func(t *testing.T) {
		h := shuttle(t)
		stop := h.stream(h.a, 900*time.Millisecond)
		engine := h.gpu.engine()
		for range 30 {
			pass(time.Minute)
			h.hurried(h.b)
		}
		if h.gpu.engine() != engine {
			t.Error("single requests have torn down a model that is in use")
		}
		for _, v := range stop() {
			if v.err != nil || v.waited() > 0 {
				t.Fatalf("somebody waited %v, %v", v.waited(), v.err)
			}
		}
		pass(time.Minute)
		h.calm()
	})
	bubble(t, "a lasting change of demand does change the model, though nobody ever waits for it", func(t *testing.T) {
		h := shuttle(t)
		<-h.come(h.b, 900*time.Millisecond) // how long a request for it takes is known
		<-h.come(h.a, 900*time.Millisecond)
		pass(10 * time.Minute)
		trickle := func() { <-h.come(h.a, 900*time.Millisecond) }
		begin := time.Now()
		for n := 0; h.View(h.b).State != hearth.SlotReady; n++ {
			if time.Since(begin) > 10*time.Minute {
				t.Fatal("the model is never changed")
			}
			if n%20 == 0 {
				trickle()
			}
			v := <-h.visit(t.Context(), Ask{Slot: h.b, Budget: time.Second, HasNext: true}, 0)
			if v.err != nil && v.waited() > time.Second {
				t.Fatalf("one was kept waiting for %v", v.waited())
			}
			pass(time.Second)
		}
		pass(time.Minute)
		h.calm()
	})
	bubble(t, "votes are forgotten", func(t *testing.T) {
		h := shuttle(t)
		long := h.come(h.a, time.Minute)
		h.hurried(h.b)
		<-long
		pass(time.Hour)
		h.state(h.a, hearth.SlotReady)
		if n := h.View(h.b).Votes; n != 0 {
			t.Errorf("%d votes", n)
		}
		h.calm()
	})
}

// Adjacent local candidates are one wait.
func TestEitherWouldDo(t *testing.T) {
	either := func(h *house, budget time.Duration) Ask {
		return Ask{Slot: h.b, Also: []*hearth.Slot{h.a}, Budget: budget}
	}
	bubble(t, "the one that comes free first serves, and nothing is loaded for nobody", func(t *testing.T) {
		h := shuttle(t)
		busy := h.come(h.a, 4*time.Second)
		v := <-h.visit(t.Context(), either(h, time.Hour), time.Second)
		if l := <-busy; v.slot != h.a || v.in != l.done || v.err != nil {
			t.Errorf("%v served, %v after the place came free, %v", v.slot, v.in.Sub(l.done), v.err)
		}
		pass(time.Minute)
		h.state(h.a, hearth.SlotReady)
		if h.gpu.starts != 2 {
			t.Errorf("%d starts", h.gpu.starts)
		}
		h.calm()
	})
	bubble(t, "the other is loaded if the first is not free before its turn ends", func(t *testing.T) {
		h := shuttle(t, func(s *hearth.Slot) { s.Queue = 100 })
		var queue []<-chan visit
		for range 10 {
			queue = append(queue, h.come(h.a, 5*time.Second))
		}
		v := <-h.visit(t.Context(), either(h, time.Hour), time.Second)
		if v.err != nil || v.waited() > time.Minute {
			t.Errorf("waited %v, %v", v.waited(), v.err)
		}
		for _, q := range queue {
			if v := <-q; v.err != nil {
				t.Error(v.err)
			}
		}
		h.calm()
	})
	bubble(t, "one budget holds for both, and one answer", func(t *testing.T) {
		h := shuttle(t)
		busy := h.come(h.a, time.Minute)
		v := <-h.visit(t.Context(), either(h, 7*time.Second), 0)
		h.refused(outcome{err: v.err}, hearth.SkipBusy)
		between(t, "the refusal", v.waited(), 7*time.Second, 7*time.Second)
		<-busy
		h.calm()
	})
}

func TestKeptWarmInTheLoop(t *testing.T) {
	morning := func(s *hearth.Slot) { // of the bubble's first day, which begins at midnight
		if s.Name == "b" {
			s.KeepWarm = within(6, 10)
		}
	}
	bubble(t, "it is up when its hours begin, though nobody asks", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 2 * time.Second, stops: time.Second}, morning)
		pass(6*time.Hour - time.Since(midnight()))
		h.state(h.b, hearth.SlotStarting)
		pass(2*time.Second + time.Second)
		h.state(h.b, hearth.SlotReady)
		if v := <-h.visit(t.Context(), Ask{Slot: h.b}, 0); v.err != nil {
			t.Error(v.err)
		}
		h.calm()
	})
	bubble(t, "it takes the place of a model that nobody uses, and keeps nobody waiting for another", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 2 * time.Second, stops: time.Second}, morning)
		<-h.come(h.a, time.Second)
		pass(6*time.Hour - time.Since(midnight()) + 5*time.Second)
		h.state(h.b, hearth.SlotReady)
		pass(time.Minute)
		if v := <-h.come(h.a, time.Second); v.err != nil || v.waited() > 3*time.Second+notice {
			t.Errorf("who asks for another model waits %v, %v", v.waited(), v.err)
		}
		pass(5 * time.Minute)
		h.state(h.b, hearth.SlotReady) // it is back
		h.calm()
	})
	bubble(t, "a model in use does not leave for it", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 2 * time.Second, stops: time.Second}, morning)
		<-h.come(h.a, time.Second)
		pass(6*time.Hour - time.Since(midnight()) - 10*time.Second)
		stop := h.stream(h.a, 900*time.Millisecond)
		pass(time.Hour)
		h.state(h.a, hearth.SlotReady)
		for _, v := range stop() {
			if v.waited() > 0 || v.err != nil {
				t.Fatalf("somebody waited %v, %v", v.waited(), v.err)
			}
		}
		pass(5 * time.Minute)
		h.state(h.b, hearth.SlotReady)
		h.calm()
	})
}

// midnight is when the bubble's day began.
func midnight() time.Time {
	synctest.Wait()
	return time.Now().UTC().Truncate(24 * time.Hour)
}
