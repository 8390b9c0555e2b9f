package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// settle does everything that has become possible: it grants, refuses who waited too long, changes turns, starts
// engines and sets the alarm for the next instant at which any of this can change by itself.
func (st *state) settle(now time.Time) {
	for again := true; again; {
		for _, p := range st.slots {
			st.grant(p, now)
		}
		st.expire(now, now)
		again = false
		for _, p := range st.slots {
			again = st.turnOver(p, now) || again
		}
	}
	st.wake(now)
	st.setAlarm(now)
}

// grant gives the free places of a ready slot to those who have waited longest.
func (st *state) grant(p *place, now time.Time) {
	for p.state == hearth.SlotReady && p.waiting > 0 && p.inflight < p.Concurrency {
		r := p.first
		p.take(r)
		r.run = p.run
		p.inflight++
		p.served++
		st.effects = append(st.effects, effect{kind: fxGrant, slot: p.index, id: r.id, run: p.run})
	}
}

// expire refuses everybody whose deadline is not after until.
func (st *state) expire(until, now time.Time) {
	for _, p := range st.slots {
		if p.waiting == 0 || p.due.After(until) {
			continue
		}
		p.due = until.Add(1 << 62)
		for r := p.first; r != nil; {
			next := r.next
			if r.deadline.After(until) {
				p.due = earlier(p.due, r.deadline)
			} else {
				st.refuse(r, st.late(p, now))
			}
			r = next
		}
	}
}

// late is the refusal of a request that waited as long as it may.
func (st *state) late(p *place, now time.Time) *Refusal {
	r := &Refusal{hearth.SkipLoading, max(backoffMin, st.loadRest(p, now)), "the model is still being loaded"}
	switch {
	case p.state == hearth.SlotReady:
		r.Word, r.Message = hearth.SkipBusy, "no place in the model's queue came free in time"
	case st.otherBusy(p):
		r.Word, r.Message = hearth.SkipBusy, "the GPU is busy with another model"
	}
	return r
}

// elapse does what time alone brings: a start that takes too long has failed, a back-off ends.
func (st *state) elapse(now time.Time) {
	for _, p := range st.slots {
		switch {
		case p.state == hearth.SlotStarting && !now.Before(p.since.Add(p.StartTimeout)):
			why := "engine was not ready within " + p.StartTimeout.String()
			st.fail(p, why, why, now)
			st.effects = append(st.effects, effect{kind: fxStop, slot: p.index, run: p.run, why: &givenUp{why}})
		case p.state == hearth.SlotFailed && p.run == 0 && !now.Before(p.retryAt):
			st.move(p, hearth.SlotAsleep, now)
		}
	}
}

// turnOver lets a slot that should give way drain, and stops it once nobody uses it. It reports whether a drain
// was called off, so that the slot may serve again.
func (st *state) turnOver(p *place, now time.Time) (ready bool) {
	if p.state == hearth.SlotReady {
		if at, ok := st.giveWayAt(p); !ok || at.After(now) {
			return false
		}
		st.move(p, hearth.SlotDraining, now)
	}
	if p.state != hearth.SlotDraining {
		return false
	}
	if p.inflight == 0 {
		if d := now.Sub(p.since); d > 0 {
			p.drainTime = d
		}
		if r := st.rival(p); r != nil {
			st.gaveWay, st.owed = p, r.place
		}
		st.stop(p, now)
		return false
	}
	if st.rival(p) == nil { // who asked for the swap has left: nothing is stopped for nobody
		return st.move(p, hearth.SlotReady, now)
	}
	return false
}

// giveWayAt is when a ready slot should begin to drain as things stand; false = there is no reason to.
func (st *state) giveWayAt(p *place) (time.Time, bool) {
	stays := p.readyAt.Add(st.minResident)
	if r := st.rival(p); r != nil {
		if p.idle() {
			return stays, true
		}
		return later(stays, r.asked.Add(st.turn)), true
	}
	if p.IdleSleep > 0 && p.idle() {
		return later(stays, p.idleAt.Add(p.IdleSleep)), true
	}
	return time.Time{}, false
}

// rival is the request that has waited longest for another model of the same exclusive node, nil = none.
func (st *state) rival(p *place) *request {
	if !st.exclusive {
		return nil
	}
	var oldest *request
	for _, o := range st.slots {
		if o != p && o.first != nil && (oldest == nil || o.first.asked.Before(oldest.asked)) {
			oldest = o.first
		}
	}
	return oldest
}

// stop has the engine of a slot stopped.
func (st *state) stop(p *place, now time.Time) {
	if st.move(p, hearth.SlotStopping, now) {
		st.effects = append(st.effects, effect{kind: fxStop, slot: p.index, run: p.run})
	}
}

// wake starts the slots that are waited for: all of them, or on an exclusive node the next one, once the node is
// surely empty.
func (st *state) wake(now time.Time) {
	if st.exclusive && st.resident() {
		return
	}
	var next *place
	for _, p := range st.slots {
		switch {
		case p.state != hearth.SlotAsleep || p.run != 0 || p.waiting == 0:
		case !st.exclusive:
			st.start(p, now)
		case next == nil || st.before(p, next):
			next = p
		}
	}
	if next == nil && st.owed != nil && st.owed.state == hearth.SlotAsleep && st.owed.run == 0 && !st.refusing {
		next = st.owed // whoever the node was emptied for has left: the load goes on, so that the retry finds it warm
	}
	if next != nil {
		st.start(next, now)
	}
}

// before says whether p's turn comes before q's: not if it has just given way, else if its oldest request runs out
// of time first, else if more wait for it.
func (st *state) before(p, q *place) bool {
	switch {
	case p == st.gaveWay || q == st.gaveWay:
		return q == st.gaveWay
	case p.first.deadline.Equal(q.first.deadline):
		return p.waiting > q.waiting
	}
	return p.first.deadline.Before(q.first.deadline)
}

func (st *state) start(p *place, now time.Time) {
	if !st.move(p, hearth.SlotStarting, now) {
		return
	}
	st.lastRun++
	p.run, st.gaveWay, st.owed = st.lastRun, nil, nil
	st.effects = append(st.effects, effect{kind: fxStart, slot: p.index, run: p.run})
}

// setAlarm asks for an alarm at the next instant at which time alone changes something. A pending alarm that
// rings earlier is left alone: a needless tick costs less than an alarm for every request.
func (st *state) setAlarm(now time.Time) {
	var at time.Time
	need := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, p := range st.slots {
		if p.waiting > 0 {
			need(p.due)
		}
		switch p.state {
		case hearth.SlotStarting:
			need(p.since.Add(p.StartTimeout))
		case hearth.SlotFailed:
			if p.run == 0 {
				need(p.retryAt)
			}
		case hearth.SlotReady:
			if t, ok := st.giveWayAt(p); ok {
				need(t)
			}
		}
	}
	if at.IsZero() || !st.alarm.IsZero() && !at.Before(st.alarm) {
		return
	}
	st.alarm = at
	st.effects = append(st.effects, effect{kind: fxAlarm, at: later(at, now)})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
