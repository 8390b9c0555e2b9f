package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// step brings st from one instant to the next: it takes one event and returns what is to be done about it. It
// does no I/O and reads no clock; the same state and event always give the same. st is changed in place, and the
// effects are valid until the next step.
func step(st *state, ev event) []effect {
	st.effects, st.steps, st.now = st.effects[:0], st.steps[:0], ev.now
	st.expire(ev.now.Add(-1), ev.now) // whose time ran out before now is not served, even if the alarm comes late
	st.elapse(ev.now)
	switch ev.kind {
	case evAsked:
		st.ask(ev)
	case evCancelled, evReleased:
		st.leave(ev)
	case evReady:
		st.ready(ev)
	case evReport:
		st.reported(ev)
	case evDied:
		st.died(ev)
	case evEnded:
		st.ended(ev)
	case evOrder:
		st.effects = append(st.effects, effect{kind: fxOrdered, id: ev.id, err: st.obey(ev)})
	case evOwned:
		st.foreign = false
		st.spare()
	case evReload:
		st.reload(ev)
	case evRefuse, evClose:
		st.refuseAll(ev)
	case evTick:
		st.alarm = time.Time{}
	}
	st.settle(ev.now)
	return st.effects
}

// ask lets a request in, or refuses it at once when waiting is pointless.
func (st *state) ask(ev event) {
	p := st.slots[ev.slot]
	st.arrivals++
	r := &request{id: ev.id, seq: st.arrivals, place: p, key: ev.key, class: classOf(ev.class), brief: ev.brief, hasNext: ev.hasNext, asked: ev.now}
	r.hasty = ev.budget < min(p.Wait, p.load())
	if no := st.turnsDown(p, ev); no != nil {
		st.refuse(r, no)
		return
	}
	r.deadline = ev.now.Add(max(0, min(p.Wait, ev.budget)))
	if p.state == hearth.SlotReady {
		r.deadline = earlier(r.deadline, ev.now.Add(p.queueWait(r)))
	}
	for _, i := range ev.also {
		if i != ev.slot {
			r.also = append(r.also, st.slots[i])
		}
	}
	st.requests[r.id] = r
	p.push(r)
	if !r.brief {
		p.asked.add(ev.now, p.horizon())
	}
}

// turnsDown is why a request need not wait, nil = it may.
func (st *state) turnsDown(p *place, ev event) *Refusal {
	switch {
	case st.refusing:
		return leaving()
	case st.barred(p):
		return st.barring(p, ev.now)
	case ev.as != nil && !ev.as.SameModel(p.Slot):
		return &Refusal{hearth.SkipFailed, backoffMin, otherModel}
	case p.state == hearth.SlotFailed:
		return p.failed(ev.now)
	case ev.now.Before(p.busyUntil):
		return p.notFree(ev.now)
	case p.waiting >= p.room():
		return &Refusal{hearth.SkipQueueFull, retryAfter(st.waitRest(p, p.waiting, ev.now)), "too many requests are waiting for the model already"}
	case ev.key != "" && p.held(ev.key) >= p.share():
		return &Refusal{hearth.SkipQueueFull, retryAfter(st.loadRest(p, ev.now) + p.turnover(p.lined)), "too many requests of this API key are waiting for the model already"}
	}
	return nil
}

// room is how many may wait: the queue, and those who will be in the engine as soon as it is ready.
func (p *place) room() int {
	if p.state == hearth.SlotReady {
		return p.Queue + max(0, p.places()-p.inflight)
	}
	return p.Queue + p.places()
}

// queueWait is how long r may wait for a place in a ready slot.
func (p *place) queueWait(r *request) time.Duration {
	if r.hasNext {
		return p.QueueWait
	}
	return p.Wait
}

// leave takes out a request that is done or whose caller left. Whichever of a grant and a cancellation comes
// second finds the other's work here, so no lease can be lost between them.
func (st *state) leave(ev event) {
	r := st.requests[ev.id]
	if r == nil {
		return // it was refused, or has left before
	}
	delete(st.requests, r.id)
	p := r.place
	switch r.run {
	case 0:
		p.take(r)
		if ev.now.Sub(r.asked) >= p.load() { // not one who leaves before anything could have been done for it
			st.fared(r, false)
		}
	case p.run:
		if ev.kind == evReleased && !r.brief {
			p.service.add(ev.now.Sub(r.granted))
		}
		if p.inflight--; p.inflight == 0 {
			p.idleAt = ev.now
		}
	}
}

