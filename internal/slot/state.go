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

const (
	// startTimeout is how long a start may take if the slot does not say.
	startTimeout = 10 * time.Minute
	// busyRetry is how long a slot is left alone whose device could not be had.
	busyRetry = 5 * time.Second
	// cutGrace is how long those who were told that the engine goes now may take to leave it.
	cutGrace = 2 * time.Second
	// maxParallel bounds what an engine may say of itself.
	maxParallel = 4096
)

// kind says what an event or an effect is about.
type kind uint8

// Events.
const (
	evAsked     kind = iota // a request wants a place: slot, also, as, id, key, class, brief, budget, hasNext
	evCancelled             // the request left, whether it was granted or not: id
	evReleased              // a granted request is done: id
	evReady                 // a probe said yes: slot, run, report
	evReport                // a probe of an engine that was ready before: slot, run, report
	evDied                  // a ready engine is of no use any more, something of it may be left: slot, run, end
	evEnded                 // nothing of the run is left: it never came up, it exited or it was stopped: slot, run, end
	evTick                  // the alarm rang
	evOrder                 // an operator's order: slot, id, order
	evOwned                 // the node's lock is ours
	evReload                // the configuration changed: change
	evRecall                // what was measured is asked for
	evRefuse                // refuse everybody who waits and will ask
	evClose                 // evRefuse, and stop every engine
)

// Effects.
const (
	fxStart   kind = iota // start an engine: slot, run
	fxStop                // stop the engine, or give its start up: slot, run
	fxLeave               // let go of the engine, which goes on without us: slot, run
	fxCut                 // tell those who use the engine that it goes now: slot, run
	fxGrant               // the request may use the engine: slot, id
	fxRefuse              // the request may not: slot, id, refusal
	fxOrdered             // the order is accepted, or not: id, err
	fxAlarm               // send evTick at the time, replacing an earlier alarm: at
)

// event is something that happened to a node. Every event carries the time at which it counts.
type event struct {
	kind    kind
	hasNext bool
	now     time.Time    // never before that of the event before
	slot    int          // place in state.slots
	also    []int        // further places that would do
	as      *hearth.Slot // the slot as the request knows it, nil = as it is
	id      uint64       // the request or the order
	run     uint64       // the engine, from the start effect on
	budget  time.Duration
	key     string
	class   hearth.Class
	brief   bool    // evAsked: what it takes is not learned from
	report  *Report // nil = it says nothing of itself
	end     ending
	order   *Order
	change  *change
}

// ending is how a run ended.
type ending struct {
	cause  string // in words for a caller
	detail string // the same for the operator
	busy   bool   // the engine is not to blame: the device could not be had
	left   bool   // the engine was let go of, and goes on
}

// effect is something to be done for a node. Effects of one step are carried out in their order.
type effect struct {
	kind    kind
	slot    int
	id, run uint64
	at      time.Time
	refusal *Refusal
	err     error
	why     *givenUp // fxStop: the engine failed to get ready; nil = the stop is in order
}

// givenUp is why a start was given up.
type givenUp struct{ cause string }

func (g *givenUp) Error() string { return g.cause }

// taken is a step that a slot took.
type taken struct {
	slot     int
	from, to hearth.SlotState
	why      string
}

// state is all that a node's scheduling knows. It belongs to whoever calls step: nothing else may touch it.
type state struct {
	room
	hours
	turn        time.Duration
	minResident time.Duration
	slots       []*place // a place is never another slot's: who is on the way to it must find it
	requests    map[uint64]*request
	now         time.Time // of the event
	lastRun     uint64
	arrivals    uint64
	electedAt   time.Time // when a slot was started last because of votes
	alarm       time.Time // when the pending alarm rings, zero = none is pending
	paused      time.Time // until when the node is its owner's, zero = it is not
	foreign     bool      // another gateway owns the node
	voting      Voting    // what votes can do; gateways leave it as it is
	refusing    bool
	closing     bool
	removed     bool // by a reload: it ends as soon as it is empty
	illegal     int  // refused steps between slot states: always 0 unless step has a mistake
	effects     []effect
	gone        []*place // of evictions
	beside      []*place // of fits and evictions
	steps       []taken
}

