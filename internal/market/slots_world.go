package market

import (
	"container/heap"
	"math"
	"time"
)

// policy decides what a GPU does. It is told of everything that happens, and acts through the world.
type policy interface {
	ask(id int)
	release(id int)
	ready(model int, run uint64)
	ended(model int, run uint64)
	tick()
}

// outcome is what became of a request.
type outcome struct {
	granted bool
	refused bool
	at      time.Duration // when it was granted or refused
}

// load is one start of an engine.
type load struct {
	model       int
	from, until time.Duration // until it was ready, or given up
	up          bool
}

// world plays a trace in virtual time: callers, engines and the clock.
type world struct {
	*trace
	policy   policy
	now      time.Duration
	alarm    time.Duration // when the policy wants a tick, never = it does not
	agenda   agenda
	seq      int
	outcomes []outcome
	loads    []load
	runs     map[uint64]*engine
	starts   []int // by model
	faults   []string
}

// engine is one that exists.
type engine struct {
	model    int
	load     int // place in loads
	ready    bool
	stopping bool
	using    int
}

const never = time.Duration(math.MaxInt64)

// happens is something that will happen.
type happens struct {
	at    time.Duration
	seq   int
	kind  int
	id    int
	model int
	run   uint64
}

// What happens.
const (
	isReady = iota
	isGone
	isDone
)

// agenda is a heap of what will happen, soonest first.
type agenda []happens

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happens)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

func newWorld(t *trace) *world {
	return &world{trace: t, alarm: never, outcomes: make([]outcome, len(t.requests)), runs: map[uint64]*engine{}, starts: make([]int, len(t.Models))}
}

// play lets the whole trace happen, until nothing more does.
func (w *world) play(p policy) {
	w.policy = p
	for next := 0; ; {
		at, arrives := never, false
		if next < len(w.requests) {
			at, arrives = w.requests[next].at, true
		}
		switch {
		case len(w.agenda) > 0 && w.agenda[0].at <= min(at, w.alarm):
			h := heap.Pop(&w.agenda).(happens)
			w.now = h.at
			w.happen(h)
		case w.alarm <= at && w.alarm != never:
			w.now, w.alarm = max(w.now, w.alarm), never
			p.tick()
		case arrives:
			w.now = at
			p.ask(next)
			next++
		default:
			for _, o := range w.outcomes {
				if !o.granted && !o.refused {
					w.fault("a request is never answered")
				}
			}
			return
		}
	}
}

func (w *world) happen(h happens) {
	e := w.runs[h.run]
	switch h.kind {
	case isReady:
		if e == nil || e.stopping {
			return // given up
		}
		e.ready = true
		w.loads[e.load].until, w.loads[e.load].up = w.now, true
		w.policy.ready(h.model, h.run)
	case isGone:
		delete(w.runs, h.run)
		w.policy.ended(h.model, h.run)
	case isDone:
		e.using--
		w.policy.release(h.id)
	}
}

func (w *world) later(after time.Duration, h happens) {
	w.seq++
	h.at, h.seq = w.now+after, w.seq
	heap.Push(&w.agenda, h)
}

// start starts an engine of a model.
func (w *world) start(model int, run uint64) {
	if len(w.runs) > 0 {
		w.fault("an engine is started while another one is there")
	}
	takes := w.loadTime(model, w.starts[model])
	w.starts[model]++
	w.runs[run] = &engine{model: model, load: len(w.loads)}
	w.loads = append(w.loads, load{model: model, from: w.now, until: w.now + takes})
	w.later(takes, happens{kind: isReady, model: model, run: run})
}

// stop stops an engine.
func (w *world) stop(model int, run uint64) {
	e := w.runs[run]
	if e == nil || e.stopping || e.using > 0 {
		w.fault("an engine is stopped that is not there or in use")
		return
	}
	e.stopping = true
	if !e.ready {
		w.loads[e.load].until = w.now
	}
	w.later(stopTime, happens{kind: isGone, model: model, run: run})
}

// grant lets a request into an engine.
func (w *world) grant(id int, run uint64) {
	e, r := w.runs[run], &w.requests[id]
	o := &w.outcomes[id]
	switch {
	case e == nil || !e.ready || e.stopping || e.model != r.model || e.using >= w.Models[r.model].Concurrency:
		w.fault("a request is granted an engine that cannot take it")
		return
	case o.granted || o.refused || w.now > r.at+r.budget:
		w.fault("a request is answered twice or too late")
	}
	e.using++
	*o = outcome{granted: true, at: w.now}
	w.later(r.service, happens{kind: isDone, id: id, run: run})
}

// refuse sends a request away.
func (w *world) refuse(id int) {
	if o := &w.outcomes[id]; o.granted || o.refused {
		w.fault("a request is answered twice")
	}
	w.outcomes[id] = outcome{refused: true, at: w.now}
}

func (w *world) fault(what string) { w.faults = append(w.faults, what) }
