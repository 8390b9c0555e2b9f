package slot

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// model is what a script may know of a node from the outside: what was asked, answered, started and stopped.
type model struct {
	t     *rapid.T
	st    *state
	now   time.Time
	alarm time.Time

	nextID   uint64
	leaving  uint64 // the request that leaves with this event
	waiting  map[uint64]waiter
	leases   map[uint64]uint64 // request → run
	engines  map[uint64]*engineModel
	answered map[uint64]bool
	closing  bool
	starts   int
	gaveWay  int // slot that was stopped while another was waited for, -1 = none
	// owed are the slots that were waited for when an engine was last stopped for a swap: one of them may be started
	// even if everybody has left by then.
	owed map[int]bool
}

type waiter struct {
	slot     int
	deadline time.Time
}

type engineModel struct {
	slot     int
	started  time.Time
	ready    bool
	stopping bool
}

func newModel(t *rapid.T) *model {
	n := &hearth.Node{
		Exclusive:   rapid.Bool().Draw(t, "exclusive"),
		Turn:        time.Duration(rapid.IntRange(0, 12).Draw(t, "turn")) * time.Second,
		MinResident: time.Duration(rapid.IntRange(0, 6).Draw(t, "min_resident")) * time.Second,
	}
	var slots []*hearth.Slot
	for range rapid.IntRange(1, 3).Draw(t, "slots") {
		slots = append(slots, &hearth.Slot{
			Node:         n,
			Concurrency:  rapid.IntRange(1, 3).Draw(t, "concurrency"),
			Queue:        rapid.IntRange(0, 4).Draw(t, "queue"),
			Wait:         20 * time.Second,
			QueueWait:    5 * time.Second,
			StartTimeout: 30 * time.Second,
			IdleSleep:    time.Duration(rapid.IntRange(0, 1).Draw(t, "idle_sleep")) * 40 * time.Second,
		})
	}
	return &model{
		t: t, st: newState(n, slots, t0), now: t0,
		waiting: map[uint64]waiter{}, leases: map[uint64]uint64{}, engines: map[uint64]*engineModel{}, answered: map[uint64]bool{}, gaveWay: -1,
	}
}

// play gives the state one event and holds every effect against what may be.
func (m *model) play(ev event) {
	ev.now = m.now
	for _, fx := range step(m.st, ev) {
		switch fx.kind {
		case fxStart:
			m.start(fx)
		case fxStop:
			m.stop(fx)
		case fxGrant:
			m.grant(fx)
		case fxRefuse:
			if fx.id != m.leaving { // else its time ran out before it left, which nobody hears any more
				m.answer(fx.id)
			}
			if !fx.refusal.Word.Slot() || fx.refusal.RetryAfter < time.Second || fx.refusal.Message == "" && fx.refusal.Word != hearth.SkipFailed {
				m.t.Fatalf("refusal %+v", fx.refusal)
			}
		case fxAlarm:
			m.alarm = fx.at
		}
	}
	m.invariants()
}

func (m *model) start(fx effect) {
	m.starts++
	wanted, others := false, false
	for _, w := range m.waiting {
		wanted = wanted || w.slot == fx.slot
		others = others || w.slot != fx.slot
	}
	if !wanted && !m.owed[fx.slot] {
		m.t.Fatalf("slot %d is started for nobody", fx.slot)
	}
	m.owed = nil
	if m.gaveWay == fx.slot && others && m.st.exclusive {
		m.t.Fatalf("slot %d is started again after it gave way", fx.slot)
	}
	m.gaveWay = -1
	for _, e := range m.engines {
		if m.st.exclusive || e.slot == fx.slot {
			m.t.Fatalf("slot %d is started while an engine of slot %d is there", fx.slot, e.slot)
		}
	}
	m.engines[fx.run] = &engineModel{slot: fx.slot, started: m.now}
}

func (m *model) stop(fx effect) {
	e := m.engines[fx.run]
	if e == nil || e.stopping {
		m.t.Fatalf("run %d is stopped, which is not there or stopping already", fx.run)
	}
	e.stopping = true
	m.owed = map[int]bool{}
	for _, w := range m.waiting {
		m.owed[w.slot] = w.slot != fx.slot
		if w.slot != fx.slot && m.st.slots[fx.slot].state == hearth.SlotStopping && m.st.exclusive {
			m.gaveWay = fx.slot
		}
	}
	for id, run := range m.leases {
		if run == fx.run && !m.closing {
			m.t.Fatalf("run %d is stopped under request %d", run, id)
		}
	}
}

func (m *model) grant(fx effect) {
	w := m.waiting[fx.id]
	m.answer(fx.id)
	e := m.engines[fx.run]
	if e == nil || !e.ready || e.stopping || e.slot != fx.slot || w.slot != fx.slot {
		m.t.Fatalf("request %d for slot %d is granted engine %+v", fx.id, w.slot, e)
	}
	if m.now.After(w.deadline) {
		m.t.Fatalf("request %d is granted %v after its deadline", fx.id, m.now.Sub(w.deadline))
	}
	m.leases[fx.id] = fx.run
	n := 0
	for _, run := range m.leases {
		if run == fx.run {
			n++
		}
	}
	if n > m.st.slots[fx.slot].Concurrency {
		m.t.Fatalf("slot %d has %d requests in its engine", fx.slot, n)
	}
}

// answer notes the one answer of a request that still waits for it.
func (m *model) answer(id uint64) {
	if _, ok := m.waiting[id]; !ok || m.answered[id] {
		m.t.Fatalf("request %d is answered, answered before: %v", id, m.answered[id])
	}
	delete(m.waiting, id)
	m.answered[id] = true
}