// ready notes that the engine of a slot can serve.
func (st *state) ready(ev event) {
	p := st.slots[ev.slot]
	if p.run != ev.run || p.state != hearth.SlotStarting {
		return // it was given up meanwhile
	}
	why := "the engine is ready"
	if p.adopted {
		why = "an engine of an earlier gateway is taken over"
	} else {
		p.loadTime = ev.now.Sub(p.since)
		p.loading.add(p.loadTime)
		p.loads++
	}
	if !st.move(p, hearth.SlotReady, ev.now, why) {
		return
	}
	st.arrived(p)
	p.readyAt, p.idleAt, p.wanted = ev.now, ev.now, time.Time{}
	if ev.report != nil {
		p.learn(ev.report.Facts)
	}
	for r := p.first; r != nil; r = r.next {
		p.hurry(r, ev.now.Add(p.queueWait(r)))
	}
}

// reported notes what an engine that became ready before says of itself now.
func (st *state) reported(ev event) {
	p := st.slots[ev.slot]
	if p.run != ev.run || p.state != hearth.SlotReady && p.state != hearth.SlotDraining {
		return
	}
	p.learn(ev.report.Facts)
	p.unready = ""
	if !ev.report.Ready {
		if p.unready = ev.report.Why; p.unready == "" {
			p.unready = "it says that it is not ready"
		}
	}
}

// learn keeps what an engine says. What it does not say now it may have said before.
func (p *place) learn(f hearth.SlotFacts) {
	if f.Window > 0 {
		p.facts.Window = f.Window
	}
	if f.Parallel > 0 {
		p.facts.Parallel = f.Parallel
	}
	if f.Model != "" {
		p.facts.Model = f.Model
	}
	p.facts.Warning = f.Warning
	p.compare()
}

// died notes that a ready engine is of no use any more: nobody is sent to it from now on. Its place is free when nothing
// of it is left.
func (st *state) died(ev event) {
	p := st.slots[ev.slot]
	if p.run == ev.run && (p.state == hearth.SlotReady || p.state == hearth.SlotDraining) {
		st.fail(p, ev.end.cause, ev.end.detail, ev.now)
		st.recover(p, ev.now)
	}
}

// ended notes that nothing of a run is left. What it means depends on what was to be expected.
func (st *state) ended(ev event) {
	p := st.slots[ev.slot]
	if p.run != ev.run {
		return
	}
	switch p.state {
	case hearth.SlotStarting, hearth.SlotReady, hearth.SlotDraining:
		if ev.end.busy {
			st.notHad(p, ev.end, ev.now)
		} else {
			st.fail(p, ev.end.cause, ev.end.detail, ev.now)
		}
	case hearth.SlotStopping:
		if p.dead {
			p.explain(ev.end)
			st.move(p, hearth.SlotAsleep, ev.now, "nothing of its engine is left")
			break
		}
		p.failures = 0
		if ev.end.left {
			st.move(p, hearth.SlotAsleep, ev.now, "the engine goes on without the gateway")
			break
		}
		p.stopTime = ev.now.Sub(p.since)
		p.stopping.add(p.stopTime)
		st.move(p, hearth.SlotAsleep, ev.now, "the engine is gone")
	case hearth.SlotFailed:
		p.explain(ev.end)
	}
	p.run, p.inflight = 0, 0 // leases of this run are only remembered until they come back
	p.adopted, p.dismissed, p.evicted, p.cut, p.dead, p.unready = false, false, false, false, false, ""
	p.cutAt, p.staleAt = time.Time{}, time.Time{}
	st.recover(p, ev.now)
}

// explain notes why the run of a failed slot ended, as far as it is known better by now: after a start that took too
// long, or a death, the engine's log tells.
func (p *place) explain(end ending) {
	if end.detail != "" {
		p.lastError = end.detail
	}
	if end.cause != "" && !end.busy {
		p.cause = end.cause
	}
}

