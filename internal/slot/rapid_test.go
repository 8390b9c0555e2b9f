package slot

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func (m *model) ask(slot int, also []int, budget time.Duration, hasNext bool) {
	m.nextID++
	w := waiter{slot, hasNext, nil, m.now.Add(min(budget, 20*time.Second))}
	if p := m.st.slots[slot]; p.state == hearth.SlotReady && hasNext {
		w.deadline = earlier(w.deadline, m.now.Add(p.QueueWait))
	}
	for _, i := range also {
		if i != slot {
			w.also = append(w.also, i)
		}
	}
	m.waiting[m.nextID] = w
	m.play(event{kind: evAsked, slot: slot, also: also, id: m.nextID, budget: budget, hasNext: hasNext})
}

func (m *model) leave(kind kind, id uint64) {
	delete(m.waiting, id)
	if e := m.engines[m.leases[id]]; e != nil {
		e.used = m.now
	}
	delete(m.leases, id)
	m.leaving = id
	m.play(event{kind: kind, id: id})
	m.leaving = 0
}

// end lets an engine be gone; requests may hold leases of it for longer.
func (m *model) end(run uint64, how ending) {
	e := m.engines[run]
	e.gone = true
	m.failed(e)
	if !e.stopping && !e.dead {
		m.lose(e, how.busy)
	}
	m.play(event{kind: evEnded, slot: e.slot, run: run, end: how})
	delete(m.engines, run)
}

// died is the death of a ready engine of which something is left.
func (m *model) died(run uint64) {
	m.play(event{kind: evTick}) // what is due is due before
	e := m.engines[run]
	if e.stopping {
		return
	}
	e.dead = true
	m.lose(e, false)
	m.play(event{kind: evDied, slot: e.slot, run: run, end: ending{cause: "dead"}})
}

// lose notes that an engine is of no use any more which nobody stopped.
func (m *model) lose(e *engineModel, busy bool) {
	delete(m.up, e.slot)
	if !m.st.exclusive || busy || m.st.slots[e.slot].state != hearth.SlotDraining {
		return
	}
	for _, w := range m.waiting {
		if w.slot != e.slot {
			m.gaveWay = e.slot
		}
	}
}

// failed notes that an engine that never became ready will not: who gave way for it may come back.
func (m *model) failed(e *engineModel) {
	if !e.ready && m.previous >= 0 && m.previous != e.slot {
		m.owed[m.previous] = true
	}
}

func (m *model) ready(run uint64) {
	e := m.engines[run]
	e.ready = true
	if m.st.slots[e.slot].run == run && m.st.slots[e.slot].state == hearth.SlotStarting {
		m.previous = -1
		delete(m.up, e.slot)
		m.loaded(e)
		m.hurry(e.slot)
	}
	m.play(event{kind: evReady, slot: e.slot, run: run})
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
		m.goTo(end)
		return
	}
	for rings := 0; !m.alarm.IsZero() && !m.alarm.After(end); rings++ {
		if rings > 1000 {
			m.t.Fatal("the alarm rings without end")
		}
		at := later(m.now, m.alarm)
		if how == late {
			at = end
		}
		m.alarm = time.Time{}
		m.goTo(at)
		m.play(event{kind: evTick})
	}
	m.goTo(end)
}

// goTo is the only way forward in time. A start may fail and a pause may end on the way.
func (m *model) goTo(at time.Time) {
	m.now = at
	if !m.now.Before(m.paused) {
		m.paused = time.Time{}
	}
	m.unbound()
	for _, e := range m.engines {
		if !e.ready && !m.now.Before(e.started.Add(30*time.Second)) {
			m.failed(e)
		}
	}
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

// requests are what callers and engines do.
func (m *model) requests() map[string]func(*rapid.T) {
	slot := func(t *rapid.T) int { return rapid.IntRange(0, len(m.conf)-1).Draw(t, "slot") }
	return map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			m.t = t
			var also []int
			if rapid.IntRange(0, 2).Draw(t, "more") == 0 {
				also = append(also, slot(t))
			}
			m.ask(slot(t), also, time.Duration(rapid.IntRange(0, 30).Draw(t, "budget"))*time.Second, rapid.Bool().Draw(t, "next"))
		},
		"cancel": func(t *rapid.T) { // whoever it is: waiting, granted, or gone long ago
			m.t = t
			m.leave(evCancelled, rapid.Uint64Range(1, max(1, m.nextID)).Draw(t, "id"))
		},
		"release": func(t *rapid.T) { m.t = t; m.leave(evReleased, pick(t, m.leases, all)) },
		"ready": func(t *rapid.T) { // also one that is to be stopped already
			m.t = t
			m.ready(pick(t, m.engines, func(e *engineModel) bool { return !e.ready }))
		},
		"report": func(t *rapid.T) {
			m.t = t
			run := pick(t, m.engines, func(e *engineModel) bool { return e.ready && !e.stopping && !e.dead })
			e := m.engines[run]
			e.unready = rapid.IntRange(0, 2).Draw(t, "unready") == 0
			facts := hearth.SlotFacts{Parallel: rapid.IntRange(0, 4).Draw(t, "parallel")}
			m.play(event{kind: evReport, slot: e.slot, run: run, report: &Report{Ready: !e.unready, Facts: facts}})
		},
		"end stopped": func(t *rapid.T) {
			m.t = t
			m.end(pick(t, m.engines, func(e *engineModel) bool { return e.stopping }), ending{})
		},
		"crash": func(t *rapid.T) {
			m.t = t
			m.end(pick(t, m.engines, all), ending{cause: "gone", busy: rapid.IntRange(0, 3).Draw(t, "busy") == 0})
		},
		"die": func(t *rapid.T) {
			m.t = t
			m.died(pick(t, m.engines, func(e *engineModel) bool { return e.ready && !e.stopping && !e.dead }))
		},
		"pass": func(t *rapid.T) {
			m.t = t
			m.pass(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms"))*time.Millisecond, rapid.IntRange(onTime, silent).Draw(t, "how"))
		},
	}
}

