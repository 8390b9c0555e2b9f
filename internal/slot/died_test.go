package slot

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// From the moment of its death nobody is sent to an engine, and its place is free only when nothing of it is left.
func TestStepDied(t *testing.T) {
	node := hearth.Node{Exclusive: true, Turn: 10 * time.Second, MinResident: 5 * time.Second}
	conf := func() *hearth.Slot {
		return &hearth.Slot{Concurrency: 1, Queue: 9, Wait: 90 * time.Second, QueueWait: 90 * time.Second, StartTimeout: time.Minute}
	}
	died := func(s *sim, run uint64) {
		s.do(event{kind: evDied, run: run, end: ending{cause: "died", detail: "why"}})
	}
	lines := func(s *sim, all ...string) {
		for _, l := range all {
			s.run(l)
		}
	}
	for _, c := range []struct {
		name string
		play func(s *sim)
		want []string
	}{
		{"who waits goes on waiting, who comes later waits too, and it is started when it is gone", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask a 2 1h")
			died(s, 1)
			lines(s, "ask a 3 1h", "pass 5s", "ask a 4 1h", "release 1", "ended a", "ready a", "release 2", "release 3")
		}, []string{"0s start a", "0s grant 1", "5s start a", "5s grant 2", "5s grant 3", "5s grant 4"}},
		{"nobody waits: it is asleep when it is gone, and the next request starts it", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a")
			died(s, 1)
			lines(s, "ended a", "release 1", "pass 1h", "ask a 2 1h")
		}, []string{"0s start a", "0s grant 1", "1h0m0s start a"}},
		{"another model gets the node when it is gone", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask b 2 1h")
			died(s, 1)
			lines(s, "pass 2s", "ended a")
		}, []string{"0s start a", "0s grant 1", "2s start b"}},
		{"a back-off that is not over when it is gone is kept", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ended a", "ask a 2 1h", "ready a", "ask a 3 1h")
			died(s, 2)
			lines(s, "pass 300ms", "ended a", "ask a 4 1h", "pass 700ms", "ask a 5 1h")
		}, []string{"0s start a", "0s grant 1", "0s start a", "0s grant 2", "0s refuse 3 slot_failed 1s", "300ms refuse 4 slot_failed 1s", "1s start a"}},
		{"a back-off that is over before it is gone: it is waited for", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ended a", "ask a 2 1h", "ready a")
			died(s, 2)
			lines(s, "pass 999ms", "ask a 3 1h", "pass 1ms", "ask a 4 1h", "pass 4s", "ended a")
		}, []string{"0s start a", "0s grant 1", "0s start a", "0s grant 2", "999ms refuse 3 slot_failed 1s", "5s start a"}},
		{"woken by the operator before it is gone", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ended a", "ask a 2 1h", "ready a")
			died(s, 2)
			lines(s, "wake a", "ask a 3 1h", "pass 100ms", "ended a", "ready a")
		}, []string{"0s start a", "0s grant 1", "0s start a", "0s grant 2", "100ms start a", "100ms grant 3"}},
		{"what is left of it is no reason to refuse anybody but for as long as they wait", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a")
			died(s, 1)
			lines(s, "ask a 2 3s", "pass 5s")
		}, []string{"0s start a", "0s grant 1", "3s refuse 2 slot_loading 1s"}},
		{"while it drains", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask b 2 1h", "pass 20s")
			died(s, 1)
			lines(s, "ended a")
		}, []string{"0s start a", "0s grant 1", "20s start b"}},
		{"while it drains: the turn is the other's, however urgent its own", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask b 2 1h", "pass 10s", "ask a 3 5s")
			died(s, 1)
			lines(s, "ended a")
		}, []string{"0s start a", "0s grant 1", "10s start b"}},
		{"how long it took to go is not how long a stop takes, and does not end a crash loop", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a")
			died(s, 1)
			lines(s, "pass 7s", "ended a", "ask a 2 1h", "ready a", "ask a 3 1h")
			died(s, 2)
			if v := s.st.view(s.st.slots[0], s.now); v.StopTime != 0 {
				s.t.Errorf("a stop takes %v", v.StopTime)
			}
		}, []string{"0s start a", "0s grant 1", "7s start a", "7s grant 2", "7s refuse 3 slot_failed 1s"}},
		{"another run's death is old news", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a")
			died(s, 7)
			lines(s, "release 1", "ask a 2 1h")
		}, []string{"0s start a", "0s grant 1", "0s grant 2"}},
		{"one that is being stopped has not failed", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "release 1", "pass 6s", "ask b 2 1h")
			died(s, 1)
			lines(s, "ended a", "ask a 3 1h")
		}, []string{"0s start a", "0s grant 1", "6s stop a", "6s start b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSim(t, node, conf(), conf())
			c.play(s)
			if d := cmp.Diff(c.want, s.log); d != "" {
				t.Error(d)
			}
		})
	}
}

