package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// step brings st from one instant to the next: it takes one event and returns what is to be done about it. It
// does no I/O and reads no clock; the same state and event always give the same. st is changed in place, and the
// effects are valid until the next step.
func step(st *state, ev event) []effect {
	st.effects = st.effects[:0]
	st.expire(ev.now.Add(-1), ev.now) // whose time ran out before now is not served, even if the alarm comes late
	st.elapse(ev.now)
	switch ev.kind {
	case evAsked:
		st.ask(ev)
	case evCancelled, evReleased:
		st.leave(ev)
	case evReady:
		st.ready(ev)
	case evEnded:
		st.ended(ev)
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
	r := &request{id: ev.id, place: p, hasNext: ev.hasNext, asked: ev.now}
	switch {
	case st.refusing:
		st.refuse(r, leaving())
		return
	case p.state == hearth.SlotFailed:
		st.refuse(r, p.failed(ev.now))
		return
	case p.waiting >= p.room():
		st.refuse(r, &Refusal{hearth.SkipQueueFull, backoffMin, "too many requests are waiting for the model already"})
		return
	}
	r.deadline = ev.now.Add(max(0, min(p.Wait, ev.budget)))
	if p.state == hearth.SlotReady {
		r.deadline = earlier(r.deadline, ev.now.Add(p.queueWait(r)))
	}
	st.requests[r.id] = r
	p.push(r)
}

// room is how many may wait: the queue, and those who will be in the engine as soon as it is ready.
func (p *place) room() int {
	if p.state == hearth.SlotReady {
		return p.Queue + max(0, p.Concurrency-p.inflight)
	}
	return p.Queue + p.Concurrency
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
	case p.run:
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
	p.loadTime = ev.now.Sub(p.since)
	p.loads++
	if !st.move(p, hearth.SlotReady, ev.now) {
		return
	}
	p.readyAt, p.idleAt = ev.now, ev.now
	for r := p.first; r != nil; r = r.next {
		r.deadline = earlier(r.deadline, ev.now.Add(p.queueWait(r)))
		p.due = earlier(p.due, r.deadline)
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
		st.fail(p, ev.cause, ev.detail, ev.now)
	case hearth.SlotStopping:
		p.stopTime = ev.now.Sub(p.since)
		p.failures = 0
		st.move(p, hearth.SlotAsleep, ev.now)
	}
	p.run, p.inflight = 0, 0 // leases of this run are only remembered until they come back
}

// fail begins a back-off: 1 s, doubled with every further failure. A run that was ready for as long as the
// longest back-off ended well enough to begin anew.
func (st *state) fail(p *place, cause, detail string, now time.Time) {
	if p.state != hearth.SlotStarting && now.Sub(p.readyAt) >= backoffMax {
		p.failures = 0
	}
	if !st.move(p, hearth.SlotFailed, now) {
		return
	}
	p.retryAt = now.Add(min(backoffMax, backoffMin<<min(p.failures, 16)))
	p.failures++
	p.cause, p.lastError = cause, detail
	for p.first != nil {
		st.refuse(p.first, p.failed(now))
	}
}

// failed is the refusal of a slot in back-off.
func (p *place) failed(now time.Time) *Refusal {
	return &Refusal{hearth.SkipFailed, max(backoffMin, p.retryAt.Sub(now)), p.cause}
}

// refuse answers a request with no and forgets it.
func (st *state) refuse(r *request, why *Refusal) {
	if st.requests[r.id] == r {
		delete(st.requests, r.id)
		r.place.take(r)
	}
	st.effects = append(st.effects, effect{kind: fxRefuse, slot: r.place.index, id: r.id, refusal: why})
}

// refuseAll ends all waiting, now and later; at evClose it also stops every engine, with no regard to leases.
func (st *state) refuseAll(ev event) {
	st.refusing = true
	for _, p := range st.slots {
		for p.first != nil {
			st.refuse(p.first, leaving())
		}
	}
	if ev.kind == evRefuse || st.closing {
		return
	}
	st.closing = true
	for _, p := range st.slots {
		switch p.state {
		case hearth.SlotReady:
			st.move(p, hearth.SlotDraining, ev.now)
			st.stop(p, ev.now)
		case hearth.SlotStarting, hearth.SlotDraining:
			st.stop(p, ev.now)
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
