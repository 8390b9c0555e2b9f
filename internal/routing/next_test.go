package routing

import (
	"sync"
	"testing"
	"time"
)

func TestWindows_Next(t *testing.T) {
	now := time.Now()
	t.Run("what was measured is known under the new number", func(t *testing.T) {
		w := NewWindows(3)
		w.Add(0, answered(now, time.Second))
		w.Add(2, answered(now, 3*time.Second))
		w.Add(2, Sample{At: now, Outcome: Failed})
		n := w.Next([]int{2, -1})
		if got := n.Speeds(); len(got) != 2 || got[0] != w.Speeds()[2] || got[0].Latency.P50 != 3 || got[1].Samples != 0 {
			t.Errorf("%+v", got)
		}
		if o := n.Outcomes(0, time.Hour, now); o != (Outcomes{Answered: 1, Failed: 1}) {
			t.Errorf("%+v", o)
		}
		if s := n.Stats(1, time.Hour, now); s != (Stats{}) {
			t.Errorf("a new endpoint has figures: %+v", s)
		}
	})
	t.Run("requests that began before count", func(t *testing.T) {
		w := NewWindows(2)
		n := w.Next([]int{-1, 0})
		w.Add(0, answered(now, time.Second))
		w.Add(1, answered(now, 9*time.Second)) // an endpoint that is gone
		if got := n.Speeds(); got[1].Samples != 1 || got[1].Latency.P50 != 1 || got[0].Samples != 0 {
			t.Errorf("%+v", got)
		}
		n.Add(1, answered(now, time.Second))
		if got := n.Speeds()[1].Samples; got != 2 {
			t.Errorf("%d answers", got)
		}
		if o := w.Outcomes(0, time.Hour, now); o.Answered != 2 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("the period is that of the newer number of endpoints", func(t *testing.T) {
		if got := NewWindows(1).Next(make([]int, 1024)).period; got != 4*time.Second {
			t.Errorf("%s", got)
		}
	})
}

// Samples of all configurations at once, while one follows the other: none is lost.
func TestWindows_NextUnderLoad(t *testing.T) {
	const each, times = 20, 30
	w, now := NewWindows(2), time.Now()
	var wg sync.WaitGroup
	for range times {
		present := w
		wg.Go(func() {
			for range each {
				present.Add(0, answered(now, time.Second))
				present.Add(1, answered(now, time.Second))
			}
		})
		w = w.Next([]int{1, 0}) // they change places
	}
	wg.Wait()
	for i := range 2 {
		if o := w.Outcomes(i, time.Hour, now); o.Answered != each*times {
			t.Errorf("endpoint %d: %d answers of %d", i, o.Answered, each*times)
		}
		w.Add(i, answered(now.Add(2*time.Second), time.Second))
		if got := w.Speeds()[i].Samples; got != each*times+1 {
			t.Errorf("endpoint %d: the speed is of %d answers", i, got)
		}
	}
}
