package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// takes says whether a slot lets requests in now: it is ready, or it drains for another slot's sake, and one that is let in
// now is expected to be done before those that are drained.
func (st *state) takes(p *place) bool {
	if p.inflight >= p.places() || st.withdrawn(p) {
		return false
	}
	return p.state == hearth.SlotReady || p.state == hearth.SlotDraining && st.backfills(p)
}

// backfills says whether a request that is let into a draining engine now is expected to be done before the drain is. What
// the drain waits for are the requests with which it began: those that were let in later do not make it longer. One whose start
// line was changed lets in nobody: they are served by its next engine.
func (st *state) backfills(p *place) bool {
	each := p.service.P50()
	if each == 0 || !p.staleAt.IsZero() {
		return false
	}
	by := st.now.Add(each)
	for _, r := range p.awaited {
		if r.run == p.run && st.requests[r.id] == r && !p.expectedEnd(r, st.now).Before(by) {
			return true
		}
	}
	return false
}

// expectedEnd is when a request that is in the engine is likely to be done: after as long as half of them take or, if it has
// taken longer already, nearly all. One that has taken longer than that may be done at any moment.
func (p *place) expectedEnd(r *request, now time.Time) time.Time {
	for _, d := range []time.Duration{p.service.P50(), p.service.P95()} {
		if at := r.granted.Add(d); at.After(now) {
			return at
		}
	}
	return now
}

// await notes what a drain that begins now waits for.
func (st *state) await(p *place) {
	p.awaited = p.awaited[:0]
	for _, r := range st.requests {
		if r.run == p.run {
			p.awaited = append(p.awaited, r)
		}
	}
}
