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

// A dead engine's driver is given a moment to clear what is left, but nobody who wants the engine gone waits for it.
func TestDied(t *testing.T) {
	why := errors.New("dead")
	for _, c := range []struct {
		name  string
		err   error
		alive bool
		after func(stop, force context.CancelFunc, e *memEngine) // a second later
		first bool                                               // it is to be stopped already
		took  time.Duration
		want  error
		told  int
	}{
		{name: "nothing is left", after: func(_, _ context.CancelFunc, e *memEngine) { e.die(why) }, took: time.Second, want: why, told: 1},
		{name: "something stays", took: restLimit, want: why, told: 1},
		{name: "it is to be stopped meanwhile", after: func(stop, _ context.CancelFunc, _ *memEngine) { stop() }, took: time.Second, want: context.Canceled, told: 1},
		{name: "all are to be killed meanwhile", after: func(_, force context.CancelFunc, _ *memEngine) { force() }, took: time.Second, want: why, told: 1},
		{name: "it is to be stopped anyway", first: true, want: why},
		{name: "it lives", alive: true, want: why, told: 1},
		{name: "its device is not to be had", err: &BusyError{Message: "busy"}, want: &BusyError{}, told: 0},
	} {
		bubble(t, c.name, func(t *testing.T) {
			e := (&gpu{t: t}).make(&hearth.Slot{Model: &hearth.Model{}})
			if !c.alive {
				e.drop(why)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			n := &node{mailbox: make(chan message, 5), done: make(chan struct{})}
			n.force, n.kill = context.WithCancel(t.Context())
			defer n.kill()
			if c.first {
				stop()
			}
			if c.after != nil {
				time.AfterFunc(time.Second, func() { c.after(stop, n.kill, e) })
			}
			begin, err := time.Now(), why
			if c.err != nil {
				err = c.err
			}
			got := (&run{node: n}).died(ctx, e, err)
			busy := (*BusyError)(nil)
			if took := time.Since(begin); took != c.took || !errors.Is(got, c.want) && !errors.As(got, &busy) || len(n.mailbox) != c.told {
				t.Errorf("%v after %v, %d messages", got, took, len(n.mailbox))
			}
		})
	}
}

// Whoever starts an engine is the driver of the start line of now.
func TestReloadedDriver(t *testing.T) {
	bubble(t, "a new start line has a new driver, another change has none", func(t *testing.T) {
		var by []string
		made := 0
		var starts []context.Context
		h := newHouse(t, &gpu{})
		h.o.Driver = func(s *hearth.Slot) (Driver, error) {
			made++
			return startsAs(func(ctx context.Context, now *hearth.Slot) (Engine, error) {
				starts = append(starts, ctx)
				by = append(by, "made for "+s.Command[0]+", starts "+now.Command[0])
				return h.gpu.Start(t.Context(), now)
			}), nil
		}
		for i, line := range []string{"one", "one", "two"} {
			c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.Command, s.Queue = []string{line}, i })
			l, _ := h.lease(c.Slots[0])
			l.Release()
			if i == 0 {
				h.gpu.engine().die(nil)
			} else {
				h.order(Sleep, c.Slots[0])
			}
			pass(time.Second)
		}
		if d := cmp.Diff([]string{"made for one, starts one", "made for one, starts one", "made for two, starts two"}, by); d != "" || made != 4 {
			t.Errorf("%d made for two slots with two start lines, %s", made, d)
		}
		h.close()
		for _, ctx := range starts {
			if ctx.Err() == nil {
				t.Error("the context of a start outlives its engine")
			}
		}
	})
}

// startsAs is a driver that is a function.
type startsAs func(context.Context, *hearth.Slot) (Engine, error)

func (f startsAs) Start(ctx context.Context, s *hearth.Slot) (Engine, error) { return f(ctx, s) }

// Guests that have left are forgotten, wherever in the queue they were.
func TestGuestsAreBounded(t *testing.T) {
	s := newSim(t, hearth.Node{}, &hearth.Slot{Queue: 9999, Wait: time.Hour, StartTimeout: time.Hour}, &hearth.Slot{Queue: 9999, Wait: time.Hour, StartTimeout: time.Hour})
	ask := func(id uint64) {
		s.do(event{kind: evAsked, slot: 0, also: []int{1}, id: id, budget: time.Hour})
	}
	ask(1) // who stays in front
	for id := uint64(2); id < 1000; id++ {
		ask(id)
		s.do(event{kind: evCancelled, id: id})
	}
	p := s.st.slots[1]
	standing := 0
	for s := p.callers[""].lines[interactive].first; s != nil; s = s.next {
		standing++
	}
	if p.guesting != 1 || standing != 1 {
		t.Errorf("%d guests, %d are remembered", p.guesting, standing)
	}
	s.do(event{kind: evCancelled, id: 1})
	if p.guesting != 0 || p.lined != 0 {
		t.Errorf("%d guests, %d lines", p.guesting, p.lined)
	}
}

