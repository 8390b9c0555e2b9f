package slot

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// TestCrossing lets callers leave at the very moment at which they are served, in real time and on real threads.
func TestCrossing(t *testing.T) {
	h := newHouse(t, &gpu{}, func(s *hearth.Slot) { s.Queue, s.Concurrency = 1000, 2 })
	var wg sync.WaitGroup
	var served, left, inside, over atomic.Int64
	for i := range 64 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					for range i % 8 {
						runtime.Gosched()
					}
					cancel()
				}()
				l, err := h.Acquire(ctx, Ask{Slot: h.a, Budget: time.Hour})
				switch {
				case err == nil:
					if inside.Add(1) > 2 {
						over.Add(1)
					}
					served.Add(1)
					inside.Add(-1)
					l.Release()
				case errors.Is(err, context.Canceled):
					left.Add(1)
				default:
					t.Errorf("acquire: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if served.Load()+left.Load() != 64*200 || served.Load() == 0 || left.Load() == 0 {
		t.Errorf("%d were served, %d left", served.Load(), left.Load())
	}
	if over.Load() > 0 {
		t.Errorf("%d times more were in the engine than it has places", over.Load())
	}
	l, err := h.Acquire(t.Context(), Ask{Slot: h.a}) // without a budget: a lease that got lost would show now
	if err != nil {
		t.Fatalf("a free place is not given: %v", err)
	}
	h.given = append(h.given, l)
	if v := h.View(h.a); v.Inflight != 1 || v.Waiting != 0 {
		t.Errorf("view %+v", v)
	}
	h.close()
}

func TestCrowd(t *testing.T) {
	bubble(t, "ten thousand wait, half of them leave, the others are served one after the other", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 5 * time.Second}, func(s *hearth.Slot) { s.Queue = 20000; s.Wait = time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		var served atomic.Int64
		var wg sync.WaitGroup
		for i := range 10000 {
			from := t.Context()
			if i%2 == 0 {
				from = ctx
			}
			wg.Go(func() {
				l, err := h.Acquire(from, Ask{Slot: h.a, Budget: time.Hour})
				if err == nil {
					pass(time.Millisecond)
					served.Add(1)
					l.Release()
				}
			})
		}
		synctest.Wait()
		if v := h.View(h.a); v.Waiting != 10000 {
			t.Errorf("%d wait", v.Waiting)
		}
		cancel()
		begin := time.Now()
		wg.Wait()
		if served.Load() != 5000 {
			t.Errorf("%d were served", served.Load())
		}
		between(t, "to serve all", time.Since(begin), 10*time.Second, 10*time.Second+notice)
		h.close()
	})
	bubble(t, "two thousand budgets end one after the other", func(t *testing.T) {
		h := newHouse(t, &gpu{load: time.Hour}, func(s *hearth.Slot) { s.Queue = 20000 })
		var wg sync.WaitGroup
		var late atomic.Int64
		for i := range 2000 {
			wg.Go(func() {
				budget := time.Duration(i+1) * time.Millisecond
				begin := time.Now()
				_, err := h.Acquire(t.Context(), Ask{Slot: h.a, Budget: budget})
				var r *Refusal
				if !errors.As(err, &r) || r.Word != hearth.SkipLoading || time.Since(begin) != budget {
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if late.Load() > 0 {
			t.Errorf("%d were not refused when their budget ended", late.Load())
		}
		h.close()
	})
}
