package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// Bounds of the time a slot is left alone after a failed start or a crash.
const (
	backoffMin = time.Second
	backoffMax = time.Minute
)

// startTimeout is how long a start may take if the slot does not say.
const startTimeout = 10 * time.Minute

// kind says what an event or an effect is about.
type kind uint8

// Events.
const (
	evAsked     kind = iota // a request wants a place: slot, id, budget, hasNext
	evCancelled             // the request left, whether it was granted or not: id
	evReleased              // a granted request is done: id
	evReady                 // a probe said yes: slot, run
	evEnded                 // nothing of the run is left: it never came up, it exited or it was stopped: slot, run, cause, detail
	evTick                  // the alarm rang
	evRefuse                // refuse everybody who waits and will ask
	evClose                 // evRefuse, and stop every engine
)

// Effects.
const (
	fxStart  kind = iota // start an engine: slot, run
	fxStop               // stop the engine, or give its start up: slot, run
	fxGrant              // the request may use the engine: slot, id
	fxRefuse             // the request may not: slot, id, refusal
	fxAlarm              // send evTick at the time, replacing an earlier alarm: at
)

// event is something that happened to a node. Every event carries the time at which it counts.
type event struct {
	kind    kind
	now     time.Time // never before that of the event before
	slot    int       // place in state.slots
	id      uint64    // the request
	run     uint64    // the engine, from the start effect on
	budget  time.Duration
	hasNext bool
	cause   string // why a run ended, in words for a caller
	detail  string // the same for the operator
}

// effect is something to be done for a node. Effects of one step are carried out in their order.
type effect struct {
	kind    kind
	slot    int
	id, run uint64
	at      time.Time
	refusal *Refusal
	why     *givenUp // fxStop: the engine failed to get ready; nil = the stop is in order
}

// givenUp is why a start was given up.
type givenUp struct{ cause string }

func (g *givenUp) Error() string { return g.cause }

// state is all that a node's scheduling knows. It belongs to whoever calls step: nothing else may touch it.
type state struct {
	exclusive   bool
	turn        time.Duration
	minResident time.Duration
	slots       []*place
	requests    map[uint64]*request
	lastRun     uint64
	gaveWay     *place    // stopped for another slot's sake: it is not the next to start while others wait
	owed        *place    // the node is being emptied for it: it is started even if nobody waits for it any more
	alarm       time.Time // when the pending alarm rings, zero = none is pending
	refusing    bool
	closing     bool
	illegal     int // refused steps between slot states: always 0 unless step has a mistake
	effects     []effect
}

// place is the state of one slot.
type place struct {
	*hearth.Slot // as bounded made it

	index    int // in state.slots
	state    hearth.SlotState
	since    time.Time // when state was entered
	run      uint64    // the engine that exists or may exist, 0 = surely none
	readyAt  time.Time // when the run became ready
	idleAt   time.Time // when the last lease came back, or readyAt
	retryAt  time.Time // end of the back-off
	failures int       // in a row
	inflight int       // leases of this run

	first, last *request  // those who wait, oldest first
	waiting     int       // length of that list
	due         time.Time // not after the earliest deadline in that list

	lastError string // of the last failure, for the operator
	cause     string // the same for callers

	loadTime  time.Duration // of the last start, 0 = none was measured
	drainTime time.Duration // of the last swap, from the decision to the last lease
	stopTime  time.Duration // of the last stop
	loads     uint64        // starts that came up
	served    uint64        // leases given
}

// request is somebody who waits or holds a lease.
type request struct {
	id         uint64
	place      *place
	run        uint64 // the engine it uses, 0 = it waits
	hasNext    bool
	asked      time.Time
	deadline   time.Time // never moves back
	prev, next *request
}

// newState makes the state of a node with all its slots asleep.
func newState(n *hearth.Node, slots []*hearth.Slot, now time.Time) *state {
	st := &state{exclusive: n.Exclusive, turn: n.Turn, minResident: n.MinResident, requests: map[uint64]*request{}}
	for i, s := range slots {
		st.slots = append(st.slots, &place{Slot: bounded(s), index: i, since: now})
	}
	return st
}

// bounded returns a copy of s whose numbers can be counted with. Zero times are meant as they are written, but
// for a start that could never succeed.
func bounded(s *hearth.Slot) *hearth.Slot {
	c := *s
	c.Concurrency = max(1, c.Concurrency)
	c.Queue = max(0, c.Queue)
	if c.StartTimeout <= 0 {
		c.StartTimeout = startTimeout
	}
	return &c
}

// legal holds, for every state of a slot, the states that may follow.
var legal = [...][]hearth.SlotState{
	hearth.SlotAsleep:   {hearth.SlotStarting},
	hearth.SlotStarting: {hearth.SlotReady, hearth.SlotFailed, hearth.SlotStopping},
	hearth.SlotReady:    {hearth.SlotDraining, hearth.SlotFailed},
	hearth.SlotDraining: {hearth.SlotStopping, hearth.SlotReady, hearth.SlotFailed},
	hearth.SlotStopping: {hearth.SlotAsleep},
	hearth.SlotFailed:   {hearth.SlotAsleep},
}

// move is the only way from one slot state to another. It refuses an illegal step and says so.
func (st *state) move(p *place, to hearth.SlotState, now time.Time) bool {
	for _, s := range legal[p.state] {
		if s == to {
			p.state, p.since = to, now
			return true
		}
	}
	st.illegal++
	return false
}

// push appends r to those who wait for its place.
func (p *place) push(r *request) {
	if r.prev = p.last; p.last == nil {
		p.first = r
	} else {
		p.last.next = r
	}
	p.last = r
	if p.waiting == 0 || r.deadline.Before(p.due) {
		p.due = r.deadline
	}
	p.waiting++
}

// take removes r from those who wait.
func (p *place) take(r *request) {
	if r.prev == nil {
		p.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		p.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	p.waiting--
}

// idle says whether nobody uses the engine or waits for it.
func (p *place) idle() bool { return p.inflight == 0 && p.waiting == 0 }