func TestWatched(t *testing.T) {
	bubble(t, "the end of an engine whose death is not noticed", func(t *testing.T) {
		h := newHouse(t, &gpu{silent: true})
		l, _ := h.lease(h.a)
		h.gpu.engine().die(errors.New("gone"))
		synctest.Wait()
		h.state(h.a, hearth.SlotAsleep)
		<-l.Gone
		if l.Mortal {
			t.Error("its death would be noticed")
		}
		h.close()
	})
	bubble(t, "one that ends without a word", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.gpu.engine().die(nil)
		synctest.Wait()
		if v := h.state(h.a, hearth.SlotAsleep); v.LastError != "engine ended: loading | out of memory" {
			t.Errorf("view %+v", v)
		}
		h.close()
	})
	bubble(t, "what changes nothing is not published anew", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		c := h.locals["gpu-1"].plan[0]
		before := c.view.Load()
		pass(3 * checkEvery)
		if c.view.Load() != before {
			t.Error("there is a new view")
		}
		h.close()
	})
	for name, silent := range map[string]bool{"its end, while it is asked": true, "its death, while it is asked": false} {
		bubble(t, name, func(t *testing.T) {
			h := newHouse(t, &gpu{silent: silent})
			h.lease(h.a)
			e := h.gpu.engine()
			e.deaf.Store(true)
			pass(checkEvery + time.Second)
			if silent {
				e.die(errors.New("gone"))
			} else {
				e.drop(errors.New("gone"))
			}
			synctest.Wait()
			if v := h.View(h.a); v.State == hearth.SlotReady {
				t.Errorf("view %+v", v)
			}
			close(e.deafEnd)
			h.close()
		})
	}
	bubble(t, "that it did not answer in time is no failure, whatever its driver makes of it", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.gpu.engine().obeys.Store(true)
		pass(time.Hour)
		h.state(h.a, hearth.SlotReady)
		h.close()
	})
	bubble(t, "one that never answers is stopped all the same, while it is asked", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		l, _ := h.lease(h.a)
		l.Release()
		e := h.gpu.engine()
		e.deaf.Store(true)
		pass(checkEvery + time.Second)
		h.order(Sleep, h.a)
		synctest.Wait()
		h.state(h.a, hearth.SlotAsleep)
		close(e.deafEnd)
		h.close()
	})
	bubble(t, "nor when its word comes just then", func(t *testing.T) {
		n := &node{}
		e := (&gpu{t: t}).make(&hearth.Slot{Model: &hearth.Model{}})
		e.obeys.Store(true)
		ended, end := context.WithCancel(t.Context())
		end()
		for range 5000 {
			if _, err := (&run{node: n}).probe(ended, e); !errors.Is(err, errNoAnswer) {
				t.Fatal(err)
			}
		}
		n.runs.Wait()
	})
	bubble(t, "what it said of itself before it was ready again does not count", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.given[0].Release()
		for range 5 {
			h.gpu.engine().says.Store(&Report{})
			for range 20 {
				if h.View(h.a).Facts.Warning == "" {
					pass(time.Second)
				}
			}
			pass(unreadyMax / 2)
			h.gpu.engine().says.Store(nil)
			pass(time.Minute)
			h.state(h.a, hearth.SlotReady)
		}
		h.close()
	})
	bubble(t, "one that will not go is asked once a second, and its place is not given away", func(t *testing.T) {
		h := newHouse(t, &gpu{})
		h.lease(h.a)
		h.given[0].Release()
		e := h.gpu.engine()
		e.stopFails.Store(5)
		begin := time.Now()
		h.order(Sleep, h.a)
		_, took := h.lease(h.b)
		between(t, "the other", took, 5*stopRetry, 5*stopRetry+notice)
		for i, at := range e.stopsAt {
			if want := time.Duration(i) * stopRetry; at.Sub(begin) != want {
				t.Errorf("stop %d after %v, want %v", i, at.Sub(begin), want)
			}
		}
		h.close()
	})
	bubble(t, "the grace of a stop is what is configured by then", func(t *testing.T) {
		h := newHouse(t, &gpu{}, func(s *hearth.Slot) { s.StopGrace = time.Second })
		h.lease(h.a)
		h.given[0].Release()
		e := h.gpu.engine()
		c := h.reload([]string{"a", "b"}, func(s *hearth.Slot) { s.StopGrace = 7 * time.Second })
		h.order(Sleep, c.Slots[0])
		pass(time.Second)
		if got := e.grace.Load(); got == nil || *got != 7*time.Second {
			t.Errorf("grace %v", got)
		}
		h.close()
	})
}

func TestModelID(t *testing.T) {
	if got := modelID(&hearth.Slot{}) + modelID(&hearth.Slot{Model: &hearth.Model{ID: "x"}}); got != "x" {
		t.Errorf("%q", got)
	}
}

// An engine that was found is asked before anything of its slot has been published.
func TestPoll_BeforeTheFirstView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := (&gpu{t: t}).make(&hearth.Slot{Model: &hearth.Model{}})
		e.load = time.Second
		r := &run{node: &node{}, part: part{cell: &cell{}}}
		report, err := r.poll(t.Context(), e)
		if took := time.Since(e.born); err != nil || !report.Ready || took < time.Second || took > time.Second+pollMax {
			t.Errorf("%+v, %v after %s", report, err, took)
		}
	})
}
