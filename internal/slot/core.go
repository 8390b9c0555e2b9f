package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// Core is the decision core of one node with nothing around it: for simulations, which play engines, callers and the
// clock themselves. It is the very step that runs the nodes of a gateway. One goroutine at a time may use it.
//
// Times passed to it never go back. What a call returns is to be done in that order, and valid until the next call.
type Core struct {
	st   *state
	done []Decision
}

// CoreAsk is a request for a place in a slot's engine.
type CoreAsk struct {
	ID      uint64        // not used before
	Slot    int           // place in the slots of the core
	Also    []int         // further places that would do
	Key     string        // who asks
	Class   hearth.Class  // of that key
	Budget  time.Duration // how long it may wait at most
	HasNext bool          // somebody else could serve it
}

// DecisionKind says what a Decision is about.
type DecisionKind uint8

const (
	CoreStart  DecisionKind = iota // start the engine Run of Slot; then Ready is called, and Ended when it is no more
	CoreStop                       // stop the engine Run of Slot, ready or not; then Ended is called
	CoreGrant                      // request ID uses the engine of Slot; then Release is called
	CoreRefuse                     // request ID is not served: Refusal
	CoreAlarm                      // call Tick at the time At, which replaces any earlier alarm
)

// Decision is one thing to be done.
type Decision struct {
	Kind    DecisionKind
	Slot    int
	ID, Run uint64
	At      time.Time
	Refusal *Refusal
}

// Voting is what the votes of requests that were not let wait, because waiting was hopeless, can do.
type Voting uint8

const (
	VotesCount  Voting = iota // they start a swap where that pays; what gateways do
	VotesNever                // they never start a swap
	VotesAlways               // each wants a swap as somebody who waits does
)

// NewCore makes the core of a node with all its slots asleep. The slots are known by their places in the list.
func NewCore(n *hearth.Node, slots []*hearth.Slot, now time.Time) *Core {
	return &Core{st: newState(n, slots, now)}
}

// SetVoting says what votes can do from now on.
func (c *Core) SetVoting(v Voting) { c.st.voting = v }

// Ask lets a request in. It is granted or refused now or by a later call.
func (c *Core) Ask(now time.Time, a CoreAsk) []Decision {
	return c.step(event{kind: evAsked, now: now, slot: a.Slot, also: a.Also, id: a.ID, key: a.Key, class: a.Class, budget: a.Budget, hasNext: a.HasNext})
}

// Cancel says that a request has left, which it may at any time.
func (c *Core) Cancel(now time.Time, id uint64) []Decision {
	return c.step(event{kind: evCancelled, now: now, id: id})
}

// Release says that the engine is done with a granted request.
func (c *Core) Release(now time.Time, id uint64) []Decision {
	return c.step(event{kind: evReleased, now: now, id: id})
}

// Ready says that a started engine can serve.
func (c *Core) Ready(now time.Time, slot int, run uint64) []Decision {
	return c.step(event{kind: evReady, now: now, slot: slot, run: run})
}

// Ended says that nothing of an engine is left.
func (c *Core) Ended(now time.Time, slot int, run uint64) []Decision {
	return c.step(event{kind: evEnded, now: now, slot: slot, run: run})
}

// Tick says that the alarm rings.
func (c *Core) Tick(now time.Time) []Decision { return c.step(event{kind: evTick, now: now}) }

// View is what a gateway would show of a slot at a time.
func (c *Core) View(now time.Time, slot int) hearth.SlotView { return c.st.view(c.st.slots[slot], now) }

// step is the step of gateways. What operators and shutdowns alone bring about does not come up.
func (c *Core) step(ev event) []Decision {
	c.done = c.done[:0]
	for _, fx := range step(c.st, ev) {
		d := Decision{Slot: fx.slot, ID: fx.id, Run: fx.run, At: fx.at, Refusal: fx.refusal}
		switch fx.kind {
		case fxStart:
			d.Kind = CoreStart
		case fxStop:
			d.Kind = CoreStop
		case fxGrant:
			d.Kind = CoreGrant
		case fxRefuse:
			d.Kind = CoreRefuse
		case fxAlarm:
			d.Kind = CoreAlarm
		default:
			continue
		}
		c.done = append(c.done, d)
	}
	return c.done
}
