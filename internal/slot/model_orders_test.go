package slot

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// bound notes that the drain of a slot's engine may last as long as drain_max from now.
func (m *model) bound(slot int, d time.Duration) {
	for _, e := range m.engines {
		if at := m.now.Add(d); e.slot == slot && (e.bound.IsZero() || at.Before(e.bound)) {
			e.bound = at
		}
	}
}

func (m *model) order(slot int, verb Verb) {
	if m.conf[slot] == nil {
		return
	}
	m.play(event{kind: evTick}) // what is due is due before the order
	drain := m.conf[slot].DrainMax
	switch verb {
	case Wake:
		if m.refusing || m.foreign || m.now.Before(m.paused) || m.disabled[slot] {
			break
		}
		m.up[slot] = true
		delete(m.drained, slot)
		for _, e := range m.engines {
			if e.slot == slot && e.cut.IsZero() {
				e.slept = false
			}
		}
	case Sleep:
		delete(m.owed, slot)
		delete(m.up, slot)
		if m.previous == slot {
			m.previous = -1
		}
		for _, e := range m.engines {
			if e.slot == slot {
				e.slept = true
			}
		}
		m.bound(slot, drain)
	case Drain, Disable:
		map[Verb]map[int]bool{Drain: m.drained, Disable: m.disabled}[verb][slot] = true
		delete(m.up, slot)
		m.bound(slot, drain)
	case Enable:
		delete(m.disabled, slot)
		delete(m.drained, slot)
	}
	m.unbound()
	m.play(event{kind: evOrder, slot: slot, order: &Order{Verb: verb}})
}

func (m *model) pause(d time.Duration) {
	m.play(event{kind: evTick})
	if d == 0 {
		m.paused = time.Time{}
		m.unbound()
		m.play(event{kind: evOrder, order: &Order{Verb: Resume}})
		return
	}
	m.paused = m.now.Add(d)
	for i, s := range m.conf {
		if s != nil {
			m.bound(i, s.DrainMax)
		}
	}
	m.play(event{kind: evOrder, order: &Order{Verb: Pause, For: d}})
}

// unbound forgets what bounded the drains of engines that may go on. What ended meanwhile counts no more, either.
func (m *model) unbound() {
	for _, e := range m.engines {
		if !m.barred(e.slot) && !e.slept && !m.refusing {
			e.bound = time.Time{}
		}
	}
}

// reload changes a slot's configuration, or adds one.
func (m *model) reload(slot int, how string, exclusive bool) {
	m.play(event{kind: evTick})
	c := &change{node: &hearth.Node{Exclusive: exclusive, Turn: m.st.turn, MinResident: m.st.minResident}}
	for i, s := range m.conf {
		restart := i == slot && s != nil && (how == "line" || how == "model")
		if i == slot {
			s = m.altered(i, how)
		}
		c.slots, c.restart = append(c.slots, s), append(c.restart, restart)
	}
	if how == "new" && len(m.conf) < 5 {
		c.slots, c.restart = append(c.slots, drawSlot(m.t)), append(c.restart, false)
	}
	m.conf = c.slots
	m.unbound()
	m.play(event{kind: evReload, change: c})
}

func (m *model) altered(slot int, how string) *hearth.Slot {
	old := m.conf[slot]
	if how == "without" {
		if old != nil {
			m.bound(slot, old.DrainMax)
		}
		return nil
	}
	if old == nil { // it comes back as it was
		delete(m.disabled, slot)
		delete(m.drained, slot)
		return m.st.slots[slot].Slot
	}
	s := *old
	for _, e := range m.engines {
		if e.slot == slot && !e.stopping && (how == "line" || how == "model") {
			e.stale, e.other = true, e.other || how == "model"
		}
	}
	switch how {
	case "queue":
		s.Queue, s.Concurrency = (s.Queue+1)%4, (s.Concurrency+1)%4
	case "model":
		s.UpstreamModel += "+"
		delete(m.fastest, slot) // that was the other one
		for id, w := range m.waiting {
			w.also = slices.DeleteFunc(slices.Clone(w.also), func(i int) bool { return i == slot })
			m.waiting[id] = w
		}
	}
	return &s
}
