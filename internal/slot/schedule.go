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
			st.grant(p, false)
		}
		for _, p := range st.slots {
			st.grant(p, true)
		}
		st.expire(now, now)
		st.skip(now)
		st.elect(now)
		again = false
		for _, p := range st.slots {
			again = st.turnOver(p, now) || again
		}
	}
	st.wake(now)
	st.setAlarm(now)
}

// grant gives the free places of a ready slot to those whose turn it is. A guest is served by the slot that it asked
// for, if that can: guests is false while that is still to be seen.
func (st *state) grant(p *place, guests bool) {
	for st.takes(p) {
		r := st.head(p)
		if r == nil || r.place != p && !guests {
			return
		}
		p.had(r)
		r.place.take(r)
		r.place, r.run, r.granted = p, p.run, st.now
		p.inflight++
		p.served++
		st.fared(r, true)
		st.effects = append(st.effects, effect{kind: fxGrant, slot: p.index, id: r.id, run: p.run})
	}
}

// expire refuses everybody whose deadline is not after until.
func (st *state) expire(until, now time.Time) {
	for _, p := range st.slots {
		for p.waiting > 0 && !p.due.After(until) {
			r := p.deadlines.seats[0].r
			st.fared(r, false)
			st.refuse(r, st.late(p, now))
		}
	}
}

// late is the refusal of a request that waited as long as it may.
func (st *state) late(p *place, now time.Time) *Refusal {
	r := &Refusal{hearth.SkipLoading, retryAfter(st.waitRest(p, p.waiting-1, now)), "the model is still being loaded"}
	switch {
	case p.state == hearth.SlotReady && p.unready != "":
		r.Message = "the engine says that it is not ready"
	case p.state == hearth.SlotReady:
		r.Word, r.Message = hearth.SkipBusy, "no place in the model's queue came free in time"
	case st.otherBusy(p):
		r.Word, r.Message = hearth.SkipBusy, "the GPU is busy with another model"
	}
	return r
}

// elapse does what time alone brings: a start that takes too long has failed, a back-off, a pause or the longest drain
// ends.
func (st *state) elapse(now time.Time) {
	if !st.paused.IsZero() && !now.Before(st.paused) {
		st.paused = time.Time{}
		st.spare()
	}
	st.keepHours(now)
	for _, p := range st.slots {
		st.recover(p, now)
		switch {
		case p.state == hearth.SlotStarting && !now.Before(p.since.Add(p.StartTimeout)):
			why := "engine was not ready within " + p.StartTimeout.String()
			st.fail(p, why, why, now)
			st.effects = append(st.effects, effect{kind: fxStop, slot: p.index, run: p.run, why: &givenUp{why}})
		case p.limited() && !now.Before(p.cutAt):
			p.cut, p.cutAt = true, now
			st.effects = append(st.effects, effect{kind: fxCut, slot: p.index, run: p.run})
		}
	}
}

// limited says whether those who use the engine will be told to leave.
func (p *place) limited() bool {
	return p.inflight > 0 && !p.cut && !p.cutAt.IsZero() && (p.state == hearth.SlotReady || p.state == hearth.SlotDraining)
}

// recover ends a back-off that is over. From then on the slot is waited for, though something of its engine may be left.
func (st *state) recover(p *place, now time.Time) {
	switch {
	case p.state != hearth.SlotFailed || now.Before(p.retryAt):
	case p.run != 0:
		st.move(p, hearth.SlotStopping, now, "it may be tried again once nothing of its engine is left")
	default:
		st.move(p, hearth.SlotAsleep, now, "it may be tried again")
	}
}

// turnOver lets a slot that should give way drain, and stops it once nobody uses it. It reports whether a drain
// was called off, so that the slot may serve again.
func (st *state) turnOver(p *place, now time.Time) (ready bool) {
	needless := false
	switch p.state {
	case hearth.SlotStarting:
		if why := st.mustGo(p); why != "" { // nobody uses it yet
			st.stop(p, now, why)
		}
		return false
	case hearth.SlotReady:
		if at, ok := st.giveWayAt(p); !ok || at.After(now) {
			return false
		}
		st.move(p, hearth.SlotDraining, now, st.giveWayWhy(p))
		st.await(p)
	case hearth.SlotDraining:
		needless = st.mustGo(p) == "" && st.rival(p) == nil // who asked for the swap has left: nothing is stopped for nobody
	default:
		return false
	}
	switch done := p.inflight == 0 || p.cut && !now.Before(p.cutAt.Add(cutGrace)); {
	case needless && !(done && p.cut):
		p.wanted = time.Time{}
		return st.move(p, hearth.SlotReady, now, "nobody waits for another model any more")
	case done:
		if d := now.Sub(p.since); d > 0 && !p.cut {
			p.draining.add(d)
		}
		st.stop(p, now, "nobody uses it")
	}
	return false
}

// giveWayAt is when a ready slot should begin to drain as things stand; false = there is no reason to.
func (st *state) giveWayAt(p *place) (at time.Time, ok bool) {
	must := st.mustGo(p) != ""
	stale := must && !st.withdrawn(p) // only its start line was changed
	if must && (!stale || p.idle()) {
		return p.since, true
	}
	stays := p.readyAt.Add(st.minResident)
	if r := st.rival(p); r != nil {
		at = st.turnEnds(p, r, st.now)
	} else if rest, _, ok := st.restAt(p); ok && p.idle() {
		return later(stays, rest), true
	}
	if turn := p.staleAt.Add(st.turn); stale && (at.IsZero() || turn.Before(at)) {
		at = turn
	}
	return at, !at.IsZero()
}

