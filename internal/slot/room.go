package slot

import (
	"cmp"
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// maxDevices bounds the devices of a node that are told apart.
const maxDevices = 64

// room is what a node's engines share: its devices.
type room struct {
	exclusive bool            // each device holds one ordinary engine
	devices   []hearth.Device // empty = it is one, of which nothing is known
	limited   uint64          // by place in devices: those on which not everything has room at once
}

func roomOf(n *hearth.Node) room {
	rm := room{exclusive: n.Exclusive, devices: n.Devices[:min(len(n.Devices), maxDevices)]}
	for i, d := range rm.devices {
		if d.Memory > 0 || rm.exclusive {
			rm.limited |= 1 << i
		}
	}
	if len(rm.devices) == 0 && rm.exclusive {
		rm.limited = 1
	}
	return rm
}

// on are the devices that a slot takes, by place in devices. One that takes none of them, which is a mistake, takes all.
func (rm *room) on(s *hearth.Slot) (set uint64) {
	if len(rm.devices) == 0 {
		return 1
	}
	for i, d := range rm.devices {
		if slices.Contains(s.Devices, d.ID) {
			set |= 1 << i
		}
	}
	if set == 0 {
		return 1<<len(rm.devices) - 1
	}
	return set
}

// settleIn says anew which devices each slot takes.
func (st *state) settleIn() {
	for _, p := range st.slots {
		p.on = st.room.on(p.Slot)
	}
}

// vie says whether two slots compete for room: where one engine is, the other's may have to wait. Companions have room of
// their own.
func (st *state) vie(p, o *place) bool {
	return p != o && !p.Companion && !o.Companion && p.on&o.on&st.limited != 0
}

// excludes says whether the engines of two slots can never be there together.
func (st *state) excludes(p, o *place) bool {
	return st.vie(p, o) && (st.exclusive || !st.fitsBeside(p, []*place{o}))
}

// fits says whether there is room for an engine of p beside all that are there or may be there.
func (st *state) fits(p *place) bool {
	if st.exclusive {
		for _, o := range st.slots {
			if o.run != 0 && st.vie(p, o) {
				return false
			}
		}
	}
	if len(st.devices) == 0 {
		return true
	}
	st.beside = st.beside[:0]
	for _, o := range st.slots {
		if o.run != 0 && o != p {
			st.beside = append(st.beside, o)
		}
	}
	return st.fitsBeside(p, st.beside)
}

// fitsBeside says whether there is room for an engine of p beside those of others.
func (st *state) fitsBeside(p *place, others []*place) bool {
	if st.exclusive && slices.ContainsFunc(others, func(o *place) bool { return st.vie(p, o) }) {
		return false
	}
	return st.short(p, others) == 0
}

// short are the devices whose memory is not enough for p beside others. What companions take is kept free for them, whether
// they are there or not.
func (st *state) short(p *place, others []*place) (set uint64) {
	for i, d := range st.devices {
		if d.Memory <= 0 || p.on>>i&1 == 0 {
			continue
		}
		rest := d.Memory - p.Memory
		for _, o := range st.slots {
			if o != p && o.on>>i&1 == 1 && (o.Companion && !o.removed || slices.Contains(others, o)) {
				rest -= o.Memory
			}
		}
		if rest < 0 {
			set |= 1 << i
		}
	}
	return set
}

// evictions are the slots whose engines have to go so that one of p fits: none if it does, or never will. Who is leaving
// anyway goes first, then who has been idle for longest, if it
// need not be kept warm, then who has been there for longest. What is returned is valid
// until the next call.
func (st *state) evictions(p *place) []*place {
	st.gone, st.beside = st.gone[:0], st.beside[:0]
	for _, o := range st.slots {
		switch {
		case o.run == 0 || o == p:
		case st.exclusive && st.vie(p, o):
			st.gone = append(st.gone, o)
		default:
			st.beside = append(st.beside, o)
		}
	}
	if len(st.devices) == 0 || st.short(p, st.beside) == 0 || st.short(p, nil) != 0 {
		return st.gone
	}
	slices.SortStableFunc(st.beside, st.firstToGo)
	for i := 0; i < len(st.beside); {
		short := st.short(p, st.beside)
		if short == 0 {
			break
		}
		if o := st.beside[i]; st.vie(p, o) && o.on&short != 0 && o.Memory > 0 {
			st.gone = append(st.gone, o)
			st.beside = slices.Delete(st.beside, i, i+1)
			continue
		}
		i++
	}
	for i := len(st.gone) - 1; i >= 0; i-- { // a large one may have made the small ones before it needless
		if o := st.gone[i]; st.short(p, append(st.beside, o)) == 0 {
			st.beside = append(st.beside, o)
			st.gone = slices.Delete(st.gone, i, i+1)
		}
	}
	return st.gone
}

// leaves says whether a slot's engine goes, whoever is to come.
func (p *place) leaves() bool {
	switch p.state {
	case hearth.SlotDraining, hearth.SlotStopping, hearth.SlotFailed, hearth.SlotAsleep:
		return true
	}
	return false
}

// firstToGo orders those whose engines are there by who goes first when room is needed.
func (st *state) firstToGo(p, o *place) int {
	class := func(p *place) int {
		switch {
		case p.leaves():
			return 0
		case p.state != hearth.SlotReady:
			return 4
		case !p.idle():
			return 3
		case p.warm:
			return 2
		}
		return 1
	}
	a, b := class(p), class(o)
	switch {
	case a != b:
		return cmp.Compare(a, b)
	case a == 1, a == 2:
		return p.idleAt.Compare(o.idleAt)
	case a == 3:
		return p.readyAt.Compare(o.readyAt)
	}
	return 0
}

// inWay says whether p has to go so that an engine of o can be there.
func (st *state) inWay(p, o *place) bool {
	switch {
	case !st.vie(p, o):
		return false
	case st.exclusive:
		return true
	}
	return o.run == 0 && slices.Contains(st.evictions(o), p)
}

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
		if (!p.demanded() || st.before(o, p) || o.index < p.index && !st.before(p, o)) && st.hinders(p, o) {
			return true
		}
	}
	return false
}

// hinders says whether an engine of p would keep one of o out, or make more others go for it.
func (st *state) hinders(p, o *place) bool {
	if st.exclusive {
		return true
	}
	st.evictions(o)
	return st.short(o, append(st.beside, p)) != 0
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
