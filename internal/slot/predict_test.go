package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestPredicted(t *testing.T) {
	ask := func(s *sim, n int) {
		for range n {
			s.st.arrivals += 100
			s.do(event{kind: evAsked, id: s.st.arrivals, budget: time.Hour, key: "k"})
		}
	}
	rests := func(s *sim) (load, wait time.Duration) {
		v := s.st.view(s.st.slots[0], s.now)
		return v.LoadRest, v.WaitRest
	}
	check := func(t *testing.T, s *sim, load, wait time.Duration) {
		t.Helper()
		if l, w := rests(s); l != load || w != wait {
			t.Errorf("rest of the load %v, of the wait %v; not %v and %v", l, w, load, wait)
		}
	}
	t.Run("a free place is not waited for", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 2, Queue: 64}, 6*time.Second, 6*time.Second)
		ask(s, 1)
		check(t, s, 0, 0)
	})
	t.Run("the queue is worked off by all places", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 2, Queue: 64}, 6*time.Second, 6*time.Second)
		ask(s, 2)
		check(t, s, 0, 3*time.Second)
		ask(s, 3)
		check(t, s, 0, 12*time.Second)
	})
	t.Run("by the mean of a long tail", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 1, Queue: 64}, time.Second, time.Second, 100*time.Second, time.Second)
		ask(s, 1)
		if _, wait := rests(s); wait < 20*time.Second || wait > 30*time.Second {
			t.Errorf("%v", wait)
		}
	})
	t.Run("before the load is over too", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 2, Queue: 64}, 6*time.Second)
		s.run("sleep a")
		s.pass(time.Second)
		s.run("ended a")
		ask(s, 1)
		check(t, s, 4*time.Second, 4*time.Second)
		ask(s, 3)
		check(t, s, 4*time.Second, 4*time.Second+9*time.Second)
		s.pass(time.Second)
		check(t, s, 3*time.Second, 3*time.Second+9*time.Second)
	})
	t.Run("a start that takes longer than most may be a slow one", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 1, Queue: 64})
		for _, d := range []time.Duration{20 * time.Second, 4 * time.Second, 4 * time.Second} {
			s.run("sleep a")
			s.run("ended a")
			s.run("wake a")
			s.pass(d)
			s.run("ready a")
		}
		s.run("sleep a")
		s.run("ended a")
		s.run("wake a")
		s.pass(3 * time.Second)
		check(t, s, time.Second, time.Second)
		s.pass(2 * time.Second)
		check(t, s, 15*time.Second, 15*time.Second)
		s.pass(time.Minute)
		check(t, s, 0, 0)
	})
}

// A refusal says when there will be room for who comes again.
func TestRetryAfter(t *testing.T) {
	full := func(t *testing.T, key string, conf hearth.Slot, served ...time.Duration) *Refusal {
		s := figuresOf(t, conf, served...)
		for id := uint64(1); ; id++ {
			for _, fx := range step(s.st, event{kind: evAsked, now: s.now, id: id, budget: time.Hour, key: key}) {
				if fx.kind == fxRefuse {
					return fx.refusal
				}
			}
		}
	}
	for _, tt := range []struct {
		name    string
		key     string
		conf    hearth.Slot
		served  time.Duration
		want    time.Duration
		message string
	}{
		{"a full queue: once it is worked off", "", hearth.Slot{Concurrency: 2, Queue: 4}, 6 * time.Second, 15 * time.Second, "too many requests are waiting for the model already"},
		{"at least a second", "", hearth.Slot{Concurrency: 2, Queue: 4}, time.Millisecond, time.Second, "too many requests are waiting for the model already"},
		{"at most ten minutes", "", hearth.Slot{Concurrency: 1, Queue: 64}, time.Minute, 10 * time.Minute, "too many requests are waiting for the model already"},
		{"a key's part of it: once one of its requests is served", "k", hearth.Slot{Concurrency: 2, Queue: 4}, 6 * time.Second, 3 * time.Second, "too many requests of this API key are waiting for the model already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := full(t, tt.key, tt.conf, tt.served)
			if got.Word != hearth.SkipQueueFull || got.RetryAfter != tt.want || got.Message != tt.message {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("a wait that was too long", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{Concurrency: 1, Queue: 64}, 6*time.Second)
		for id := uint64(1); id <= 3; id++ {
			s.do(event{kind: evAsked, id: id, budget: time.Hour})
		}
		s.do(event{kind: evAsked, id: 4, budget: time.Second})
		s.log = nil
		if s.pass(time.Second); len(s.log) != 1 || s.log[0] != "11s refuse 4 slot_busy 18s" {
			t.Errorf("%q", s.log)
		}
	})
}
