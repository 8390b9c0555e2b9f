package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// warmAfter is how long all engines in the way must have been idle before a slot that is to be kept warm takes their place.
const warmAfter = time.Minute

// warmUp starts the slots that are to be up though nobody waits for them, where there is room that nobody else is in demand of.
func (st *state) warmUp(now time.Time) {
	for _, p := range st.slots {
		if st.cold(p) && st.mayStart(p, now) {
			why := "it is to be kept warm"
			if p.Companion {
				why = "it is to be up at all times"
			}
			st.start(p, now, why)
		}
	}
}

// cold says whether a slot is to be up by its calendar, but is not, and nobody is in demand of its room.
func (st *state) cold(p *place) bool {
	if !p.warm || p.resting || p.demanded() || !st.startable(p, st.now) {
		return false
	}
	for _, o := range st.slots {
		if st.vie(p, o) && (o.demanded() || o.owed) {
			return false
		}
	}
	return true
}

// restAt is when an idle engine goes though nobody waits for another one: it has slept long enough, or stands in the way of
// one that is to be kept warm. ok is false if it stays.
func (st *state) restAt(p *place) (at time.Time, why string, ok bool) {
	if p.warm && !p.resting {
		return time.Time{}, "", false
	}
	if p.IdleSleep > 0 {
		at, why, ok = p.idleAt.Add(p.IdleSleep), "it was idle for "+p.IdleSleep.String(), true
	}
	for _, o := range st.slots {
		if !st.cold(o) || !st.vie(p, o) {
			continue
		}
		if then, may := st.makesWay(p, o); may && (!ok || then.Before(at)) {
			at, why, ok = then, "another model is to be kept warm: "+o.Name, true
		}
	}
	return at, why, ok
}

// makesWay is when p goes so that o can be kept warm: once all that have to go have been idle for long enough. may is false if p
// need not go, or one of them stays.
func (st *state) makesWay(p, o *place) (at time.Time, may bool) {
	for _, g := range st.evictions(o) {
		if g.leaves() {
			continue
		}
		if g.state != hearth.SlotReady || !g.idle() || g.warm && !g.resting {
			return time.Time{}, false
		}
		may = may || g == p
		at = later(at, g.idleAt.Add(warmAfter))
	}
	return at, may
}