// place is the state of one slot.
type place struct {
	*hearth.Slot // as bounded made it

	index    int    // in state.slots
	on       uint64 // the devices it takes
	state    hearth.SlotState
	since    time.Time // when state was entered
	run      uint64    // the engine that exists or may exist, 0 = surely none
	adopted  bool      // the run was found, not started
	readyAt  time.Time // when the run became ready
	idleAt   time.Time // when the last lease came back, or readyAt
	retryAt  time.Time // end of the back-off
	failures int       // in a row
	inflight int       // leases of this run

	first, last *request           // those who wait, oldest first
	waiting     int                // length of that list
	batches     int                // of them those of batch keys
	due         time.Time          // the earliest deadline in that list
	deadlines   timeline           // of that list
	guesting    int                // those who wait for another slot but would take this
	callers     map[string]*caller // by key; who waits, guests too, stands in their lines
	lined       int                // lines in which somebody stands
	turns       [classes]*line     // a ring of those lines for each class: whose turn is next
	pressing    timeline           // of the batch requests in those lines
	rescued     bool               // a batch request was served last before interactive ones that waited

	disabled, drained, removed bool // by the operator; by a reload

	dismissed bool      // by the operator: this run is to be stopped once nobody uses it, whoever waits
	evicted   bool      // likewise: the run is of another model than is configured now, or a second one on an exclusive node
	staleAt   time.Time // when the run's start line was changed, zero = it was not
	gaveWay   bool      // stopped for another slot's sake: it is not the next to start in its room while others wait
	owed      bool      // room is being made for it: it is started even if nobody waits for it any more
	warm      bool      // its calendar wants it up
	resting   bool      // an operator sent it to sleep: its calendar does not count until somebody wants it, or its next hours
	ousted    bool      // gave way to a slot that has not become ready yet
	wanted    time.Time // since when it is to be up though nobody waits for it, zero = it is up or need not be
	cutAt     time.Time // when its drain may no longer last, zero = it may last for ever; if cut, when that was
	cut       bool      // those who use the run were told to leave
	dead      bool      // the run has failed: nothing of it is of use
	busyUntil time.Time // when asking for its device makes sense again
	unready   string    // why a probe says that the ready engine is not ready, "" = it is

	lastError string // of the last failure, for the operator
	cause     string // the same for callers
	facts     hearth.SlotFacts
	differs   string // where facts contradict the configuration as it is now, "" = nowhere

	loadTime time.Duration // of the last start, 0 = none was measured
	stopTime time.Duration // of the last stop
	loads    uint64        // starts that came up
	served   uint64        // leases given

	rota

	loading, stopping, draining, service learned // load, stop and drain times, and for how long a lease is out
}

// request is somebody who waits or holds a lease.
type request struct {
	id         uint64
	seq        uint64 // in the order of arrival
	place      *place
	also       []*place // where it is a guest
	run        uint64   // the engine it uses, 0 = it waits
	queued     bool     // it is in its place's list
	key        string   // whose it is, "" = not known
	class      int
	brief      bool   // how long it has its place says nothing of others
	hasty      bool   // its caller does not wait for as long as a load takes: whether it is served is luck
	seat       seat   // in its place
	guest      []seat // by also
	granted    time.Time
	hasNext    bool
	asked      time.Time
	deadline   time.Time // never moves back
	prev, next *request
}

// newState makes the state of a node with all its slots asleep.
func newState(n *hearth.Node, slots []*hearth.Slot, now time.Time) *state {
	st := &state{room: roomOf(n), turn: n.Turn, minResident: n.MinResident, requests: map[uint64]*request{}}
	for _, s := range slots {
		st.add(s, now)
	}
	st.available = n.Available
	st.readClock(now)
	return st
}

func (st *state) add(s *hearth.Slot, now time.Time) *place {
	p := &place{Slot: bounded(s), index: len(st.slots), since: now, pressing: timeline{which: byPressure}, rota: rota{choosers: timeline{which: byChoice}}}
	p.on = st.room.on(p.Slot)
	st.slots = append(st.slots, p)
	return p
}

// adopt makes the slot's state that of an engine which runs already and is not known to be ready. It goes again if
// there is no room for it.
func (st *state) adopt(p *place) {
	p.evicted = !st.fits(p)
	st.lastRun++
	p.run, p.state, p.adopted = st.lastRun, hearth.SlotStarting, true
}

// bounded returns a copy of s whose numbers can be counted with. Zero times are meant as they are written, but
// for a start that could never succeed.
func bounded(s *hearth.Slot) *hearth.Slot {
	c := *s
	c.Concurrency = max(0, c.Concurrency)
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
	hearth.SlotFailed:   {hearth.SlotAsleep, hearth.SlotStopping},
}

// move is the only way from one slot state to another. It refuses an illegal step and says so.
func (st *state) move(p *place, to hearth.SlotState, now time.Time, why string) bool {
	for _, s := range legal[p.state] {
		if s == to {
			st.steps = append(st.steps, taken{p.index, p.state, to, why})
			p.state, p.since = to, now
			return true
		}
	}
	st.illegal++
	return false
}

// stepped says whether a slot has taken a step with the last event.
func (st *state) stepped(slot int) bool {
	for _, t := range st.steps {
		if t.slot == slot {
			return true
		}
	}
	return false
}

// places is how many requests the engine takes at once: as configured, else as it says, else one.
func (p *place) places() int {
	switch {
	case p.Concurrency > 0:
		return p.Concurrency
	case p.facts.Parallel > 0:
		return min(p.facts.Parallel, maxParallel)
	}
	return 1
}

// idle says whether nobody uses the engine or waits for it.
func (p *place) idle() bool { return p.inflight == 0 && p.waiting == 0 }