// What is told of a death is what is known of it: at first that it happened, then why.
func TestStepDiedTellsWhy(t *testing.T) {
	s := newSim(t, hearth.Node{}, &hearth.Slot{Concurrency: 1, Wait: time.Minute, StartTimeout: time.Minute})
	s.run("ask a 1 1h")
	s.run("ready a")
	s.do(event{kind: evDied, run: 1, end: ending{cause: "died", detail: "died in detail"}})
	p := s.st.slots[0]
	if p.cause != "died" || p.lastError != "died in detail" || p.state != hearth.SlotStopping {
		t.Errorf("%q, %q, %v", p.cause, p.lastError, p.state)
	}
	s.do(event{kind: evEnded, run: 1, end: ending{cause: "engine exited with code 1", detail: "exited: out of memory"}})
	if p.lastError != "exited: out of memory" {
		t.Errorf("%q", p.lastError)
	}
	s.do(event{kind: evEnded, run: 1, end: ending{cause: "nothing", detail: "nothing"}}) // the run is over: not a second time
	if p.cause != "engine exited with code 1" {
		t.Errorf("%q", p.cause)
	}
}

func TestDeath(t *testing.T) {
	bubble(t, "nobody is sent to an engine that is dead, and the next start waits until nothing is left", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Second})
		l, _ := h.lease(h.a)
		gone := make(chan time.Time, 1)
		l.OnGone(func() { gone <- time.Now() })
		defer l.OnCut(func() { t.Error("a death is no cut") })()
		select {
		case <-l.Gone:
			t.Error("it lives")
		default:
		}
		at := time.Now()
		e := h.gpu.engine()
		e.drop(&ExitError{Code: -1, Signal: "killed"})
		if when := <-gone; !when.Equal(at) {
			t.Errorf("told %v later", when.Sub(at))
		}
		<-l.Gone
		if v := h.state(h.a, hearth.SlotStopping); v.LastError != "engine ended by signal: killed" {
			t.Errorf("%q", v.LastError)
		}
		waiting := h.ask(t.Context(), h.a, time.Hour)
		l.Release()
		pass(4 * time.Second)
		if h.gpu.starts != 1 || h.gpu.engine() != e {
			t.Errorf("%d starts while something is left", h.gpu.starts)
		}
		e.die(nil)
		o := <-waiting
		again := o.lease
		between(t, "the next start", o.took, 5*time.Second, 5*time.Second+notice)
		select {
		case <-again.Gone:
			t.Error("the new engine lives")
		default:
		}
		again.Release()
		h.close()
	})
	bubble(t, "the gateway ends while something of a dead engine is left", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.gpu.engine().drop(errors.New("dead"))
		pass(time.Second)
		l.Release()
		h.close()
	})
	bubble(t, "a stop tells those who still have a lease", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		h.order(Drain, h.a)
		pass(time.Minute) // DrainMax
		<-l.Cut
		select {
		case <-l.Gone:
			t.Error("it is given two seconds")
		default:
		}
		pass(cutGrace)
		<-l.Gone
		l.Release()
		h.close()
	})
	t.Run("a lease of a node elsewhere is never told", func(t *testing.T) {
		l := new(Lease)
		if !l.OnCut(nil)() || !l.OnGone(nil)() || l.Cut != nil || l.Gone != nil {
			t.Error(l)
		}
	})
	t.Run("who does not want to be told any more is not", func(t *testing.T) {
		l := &Lease{ends: newEnds()}
		told := make(chan bool, 2)
		stop := l.OnGone(func() { told <- true })
		cut := l.OnCut(func() { told <- false })
		if !stop() || !cut() {
			t.Error("too late")
		}
		l.ends.goneNow()
		l.ends.cutNow()
		if len(told) > 0 {
			t.Error("told")
		}
	})
}
