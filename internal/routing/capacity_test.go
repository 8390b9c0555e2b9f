package routing

import (
	"math"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	const rate = 1.0 // a second: a cycle is 200 s
	fresh := func() *limit {
		l := new(limit)
		l.accepted(0, 100)
		return l
	}
	t.Run("no cap before the first 429", func(t *testing.T) {
		if got := fresh().at(1, rate, cycleMax); !math.IsInf(got, 1) {
			t.Error(got)
		}
	})
	t.Run("a tenth less, back after a cycle, beyond it after two", func(t *testing.T) {
		l := fresh()
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		for _, c := range []struct{ after, want float64 }{{0, 18}, {100, 19.75}, {200, 20}, {400, 23}, {600, 44}} {
			if got := l.at(1+c.after, rate, cycleMax); !near(got, c.want, 1e-6) {
				t.Errorf("after %v s: %v, want %v", c.after, got, c.want)
			}
		}
	})
	t.Run("a cycle is 20 s at least and 300 s at most", func(t *testing.T) {
		l := fresh()
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		if fast, slow := l.at(21, 1e3, cycleMax), l.at(301, 1e-3, cycleMax); !near(fast, 20, 1e-6) || !near(slow, 20, 1e-6) {
			t.Errorf("%v %v", fast, slow)
		}
	})
	t.Run("a cycle is shorter where time is worth less", func(t *testing.T) {
		for kappa, want := range map[float64]float64{defaultKappa: 300, 100: 300, 0.25 * cycleMax / cyclePerKappa: 75, 0: 30} {
			if got := longest(kappa); !near(got, want, 1e-9) {
				t.Errorf("kappa %v: %v s, want %v", kappa, got, want)
			}
		}
	})
	t.Run("no more than a tenth and one above what was under way lately", func(t *testing.T) {
		l := new(limit)
		l.accepted(0, 10)
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		if got := l.at(1, rate, cycleMax); !near(got, 12, 1e-2) {
			t.Error(got)
		}
		if got := l.at(1e6, rate, cycleMax); !near(got, 1, 1e-6) {
			t.Errorf("long after: %v", got)
		}
	})
	t.Run("if price alone decided, more than that would be known to have room", func(t *testing.T) {
		l := new(limit)
		if got := l.mixed(1, rate, cycleMax); !math.IsInf(got, 1) {
			t.Error(got)
		}
		l.accepted(0, 10)
		l.refused(1, 30, math.Inf(1), 0, 0.5)
		for at, want := range map[float64]float64{1: 17, 900: 10*1.5*math.Exp2(-1) + 2, 1e6: 2} {
			if got := l.mixed(at, rate, cycleMax); !near(got, want, 0.05) {
				t.Errorf("at %v: %v, want %v", at, got, want)
			}
		}
		l.accepted(2, 100)
		if got := l.mixed(2, rate, cycleMax); !near(got, 27, 0.1) {
			t.Errorf("what it takes still bounds it: %v", got)
		}
	})
	t.Run("a small endpoint is not probed with twice of what it takes", func(t *testing.T) {
		l := new(limit)
		l.accepted(0, 3)
		l.refused(1, 3, math.Inf(1), 0, 0.5)
		l.accepted(3000, 3)
		if got := whole(l.at(3000, rate, cycleMax)); got != 4 {
			t.Errorf("long after its last 429 a cap of %v, want one more than it takes", got)
		}
	})
	t.Run("an attempt beyond the cap teaches nothing", func(t *testing.T) {
		l := fresh()
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		before := *l
		for i := range 50 {
			l.refused(10+2*float64(i), 20, l.at(10+2*float64(i), rate, cycleMax), 0, 0.5)
		}
		if l.Max != before.Max || l.Last != before.Last {
			t.Errorf("%+v", l)
		}
	})
	t.Run("a 429 below the former cap lowers it a little more than to what was under way", func(t *testing.T) {
		l := fresh()
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		if l.refused(5, 10, 18, 0, 0.5); !near(l.Max, 9.5, 1e-9) || l.Last != 5 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("429s within a second are one", func(t *testing.T) {
		l := fresh()
		l.refused(1, 20, math.Inf(1), 0, 0.5)
		l.refused(1.9, 3, 18, 0, 0.5)
		if l.Max != 20 || l.Run != 1 || !near(l.Until, 1.5, 1e-9) {
			t.Errorf("%+v", l)
		}
	})
	t.Run("never below one", func(t *testing.T) {
		l := fresh()
		for i := range 5 {
			l.refused(10*float64(i+1), 0, math.Inf(1), 0, 0.5)
		}
		if got := l.at(51, rate, cycleMax); got != 1 {
			t.Error(got)
		}
	})
	t.Run("answers beyond the cap raise it", func(t *testing.T) {
		l := fresh()
		l.refused(1, 4, math.Inf(1), 0, 0.5)
		for range 40 {
			l.answered(8, 4)
		}
		l.answered(7, 9)
		if l.Max != 8 || l.Run != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// Requests are whole: a tenth less than four is not three for a whole cycle.
func TestWhole(t *testing.T) {
	for _, c := range []struct{ max, after, want float64 }{
		{2, 0, 2}, {4, 0, 3}, {4, 31, 4}, {20, 0, 18}, {20, 100, 20}, {1, 0, 1},
	} {
		l := new(limit)
		l.accepted(0, 100)
		l.refused(1, c.max, math.Inf(1), 0, 0.5)
		if got := whole(l.at(1+c.after, 1, cycleMax)); got != c.want {
			t.Errorf("%v s after a 429 beside %v others: a cap of %v, want %v", c.after, c.max, got, c.want)
		}
	}
	if got := whole(math.Inf(1)); !math.IsInf(got, 1) {
		t.Errorf("no cap is one of %v", got)
	}
}

// An endpoint that refused a third request has room for a second one as soon as its cooldown is over.
func TestSmallCap(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	ask := Ask{In: 1000, Stream: true, NoExplore: true}
	var tries [3]Try
	for i := range tries {
		tries[i] = b.Begin(&ask, 0, Share, began)
	}
	for i := range tries[:2] {
		tries[i].First(began.Add(time.Second))
	}
	tries[2].Done(Result{Outcome: Limited}, began.Add(time.Second))
	tries[1].Done(Result{Outcome: Answered, In: 1000, Out: 10}, began.Add(2*time.Second))
	now := began.Add(3 * time.Second)
	b.Refresh(now)
	if f, ok := b.Forecast(&ask, 0, now); !ok || !f.Free {
		t.Errorf("with one of two under way: %+v", f)
	}
	again := b.Begin(&ask, 0, Share, now)
	if f, _ := b.Forecast(&ask, 0, now); f.Free {
		t.Errorf("with two of two under way: %+v", f)
	}
	again.Done(Result{Outcome: Unjudged}, now)
}

func TestCooldown(t *testing.T) {
	l := new(limit)
	for i, want := range []float64{0.5, 0.8, 1.28, 2.048} {
		now := 100 * float64(i+1)
		if l.refused(now, 5, 1, 0, 0.5); !near(l.Until-now, want, 1e-6) {
			t.Errorf("429 %d: %v s", i+1, l.Until-now)
		}
	}
	for i := range 30 {
		l.refused(1000+100*float64(i), 5, 1, 0, 1)
	}
	if got := l.Until - 3900; !near(got, 30*1.15, 1e-6) {
		t.Errorf("at most %v s", got)
	}
	l.answered(1, 9)
	if l.refused(9000, 5, 1, 0, 0); !near(l.Until-9000, 0.5*0.85, 1e-6) {
		t.Errorf("after an answer %v s", l.Until-9000)
	}
	if l.refused(9100, 5, 1, 7, 0); !near(l.Until-9100, 7, 1e-6) {
		t.Errorf("as asked: %v s", l.Until-9100)
	}
	if l.refused(9200, 5, 1, 1e9, 0); !near(l.Until-9200, 600, 1e-6) {
		t.Errorf("what is asked is bounded: %v s", l.Until-9200)
	}
	if l.refused(9200.5, 5, 1, 3, 0); !near(l.Until-9200, 600, 1e-6) {
		t.Errorf("a shorter wish shortens nothing: %v s", l.Until-9200)
	}
}

func TestKnee(t *testing.T) {
	const service = 10.0
	late := func(n, places float64) float64 { return max(n+1-places, 0) * service / places }
	t.Run("it finds the places of a queue", func(t *testing.T) {
		for _, places := range []float64{4, 12, 40} {
			k, now := new(knee), 0.0
			for i := range 100 {
				now += 0.5
				n := float64(i%int(2*places)) + 1
				k.see(now, n, late(n, places), 1, service, 2*places)
			}
			if got := k.value(now, 2*places); !near(got, places, 0.2) {
				t.Errorf("%v places: %.2f", places, got)
			}
		}
	})
	t.Run("a slow answer with little under way is no queue", func(t *testing.T) {
		k := knee{At: 10}
		if k.see(1, 2, 30, 1, service, 10); k.At != 10 {
			t.Errorf("%+v", k)
		}
		k = knee{}
		if k.see(1, 0, 30, 1, service, 20); k.At != 0 {
			t.Errorf("%+v", k)
		}
	})
	t.Run("it rises when more are served without a wait", func(t *testing.T) {
		k := knee{At: 10}
		for i := range 30 {
			k.see(float64(i)/10, 19, 0, 1, service, 20)
		}
		if !near(k.At, 20, 0.01) {
			t.Errorf("%+v", k)
		}
	})
	t.Run("and with time, when no queue is seen", func(t *testing.T) {
		k := knee{At: 10, Late: 0}
		if a, b := k.value(300, 30), k.value(900, 30); a != 10 || !near(b, 22, 1e-6) {
			t.Errorf("%v %v", a, b)
		}
	})
}

// After a long calm a queue is found again: the knee has not risen out of reach of what is under way.
func TestKnee_Calm(t *testing.T) {
	const places, service, peak = 4.0, 10.0, 7.0
	k := knee{At: places}
	now := 6 * 3600.0
	if got := k.value(now, peak); got != peak {
		t.Errorf("after six hours without a queue: %v, want what was under way at most", got)
	}
	for range 12 {
		now++
		k.see(now, peak-1, (peak-places)*service/places, 1, service, peak)
	}
	if got := k.value(now, peak); !near(got, places, 0.15) {
		t.Errorf("after twelve late tokens: %.2f of %v", got, places)
	}
	if got := (&knee{At: 9}).value(now, 2); got != 9 {
		t.Errorf("with little under way lately: %v, want what was learned", got)
	}
}

// A provider that queues: the router finds out, and the wait stays within bounds.
func TestQueueingSite(t *testing.T) {
	got := median3(func(seed uint64) []float64 {
		sites := six()
		sites[0].in, sites[0].out = 0.5, 1.5
		for _, s := range sites {
			s.places = 100
		}
		sites[0].places, sites[0].queue = 8, true
		w := newWorld(t, seed, sites...)
		w.run(3, 1200)
		v := w.markets[0].view.Load()
		return []float64{w.wait / float64(w.waits), v.rows[0].knee, w.part(0, 600, 1200)}
	})
	t.Logf("ttft %.2f s, knee %.1f of 8, share %.2f", got[0], got[1], got[2])
	if got[0] > 3 || got[1] < 4 || got[1] > 16 || got[2] < 0.05 || got[2] > 0.35 {
		t.Error("not so")
	}
}

// What an endpoint would take if requests went by price alone is bounded more loosely by what was under way, in whole
// requests, and follows the clock of the model's own value of time.
func TestMixCap(t *testing.T) {
	l := limit{Max: 20, Last: 100, Peak: 10, Faded: 400}
	if at, mixed := l.at(400, 1, cycleMax), l.mixed(400, 1, cycleMax); !near(at, overPeak*10+1, 1e-9) || !near(mixed, mixOverPeak*10+mixMore, 1e-9) {
		t.Errorf("%v, by price alone %v", at, mixed)
	}
	l.Peak = 100
	for _, now := range []float64{100, 50} { // a clock that was set back is no time that has passed
		if at, mixed := l.at(now, 1, cycleMax), l.mixed(now, 1, cycleMax); !near(at, 18, 1e-9) || !near(mixed, 18, 1e-9) {
			t.Errorf("at %v: %v, by price alone %v", now, at, mixed)
		}
	}
	for kappa, want := range map[float64]float64{0.1: 7, 3: 6} {
		b := bazaarOf(t, same(2)...)
		b.Router = NewRouter(b.cat, Options{Kappa: kappa}, b.now)
		b.warm()
		e, now := b.markets[0].ends[0], b.secs(b.now)
		e.mu.Lock()
		e.estimate.Limit = limit{Max: 7, Last: now - 30, Peak: 4, Faded: now}
		e.mu.Unlock()
		b.Router.refresh(b.markets[0], b.now)
		if r := b.markets[0].view.Load().rows[0]; r.mixCap != want || r.cap != 5 {
			t.Errorf("kappa %v: %v, by price alone %v, want %v", kappa, r.cap, r.mixCap, want)
		}
	}
}
