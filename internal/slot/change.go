package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// change is a newer configuration of a node.
type change struct {
	node    *hearth.Node   // nil = there is none any more
	slots   []*hearth.Slot // by place, nil = there is none any more; those past the places of before are new
	restart []bool         // by place: the engine of before is another than what would be started now
}

// reload makes a newer configuration hold: at once, but an engine that would be started otherwise now is only
// started anew at the next idle moment or turn, and that of a removed slot is drained.
func (st *state) reload(ev event) {
	c := ev.change
	if c.node == nil {
		st.removed = true
	} else {
		st.removed = false
		st.room, st.turn, st.minResident = roomOf(c.node), c.node.Turn, c.node.MinResident
		st.available = c.node.Available
	}
	for i, s := range c.slots {
		switch {
		case i == len(st.slots):
			st.add(s, ev.now)
		case s == nil:
			if p := st.slots[i]; !p.removed {
				p.removed = true
				st.bar(p, ev.now)
			}
		default:
			st.renew(st.slots[i], s, c.restart[i], ev.now)
		}
	}
	st.readClock(ev.now)
	st.spare()
	st.settleIn()
	st.makeRoom()
}

// renew makes a newer configuration of a slot hold.
func (st *state) renew(p *place, s *hearth.Slot, restart bool, now time.Time) {
	moved := !p.SameModel(s)
	if p.removed {
		p.removed, p.disabled, p.drained = false, false, false
	}
	p.Slot = bounded(s)
	if restart {
		p.facts = hearth.SlotFacts{}
	}
	p.compare()
	if !restart {
		return
	}
	p.failures, p.busyUntil = 0, time.Time{}
	p.retryAt = now
	if moved {
		p.loading, p.draining, p.stopping, p.service = learned{}, learned{}, learned{}, learned{}
		st.refuseWaiting(p, &Refusal{hearth.SkipFailed, backoffMin, otherModel})
		p.turnAway()
	}
	switch p.state {
	case hearth.SlotStarting, hearth.SlotReady, hearth.SlotDraining:
		p.staleAt = now
		p.evicted = p.evicted || moved // who asks for the new model must not get the old one
	}
}
