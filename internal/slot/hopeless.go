package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// inVain is what is said to who would wait for nothing.
const inVain = "the model cannot be ready in the time that is left"

// skip refuses those who wait in vain though somebody else could serve them: even if all went as fast as it was ever seen
// to, the slot would not be ready in time. What they leave is a vote.
func (st *state) skip(now time.Time) {
	for _, p := range st.slots {
		if len(p.choosers.seats) == 0 {
			continue
		}
		for soonest := now.Add(st.quickest(p, now)); len(p.choosers.seats) > 0; {
			r := p.choosers.seats[0].r
			if !r.deadline.Before(soonest) {
				break
			}
			if st.mayBeGuest(r, now) {
				p.choosers.remove(&r.seat) // in doubt it waits
				continue
			}
			no := st.late(p, now)
			no.Message = inVain
			st.refuse(r, no)
			if !r.brief {
				st.vote(p, now)
			}
		}
	}
}

// mayBeGuest says whether one of the further slots that would do may be ready in time for a request.
func (st *state) mayBeGuest(r *request, now time.Time) bool {
	for i, q := range r.also {
		if r.guest[i].line != nil && !r.deadline.Before(now.Add(st.quickest(q, now))) {
			return true
		}
	}
	return false
}

// quickest is the shortest time in which a slot can be ready, as far as anything like it was ever seen: the drain and the
// stop of what is in its way, and its load. 0 = it is ready, or nobody knows.
func (st *state) quickest(p *place, now time.Time) time.Duration {
	least := p.fastestLoad()
	switch p.state {
	case hearth.SlotStarting:
		return max(0, least-now.Sub(p.since))
	case hearth.SlotAsleep, hearth.SlotStopping:
	default:
		return 0
	}
	if least == 0 {
		return 0
	}
	gone, _ := st.roomSoonest(p, now)
	return gone + least
}

// roomSoonest is the shortest time in which there can be room for p, and whether it gets shorter as time goes by.
func (st *state) roomSoonest(p *place, now time.Time) (gone time.Duration, passing bool) {
	for _, o := range st.slots {
		if o.run == 0 || o != p && !st.excludes(p, o) {
			continue
		}
		if d := o.goneSoonest(now); d > gone {
			gone, passing = d, o.state != hearth.SlotReady
		}
	}
	return gone, passing
}

// goneSoonest is the shortest time in which an engine can be gone, as far as that was ever seen.
func (p *place) goneSoonest(now time.Time) time.Duration {
	passed := now.Sub(p.since)
	switch p.state {
	case hearth.SlotStarting:
		return max(0, p.fastestLoad()-passed)
	case hearth.SlotReady:
		if p.inflight > 0 {
			return p.fastestDrain() + p.stopping.Min()
		}
		return p.stopping.Min()
	case hearth.SlotDraining:
		return max(0, p.fastestDrain()-passed) + p.stopping.Min()
	}
	return max(0, p.stopping.Min()-passed)
}

// skipAt is when the next of those who wait for p will wait in vain as things stand, false = nobody will.
func (st *state) skipAt(p *place, now time.Time) (at time.Time, ok bool) {
	if len(p.choosers.seats) == 0 || p.state == hearth.SlotStarting {
		return at, false
	}
	least := p.fastestLoad()
	if st.quickest(p, now) == 0 {
		return at, false
	}
	at = p.choosers.due().Add(1 - least)
	gone, passing := st.roomSoonest(p, now)
	if passing {
		return later(at, now.Add(gone+1)), true // until then nothing is lost by waiting
	}
	return at.Add(-gone), true
}
