package slot

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// model is what a script may know of a node from the outside: what was asked, ordered, answered, started and stopped.
type model struct {
	t     *rapid.T
	st    *state
	now   time.Time
	alarm time.Time

	nextID   uint64
	leaving  uint64 // the request that leaves with this event
	waiting  map[uint64]waiter
	leases   map[uint64]uint64 // request → run
	engines  map[uint64]*engineModel
	answered map[uint64]bool
	starts   int
	gaveWay  int // slot that was stopped while another was waited for, -1 = none
	previous int // slot that gave way to another which has not become ready yet, -1 = none
	// owed are the slots of which the next may be started even if nobody waits for them: those that were waited for when an
	// engine was last stopped for a swap, and one that gave way to a start that failed. up are those that may be started in
	// any case: the operator woke them, or their start line changed while they were up.
	owed, up map[int]bool

	votes   map[int]time.Time     // by slot, when the last one was cast
	elected time.Time             // when a slot was started for votes last
	fastest map[int]time.Duration // by slot, the shortest load

	retry map[int]time.Time // by slot in back-off, when those who were refused may come again

	conf     []*hearth.Slot // as configured, nil = not any more
	disabled map[int]bool
	drained  map[int]bool
	paused   time.Time
	foreign  bool
	refusing bool
	closing  bool
}

type waiter struct {
	slot     int
	hasNext  bool
	also     []int
	deadline time.Time
}

type engineModel struct {
	slot     int
	started  time.Time
	ready    bool
	unready  bool
	stopping bool
	dead     bool // something of it is left
	gone     bool // with this event
	left     bool
	stale    bool      // its start line changed
	other    bool      // it is of another model than is configured
	used     time.Time // when a lease of it came back last
	slept    bool      // the operator sent it to sleep
	bound    time.Time // not before which those who use it may be told to leave, zero = never
	cut      time.Time // when they were told, zero = not yet
}

func newModel(t *rapid.T) *model {
	n := &hearth.Node{
		Exclusive:   rapid.Bool().Draw(t, "exclusive"),
		Turn:        time.Duration(rapid.IntRange(0, 12).Draw(t, "turn")) * time.Second,
		MinResident: time.Duration(rapid.IntRange(0, 6).Draw(t, "min_resident")) * time.Second,
	}
	m := &model{
		t: t, now: t0, gaveWay: -1, previous: -1, waiting: map[uint64]waiter{}, leases: map[uint64]uint64{},
		engines: map[uint64]*engineModel{}, answered: map[uint64]bool{}, owed: map[int]bool{}, up: map[int]bool{}, retry: map[int]time.Time{}, disabled: map[int]bool{}, drained: map[int]bool{},
	}
	for range rapid.IntRange(1, 3).Draw(t, "slots") {
		m.conf = append(m.conf, drawSlot(t))
	}
	m.st = newState(n, m.conf, t0)
	m.foreign = rapid.IntRange(0, 3).Draw(t, "foreign") == 0
	m.st.foreign = m.foreign
	return m
}

func drawSlot(t *rapid.T) *hearth.Slot {
	return &hearth.Slot{
		Concurrency:  rapid.IntRange(0, 3).Draw(t, "concurrency"),
		Queue:        rapid.IntRange(0, 4).Draw(t, "queue"),
		Wait:         20 * time.Second,
		QueueWait:    5 * time.Second,
		StartTimeout: 30 * time.Second,
		DrainMax:     time.Duration(rapid.IntRange(0, 15).Draw(t, "drain_max")) * time.Second,
		OnExit:       rapid.SampledFrom([]string{"stop", "keep"}).Draw(t, "on_exit"),
		IdleSleep:    time.Duration(rapid.IntRange(0, 1).Draw(t, "idle_sleep")) * 40 * time.Second,
	}
}

// barred says whether the slot may not be used, whatever its engine does.
func (m *model) barred(slot int) bool {
	return m.conf[slot] == nil || m.disabled[slot] || m.drained[slot] || m.foreign || m.now.Before(m.paused)
}

