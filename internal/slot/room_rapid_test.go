package slot

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// rack is what a node with devices must look like, whatever happens to it.
type rack struct {
	*rapid.T
	st    *state
	node  *hearth.Node
	conf  []*hearth.Slot
	now   time.Time
	alarm time.Time

	runs    map[uint64]*rackRun
	waiting map[uint64]int // slot
	leases  map[uint64]uint64
	nextID  uint64
	slept   map[int]bool // by an operator
}

type rackRun struct {
	slot            int
	ready, stopping bool
	stale           bool // another start line is configured since
	cut             bool // those who used it were told to leave
}

// drawRack draws a node on which every slot fits beside all companions, as the configuration demands.
func drawRack(t *rapid.T) *rack {
	r := &rack{T: t, now: t0, runs: map[uint64]*rackRun{}, waiting: map[uint64]int{}, leases: map[uint64]uint64{}, slept: map[int]bool{}}
	r.node = &hearth.Node{
		Name: "n", Exclusive: rapid.Bool().Draw(t, "exclusive"),
		Turn: time.Duration(rapid.IntRange(0, 10).Draw(t, "turn")) * time.Second, MinResident: time.Duration(rapid.IntRange(0, 5).Draw(t, "min_resident")) * time.Second,
	}
	if rapid.Bool().Draw(t, "hours") {
		r.node.Available = drawHours(t)
	}
	for id := range rapid.IntRange(0, 3).Draw(t, "devices") {
		d := hearth.Device{ID: id * 2}
		if !r.node.Exclusive || rapid.Bool().Draw(t, "memory") {
			d.Memory = 12
		}
		r.node.Devices = append(r.node.Devices, d)
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "slots") {
		r.conf = append(r.conf, r.drawSlot(fmt.Sprint("s", i)))
	}
	r.st = newState(r.node, r.conf, r.now)
	return r
}

func drawHours(t *rapid.T) hearth.Calendar {
	return hearth.Calendar{Spans: []hearth.Span{{
		Days: hearth.Week, From: time.Duration(rapid.IntRange(0, 95).Draw(t, "from")) * 15 * time.Minute, To: time.Duration(rapid.IntRange(0, 96).Draw(t, "to")) * 15 * time.Minute,
	}}}
}

func (r *rack) drawSlot(name string) *hearth.Slot {
	s := &hearth.Slot{
		Name: name, Node: r.node, Model: &hearth.Model{ID: "m/" + name}, Concurrency: 2, Queue: 3, Wait: 90 * time.Second, QueueWait: 10 * time.Second,
		StartTimeout: 3 * time.Minute, DrainMax: time.Minute, IdleSleep: time.Duration(rapid.IntRange(0, 1).Draw(r.T, "idle_sleep")) * 5 * time.Minute,
	}
	for _, d := range r.node.Devices {
		if rapid.Bool().Draw(r.T, "on") {
			s.Devices = append(s.Devices, d.ID)
		}
	}
	switch rapid.IntRange(0, 3).Draw(r.T, "resident") {
	case 0:
		s.Companion, s.KeepWarm, s.IdleSleep = true, &hearth.Calendar{}, 0
	case 1:
		week := drawHours(r.T)
		s.KeepWarm = &week
	}
	if len(r.node.Devices) > 0 {
		s.Memory = int64(rapid.IntRange(1, 8).Draw(r.T, "takes"))
		if s.Companion {
			s.Memory = min(s.Memory, int64(rapid.IntRange(0, 2).Draw(r.T, "little")))
		}
	}
	return s
}

// play takes a step and holds its effects against what may be.
func (r *rack) play(ev event) {
	ev.now = r.now
	for _, fx := range step(r.st, ev) {
		switch fx.kind {
		case fxStart:
			r.start(fx)
		case fxStop, fxLeave:
			r.stop(fx)
		case fxGrant:
			if w, ok := r.waiting[fx.id]; !ok || w != fx.slot || r.runs[fx.run] == nil || !r.runs[fx.run].ready || r.runs[fx.run].stopping {
				r.Fatalf("request %d is granted run %d of slot %d, which it waits for: %v", fx.id, fx.run, fx.slot, ok)
			}
			delete(r.waiting, fx.id)
			r.leases[fx.id] = fx.run
		case fxRefuse:
			if _, ok := r.waiting[fx.id]; !ok {
				r.Fatalf("request %d is refused, which does not wait", fx.id)
			}
			delete(r.waiting, fx.id)
		case fxCut:
			if !r.barred(r.runs[fx.run].slot) && !r.slept[r.runs[fx.run].slot] {
				r.Fatalf("run %d is cut although no operator sent it away", fx.run)
			}
			r.runs[fx.run].cut = true
		case fxOrdered:
			if fx.err == nil && ev.order.Verb == Wake {
				delete(r.slept, ev.slot)
			}
		case fxAlarm:
			r.alarm = fx.at
		}
	}
	if r.st.illegal != 0 {
		r.Fatalf("an illegal step")
	}
}

