package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// room is what a node's engines share.
type room struct {
	exclusive bool // it holds one engine
}

func roomOf(n *hearth.Node) room { return room{exclusive: n.Exclusive} }

// vie says whether two slots compete for room: where one engine is, the other's may have to wait.
func (st *state) vie(p, o *place) bool { return p != o && st.exclusive }

// excludes says whether the engines of two slots can never be there together.
func (st *state) excludes(p, o *place) bool { return st.vie(p, o) }

// present are the slots of which an engine is there or may be there.
func (st *state) present() (there []*place) {
	for _, p := range st.slots {
		if p.run != 0 {
			there = append(there, p)
		}
	}
	return there
}

// fits says whether there is room for an engine of p beside all that are there or may be there.
func (st *state) fits(p *place) bool { return st.fitsBeside(p, st.present()) }

// fitsBeside says whether there is room for an engine of p beside those of others.
func (st *state) fitsBeside(p *place, others []*place) bool {
	for _, o := range others {
		if st.vie(p, o) {
			return false
		}
	}
	return true
}

// evictions are the slots whose engines have to go so that one of p fits: nil if it does.
func (st *state) evictions(p *place) (gone []*place) {
	for _, o := range st.slots {
		if o.run != 0 && st.vie(p, o) {
			gone = append(gone, o)
		}
	}
	return gone
}

// inWay says whether p has to go so that an engine of o can be there.
func (st *state) inWay(p, o *place) bool { return st.vie(p, o) }

// rival is the other slot for which p has to go that has been demanded for longest, nil = none.
func (st *state) rival(p *place) *place {
	var oldest *place
	for _, o := range st.slots {
		if o.demanded() && (oldest == nil || o.demandedAt().Before(oldest.demandedAt())) && st.inWay(p, o) {
			oldest = o
		}
	}
	return oldest
}

// outranked says whether another slot that may be started now has the better claim to the room that p would take.
func (st *state) outranked(p *place, now time.Time) bool {
	for _, o := range st.slots {
		if !o.demanded() || !st.vie(p, o) || !st.startable(o, now) {
			continue
		}
		if !p.demanded() || st.before(o, p) || o.index < p.index && !st.before(p, o) {
			return true
		}
	}
	return false
}

// owe has r started as soon as there is room, even if nobody waits for it any more: p is stopped for its sake.
func (st *state) owe(r, p *place) {
	st.yield(p)
	for _, o := range st.slots {
		if st.vie(r, o) {
			o.owed = false
		}
	}
	r.owed = true
}

// yield notes that p is stopped for another slot's sake: its turn does not come next while others wait.
func (st *state) yield(p *place) {
	for _, o := range st.slots {
		if st.vie(p, o) {
			o.gaveWay = false
		}
	}
	p.gaveWay = true
}

// settled forgets who was to be started, and who was not, in the room that p takes.
func (st *state) settled(p *place) {
	p.gaveWay, p.owed = false, false
	for _, o := range st.slots {
		if st.vie(p, o) {
			o.gaveWay, o.owed = false, false
		}
	}
}

// oust notes that p gave way to a slot that has not become ready yet.
func (st *state) oust(p *place) {
	for _, o := range st.slots {
		if st.excludes(p, o) {
			o.ousted = false
		}
	}
	p.ousted = true
}

// restore has the slots started again that gave way when p, which did not come up, was waited for, unless somebody waits
// by then. It is tried once.
func (st *state) restore(p *place) {
	p.ousted = false
	for _, o := range st.slots {
		if st.vie(p, o) {
			o.owed = o.owed || o.ousted
		}
	}
}

// arrived forgets who gave way to p, which is there.
func (st *state) arrived(p *place) {
	p.ousted = false
	for _, o := range st.slots {
		if st.vie(p, o) {
			o.ousted = false
		}
	}
}

// makeRoom sends engines away until those that stay fit: one that is ready is kept before one that is not.
func (st *state) makeRoom() {
	var kept []*place
	for _, ready := range []bool{true, false} {
		for _, p := range st.slots {
			switch {
			case p.run == 0 || (p.state == hearth.SlotReady) != ready:
			case st.fitsBeside(p, kept):
				kept = append(kept, p)
			default:
				p.evicted = true
			}
		}
	}
}