func (m *model) invariants() {
	if m.st.illegal != 0 {
		m.t.Fatal("a step between slot states was illegal")
	}
	queued, next := 0, time.Time{}
	for _, p := range m.st.slots {
		queued += p.waiting
		if p.waiting > p.Queue+p.Concurrency {
			m.t.Fatalf("%d wait for slot %d", p.waiting, p.index)
		}
		if p.state == hearth.SlotReady && p.waiting > 0 && p.inflight < p.Concurrency {
			m.t.Fatalf("slot %d has a free place and requests that wait", p.index)
		}
	}
	if queued != len(m.waiting) {
		m.t.Fatalf("%d requests are queued, %d wait", queued, len(m.waiting))
	}
	for id, w := range m.waiting {
		if !w.deadline.After(m.now) {
			m.t.Fatalf("request %d waits past its budget", id)
		}
		if next.IsZero() || w.deadline.Before(next) {
			next = w.deadline
		}
	}
	if !next.IsZero() && (m.alarm.IsZero() || m.alarm.After(next)) {
		m.t.Fatalf("the alarm at %v comes after the deadline at %v", m.alarm, next)
	}
}

func (m *model) ask(slot int, budget time.Duration, hasNext bool) {
	m.nextID++
	m.waiting[m.nextID] = waiter{slot, m.now.Add(min(budget, 20*time.Second))}
	m.play(event{kind: evAsked, slot: slot, id: m.nextID, budget: budget, hasNext: hasNext})
}

func (m *model) leave(kind kind, id uint64) {
	delete(m.waiting, id)
	delete(m.leases, id)
	m.leaving = id
	m.play(event{kind: kind, id: id})
	m.leaving = 0
}

// end lets an engine be gone; requests may hold leases of it for longer.
func (m *model) end(run uint64) {
	e := m.engines[run]
	delete(m.engines, run)
	m.play(event{kind: evEnded, slot: e.slot, run: run, cause: "gone"})
}

// How the alarm rings while time goes by.
const (
	onTime = iota
	late   // only after it
	silent // not before the next event
)

// pass lets time go by.
func (m *model) pass(d time.Duration, how int) {
	end := m.now.Add(d)
	if how == silent {
		m.now = end
		return
	}
	for rings := 0; !m.alarm.IsZero() && !m.alarm.After(end); rings++ {
		if rings > 1000 {
			m.t.Fatal("the alarm rings without end")
		}
		if m.now = later(m.now, m.alarm); how == late {
			m.now = end
		}
		m.alarm = time.Time{}
		m.play(event{kind: evTick})
	}
	m.now = end
}

// pick draws one of the keys of a map, in an order that does not depend on the map.
func pick[V any](t *rapid.T, of map[uint64]V, keep func(V) bool) uint64 {
	var ids []uint64
	for id, v := range of {
		if keep(v) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		t.Skip("there is none")
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(t, "id")
}

func all[V any](V) bool { return true }

func TestScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				m.t = t
				m.ask(rapid.IntRange(0, len(m.st.slots)-1).Draw(t, "slot"),
					time.Duration(rapid.IntRange(0, 30).Draw(t, "budget"))*time.Second, rapid.Bool().Draw(t, "next"))
			},
			"cancel": func(t *rapid.T) { // whoever it is: waiting, granted, or gone long ago
				m.t = t
				m.leave(evCancelled, rapid.Uint64Range(1, max(1, m.nextID)).Draw(t, "id"))
			},
			"release": func(t *rapid.T) { m.t = t; m.leave(evReleased, pick(t, m.leases, all)) },
			"ready": func(t *rapid.T) { // also one that is to be stopped already
				m.t = t
				run := pick(t, m.engines, func(e *engineModel) bool { return !e.ready })
				e := m.engines[run]
				e.ready = true
				m.play(event{kind: evReady, slot: e.slot, run: run})
			},
			"end stopped": func(t *rapid.T) {
				m.t = t
				m.end(pick(t, m.engines, func(e *engineModel) bool { return e.stopping }))
			},
			"crash": func(t *rapid.T) { m.t = t; m.end(pick(t, m.engines, all)) },
			"pass": func(t *rapid.T) {
				m.t = t
				m.pass(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms"))*time.Millisecond, rapid.IntRange(onTime, silent).Draw(t, "how"))
			},
		})
		m.t = t
		m.windUp()
	})
}

// windUp lets everybody leave, closes the node and looks for what is left.
func (m *model) windUp() {
	for id := range m.nextID + 1 {
		m.leave(evCancelled, id)
	}
	for _, p := range m.st.slots {
		if p.inflight != 0 || p.waiting != 0 || p.first != nil || p.last != nil {
			m.t.Fatalf("slot %d is left with %d leases and %d waiting", p.index, p.inflight, p.waiting)
		}
	}
	starts, owes := m.starts, slices.Contains(slices.Collect(maps.Values(m.owed)), true)
	m.pass(10*time.Minute, onTime)
	if m.starts != starts && !owes {
		m.t.Fatal("an engine was started for nobody")
	}
	m.closing = true
	m.play(event{kind: evClose})
	for run, e := range m.engines {
		if !e.stopping {
			m.t.Fatalf("run %d is not stopped", run)
		}
		m.end(run)
	}
	if m.st.resident() || len(m.st.requests) != 0 {
		m.t.Fatalf("resident: %v, %d requests", m.st.resident(), len(m.st.requests))
	}
}
