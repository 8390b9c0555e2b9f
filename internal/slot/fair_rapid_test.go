package slot

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// queued is a request as the model of a queue knows it.
type queued struct {
	id       uint64
	key      string
	class    hearth.Class
	own      bool // it asked for the slot, else it is a guest
	deadline time.Time
}

// line says which requests stand in one line.
func (q queued) line() string { return fmt.Sprint(q.class, q.key) }

// queueModel is a ready slot with some places and a second slot that is never ready, whose requests are guests of the
// first. It keeps all that wait in a plain list.
type queueModel struct {
	t       *rapid.T
	st      *state
	now     time.Time
	next    uint64
	waiting []queued
	turns   [classes][]string // lines in which somebody stands, whose turn it is first
	inside  []uint64
	rescued bool
}

// add notes one who waits.
func (m *queueModel) add(q queued) {
	m.waiting = append(m.waiting, q)
	if c := classOf(q.class); !slices.Contains(m.turns[c], q.line()) {
		m.turns[c] = append(m.turns[c], q.line())
	}
}

// drop notes that one waits no more.
func (m *queueModel) drop(id uint64) queued {
	i := slices.IndexFunc(m.waiting, func(q queued) bool { return q.id == id })
	if i < 0 {
		m.t.Fatalf("request %d does not wait", id)
	}
	q := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	if c := classOf(q.class); !slices.ContainsFunc(m.waiting, func(o queued) bool { return o.line() == q.line() }) {
		m.turns[c] = slices.DeleteFunc(m.turns[c], func(l string) bool { return l == q.line() })
	}
	return q
}

// pressed is the rule in plain words: the i-th batch request by its time would be served next but 2i.
func (m *queueModel) pressed() (first queued, ok bool) {
	var late []queued
	for _, q := range m.waiting {
		if q.class == hearth.Batch {
			late = append(late, q)
		}
	}
	slices.SortStableFunc(late, func(a, b queued) int { return a.deadline.Compare(b.deadline) })
	p := m.st.slots[0]
	n := time.Duration(p.places())
	next, each := 10*time.Second, 20*time.Second/n
	if p.service.N() > 0 {
		next, each = min(p.service.P95(), p.Wait), 2*p.service.mean/n
	}
	for i, q := range late {
		if q.deadline.Sub(m.now) <= next+time.Duration(i)*each {
			return late[0], true
		}
	}
	return first, false
}

// granted holds a grant against whose turn it is.
func (m *queueModel) granted(id uint64) {
	var turn string
	var class int
	press, late := m.pressed()
	switch inter, batches := m.turns[interactive], m.turns[batch]; {
	case len(inter) == 0:
		turn, class = batches[0], batch
	case len(batches) > 0 && !m.rescued && late:
		turn, class = press.line(), batch
	default:
		turn, class = inter[0], interactive
	}
	i := slices.IndexFunc(m.waiting, func(q queued) bool { return q.line() == turn })
	if late && class == batch && len(m.turns[interactive]) > 0 {
		i = slices.IndexFunc(m.waiting, func(q queued) bool { return q.id == press.id })
	}
	if m.waiting[i].id != id {
		m.t.Fatalf("request %d is served, not %d: %v", id, m.waiting[i].id, m.waiting)
	}
	m.rescued = class == batch && len(m.turns[interactive]) > 0
	at := slices.Index(m.turns[class], turn)
	m.turns[class] = append(slices.Delete(m.turns[class], at, at+1), turn)
	m.drop(id)
	m.inside = append(m.inside, id)
}

func (m *queueModel) play(ev event) {
	ev.now = m.now
	for _, fx := range step(m.st, ev) {
		switch fx.kind {
		case fxGrant:
			m.granted(fx.id)
		case fxRefuse:
			q := m.drop(fx.id)
			if fx.refusal.Word == hearth.SkipQueueFull {
				m.full(q)
			} else if q.deadline.After(m.now) {
				m.t.Fatalf("request %d is refused %v too early: %+v", fx.id, q.deadline.Sub(m.now), fx.refusal)
			}
		}
	}
	m.invariants()
}

