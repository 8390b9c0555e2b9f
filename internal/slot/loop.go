package slot

import (
	"cmp"
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
	reply  chan answer // evAsked, evOrder, evReload: has room for the one answer
	engine Engine      // evReady
	memory Memory      // evRecall: to be added to
	parts  []part      // evReload: of all places; without a driver, that of before stays
}

// answer ends the waiting of a request: an engine to use, or a refusal; or that of an order.
type answer struct {
	slot    int
	engine  Engine
	ends    *ends
	refusal *Refusal
	err     error
}

// part is what a place of a node consists of outside the pure core.
type part struct {
	cell   *cell
	driver Driver
}

// cell is what others than the node's goroutine may see of a slot. Nothing in it needs a lock.
type cell struct {
	view   atomic.Pointer[published]
	conf   atomic.Pointer[hearth.Slot] // as configured now
	engine atomic.Pointer[Engine]      // that is there, nil = none
	tail   atomic.Pointer[[]string]    // the last lines of the engine before
	run    atomic.Uint64               // the engine that is there, or was there last
	starts atomic.Pointer[[]Start]     // the last ones, never changed
}

// published is a slot's view as of one instant.
type published struct {
	hearth.SlotView
	at time.Time
}

// node runs the slots of one node. The goroutine of loop owns state, parts, lives and replies.
type node struct {
	name    string
	log     *slog.Logger
	emit    func(Event)
	lastID  atomic.Uint64
	mailbox chan message  // never read by anybody but loop, which never waits for anybody
	done    chan struct{} // closed when loop has ended and every engine is gone
	removed atomic.Bool   // a reload knows it no more

	state   *state
	parts   []part
	lives   []life // by place
	replies map[uint64]chan answer

	runs  sync.WaitGroup
	force context.Context // ends when engines must be stopped at once
	kill  context.CancelFunc

	plan []*cell // by place; the fleet's, under its lock
}

// life is what the loop keeps of a place's engine.
type life struct {
	engine Engine // ready
	ends   *ends  // of that engine
	cancel context.CancelCauseFunc
}

// ends are what those who use an engine must know of its end. They are contexts for the sake of those who want to be
// called, of whom there is one per request.
type ends struct {
	cut, gone       context.Context
	cutNow, goneNow context.CancelFunc
}

func newEnds() *ends {
	e := new(ends)
	e.cut, e.cutNow = context.WithCancel(context.Background())
	e.gone, e.goneNow = context.WithCancel(context.Background())
	return e
}

// noMore tells those who use the engine that it is no more, or is being stopped.
func (l *life) noMore() {
	if l.ends != nil {
		l.ends.goneNow()
	}
}

// newNode makes a node whose slots are asleep, but for the engines that were found.
func newNode(hn *hearth.Node, slots []*hearth.Slot, drivers []Driver, o *Options, emit func(Event)) *node {
	now := time.Now()
	n := &node{
		name:    hn.Name,
		log:     o.Log.With("node", hn.Name),
		emit:    emit,
		mailbox: make(chan message),
		done:    make(chan struct{}),
		state:   newState(hn, slots, now),
		lives:   make([]life, len(slots)),
		replies: map[uint64]chan answer{},
	}
	n.force, n.kill = context.WithCancel(context.Background())
	for i, s := range slots {
		n.parts = append(n.parts, part{&cell{}, drivers[i]})
		n.parts[i].cell.conf.Store(s)
		n.plan = append(n.plan, n.parts[i].cell)
	}
	o.Operator.restore(n.state, n.name, now)
	n.state.recall(o.Memory)
	n.state.foreign = o.Lock != nil && !n.own(hn, o.Lock)
	for i, s := range slots {
		if e := o.Adopted[s.Name]; e != nil {
			n.state.adopt(n.state.slots[i])
			n.run(i, n.state.slots[i].run, e)
		}
	}
	n.publish(now)
	go n.loop()
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
	timer := time.NewTimer(0) // what was found or ordered before the start counts at once
	defer timer.Stop()
	for !n.state.closing && !n.state.removed || n.state.resident() {
		var m message
		select {
		case m = <-n.mailbox:
		case <-timer.C:
			m.kind = evTick
		}
		m.now = time.Now()
		switch m.kind {
		case evAsked, evOrder:
			n.replies[m.id] = m.reply
		case evCancelled:
			delete(n.replies, m.id)
		case evReady:
			n.lives[m.slot].engine, n.lives[m.slot].ends = m.engine, newEnds()
		case evDied, evEnded:
			n.lives[m.slot].noMore()
		case evReload:
			n.renew(m.parts)
		case evRecall:
			n.state.measured(m.memory)
			m.reply <- answer{}
		}
		effects := step(n.state, m.event)
		n.publish(m.now)
		for _, fx := range effects {
			n.carryOut(fx, m.now, timer)
		}
		if m.kind == evReload {
			m.reply <- answer{}
		}
	}
}

