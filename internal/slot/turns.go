package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// paysOff is how many load times a turn may last for the sake of those who have waited for it: the card then loads for at
// most a tenth of the time. It is also over how many load times work is compared when votes are counted.
const paysOff = 10

// lookedAt is up to how many of those who wait are asked one by one whether they can still be served in time.
const lookedAt = 64

// rota is what a place knows of turns.
type rota struct {
	poll
	awaited  []*request // what its drain waits for
	left     pace       // requests that were served or lost
	forgone  pace       // requests that were lost
	choosers timeline   // of those who asked for it and could be served by somebody else
}

// turnEnds is when a ready slot begins to drain because r is waited for, as things stand.
func (st *state) turnEnds(p, r *place, now time.Time) time.Time {
	since := later(p.readyAt, r.demandedAt()) // from then on r waits for p alone
	more := st.catchUp(p)
	due := p.first != nil && p.first.asked.Before(since.Add(st.turn+more)) // the turn is for somebody who waits
	lost := st.lost(p, r, now)
	end := since.Add(st.turn)
	switch {
	case p.idle():
		quiet := p.quiet(r.there(), st.waitingFor(p))
		if !p.sought(now) && r.first != nil && r.due.Before(quiet.Add(p.clears()+r.loading.P95())) {
			quiet = p.idleAt // it is seldom asked for, and who waits might be too late after that
		}
		end = later(earlier(end, quiet), p.readyAt.Add(more))
	case due:
		end = later(end, p.readyAt.Add(paysOff*p.loading.P50()+more))
	case p.sought(now):
		end = later(end, p.readyAt.Add(outweighs*p.loading.P50())) // there and back again
	}
	if at, ok := st.lastCall(p, now, due && lost, p.readyAt.Add(more)); ok {
		end = earlier(end, at)
	}
	if lost {
		end = later(end, p.readyAt.Add(st.rent(p)+more))
	}
	return later(end, p.readyAt.Add(st.minResident))
}

// rent is what one turn costs of those that are asked for now: their loads, divided equally.
func (st *state) rent(p *place) time.Duration {
	sum, n := st.round(p)
	return sum / time.Duration(n)
}

// sought says whether p is asked for at least once in the time of the two loads that it costs to leave and come back.
func (p *place) sought(now time.Time) bool {
	return p.asked.over(now, p.horizon()) >= paysOff/outweighs
}

// turnLimit is since when p's turn is limited because another slot is waited for, zero = it is not.
func (st *state) turnLimit(p *place) time.Time {
	if p.state != hearth.SlotReady {
		return time.Time{}
	}
	if r := st.rival(p); r != nil {
		return later(p.readyAt, r.demandedAt())
	}
	return time.Time{}
}

// Why a slot's turn comes next on its node.
const (
	NextByDeadline = "its oldest request runs out of time first"
	NextByVotes    = "requests that could not wait for it have gone elsewhere"
	NextByWish     = "it is to be up" // an order, or its hours
)

// nextWhy is why p's turn comes next, "" = it does not.
func (st *state) nextWhy(p *place) string {
	if p.run != 0 || !p.demanded() {
		return ""
	}
	for _, o := range st.slots {
		if o != p && o.run == 0 && o.demanded() && st.vie(p, o) && (st.before(o, p) || o.index < p.index && !st.before(p, o)) {
			return ""
		}
	}
	if p.first != nil {
		return NextByDeadline
	}
	return p.wish()
}

// quiet is when an idle slot is no longer expected to be asked for in a moment, if so many wait for it to leave: when they
// have waited as long, all together, as its next request would have to for the loads there and back.
func (p *place) quiet(there time.Duration, waiting int) time.Time {
	if !p.idleAt.After(p.readyAt) {
		return p.idleAt // nobody has used it
	}
	return p.idleAt.Add((there + p.loading.P50()) / time.Duration(max(1, waiting)))
}

// there is how long a load of p takes if somebody waits for it, 0 = it is only wanted.
func (p *place) there() time.Duration {
	if p.first == nil {
		return 0
	}
	return p.loading.P50()
}

// waitingFor is how many wait for slots for which p has to go.
func (st *state) waitingFor(p *place) (n int) {
	for _, o := range st.slots {
		if o.demanded() && st.inWay(p, o) {
			n += max(1, o.waiting)
		}
	}
	return n
}

// lastCall is when p has to begin to leave at the latest so that all those who wait elsewhere, and are likely to be served in
// time, are; false = there is nobody like that. It is not before least for the sake of a slot that has not fared worse than p,
// and keeps says that it is not at all: then as many would be lost here.
func (st *state) lastCall(p *place, now time.Time, keeps bool, least time.Time) (at time.Time, ok bool) {
	least = later(least, now)
	for _, o := range st.slots {
		if o.first == nil || !st.inWay(p, o) {
			continue
		}
		worse := (keeps || least.After(now)) && st.lag(o) > st.lag(p)+fairly
		if keeps && !worse {
			continue
		}
		clears := p.clears()
		d, some := o.dueAfter(now.Add(clears + o.loading.P50()))
		if !some {
			continue
		}
		if d = d.Add(-clears - o.loading.P95()); !worse {
			d = later(d, least)
		}
		if !ok || d.Before(at) {
			at, ok = d, true
		}
	}
	return at, ok
}

// clears is how long it takes from the decision until nothing of p's engine is left.
func (p *place) clears() time.Duration {
	d := p.stopping.P50()
	if p.inflight > 0 {
		d += p.draining.P50()
	}
	return d
}

// dueAfter is the earliest deadline of those who wait that is not before t, false = there is none.
func (p *place) dueAfter(t time.Time) (at time.Time, ok bool) {
	if !p.due.Before(t) {
		return p.due, p.first != nil
	}
	n := 0
	for r := p.first; r != nil && n < lookedAt; r = r.next {
		n++
		if !r.deadline.Before(t) && (!ok || r.deadline.Before(at)) {
			at, ok = r.deadline, true
		}
	}
	return at, ok
}

// lost says whether somebody who waits for p would be served too late if p left for r now and came back as soon as it may.
func (st *state) lost(p, r *place, now time.Time) bool {
	if p.first == nil {
		return false
	}
	back := p.clears() + r.loading.P50() + st.minResident + r.stopping.P50() + p.loading.P50()
	return p.due.Before(now.Add(back))
}

// lastStart is when a load of p has to begin so that its oldest request is served in time. One of which more requests were
// lost lately than of others comes earlier.
func (st *state) lastStart(p *place) time.Time {
	return p.demandedBy().Add(-p.load() - time.Duration(sooner*st.lag(p)*float64(p.Wait)))
}
