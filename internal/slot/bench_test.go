package slot

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// warm is a fleet whose first slot is ready and has room for all.
func warm(b *testing.B) (*Fleet, *hearth.Slot) {
	node := &hearth.Node{Name: "gpu-1", Exclusive: true, Turn: 10 * time.Second}
	c := &hearth.Catalog{Nodes: []*hearth.Node{node}}
	for i := range 2 {
		c.Slots = append(c.Slots, &hearth.Slot{
			Index: i, Name: string(rune('a' + i)), Node: node, Model: &hearth.Model{}, Concurrency: 1000, Wait: time.Minute, IdleSleep: time.Hour,
		})
	}
	f, err := NewFleet(c, Options{Driver: func(*hearth.Slot) (Driver, error) { return &gpu{}, nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return f, c.Slots[0]
}

// BenchmarkWarm is what a request pays for its place in a ready slot.
func BenchmarkWarm(b *testing.B) {
	f, s := warm(b)
	b.ReportAllocs()
	for b.Loop() {
		l, err := f.Acquire(b.Context(), Ask{Slot: s, Budget: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

func BenchmarkWarmParallel(b *testing.B) {
	f, s := warm(b)
	b.ReportAllocs()
	var failed atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := f.Acquire(b.Context(), Ask{Slot: s, Budget: time.Minute})
			if err != nil {
				failed.Add(1)
				continue
			}
			l.Release()
		}
	})
	if failed.Load() > 0 {
		b.Errorf("%d failed", failed.Load())
	}
}

// BenchmarkStep is the decision alone: one request in and out of a ready slot.
func BenchmarkStep(b *testing.B) {
	n := &hearth.Node{Exclusive: true}
	st := newState(n, []*hearth.Slot{{Node: n, Wait: time.Minute}, {Node: n, Wait: time.Minute}}, t0)
	step(st, event{kind: evAsked, now: t0, id: 1, budget: time.Hour})
	step(st, event{kind: evReady, now: t0, run: 1})
	step(st, event{kind: evReleased, now: t0, id: 1})
	b.ReportAllocs()
	for id := uint64(2); b.Loop(); id++ {
		step(st, event{kind: evAsked, now: t0, id: id, budget: time.Hour})
		step(st, event{kind: evReleased, now: t0, id: id})
	}
}

// BenchmarkViews is what the building of a chain pays to know all slots.
func BenchmarkViews(b *testing.B) {
	f, s := warm(b)
	slots := []*hearth.Slot{s, s}
	var views []hearth.SlotView
	b.ReportAllocs()
	for b.Loop() {
		views = f.Views(slots, views[:0])
	}
}

// BenchmarkCrowd is the decision where ten thousand wait, of a hundred keys: one is served, one comes, one leaves and its
// successor comes.
func BenchmarkCrowd(b *testing.B) {
	for _, bb := range []struct {
		name   string
		class  func(id uint64) hearth.Class
		keys   uint64
		budget time.Duration
	}{
		{"one class", func(uint64) hearth.Class { return hearth.Interactive }, 100, time.Hour},
		{"half are batch", func(id uint64) hearth.Class { return []hearth.Class{hearth.Interactive, hearth.Batch}[id%2] }, 100, time.Hour},
		{"all are pressed", func(id uint64) hearth.Class { return []hearth.Class{hearth.Interactive, hearth.Batch}[id%2] }, 10000, 15 * time.Minute},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const crowd = 10000
			n := &hearth.Node{Exclusive: true}
			conf := &hearth.Slot{Node: n, Wait: time.Hour, QueueWait: time.Hour, Queue: 1 << 20}
			st := newState(n, []*hearth.Slot{conf, {Node: n, Wait: time.Minute}}, t0)
			keys := make([]string, bb.keys)
			for i := range keys {
				keys[i] = "key-" + strconv.Itoa(i)
			}
			var inside uint64
			ask := func(id uint64) {
				step(st, event{kind: evAsked, now: t0, id: id, key: keys[id%bb.keys], class: bb.class(id / bb.keys), brief: true, budget: bb.budget})
			}
			last := uint64(1)
			ask(last)
			for _, fx := range step(st, event{kind: evReady, now: t0, run: 1}) {
				if fx.kind == fxGrant {
					inside = fx.id
				}
			}
			for range memory {
				st.slots[0].service.add(10 * time.Second)
			}
			for ; last <= crowd; last++ {
				ask(last + 1)
			}
			if st.slots[0].waiting != crowd {
				b.Fatalf("%d wait", st.slots[0].waiting)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, fx := range step(st, event{kind: evReleased, now: t0, id: inside}) {
					if fx.kind == fxGrant {
						inside = fx.id
					}
				}
				last++
				ask(last)
				step(st, event{kind: evCancelled, now: t0, id: last})
				last++
				ask(last)
			}
		})
	}
}