// full holds the refusal of one that has just asked against the room in the queue.
func (m *queueModel) full(q queued) {
	all, mine := 0, 0
	for _, o := range m.waiting {
		if o.own {
			all++
			if o.key == q.key {
				mine++
			}
		}
	}
	p := m.st.slots[0]
	if all < p.Queue && (q.key == "" || mine < max(1, p.Queue/2)) {
		m.t.Fatalf("request %d of %q is refused: %d wait, %d of its key", q.id, q.key, all, mine)
	}
}

func (m *queueModel) invariants() {
	p := m.st.slots[0]
	own, held := 0, map[string]int{}
	for _, q := range m.waiting {
		if !q.deadline.After(m.now) {
			m.t.Fatalf("request %d waits past its budget", q.id)
		}
		if q.own {
			own++
			held[q.key]++
		}
	}
	for key, n := range held {
		if key != "" && n > max(1, p.Queue/2) || n != p.held(key) {
			m.t.Fatalf("%d of %q wait, %d are counted", n, key, p.held(key))
		}
	}
	if own != p.waiting || len(m.waiting)-own != p.guesting || len(m.turns[0])+len(m.turns[1]) != p.lined || len(p.callers) > 2*p.lined+callersKept {
		m.t.Fatalf("%d wait, %d guests, %d lines, %d keys: %v", p.waiting, p.guesting, p.lined, len(p.callers), m.waiting)
	}
	if len(m.waiting) > 0 && len(m.inside) < p.places() {
		m.t.Fatalf("%d wait and a place is free", len(m.waiting))
	}
	for _, s := range m.st.slots {
		for r := s.first; r != nil; r = r.next {
			if r.deadline.Before(s.due) || r.next != nil && r.next.seq < r.seq {
				m.t.Fatalf("request %d is due at %v, the queue at %v", r.id, r.deadline, s.due)
			}
		}
	}
}

func (m *queueModel) ask(t *rapid.T) {
	m.next++
	q := queued{id: m.next, key: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key"), own: rapid.IntRange(0, 3).Draw(t, "guest") > 0}
	if rapid.Bool().Draw(t, "batch") {
		q.class = hearth.Batch
	}
	budget := time.Duration(rapid.IntRange(1, 60).Draw(t, "budget")) * time.Second
	q.deadline = m.now.Add(budget)
	m.add(q)
	ev := event{kind: evAsked, id: q.id, key: q.key, class: q.class, budget: budget, brief: rapid.IntRange(0, 3).Draw(t, "brief") == 0}
	if !q.own {
		ev.slot, ev.also = 1, []int{0}
	}
	m.play(ev)
}

// TestQueueScripts plays scripts against a slot that is ready all the time.
func TestQueueScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		conf := hearth.Slot{
			Name: "a", Concurrency: rapid.IntRange(1, 3).Draw(t, "concurrency"), Queue: rapid.IntRange(1, 12).Draw(t, "queue"),
			Wait: 50 * time.Second, QueueWait: 50 * time.Second, StartTimeout: 1000 * time.Hour,
		}
		other := conf
		other.Name, other.Wait, other.Queue = "b", time.Hour, 1000
		conf.Wait, conf.QueueWait = time.Hour, time.Hour
		m := &queueModel{t: t, st: newState(&hearth.Node{}, []*hearth.Slot{&conf, &other}, t0), now: t0}
		m.play(event{kind: evOrder, order: &Order{Verb: Wake}})
		m.play(event{kind: evReady, run: 1})
		t.Repeat(map[string]func(*rapid.T){
			"ask":       func(t *rapid.T) { m.t = t; m.ask(t) },
			"ask again": func(t *rapid.T) { m.t = t; m.ask(t) },
			"leave": func(t *rapid.T) {
				m.t = t
				if len(m.waiting) == 0 {
					t.Skip()
				}
				id := rapid.SampledFrom(m.waiting).Draw(t, "who").id
				m.drop(id)
				m.play(event{kind: evCancelled, id: id})
			},
			"release": func(t *rapid.T) {
				m.t = t
				if len(m.inside) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(m.inside)-1).Draw(t, "which")
				id := m.inside[i]
				m.inside = slices.Delete(m.inside, i, i+1)
				m.play(event{kind: evReleased, id: id})
			},
			"pass": func(t *rapid.T) {
				m.t = t
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 9000).Draw(t, "ms")) * time.Millisecond)
				m.play(event{kind: evTick})
			},
		})
	})
}