// orders are what operators, reloads and other gateways do.
func (m *model) orders() map[string]func(*rapid.T) {
	slot := func(t *rapid.T) int { return rapid.IntRange(0, len(m.conf)-1).Draw(t, "slot") }
	return map[string]func(*rapid.T){
		"order": func(t *rapid.T) {
			m.t = t
			m.order(slot(t), rapid.SampledFrom([]Verb{Wake, Sleep, Drain, Disable, Enable, Enable}).Draw(t, "verb"))
		},
		"pause": func(t *rapid.T) {
			m.t = t
			m.pause(time.Duration(rapid.IntRange(0, 20).Draw(t, "for")) * time.Second)
		},
		"reload": func(t *rapid.T) {
			m.t = t
			how := rapid.SampledFrom([]string{"nothing", "queue", "line", "model", "without", "new"}).Draw(t, "how")
			m.reload(slot(t), how, m.st.exclusive != (rapid.IntRange(0, 5).Draw(t, "other kind") == 0))
		},
		"owned": func(t *rapid.T) {
			m.t = t
			m.play(event{kind: evTick})
			m.foreign = false
			m.unbound()
			m.play(event{kind: evOwned})
		},
	}
}

func TestScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		actions := m.requests()
		maps.Copy(actions, m.orders())
		t.Repeat(actions)
		m.t = t
		m.allClear()
		m.windUp()
	})
}

// allClear ends all that keeps slots from being used: then each of them must serve.
func (m *model) allClear() {
	m.foreign = false
	m.unbound()
	m.play(event{kind: evOwned})
	m.pause(0)
	for i := range m.conf {
		m.reload(i, "nothing", m.st.exclusive)
		m.order(i, Enable)
	}
	for id := range m.nextID + 1 {
		m.leave(evCancelled, id)
	}
	for range 5 { // engines that are on their way come or go
		m.pass(time.Minute, onTime)
		m.advance()
	}
	m.pass(10*time.Minute, onTime)
	for i := range m.conf {
		m.ask(i, nil, time.Hour, false)
		id := m.nextID
		for range 100 {
			if _, ok := m.leases[id]; ok {
				break
			}
			m.advance()
			m.pass(100*time.Millisecond, onTime)
		}
		if _, ok := m.leases[id]; !ok {
			m.t.Fatalf("slot %d does not serve: %+v", i, m.st.slots[i])
		}
		m.leave(evReleased, id)
		m.pass(time.Minute, onTime)
	}
}

// advance lets every engine do what is expected of it.
func (m *model) advance() {
	for _, run := range slices.Sorted(maps.Keys(m.engines)) {
		switch e := m.engines[run]; {
		case e.stopping || e.dead:
			m.end(run, ending{})
		case !e.ready:
			m.ready(run)
		case e.unready:
			e.unready = false
			m.play(event{kind: evReport, slot: e.slot, run: run, report: &Report{Ready: true}})
		}
	}
}

// windUp lets everybody leave, closes the node and looks for what is left.
func (m *model) windUp() {
	for _, p := range m.st.slots {
		if p.inflight != 0 || p.waiting != 0 || p.first != nil || p.last != nil || p.guesting != 0 || p.lined != 0 || len(p.deadlines.seats) != 0 || len(p.pressing.seats) != 0 {
			m.t.Fatalf("slot %d is left with %d leases, %d waiting and %d guests", p.index, p.inflight, p.waiting, p.guesting)
		}
	}
	m.closing, m.refusing = true, true
	m.play(event{kind: evClose})
	for run, e := range m.engines {
		if !e.stopping {
			m.t.Fatalf("run %d is not stopped", run)
		}
		if keep := m.conf[e.slot].OnExit == "keep" && e.ready && !e.stale && !e.slept; keep && m.st.slots[e.slot].readyAt.Equal(m.now) {
			m.t.Fatalf("run %d is stopped instead of left", run)
		}
		m.end(run, ending{})
	}
	if m.st.resident() || len(m.st.requests) != 0 {
		m.t.Fatalf("resident: %v, %d requests", m.st.resident(), len(m.st.requests))
	}
}
