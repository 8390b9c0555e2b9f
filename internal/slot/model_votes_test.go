package slot

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// loaded notes how long an engine took to become ready.
func (m *model) loaded(e *engineModel) {
	d := m.now.Sub(e.started)
	if least, ok := m.fastest[e.slot]; !ok || d < least {
		if m.fastest == nil {
			m.fastest = map[int]time.Duration{}
		}
		m.fastest[e.slot] = d
	}
}

// hurry notes that a slot is ready: whoever waits for it and could be served elsewhere waits only for a place now.
func (m *model) hurry(slot int) {
	for id, w := range m.waiting {
		if at := m.now.Add(m.st.slots[slot].QueueWait); w.slot == slot && w.hasNext && at.Before(w.deadline) {
			w.deadline = at
			m.waiting[id] = w
		}
	}
}

// inVain holds the refusal of a request that would have waited in vain against what was ever seen of the slot, and notes its
// vote.
func (m *model) inVain(fx effect) {
	if fx.refusal.Message != inVain {
		return
	}
	w := m.waiting[fx.id]
	least, seen := m.fastest[fx.slot]
	if !w.hasNext || !seen || w.slot != fx.slot {
		m.t.Fatalf("request %d is sent on, slot %d was seen to load: %v, somebody else could serve it: %v", fx.id, fx.slot, seen, w.hasNext)
	}
	left := w.deadline.Sub(m.now)
	var gone time.Duration // what is in the way needs that long to go, as far as was ever seen
	for _, e := range m.engines {
		p := m.st.slots[e.slot]
		if e.slot == fx.slot && !e.ready && !e.stopping && !e.gone {
			least -= m.now.Sub(e.started)
		}
		if m.st.exclusive || e.slot == fx.slot {
			gone = max(gone, p.fastestDrain()+p.stopping.Min(), p.fastestLoad())
		}
	}
	if left >= least+gone {
		m.t.Fatalf("request %d is sent on with %v left, slot %d may be ready in %v", fx.id, left, fx.slot, least+gone)
	}
	for _, i := range w.also {
		if p := m.st.slots[i]; p.state == hearth.SlotReady && p.run != 0 && m.st.takes(p) {
			m.t.Fatalf("request %d is sent on beside a free place of slot %d", fx.id, i)
		}
	}
	if m.votes == nil {
		m.votes = map[int]time.Time{}
	}
	m.votes[fx.slot] = m.now
}

// voted says whether there is a vote for a slot that counts.
func (m *model) voted(slot int) bool {
	at, ok := m.votes[slot]
	return ok && m.now.Sub(at) <= m.st.slots[slot].load()
}

// stopFor holds the stop of an engine that might go on against whom it is stopped for.
func (m *model) stopFor(e *engineModel) {
	p := m.st.slots[e.slot]
	if !e.ready || e.stale || e.slept || e.other || m.barred(e.slot) || m.closing || p.evicted || !e.cut.IsZero() {
		return
	}
	for _, w := range m.waiting {
		if w.slot != e.slot {
			return
		}
	}
	for slot := range m.conf {
		switch {
		case slot == e.slot:
		case m.up[slot]:
			return
		case m.voted(slot):
			m.owed[slot] = true
			if p.IdleSleep == 0 {
				m.pays(slot, e)
			}
			return
		}
	}
	if p.IdleSleep > 0 {
		return // it may have been idle for long enough
	}
	m.t.Fatalf("the engine of slot %d is stopped for nobody", e.slot)
}

// pays holds a swap for votes against what it may be for: an idle engine, or more work.
func (m *model) pays(slot int, e *engineModel) {
	p, o := m.st.slots[slot], m.st.slots[e.slot]
	idle := m.now.Sub(later(e.used, o.readyAt))
	if more := p.use(m.now) - o.use(m.now); more > 0.19 { // a little has faded since it was decided
		return
	}
	if slices.Contains([]bool{idle >= 10*p.load(), m.elected.IsZero(), m.now.Sub(m.elected) >= 40*p.load()}, true) {
		return
	}
	m.t.Fatalf("the engine of slot %d is stopped for votes %v after it was used, and %v after another was", e.slot, idle, m.now.Sub(m.elected))
}
