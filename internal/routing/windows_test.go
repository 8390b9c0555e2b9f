package routing

import (
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func answered(at time.Time, latency time.Duration) Sample {
	return Sample{At: at, Latency: latency, Total: 2 * latency, Tokens: 100}
}

func TestSpeeds(t *testing.T) {
	now := time.Now()
	t.Run("P90 is what ninety of a hundred reach: a long latency, a low throughput", func(t *testing.T) {
		w := NewWindows(2)
		for i := range 10 {
			w.Add(1, Sample{At: now, Latency: time.Duration(i+1) * time.Second, Total: 10 * time.Second, Tokens: 10 * (i + 1), Calls: 2, BadCalls: i % 2})
		}
		got := w.Speeds()
		if got[0] != (hearth.EndpointSpeed{}) {
			t.Errorf("nothing was measured at endpoint 0, yet %+v", got[0])
		}
		want := hearth.EndpointSpeed{At: now, Samples: 10, Calls: 20, BadCalls: 5, Output: 550, Counted: 10,
			Latency:    hearth.Percentiles{P50: 5, P75: 8, P90: 9, P99: 10},
			Throughput: hearth.Percentiles{P50: 6, P75: 3, P90: 2, P99: 1}}
		if got[1] != want {
			t.Errorf("%+v\nwant %+v", got[1], want)
		}
	})
	t.Run("an answer that tells only one figure", func(t *testing.T) {
		w := NewWindows(1)
		w.Add(0, Sample{At: now, Latency: time.Second})
		if got := w.Speeds()[0]; got.Samples != 1 || got.Latency.P50 != 1 || got.Throughput != (hearth.Percentiles{}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("what makes no sense is not known", func(t *testing.T) {
		w := NewWindows(1)
		w.Add(0, Sample{At: now, Latency: -1, Total: -1, Tokens: -5, Calls: -3, BadCalls: 7})
		if got := w.Speeds()[0]; got != (hearth.EndpointSpeed{At: now, Samples: 1}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("an endpoint that is none is ignored", func(t *testing.T) {
		w := NewWindows(1)
		w.Add(-1, answered(now, 1))
		w.Add(1, answered(now, 1))
		if got := w.Speeds(); len(got) != 1 || got[0].Samples != 0 {
			t.Errorf("%+v", got)
		}
		if w.Stats(1, time.Hour, now) != (Stats{}) || w.Outcomes(-1, time.Hour, now) != (Outcomes{}) {
			t.Error("an endpoint that is none has figures")
		}
	})
	t.Run("failures and rate limits are no speed", func(t *testing.T) {
		w := NewWindows(1)
		w.Add(0, Sample{At: now, Outcome: Failed, Latency: time.Second, Calls: 1})
		w.Add(0, Sample{At: now, Outcome: Limited, Latency: time.Second})
		if got := w.Speeds()[0]; got != (hearth.EndpointSpeed{}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a view that was taken does not change", func(t *testing.T) {
		w := NewWindows(1)
		before := w.Speeds()
		w.Add(0, answered(now, time.Second))
		if before[0].Samples != 0 || w.Speeds()[0].Samples != 1 {
			t.Errorf("before %+v, after %+v", before[0], w.Speeds()[0])
		}
	})
	t.Run("many answers are summed up once a second", func(t *testing.T) {
		w := NewWindows(1)
		views := 0
		last := w.Speeds()
		for i := range 10_000 { // ten seconds
			w.Add(0, answered(now.Add(time.Duration(i)*time.Millisecond), time.Second))
			if v := w.Speeds(); &v[0] != &last[0] {
				last, views = v, views+1
			}
		}
		if views < eager+9 || views > eager+11 {
			t.Errorf("%d views in ten seconds", views)
		}
	})
}

func TestUptime(t *testing.T) {
	for _, c := range []struct {
		o    Outcomes
		want float64
		ok   bool
	}{
		{Outcomes{}, 0, false}, {Outcomes{Limited: 5}, 0, false}, {Outcomes{Failed: 1}, 0, true}, {Outcomes{Answered: 1, Limited: 9}, 100, true},
		{Outcomes{Answered: 199, Failed: 1}, 99.5, true},
	} {
		if got, ok := c.o.Uptime(); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v %v, want %v %v", c.o, got, ok, c.want, c.ok)
		}
	}
}

func TestClockJumps(t *testing.T) {
	// Times of which only the wall clock is known: with a monotonic reading there are no jumps at all.
	start := time.Now().Round(0)
	for _, c := range []struct {
		name string
		jump time.Duration
	}{
		{"forward a day", 24 * time.Hour}, {"back a day", -24 * time.Hour}, {"back a year", -365 * 24 * time.Hour}, {"forward a year", 365 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWindows(1)
			for i := range 100 {
				w.Add(0, answered(start.Add(time.Duration(i)*time.Second), time.Second))
				w.Add(0, Sample{At: start, Outcome: Failed})
			}
			now := start.Add(c.jump)
			w.Add(0, answered(now, 3*time.Second))
			if got := w.Speeds()[0]; !got.At.Equal(now) || got.Samples != 1 || got.Latency.P50 != 3 {
				t.Errorf("after the jump the view is %+v", got)
			}
			if got := w.Stats(0, time.Hour, now); got.Answered != 1 || got.Failed != 0 || got.Samples != 1 {
				t.Errorf("after the jump an hour holds %+v", got)
			}
			back := start.Add(2 * time.Minute) // the clock is set right again
			w.Add(0, answered(back, 5*time.Second))
			if got := w.Stats(0, time.Minute, back); got.Samples != 40 || got.Latency.P99 != 5 {
				t.Errorf("set right, a minute holds %+v", got)
			}
			if got := w.Speeds()[0]; !got.Fresh(back) || got.Samples != 101 {
				t.Errorf("set right, the view is %+v", got)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	const n = 5*ringMax + 100
	w := NewWindows(1)
	now := time.Now()
	for i := range n {
		w.Add(0, answered(now.Add(time.Duration(i)), time.Duration(i+1)))
	}
	e := w.ends[0]
	if len(e.ring) != ringMax || cap(e.ring) > 2*ringMax || len(e.minutes) != dayLong {
		t.Errorf("%d answers in room for %d, %d minutes", len(e.ring), cap(e.ring), len(e.minutes))
	}
	s := w.Stats(0, time.Hour, now.Add(time.Second))
	if want := now.Add(n - 1); !s.At.Equal(want) {
		t.Errorf("the last answer was at %s, want %s", s.At, want)
	}
	if s.Answered != n || s.Samples != ringMax || s.Latency.P99 < time.Duration(n-20).Seconds() {
		t.Errorf("%+v", s)
	}
	far := now.AddDate(400, 0, 0) // more than a Duration holds
	w.Add(0, answered(far, time.Second))
	w.Add(0, answered(time.Time{}, time.Second))
}

func TestMinutes(t *testing.T) {
	w := NewWindows(1)
	for _, at := range []time.Duration{-90 * time.Second, -30 * time.Second, 0, 30 * time.Second, 59 * time.Second, 60 * time.Second} {
		w.Add(0, answered(w.began.Add(at), time.Second))
	}
	for _, c := range []struct {
		over, at time.Duration
		want     int
	}{
		{time.Minute, 59 * time.Second, 3}, {2 * time.Minute, 59 * time.Second, 4}, {time.Minute, 61 * time.Second, 1}, {90 * time.Second, 61 * time.Second, 4},
		{time.Minute, -time.Second, 1}, {24 * time.Hour, 24 * time.Hour, 1}, {48 * time.Hour, 24 * time.Hour, 1}, {24 * time.Hour, 25 * time.Hour, 0}, {0, 0, 0},
	} {
		if got := w.Outcomes(0, c.over, w.began.Add(c.at)).Answered; got != c.want {
			t.Errorf("%s up to %s: %d, want %d", c.over, c.at, got, c.want)
		}
	}
}

func TestPublish(t *testing.T) {
	t.Run("a sum that comes late does not take the place of a later one", func(t *testing.T) {
		w := NewWindows(1)
		w.publish(w.ends[0], 2, hearth.EndpointSpeed{Samples: 2})
		w.publish(w.ends[0], 1, hearth.EndpointSpeed{Samples: 1})
		if got := w.Speeds()[0].Samples; got != 2 {
			t.Errorf("the view is of sum %d", got)
		}
	})
	t.Run("the more endpoints, the rarer: each view copies the figures of all", func(t *testing.T) {
		for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 256: time.Second, 1024: 4 * time.Second} {
			if got := NewWindows(n).period; got != want {
				t.Errorf("%d endpoints: a view every %s, want %s", n, got, want)
			}
		}
	})
}

// TestConcurrentAdds is for the race detector; besides, no sample may be lost and the view must be of the last sum.
func TestConcurrentAdds(t *testing.T) {
	const workers, each = 8, 2000
	w := NewWindows(2)
	now := time.Now()
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			for i := range each {
				at := now.Add(time.Duration(i) * 7 * time.Millisecond)
				w.Add(k%2, answered(at, time.Second))
				w.Add(k%2, Sample{At: at, Outcome: Failed})
				if v := w.Speeds()[k%2]; v.Latency.P50 != 1 || v.Throughput.P99 != 50 {
					t.Errorf("a view of %+v", v)
				}
				w.Stats(1-k%2, time.Hour, at)
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		o := w.Outcomes(i, time.Hour, now.Add(time.Minute))
		if o.Answered != workers/2*each || o.Failed != workers/2*each {
			t.Errorf("endpoint %d: %+v", i, o)
		}
		if w.ends[i].turn != w.ends[i].shown {
			t.Errorf("endpoint %d: the view is of sum %d, the last was %d", i, w.ends[i].shown, w.ends[i].turn)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	b.Run("typical", func(b *testing.B) { // a hundred answers a second
		w, at := NewWindows(64), time.Now()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%100 == 0 {
				at = at.Add(time.Second)
			}
			w.Add(5, answered(at, time.Second))
		}
	})
	b.Run("between two sums", func(b *testing.B) {
		w, at := NewWindows(64), time.Now()
		for range 2 * ringMax {
			w.Add(5, answered(at, time.Second))
		}
		b.ReportAllocs()
		for b.Loop() {
			w.Add(5, answered(at, time.Second))
		}
	})
	b.Run("with a sum", func(b *testing.B) { // at most once a second and endpoint
		w, at := NewWindows(64), time.Now()
		for i := range 2 * ringMax {
			w.Add(5, answered(at, time.Duration(i*7919%5003+1)*time.Millisecond))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			w.ends[5].summed = -time.Hour
			w.Add(5, answered(at, time.Duration(i*7919%5003+1)*time.Millisecond))
		}
	})
}

func BenchmarkSpeeds(b *testing.B) {
	w := NewWindows(64)
	b.ReportAllocs()
	for b.Loop() {
		if len(w.Speeds()) != 64 {
			b.Fatal("no view")
		}
	}
}