// barred says whether an operator keeps a slot down; hours do not count.
func (r *rack) barred(slot int) bool {
	p := r.st.slots[slot]
	return p.drained || p.disabled || !r.st.paused.IsZero()
}

func (r *rack) open() bool { return r.node.Available.Contain(r.now) }

func (r *rack) start(fx effect) {
	if r.barred(fx.slot) || !r.open() {
		r.Fatalf("slot %d is started at %v although it may not be up", fx.slot, r.now)
	}
	own := r.conf[fx.slot]
	warm := slices.ContainsFunc(r.st.steps, func(t taken) bool {
		return t.slot == fx.slot && t.to == hearth.SlotStarting && t.why == "it is to be kept warm"
	})
	delete(r.slept, fx.slot)
	for run, e := range r.runs {
		if e.slot == fx.slot {
			r.Fatalf("slot %d is started while its run %d is there", fx.slot, run)
		}
		if own.Vies(r.conf[e.slot]) && r.node.Exclusive {
			r.Fatalf("slot %d is started while slot %d is there on the same exclusive device", fx.slot, e.slot)
		}
	}
	r.runs[fx.run] = &rackRun{slot: fx.slot}
	r.fits("a start of", fx.slot, !own.Companion)
	for _, w := range r.waiting {
		if warm && own.Vies(r.conf[w]) {
			r.Fatalf("slot %d is warmed up where slot %d is waited for", fx.slot, w)
		}
	}
	if warm && !own.KeepWarm.Contain(r.now) {
		r.Fatalf("slot %d is warmed up at %v", fx.slot, r.now)
	}
}

// fits holds the sum of what is there on each device against what there is, with what companions that are not there will take.
func (r *rack) fits(what string, slot int, reserved bool) {
	for _, d := range r.node.Devices {
		sum, up := int64(0), map[int]bool{}
		for _, e := range r.runs {
			up[e.slot] = true
		}
		for i, s := range r.conf {
			if slices.Contains(s.On(), d.ID) && (up[i] || reserved && s.Companion) {
				sum += s.Memory
			}
		}
		if d.Memory > 0 && sum > d.Memory && slices.Contains(r.conf[slot].On(), d.ID) {
			r.Fatalf("%s slot %d makes %d of %d on device %d", what, slot, sum, d.Memory, d.ID)
		}
	}
}

func (r *rack) stop(fx effect) {
	e := r.runs[fx.run]
	if e == nil || e.stopping {
		r.Fatalf("run %d is stopped, which is not there or stopping already", fx.run)
	}
	e.stopping = true
	for id, run := range r.leases {
		if run == fx.run && !e.cut {
			r.Fatalf("run %d is stopped under request %d", run, id)
		}
	}
	if c := r.conf[e.slot]; c.Companion && fx.why == nil && !e.stale && !e.cut && !r.slept[e.slot] && !r.barred(e.slot) && r.open() {
		r.Fatalf("companion %d is stopped at %v", e.slot, r.now)
	}
}

// pass lets time go by, its alarms ringing.
func (r *rack) pass(d time.Duration) {
	end := r.now.Add(d)
	for rings := 0; !r.alarm.IsZero() && !r.alarm.After(end); rings++ {
		if rings > 5000 {
			r.Fatal("the alarm rings without end")
		}
		if r.alarm.After(r.now) {
			r.now = r.alarm
		}
		r.alarm = time.Time{}
		r.play(event{kind: evTick})
	}
	r.now = end
}

// pick draws one of the runs that may do something.
func (r *rack) pick(what string, may func(*rackRun) bool) (run uint64, ok bool) {
	var list []uint64
	for id, e := range r.runs {
		if may(e) {
			list = append(list, id)
		}
	}
	if len(list) == 0 {
		return 0, false
	}
	slices.Sort(list)
	return rapid.SampledFrom(list).Draw(r.T, what), true
}

func (r *rack) ready(run uint64) {
	e := r.runs[run]
	e.ready = true
	r.play(event{kind: evReady, slot: e.slot, run: run})
}