// play gives the state one event and holds every effect against what may be.
func (m *model) play(ev event) {
	ev.now = m.now
	for _, fx := range step(m.st, ev) {
		switch fx.kind {
		case fxStart:
			m.start(fx)
		case fxStop, fxLeave:
			m.stop(fx)
		case fxCut:
			m.cut(fx)
		case fxGrant:
			m.grant(fx)
		case fxRefuse:
			m.inVain(fx)
			if fx.id != m.leaving { // else its time ran out before it left, which nobody hears any more
				m.answer(fx.id)
			}
			m.refuse(ev, fx)
			if !fx.refusal.Word.Slot() || fx.refusal.RetryAfter < time.Second || fx.refusal.Message == "" && fx.refusal.Word != hearth.SkipFailed {
				m.t.Fatalf("refusal %+v", fx.refusal)
			}
		case fxAlarm:
			m.alarm = fx.at
		}
	}
	m.invariants()
}

// refuse holds a refusal of a slot in back-off against when those who were refused before were told to come again.
func (m *model) refuse(ev event, fx effect) {
	if fx.refusal.Word != hearth.SkipFailed || m.barred(fx.slot) {
		return
	}
	if at, ok := m.retry[fx.slot]; ok && ev.kind == evAsked && !m.now.Before(at) {
		m.t.Fatalf("slot %d refuses again %v after it was to be asked again", fx.slot, m.now.Sub(at))
	}
	m.retry[fx.slot] = m.now.Add(fx.refusal.RetryAfter)
}

func (m *model) start(fx effect) {
	m.starts++
	delete(m.retry, fx.slot)
	wanted, others := false, false
	for _, w := range m.waiting {
		wanted = wanted || w.slot == fx.slot
		others = others || w.slot != fx.slot
	}
	if !wanted && !m.owed[fx.slot] && !m.up[fx.slot] && !m.voted(fx.slot) {
		m.t.Fatalf("slot %d is started for nobody", fx.slot)
	}
	if m.barred(fx.slot) || m.refusing {
		m.t.Fatalf("slot %d is started although it may not be used", fx.slot)
	}
	if m.st.exclusive {
		m.owed = map[int]bool{}
	}
	if m.gaveWay == fx.slot && others && m.st.exclusive {
		m.t.Fatalf("slot %d is started again after it gave way", fx.slot)
	}
	m.gaveWay = -1
	for _, e := range m.engines {
		if !e.gone && (m.st.exclusive || e.slot == fx.slot) {
			m.t.Fatalf("slot %d is started while an engine of slot %d is there", fx.slot, e.slot)
		}
	}
	if !wanted && !m.up[fx.slot] && m.votes != nil {
		m.elected = m.now
	}
	m.engines[fx.run] = &engineModel{slot: fx.slot, started: m.now}
}

func (m *model) stop(fx effect) {
	e := m.engines[fx.run]
	if e == nil || e.stopping || e.dead || e.gone {
		m.t.Fatalf("run %d is stopped, which is not there or stopping already", fx.run)
	}
	m.stopFor(e)
	e.stopping = true
	if fx.kind == fxLeave {
		e.left = true
		if !m.closing || !e.ready || m.conf[e.slot] == nil || m.conf[e.slot].OnExit != "keep" || e.stale || e.slept || m.barred(e.slot) {
			m.t.Fatalf("run %d is left running: %+v", fx.run, e)
		}
	}
	if e.stale && !e.slept && !m.barred(fx.slot) {
		m.up[fx.slot] = true
	}
	for _, w := range m.waiting {
		if w.slot != fx.slot {
			m.owed[w.slot] = true
		}
		if w.slot != fx.slot && m.st.slots[fx.slot].state == hearth.SlotStopping && m.st.exclusive && e.ready {
			m.gaveWay = fx.slot
		}
	}
	if e.ready && m.st.exclusive && !e.slept && !e.stale && !m.barred(fx.slot) {
		m.previous = fx.slot
	}
	for id, run := range m.leases {
		if run == fx.run && (e.cut.IsZero() || m.now.Before(e.cut.Add(cutGrace))) {
			m.t.Fatalf("run %d is stopped under request %d", run, id)
		}
	}
}

