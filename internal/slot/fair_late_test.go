package slot

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// flood is a ready slot that never has a place left for all: interactive requests always wait.
type flood struct {
	t       *rapid.T
	st      *state
	now     time.Time
	each    time.Duration // for which each has its place
	next    uint64
	batch   map[uint64]time.Time // of those who wait, when their time is up
	others  int                  // interactive ones that wait
	inside  []uint64             // in the order in which they are done
	until   []time.Time
	last    bool // the place before was given to a batch request
	rescues int
}

func (f *flood) do(ev event) {
	ev.now = f.now
	for _, fx := range step(f.st, ev) {
		_, batched := f.batch[fx.id]
		switch fx.kind {
		case fxGrant:
			if batched {
				if f.last && f.others > 0 {
					f.t.Fatalf("two batch requests in a row, and %d others wait", f.others)
				}
				delete(f.batch, fx.id)
				f.rescues++
			} else {
				f.others--
			}
			f.last = batched
			f.inside, f.until = append(f.inside, fx.id), append(f.until, f.now.Add(f.each))
		case fxRefuse:
			if batched {
				f.t.Fatalf("a batch request was not served in time: %+v", fx.refusal)
			}
			f.others--
		}
	}
}

func (f *flood) ask(class hearth.Class, key string, budget time.Duration) {
	f.next++
	if class == hearth.Batch {
		f.batch[f.next] = f.now.Add(budget)
	} else {
		f.others++
	}
	f.do(event{kind: evAsked, id: f.next, key: key, class: class, budget: budget})
}

// feasible says whether a batch request of this budget takes from no other what every other place can do in time for it.
func (f *flood) feasible(budget time.Duration) bool {
	late := []time.Duration{budget}
	for _, at := range f.batch {
		late = append(late, at.Sub(f.now))
	}
	slices.Sort(late)
	n := time.Duration(f.st.slots[0].places())
	for i, left := range late {
		if left < 2*f.each+time.Duration(2*i+1)*f.each/n {
			return false
		}
	}
	return true
}

// pass lets time go by, in which places come free and interactive requests take care that somebody always waits.
func (f *flood) pass(d time.Duration) {
	for end := f.now.Add(d); ; {
		if len(f.until) == 0 || f.until[0].After(end) {
			f.now = end
			f.do(event{kind: evTick})
			return
		}
		f.now = f.until[0]
		id := f.inside[0]
		f.inside, f.until = f.inside[1:], f.until[1:]
		f.ask(hearth.Interactive, "a"+strconv.Itoa(int(f.next%3)), 5*time.Minute)
		f.do(event{kind: evReleased, id: id})
	}
}

// Under a lasting overload batch requests are in time as long as every other place is enough for them, and never get more.
func TestBatchIsInTime_Property(t *testing.T) {
	rescues := 0
	rapid.Check(t, func(t *rapid.T) {
		f := &flood{t: t, now: t0, each: 4 * time.Second, batch: map[uint64]time.Time{}}
		conf := hearth.Slot{Name: "a", Concurrency: rapid.IntRange(1, 5).Draw(t, "places"), Queue: 1000, Wait: time.Hour, QueueWait: time.Hour, StartTimeout: time.Hour}
		f.st = newState(&hearth.Node{}, []*hearth.Slot{&conf}, t0)
		f.do(event{kind: evOrder, order: &Order{Verb: Wake}})
		f.do(event{kind: evReady, run: 1})
		f.st.slots[0].service.add(f.each)
		for range 20 {
			f.ask(hearth.Interactive, "b", 5*time.Minute)
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			budget := time.Duration(rapid.IntRange(1, 90_000).Draw(t, "budget")) * time.Millisecond
			for range rapid.IntRange(1, 8).Draw(t, "at once") {
				if f.feasible(budget) {
					f.ask(hearth.Batch, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"), budget)
				}
			}
			f.pass(time.Duration(rapid.IntRange(0, 9000).Draw(t, "pass")) * time.Millisecond)
		}
		f.pass(2 * time.Minute)
		if len(f.batch) > 0 {
			t.Fatalf("%d batch requests were never served", len(f.batch))
		}
		rescues += f.rescues
	})
	if rescues == 0 {
		t.Error("no batch request was ever served")
	}
}

// A guest may wait for longer than those who asked for the slot: how long its place is taken counts all the same.
func TestPressed_Guest(t *testing.T) {
	for _, left := range []time.Duration{100 * time.Second, 101 * time.Second} {
		n := &hearth.Node{}
		st := newState(n, []*hearth.Slot{{Node: n, Concurrency: 1, Wait: time.Minute}, {Node: n, Concurrency: 1, Wait: 3 * time.Minute}}, t0)
		st.now = t0
		p, q := st.slots[0], st.slots[1]
		p.service.add(100 * time.Second)
		guest := &request{id: 1, seq: 1, place: q, also: []*place{p}, class: batch, deadline: t0.Add(left)}
		q.push(guest)
		p.push(&request{id: 2, seq: 2, place: p, deadline: t0.Add(time.Minute)})
		if first := st.head(p) == guest; first != (left == 100*time.Second) {
			t.Errorf("with %v left beside a place that is taken for 100 s it is served first: %v", left, first)
		}
	}
}