// fail notes that a slot's engine did not come up or is of no use any more. If the slot may not be tried again at once,
// those who wait for it are refused.
func (st *state) fail(p *place, cause, detail string, now time.Time) {
	was, rival := p.state, st.rival(p)
	if !st.move(p, hearth.SlotFailed, now, detail) {
		return
	}
	switch {
	case was == hearth.SlotStarting:
		st.restore(p)
	case was == hearth.SlotDraining && rival != nil:
		st.yield(p)
	}
	p.backOff(was == hearth.SlotStarting, now)
	p.dead = true
	p.cause, p.lastError, p.wanted = cause, detail, time.Time{}
	if now.Before(p.retryAt) {
		st.refuseWaiting(p, p.failed(now))
	}
}

// backOff says when a slot that has failed now may be tried again. After a start that failed that is in 1 s, doubled with
// every further failure. An engine that came up and died is started again at once the first time; then so that it
// comes up at most once in 1 s, doubled likewise: a crash loop slows down, a crash once in a while costs a load. A run
// that was ready for as long as the longest back-off ended well enough to begin anew.
func (p *place) backOff(starting bool, now time.Time) {
	if !starting && now.Sub(p.readyAt) >= backoffMax {
		p.failures = 0
	}
	switch n := min(p.failures, 16); {
	case starting:
		p.retryAt = now.Add(min(backoffMax, backoffMin<<n))
	case n == 0:
		p.retryAt = now
	default:
		p.retryAt = later(now, p.readyAt.Add(min(backoffMax, backoffMin<<(n-1))))
	}
	p.failures++
}

// notHad notes that a slot's device cannot be had now. The engine is not to blame: the slot is only left alone for a
// moment.
func (st *state) notHad(p *place, end ending, now time.Time) {
	if p.state == hearth.SlotStarting {
		st.restore(p)
	}
	if p.state == hearth.SlotReady {
		st.move(p, hearth.SlotDraining, now, end.detail)
	}
	st.move(p, hearth.SlotStopping, now, end.detail)
	st.move(p, hearth.SlotAsleep, now, end.detail)
	p.busyUntil = now.Add(busyRetry)
	p.cause, p.lastError, p.wanted = end.cause, end.detail, time.Time{}
	st.refuseWaiting(p, p.notFree(now))
}

// failed is the refusal of a slot in back-off.
func (p *place) failed(now time.Time) *Refusal {
	return &Refusal{hearth.SkipFailed, max(backoffMin, p.retryAt.Sub(now)), p.cause}
}

// notFree is the refusal of a slot whose device could not be had.
func (p *place) notFree(now time.Time) *Refusal {
	return &Refusal{hearth.SkipBusy, max(backoffMin, p.busyUntil.Sub(now)), p.cause}
}

// refuse answers a request with no and forgets it.
func (st *state) refuse(r *request, why *Refusal) {
	if st.requests[r.id] == r {
		delete(st.requests, r.id)
		r.place.take(r)
	}
	st.effects = append(st.effects, effect{kind: fxRefuse, slot: r.place.index, id: r.id, refusal: why})
}

// refuseWaiting refuses everybody who waits for a slot.
func (st *state) refuseWaiting(p *place, why *Refusal) {
	for p.first != nil {
		st.refuse(p.first, why)
	}
}

// refuseAll ends all waiting, now and later. At evClose every engine goes: those who use one are told so now.
func (st *state) refuseAll(ev event) {
	st.refusing = true
	st.closing = st.closing || ev.kind == evClose
	for _, p := range st.slots {
		st.refuseWaiting(p, leaving())
		p.wanted = time.Time{}
		if st.closing {
			p.cutBy(ev.now)
		} else {
			p.cutBy(ev.now.Add(p.DrainMax))
		}
	}
}

func leaving() *Refusal {
	return &Refusal{hearth.SkipLoading, backoffMin, "the gateway is shutting down"}
}

// resident says whether an engine of any slot exists or may exist.
func (st *state) resident() bool {
	for _, p := range st.slots {
		if p.run != 0 {
			return true
		}
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