// cut holds the one thing that ends a stream against what may end it: an operator's order, the removal of the slot or
// the end of the gateway, after as long as a drain may last.
func (m *model) cut(fx effect) {
	e := m.engines[fx.run]
	if e == nil || e.stopping || e.dead || !e.cut.IsZero() || e.bound.IsZero() || m.now.Before(e.bound) {
		m.t.Fatalf("run %d is cut at %v: %+v", fx.run, m.now, e)
	}
	if !m.barred(fx.slot) && !e.slept && !m.refusing {
		m.t.Fatalf("run %d is cut for no reason", fx.run)
	}
	e.cut = m.now
}

func (m *model) grant(fx effect) {
	w := m.waiting[fx.id]
	m.answer(fx.id)
	e := m.engines[fx.run]
	if e == nil || e.gone || !e.ready || e.stopping || e.dead || e.unready || e.other || e.slept || !e.cut.IsZero() || e.slot != fx.slot {
		m.t.Fatalf("request %d for slot %d is granted engine %+v", fx.id, w.slot, e)
	}
	if w.slot != fx.slot && !slices.Contains(w.also, fx.slot) {
		m.t.Fatalf("request %d for slot %d is granted slot %d", fx.id, w.slot, fx.slot)
	}
	if m.barred(fx.slot) {
		m.t.Fatalf("request %d is granted slot %d, which may not be used", fx.id, fx.slot)
	}
	if m.now.After(w.deadline) {
		m.t.Fatalf("request %d is granted %v after its deadline", fx.id, m.now.Sub(w.deadline))
	}
	for id, o := range m.waiting {
		if id < fx.id && (o.slot == fx.slot || slices.Contains(o.also, fx.slot) && o.slot == w.slot) {
			m.t.Fatalf("request %d is granted slot %d before request %d", fx.id, fx.slot, id)
		}
	}
	m.leases[fx.id] = fx.run
	if n := m.using(fx.run); n > m.st.slots[fx.slot].places() {
		m.t.Fatalf("slot %d has %d requests in its engine", fx.slot, n)
	}
}

// using is how many requests hold leases of a run.
func (m *model) using(run uint64) (n int) {
	for _, r := range m.leases {
		if r == run {
			n++
		}
	}
	return n
}

// answer notes the one answer of a request that still waits for it.
func (m *model) answer(id uint64) {
	if _, ok := m.waiting[id]; !ok || m.answered[id] {
		m.t.Fatalf("request %d is answered, answered before: %v", id, m.answered[id])
	}
	delete(m.waiting, id)
	m.answered[id] = true
}

func (m *model) invariants() {
	if m.st.illegal != 0 {
		m.t.Fatal("a step between slot states was illegal")
	}
	queued, next := 0, time.Time{}
	need := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, p := range m.st.slots {
		queued += p.waiting
		m.slotInvariants(p)
	}
	if queued != len(m.waiting) {
		m.t.Fatalf("%d requests are queued, %d wait", queued, len(m.waiting))
	}
	for id, w := range m.waiting {
		if !w.deadline.After(m.now) {
			m.t.Fatalf("request %d waits past its budget", id)
		}
		need(w.deadline)
	}
	for run, e := range m.engines {
		if !e.bound.IsZero() && e.cut.IsZero() && !e.stopping && !e.dead && !e.gone && m.using(run) > 0 && (m.barred(e.slot) || e.slept || m.refusing) {
			need(e.bound)
		}
	}
	if !next.IsZero() && (m.alarm.IsZero() || m.alarm.After(later(next, m.now))) {
		m.t.Fatalf("the alarm at %v comes after %v, when it is needed", m.alarm, next)
	}
}

func (m *model) slotInvariants(p *place) {
	e := m.engines[p.run]
	if p.waiting > 0 && (m.barred(p.index) || m.refusing) {
		m.t.Fatalf("%d wait for slot %d, which may not be used", p.waiting, p.index)
	}
	if v := m.st.view(p, m.now); v.Disabled != m.disabled[p.index] || v.Foreign != m.foreign || v.Paused.IsZero() != !m.now.Before(m.paused) {
		m.t.Fatalf("slot %d is shown as %+v", p.index, v)
	}
	if p.state != hearth.SlotReady || p.inflight >= p.places() || e.unready {
		return
	}
	for id, w := range m.waiting {
		if w.slot == p.index || slices.Contains(w.also, p.index) {
			m.t.Fatalf("slot %d has a free place and request %d waits", p.index, id)
		}
	}
}