func (r *rack) end(run uint64) {
	e := r.runs[run]
	delete(r.runs, run)
	for id, of := range r.leases {
		if of == run {
			delete(r.leases, id)
		}
	}
	r.play(event{kind: evEnded, slot: e.slot, run: run, end: ending{cause: "it ended"}})
}

// act does one thing that may happen.
func (r *rack) act() {
	slot := rapid.IntRange(0, len(r.conf)-1).Draw(r.T, "slot")
	switch rapid.IntRange(0, 13).Draw(r.T, "act") {
	case 0, 1, 2, 3:
		r.nextID++
		r.waiting[r.nextID] = slot
		r.play(event{kind: evAsked, slot: slot, id: r.nextID, budget: time.Duration(rapid.IntRange(1, 90).Draw(r.T, "budget")) * time.Second})
	case 4, 5, 6:
		if run, ok := r.pick("ready", func(e *rackRun) bool { return !e.ready && !e.stopping }); ok {
			r.ready(run)
		}
	case 7:
		if run, ok := r.pick("gone", func(e *rackRun) bool { return e.stopping }); ok {
			r.end(run)
		}
	case 8:
		if run, ok := r.pick("fails", func(e *rackRun) bool { return true }); ok {
			r.end(run)
		}
	case 9, 10:
		r.release()
	case 11:
		r.pass(time.Duration(rapid.SampledFrom([]int{1, 5, 30, 300, 3600, 20000}).Draw(r.T, "seconds")) * time.Second)
	case 12:
		r.order(slot, rapid.SampledFrom([]Verb{Wake, Sleep, Drain, Enable, Pause, Resume}).Draw(r.T, "verb"))
	case 13:
		r.reload(slot)
	}
}

func (r *rack) release() {
	var ids []uint64
	for id := range r.leases {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(r.T, "release")
	delete(r.leases, id)
	r.play(event{kind: evReleased, id: id})
}

func (r *rack) order(slot int, v Verb) {
	if v == Sleep {
		r.slept[slot] = true
	}
	r.play(event{kind: evOrder, slot: slot, order: &Order{Verb: v, For: 10 * time.Minute}})
}

// reload makes a slot take another start line, or as much more memory as the configuration would let it.
func (r *rack) reload(slot int) {
	conf := *r.conf[slot]
	restart := rapid.Bool().Draw(r.T, "start line")
	if len(r.node.Devices) > 0 && !restart && !conf.Companion {
		conf.Memory = int64(rapid.IntRange(1, 2).Draw(r.T, "takes now"))
	}
	for _, e := range r.runs {
		e.stale = e.stale || e.slot == slot && restart
	}
	r.conf[slot] = &conf
	c := &change{node: r.node, slots: slices.Clone(r.conf), restart: make([]bool, len(r.conf))}
	c.restart[slot] = restart
	r.play(event{kind: evReload, change: c})
}

// TestRoomHolds: whatever happens, no start takes more of a device than there is, nor stands beside another engine on an exclusive
// one, companions stay, hours cut nobody; and once all is quiet everything that is to be up is.
func TestRoomHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRack(t)
		r.play(event{kind: evTick})
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			r.act()
		}
		r.quiet()
	})
}

// quiet ends everything that was begun, and holds what is up then against the calendars.
func (r *rack) quiet() {
	r.order(0, Resume)
	for i := range r.conf {
		r.order(i, Enable)
		if r.slept[i] {
			r.order(i, Wake)
		}
	}
	for range 400 {
		for id := range r.leases {
			delete(r.leases, id)
			r.play(event{kind: evReleased, id: id})
		}
		for run, e := range r.runs {
			switch {
			case e.stopping:
				r.end(run)
			case !e.ready:
				r.ready(run)
			}
		}
		r.pass(10 * time.Second)
	}
	if len(r.waiting) != 0 {
		r.Fatalf("%d still wait", len(r.waiting))
	}
	up := map[int]bool{}
	for _, e := range r.runs {
		up[e.slot] = e.ready && !e.stopping
	}
	for i, s := range r.conf {
		if s.Companion && r.open() && r.node.Available.Contain(r.now.Add(-time.Minute)) && !up[i] {
			r.Fatalf("companion %d is not up at %v: %v", i, r.now, r.st.slots[i].state)
		}
		if up[i] && !r.open() {
			r.Fatalf("slot %d is up at %v", i, r.now)
		}
	}
}
