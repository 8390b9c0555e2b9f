package relay

import (
	"context"
	"errors"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// grant is what an attempt holds while it lasts.
type grant struct {
	lease  *slot.Lease // nil = the endpoint has no slot
	permit health.Permit
	try    routing.Try // what the router is told
	count  func()      // adds the failure to what is measured of the endpoint; nil = there is nothing to add
}

// together is how many of the first candidates share one wait: slots of one node.
func (r *Relay) together(rest []hearth.Candidate) int {
	first := rest[0].Endpoint.Slot
	if first == nil || first.Node == nil {
		return 1
	}
	n := 1
	for ; n < len(rest); n++ {
		e := rest[n].Endpoint
		if e.Slot == nil || e.Slot.Node != first.Node || r.health.View()[e.Index].Out(time.Now()) {
			break
		}
	}
	return n
}

// lease asks for a place in the slot of the first candidate, or of another if that is ready first. Without one the attempt
// says why, in the slot's word.
func (r *Relay) lease(ctx context.Context, x *exchange, cs []hearth.Candidate, g *grant, o *outcome, hasNext bool) bool {
	asked := time.Now()
	ask := slot.Ask{
		Slot: cs[0].Endpoint.Slot, Key: x.key.ID, Class: x.key.Class, Budget: min(x.waitLeft, cs[0].Endpoint.Slot.Wait), HasNext: hasNext, Generation: x.gen.ID,
	}
	for i := range cs[1:] {
		ask.Also = append(ask.Also, cs[1+i].Endpoint.Slot)
	}
	got, err := r.fleet.Acquire(ctx, ask)
	o.SlotWait = time.Since(asked)
	x.waitLeft = max(x.waitLeft-o.SlotWait, 0)
	if err == nil {
		g.lease = got
		r.serves(got.Slot, cs, o)
		return true
	}
	var refusal *slot.Refusal
	if errors.As(err, &refusal) {
		o.Skip, o.Message, o.RetryAfter = refusal.Word, refusal.Message, refusal.RetryAfter
		x.tally.overtaken = x.tally.overtaken || refusal.Overtaken()
		return false
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	o.left(err)
	return false
}

// serves notes which of the candidates that shared a wait has got the place, and why those before it have not.
func (r *Relay) serves(s *hearth.Slot, cs []hearth.Candidate, o *outcome) {
	for i := range cs {
		if cs[i].Endpoint.Slot != s {
			continue
		}
		for j := range cs[:i] {
			p := outcome{Attempt: hearth.Attempt{SlotWait: o.SlotWait, Latency: o.SlotWait}}
			p.begin(cs[j].Endpoint)
			p.Skip, p.Message = slot.NotFirst(r.fleet.View(cs[j].Endpoint.Slot))
			o.passed = append(o.passed, p.Attempt)
		}
		o.begin(cs[i].Endpoint)
		o.place = i
		return
	}
}

// without takes candidate i out of those that are left, and changes the order of no others.
func without(rest []hearth.Candidate, i int) []hearth.Candidate {
	copy(rest[1:i+1], rest[:i])
	return rest[1:]
}

// deathNews is how long after a failure of its connection an engine's death may be noticed: the sockets of a process are
// closed first, and what it had in a GPU's memory takes its time.
const deathNews = 3 * time.Second

// lastGasp is how long the address of an engine that has died may still take connections, which break: its sockets are
// closed one by one, and the next request may come between two of them. An engine that dies of a request takes longer.
const lastGasp = 100 * time.Millisecond

// giveBack gives back what an attempt holds. A connection that failed because the engine is gone does not count against
// the endpoint: its slot deals with it in its own way.
func (g *grant) giveBack(o *outcome) {
	if g.unsure(o) {
		g.judgeLater()
	} else {
		g.permit.Done(o.health, o.RetryAfter, time.Now())
	}
	if g.lease != nil {
		g.lease.Release()
	}
}

// unsure says whether a failure may turn out to be the death of the engine.
func (g *grant) unsure(o *outcome) bool {
	return o.health == health.Failure && o.broke && g.lease != nil && g.lease.Mortal
}

// judgeLater counts a failure of the connection against the endpoint, unless the engine turns out to be gone.
func (g *grant) judgeLater() {
	verdicts := make(chan health.Outcome, 1) // whoever finds room in it is the first
	permit, count := g.permit, g.count
	judge := func(o health.Outcome) {
		select {
		case verdicts <- o:
			permit.Done(o, 0, time.Now())
			if o == health.Failure && count != nil {
				count()
			}
		default:
		}
	}
	select {
	case <-g.lease.Gone:
		judge(health.NoVerdict)
		return
	default:
	}
	stop := g.lease.OnGone(func() { judge(health.NoVerdict) })
	time.AfterFunc(deathNews, func() {
		stop()
		judge(health.Failure)
	})
}

// unsent is what tells that an engine is gone which failed a request after a time, if it cannot have done anything about
// the request; else nil.
func (g *grant) unsent(f *upstream.Failure, after time.Duration) <-chan struct{} {
	if errors.Is(f.Err, slot.ErrUnsent) {
		gone := make(chan struct{}) // its machine knows already
		close(gone)
		return gone
	}
	if g.lease != nil && g.lease.Mortal && (f.Unsent || f.Broke && !f.TimedOut && after < lastGasp) {
		return g.lease.Gone
	}
	return nil
}

// comesBack says whether the last candidate's slot is to be asked once more: its engine is gone, and was before it could
// do anything about the request. The news of that are waited for within the budget for slots.
func (x *exchange) comesBack(ctx context.Context, o *outcome) bool {
	if o.unsent == nil {
		return false
	}
	select {
	case <-o.unsent:
		return true
	default:
	}
	asked := time.Now()
	t := time.NewTimer(min(deathNews, x.waitLeft))
	defer t.Stop()
	defer func() { x.waitLeft = max(x.waitLeft-time.Since(asked), 0) }()
	select {
	case <-o.unsent:
		return true
	case <-ctx.Done():
		return true // to be told by whoever is asked next
	case <-t.C:
		return false
	}
}