// giveWayWhy is why a ready slot begins to drain.
func (st *state) giveWayWhy(p *place) string {
	if why := st.mustGo(p); why != "" {
		return why
	}
	if r := st.rival(p); r != nil {
		return "another model is waited for: " + r.Name
	}
	_, why, _ := st.restAt(p)
	return why
}

// demanded says whether somebody waits for a slot, or the operator wants it up.
func (p *place) demanded() bool { return p.first != nil || !p.wanted.IsZero() }

// demandedAt is since when a slot is demanded.
func (p *place) demandedAt() time.Time {
	if p.first == nil || !p.wanted.IsZero() && p.wanted.Before(p.first.asked) {
		return p.wanted
	}
	return p.first.asked
}

// demandedBy is when a slot should be up: when its oldest request runs out of time.
func (p *place) demandedBy() time.Time {
	if p.first == nil {
		return p.wanted.Add(p.Wait)
	}
	return p.first.deadline
}

// stop has the engine of a slot stopped, or let go of if it is to outlive the gateway.
func (st *state) stop(p *place, now time.Time, why string) {
	was, must := p.state, st.mustGo(p)
	if !st.move(p, hearth.SlotStopping, now, why) {
		return
	}
	if r := st.rival(p); r != nil {
		if was == hearth.SlotDraining {
			st.owe(r, p)
		}
		if must == "" {
			st.oust(p)
		}
	} else if !p.staleAt.IsZero() && !st.barred(p) && !p.dismissed {
		p.wanted = now // it was up, and is to be up again
	}
	fx := effect{kind: fxStop, slot: p.index, run: p.run}
	if st.closing && p.OnExit == "keep" && was == hearth.SlotDraining && p.staleAt.IsZero() && !p.evicted && !p.dismissed && !st.barred(p) {
		fx.kind = fxLeave
	}
	st.effects = append(st.effects, fx)
}

// wake starts the slots that are waited for as far as there surely is room, in the order of their turns.
func (st *state) wake(now time.Time) {
	for again := true; again; {
		again = false
		for _, p := range st.slots {
			if p.demanded() && st.mayStart(p, now) {
				st.start(p, now, p.wish())
				again = true // who comes after it may have room too
			}
		}
	}
	for _, p := range st.slots {
		if p.owed && st.mayStart(p, now) { // whoever the room was made for has left: the load goes on, so that the retry finds it warm
			st.start(p, now, "the node is free for it")
		}
	}
	st.warmUp(now)
}

// mayStart says whether an engine of the slot may be started now: it can be, there is room, and nobody comes before it.
func (st *state) mayStart(p *place, now time.Time) bool {
	return st.startable(p, now) && st.fits(p) && !st.outranked(p, now)
}

// startable says whether an engine of the slot may be started now.
func (st *state) startable(p *place, now time.Time) bool {
	return p.state == hearth.SlotAsleep && p.run == 0 && !st.barred(p) && !st.refusing && !now.Before(p.busyUntil)
}

// wish is why a demanded slot is started.
func (p *place) wish() string {
	switch {
	case p.first != nil:
		return "a request waits for it"
	case p.elected:
		return NextByVotes
	}
	return NextByWish
}

// before says whether p's turn comes before q's: not if it has just given way, else if its oldest request runs out
// of time first, else if more wait for it.
func (st *state) before(p, q *place) bool {
	switch {
	case p.gaveWay != q.gaveWay:
		return q.gaveWay
	}
	a, b := st.lastStart(p), st.lastStart(q)
	if a.Equal(b) {
		return p.waiting > q.waiting
	}
	return a.Before(b)
}

func (st *state) start(p *place, now time.Time, why string) {
	if !st.move(p, hearth.SlotStarting, now, why) {
		return
	}
	st.lastRun++
	p.run = st.lastRun
	p.resting = false
	st.settled(p)
	st.effects = append(st.effects, effect{kind: fxStart, slot: p.index, run: p.run})
}

// setAlarm asks for an alarm at the next instant at which time alone changes something. A pending alarm that
// rings earlier is left alone: a needless tick costs less than an alarm for every request.
func (st *state) setAlarm(now time.Time) {
	at := soonest(st.paused, st.look)
	need := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, p := range st.slots {
		if p.waiting > 0 {
			need(p.due)
		}
		if t, ok := st.skipAt(p, now); ok {
			need(t)
		}
		if t, ok := st.electAt(p, now); ok {
			need(t)
		}
		if p.limited() {
			need(p.cutAt)
		}
		switch p.state {
		case hearth.SlotStarting:
			need(p.since.Add(p.StartTimeout))
		case hearth.SlotFailed:
			need(p.retryAt)
		case hearth.SlotReady:
			if t, ok := st.giveWayAt(p); ok {
				need(t)
			}
		case hearth.SlotDraining:
			if p.cut {
				need(p.cutAt.Add(cutGrace))
			}
		case hearth.SlotAsleep:
			if now.Before(p.busyUntil) {
				need(p.busyUntil)
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
