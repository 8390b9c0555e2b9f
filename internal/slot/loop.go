package slot

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// message is an event on its way to the node's goroutine, with what the pure core must not see.
type message struct {
	event
	reply  chan answer // evAsked: has room for the one answer
	engine Engine      // evReady
}

// answer ends the waiting of a request: an engine to use, or a refusal.
type answer struct {
	engine  Engine
	refusal *Refusal
}

// published is a slot's view as of one instant.
type published struct {
	hearth.SlotView
	at time.Time
}

// node runs the slots of one node. The goroutine of loop owns state, engines, cancels and replies.
type node struct {
	name    string
	log     *slog.Logger
	drivers []Driver
	views   []atomic.Pointer[published]
	lastID  atomic.Uint64
	mailbox chan message  // never read by anybody but loop, which never waits for anybody
	done    chan struct{} // closed when loop has ended and every engine is gone

	state   *state
	engines []Engine // of the ready slots
	cancels []context.CancelCauseFunc
	replies map[uint64]chan answer

	runs  sync.WaitGroup
	force context.Context // ends when engines must be stopped at once
	kill  context.CancelFunc
}

func newNode(hn *hearth.Node, slots []*hearth.Slot, drivers []Driver, log *slog.Logger) *node {
	n := &node{
		name:    hn.Name,
		log:     log.With("node", hn.Name),
		drivers: drivers,
		views:   make([]atomic.Pointer[published], len(slots)),
		mailbox: make(chan message),
		done:    make(chan struct{}),
		state:   newState(hn, slots, time.Now()),
		engines: make([]Engine, len(slots)),
		cancels: make([]context.CancelCauseFunc, len(slots)),
		replies: map[uint64]chan answer{},
	}
	n.force, n.kill = context.WithCancel(context.Background())
	n.publish(time.Now())
	return n
}

// tell sends a message to the node's goroutine. It reports false when that has ended: every engine is gone.
func (n *node) tell(m message) bool {
	select {
	case n.mailbox <- m:
		return true
	case <-n.done:
		return false
	}
}

// loop takes one event after the other until the node is closed and empty.
func (n *node) loop() {
	defer close(n.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for !n.state.closing || n.state.resident() {
		var m message
		select {
		case m = <-n.mailbox:
		case <-timer.C:
			m.kind = evTick
		}
		m.now = time.Now()
		switch m.kind {
		case evAsked:
			n.replies[m.id] = m.reply
		case evCancelled:
			delete(n.replies, m.id)
		case evReady:
			n.engines[m.slot] = m.engine
		}
		effects := step(n.state, m.event)
		n.publish(m.now)
		for _, fx := range effects {
			n.carryOut(fx, m.now, timer)
		}
	}
}

// carryOut does what an effect says, or has it done by another goroutine if it takes time.
func (n *node) carryOut(fx effect, now time.Time, timer *time.Timer) {
	switch fx.kind {
	case fxGrant:
		n.answer(fx.id, answer{engine: n.engines[fx.slot]})
	case fxRefuse:
		n.answer(fx.id, answer{refusal: fx.refusal})
	case fxStart:
		ctx, cancel := context.WithCancelCause(context.Background())
		n.cancels[fx.slot] = cancel
		r := run{node: n, slot: fx.slot, id: fx.run, conf: n.state.slots[fx.slot].Slot}
		n.runs.Go(func() { defer cancel(nil); r.live(ctx) })
	case fxStop:
		if fx.why != nil {
			n.cancels[fx.slot](fx.why)
		} else {
			n.cancels[fx.slot](nil)
		}
	case fxAlarm:
		timer.Reset(fx.at.Sub(now))
	}
}

func (n *node) answer(id uint64, a answer) {
	if reply, ok := n.replies[id]; ok {
		delete(n.replies, id)
		reply <- a
	}
}

// publish makes the views of the node's slots current and logs steps from state to state.
func (n *node) publish(now time.Time) {
	for i, p := range n.state.slots {
		v := n.state.view(p, now)
		old := n.views[i].Load()
		if old != nil && old.SlotView == v {
			continue
		}
		n.views[i].Store(&published{v, now})
		if old != nil && old.State != v.State {
			n.log.Info("slot changed", "slot", p.Name, "from", old.State.String(), "to", v.State.String(),
				"inflight", v.Inflight, "waiting", v.Waiting)
		}
	}
	if n.state.illegal > 0 {
		n.log.Error("slot refused an illegal step", "count", n.state.illegal)
		n.state.illegal = 0
	}
}

// view returns a slot's view, its prediction brought up to now.
func (n *node) view(i int) hearth.SlotView {
	p := n.views[i].Load()
	v := p.SlotView
	switch v.State {
	case hearth.SlotStarting, hearth.SlotDraining, hearth.SlotStopping, hearth.SlotFailed:
		v.LoadRest = max(0, v.LoadRest-time.Since(p.at))
	}
	return v
}
