package slot

import (
	"context"
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
