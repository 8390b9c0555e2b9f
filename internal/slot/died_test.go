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
		{"who waits is refused, who comes later as well, until it is gone", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask a 2 1h")
			died(s, 1)
			lines(s, "ask a 3 1h", "pass 5s", "ask a 4 1h", "release 1", "ended a", "pass 1ms", "ask a 5 1h")
		}, []string{"0s start a", "0s grant 1", "0s refuse 2 slot_failed 1s", "0s refuse 3 slot_failed 1s", "5s refuse 4 slot_failed 1s", "5.001s start a"}},
		{"another model gets the node when it is gone", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask b 2 1h")
			died(s, 1)
			lines(s, "pass 2s", "ended a")
		}, []string{"0s start a", "0s grant 1", "2s start b"}},
		{"a back-off that is not over by then is kept", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a")
			died(s, 1)
			lines(s, "pass 300ms", "ended a", "ask a 2 1h", "pass 1s", "ask a 3 1h")
		}, []string{"0s start a", "0s grant 1", "300ms refuse 2 slot_failed 1s", "1.3s start a"}},
		{"while it drains", func(s *sim) {
			lines(s, "ask a 1 1h", "ready a", "ask b 2 1h", "pass 20s")
			died(s, 1)
			lines(s, "ended a")
		}, []string{"0s start a", "0s grant 1", "20s start b"}},
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
	if p.cause != "died" || p.lastError != "died in detail" {
		t.Errorf("%q, %q", p.cause, p.lastError)
	}
	s.run("ended a")
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
		h.state(h.a, hearth.SlotFailed)
		o := <-h.ask(t.Context(), h.a, time.Hour)
		if r := h.refused(o, hearth.SkipFailed); o.took != 0 || r.Message != "engine ended by signal: killed; see the gateway's log" {
			t.Errorf("%v after %v", r, o.took)
		}
		l.Release()
		pass(4 * time.Second)
		if h.gpu.starts != 1 || h.gpu.engine() != e {
			t.Errorf("%d starts while something is left", h.gpu.starts)
		}
		e.die(nil)
		pass(time.Millisecond)
		again, took := h.lease(h.a)
		between(t, "the next start", took, time.Second, time.Second+notice)
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
