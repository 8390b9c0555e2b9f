package slot

import "time"

// Memory is what was measured of the slots of this machine, by their names, for a gateway that comes later.
type Memory map[string]Measured

// Measured is what was measured of one slot lately, in milliseconds, oldest first.
type Measured struct {
	Model   string  `json:"model"`    // id: of another model it says nothing
	Name    string  `json:"upstream"` // what the engine calls it
	Load    []int64 `json:"load_ms,omitzero"`
	Stop    []int64 `json:"stop_ms,omitzero"`
	Drain   []int64 `json:"drain_ms,omitzero"`
	Service []int64 `json:"service_ms,omitzero"`
}

// longest bounds what is believed of a time that was measured by an earlier gateway.
const longest = 7 * 24 * time.Hour

// list is what was measured, oldest first.
func (l *learned) list() []int64 {
	list := make([]int64, len(l.values))
	for _, m := range l.values {
		list[uint64(len(list)-1)-(l.count-m.nth)] = m.d.Milliseconds()
	}
	return list
}

// believe takes over what an earlier gateway has measured.
func (l *learned) believe(list []int64) {
	for _, ms := range list[max(0, len(list)-memory):] {
		if ms >= 0 && ms <= longest.Milliseconds() {
			l.add(time.Duration(ms) * time.Millisecond)
		}
	}
}

// measured adds what was measured of the slots to m.
func (st *state) measured(m Memory) {
	for _, p := range st.slots {
		if p.removed || p.loading.N()+p.stopping.N()+p.draining.N()+p.service.N() == 0 {
			continue
		}
		m[p.Name] = Measured{
			modelID(p.Slot), p.UpstreamModel, p.loading.list(), p.stopping.list(), p.draining.list(), p.service.list(),
		}
	}
}

// recall takes over what an earlier gateway has measured of the same models.
func (st *state) recall(m Memory) {
	for _, p := range st.slots {
		if had, ok := m[p.Name]; ok && had.Model == modelID(p.Slot) && had.Name == p.UpstreamModel {
			p.loading.believe(had.Load)
			p.stopping.believe(had.Stop)
			p.draining.believe(had.Drain)
			p.service.believe(had.Service)
		}
	}
}

// Memory is what was measured of the slots of this machine by now.
func (f *Fleet) Memory() Memory {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := Memory{}
	for _, n := range f.locals {
		reply := make(chan answer, 1)
		if n.tell(message{event: event{kind: evRecall}, reply: reply, memory: m}) {
			<-reply // the loop answers at once
		}
	}
	return m
}