// renew takes the parts of a newer configuration.
func (n *node) renew(parts []part) {
	for i := range parts {
		if i < len(n.parts) && parts[i].driver == nil {
			parts[i].driver = n.parts[i].driver
		}
	}
	n.parts = parts
	n.lives = append(n.lives, make([]life, len(parts)-len(n.lives))...)
}

// carryOut does what an effect says, or has it done by another goroutine if it takes time.
func (n *node) carryOut(fx effect, now time.Time, timer *time.Timer) {
	switch fx.kind {
	case fxGrant:
		n.answer(fx.id, answer{slot: fx.slot, engine: n.lives[fx.slot].engine, ends: n.lives[fx.slot].ends})
	case fxRefuse:
		n.answer(fx.id, answer{refusal: fx.refusal})
	case fxOrdered:
		n.answer(fx.id, answer{err: fx.err})
	case fxStart:
		n.run(fx.slot, fx.run, nil)
	case fxStop:
		n.lives[fx.slot].noMore()
		if fx.why != nil {
			n.lives[fx.slot].cancel(fx.why)
		} else {
			n.lives[fx.slot].cancel(nil)
		}
	case fxLeave:
		n.lives[fx.slot].noMore()
		n.lives[fx.slot].cancel(errLeave)
	case fxCut:
		n.lives[fx.slot].ends.cutNow()
	case fxAlarm:
		timer.Reset(fx.at.Sub(now))
	}
}

// run begins the life of an engine: of a found one, or with a start.
func (n *node) run(slot int, id uint64, found Engine) {
	ctx, cancel := context.WithCancelCause(context.Background())
	n.lives[slot].cancel = cancel
	r := run{node: n, part: n.parts[slot], slot: slot, id: id, conf: n.state.slots[slot].Slot}
	n.runs.Go(func() { defer cancel(nil); r.live(ctx, found) })
}

func (n *node) answer(id uint64, a answer) {
	if reply, ok := n.replies[id]; ok {
		delete(n.replies, id)
		reply <- a
	}
}

// publish makes the views of the node's slots current and tells of their steps.
func (n *node) publish(now time.Time) {
	for i, p := range n.state.slots {
		v, c := n.state.view(p, now), n.parts[i].cell
		old := c.view.Load()
		if old != nil && old.SlotView == v {
			continue
		}
		c.view.Store(&published{v, now})
		if why, changed := allowed(old, &v); changed && !n.state.stepped(i) {
			n.tellOf(taken{i, v.State, v.State, why}, now)
		}
	}
	for _, t := range n.state.steps {
		n.parts[t.slot].cell.note(t, now)
		n.tellOf(t, now)
	}
	if n.state.illegal > 0 {
		n.log.Error("slot refused an illegal step", "count", n.state.illegal)
		n.state.illegal = 0
	}
}

// tellOf tells the log and those who watch of a slot's step.
func (n *node) tellOf(t taken, now time.Time) {
	p, v := n.state.slots[t.slot], n.parts[t.slot].cell.view.Load()
	if t.from != t.to {
		n.log.Info("slot changed", "slot", p.Name, "from", t.from.String(), "to", t.to.String(),
			"inflight", v.Inflight, "waiting", v.Waiting, "why", t.why)
	}
	n.emit(Event{At: now, Node: n.name, Slot: p.Name, Model: modelID(p.Slot), From: t.from, To: t.to, Why: t.why, View: v.SlotView})
}

// allowed says in which way an operator or another gateway lets a slot do other things than before.
func allowed(old *published, v *hearth.SlotView) (why string, changed bool) {
	if old == nil || old.Disabled == v.Disabled && old.Drained == v.Drained && old.Paused.Equal(v.Paused) && old.Foreign == v.Foreign {
		return "", false
	}
	switch {
	case v.Foreign:
		return "the GPU belongs to another gateway", true
	case v.Disabled:
		return "the operator disables it", true
	case v.Drained:
		return "the operator drains it", true
	case !v.Paused.IsZero():
		return "the node is paused", true
	}
	return "it may be used again", true
}

func modelID(s *hearth.Slot) string {
	if s.Model == nil {
		return ""
	}
	return s.Model.ID
}

// now returns a slot's view, its prediction brought up to now.
func (c *cell) now() hearth.SlotView {
	p := c.view.Load()
	v, passed := p.SlotView, time.Since(p.at)
	switch v.State {
	case hearth.SlotStarting:
		v.LoadRest = max(0, v.LoadRest-passed)
		v.Soonest = max(0, v.Soonest-passed)
	case hearth.SlotDraining, hearth.SlotStopping, hearth.SlotFailed: // the load itself has not begun
		v.LoadRest = max(v.LoadRest-passed, cmp.Or(v.Learned.Load.P50, c.conf.Load().ExpectedLoad))
	}
	v.WaitRest -= p.LoadRest - v.LoadRest
	return v
}
