package routing

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// naive remembers every sample for ever and computes each figure anew by its definition.
type naive struct {
	began   time.Time
	samples []Sample
}

// answers are the last 1024 answers, of them those of the time up to now.
func (n *naive) answers(over time.Duration, now time.Time) []Sample {
	var all, out []Sample
	for _, s := range n.samples {
		if s.Outcome == Answered {
			all = append(all, s)
		}
	}
	for _, s := range all[max(0, len(all)-ringMax):] {
		if !s.At.After(now) && s.At.After(now.Add(-over)) {
			out = append(out, s)
		}
	}
	return out
}

func (n *naive) speed(over time.Duration, now time.Time) hearth.EndpointSpeed {
	var v hearth.EndpointSpeed
	var latency, throughput []float64
	for _, s := range n.answers(over, now) {
		v.At = s.At
		v.Samples++
		v.Calls += s.Calls
		v.BadCalls += s.BadCalls
		if s.Tokens > 0 {
			v.Output += s.Tokens
			v.Counted++
		}
		if s.Latency > 0 {
			latency = append(latency, s.Latency.Seconds())
		}
		if s.Total > 0 && s.Tokens > 0 {
			throughput = append(throughput, float64(s.Tokens)/s.Total.Seconds())
		}
	}
	best := func(xs []float64, better func(a, b float64) bool) hearth.Percentiles {
		return hearth.Percentiles{P50: reached(xs, 50, better), P75: reached(xs, 75, better), P90: reached(xs, 90, better), P99: reached(xs, 99, better)}
	}
	v.Latency = best(latency, func(a, b float64) bool { return a < b })
	v.Throughput = best(throughput, func(a, b float64) bool { return a > b })
	return v
}

// reached is the best figure that at least percent of all did at least as well as.
func reached(xs []float64, percent int, better func(a, b float64) bool) float64 {
	var found float64
	for _, bar := range xs {
		n := 0
		for _, x := range xs {
			if !better(bar, x) {
				n++
			}
		}
		if 100*n >= percent*len(xs) && (found == 0 || better(bar, found)) {
			found = bar
		}
	}
	return found
}

func (n *naive) outcomes(over time.Duration, now time.Time) Outcomes {
	var o Outcomes
	first := now.Sub(n.began).Truncate(time.Minute) - over + time.Minute
	for _, s := range n.samples {
		if at := s.At.Sub(n.began); at < first || at.Truncate(time.Minute) > now.Sub(n.began).Truncate(time.Minute) {
			continue
		}
		switch s.Outcome {
		case Answered:
			o.Answered++
		case Failed:
			o.Failed++
		case Limited:
			o.Limited++
		}
	}
	return o
}

// drawSample draws one; few different values, so that equal ones and unknown ones are met.
func drawSample(t *rapid.T, at time.Time) Sample {
	s := Sample{At: at, Outcome: rapid.SampledFrom([]Outcome{Answered, Answered, Answered, Failed, Limited}).Draw(t, "outcome")}
	if s.Outcome == Answered {
		s.Latency = time.Duration(rapid.IntRange(0, 20).Draw(t, "latency")) * 100 * time.Millisecond
		s.Total = time.Duration(rapid.IntRange(0, 20).Draw(t, "total")) * 500 * time.Millisecond
		s.Tokens = rapid.IntRange(0, 50).Draw(t, "tokens")
		s.Calls = rapid.IntRange(0, 3).Draw(t, "calls")
		s.BadCalls = rapid.IntRange(0, s.Calls).Draw(t, "bad")
	}
	return s
}

func TestWindowsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWindows(2)
		m := naive{began: w.began}
		now := w.began
		step := rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, 10 * time.Second, 3 * time.Minute, 2 * time.Hour})
		for range rapid.IntRange(1, 120).Draw(t, "samples") {
			now = now.Add(step.Draw(t, "step") * time.Duration(rapid.IntRange(0, 3).Draw(t, "steps")))
			s := drawSample(t, now)
			w.Add(1, s)
			m.samples = append(m.samples, s)
		}
		now = now.Add(step.Draw(t, "pause"))
		for _, over := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 24 * time.Hour} {
			want := Stats{m.outcomes(over, now), m.speed(min(over, 30*time.Minute), now)}
			if d := cmp.Diff(want, w.Stats(1, over, now)); d != "" {
				t.Fatalf("over %s: %s", over, d)
			}
			if got := w.Outcomes(1, over, now); got != want.Outcomes {
				t.Fatalf("over %s: outcomes %+v, want %+v", over, got, want.Outcomes)
			}
		}
		if got := w.Stats(0, time.Hour, now); got != (Stats{}) {
			t.Fatalf("nothing happened at endpoint 0, yet %+v", got)
		}
	})
}

// The published view is the model's 5 minutes at one of the answers of the last second before the last answer, and at
// the last answer itself while they are few.
func TestSpeedsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWindows(1)
		m := naive{began: w.began}
		now := w.began
		var shown []hearth.EndpointSpeed // what may be shown, by answer
		step := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, 20 * time.Second})
		for range rapid.IntRange(1, 150).Draw(t, "samples") {
			now = now.Add(step.Draw(t, "step"))
			s := drawSample(t, now)
			w.Add(0, s)
			m.samples = append(m.samples, s)
			if s.Outcome == Answered {
				shown = append(shown, m.speed(hearth.SpeedWindow, now))
			}
			got := w.Speeds()[0]
			if len(shown) == 0 {
				if got != (hearth.EndpointSpeed{}) {
					t.Fatalf("nothing was answered, yet %+v", got)
				}
				continue
			}
			last := shown[len(shown)-1]
			i := slices.Index(shown, got)
			if i < 0 {
				t.Fatalf("%+v is not what the model has\nlast %+v", got, last)
			}
			if last.Samples <= eager && got != last {
				t.Fatalf("%d answers, and the last of them is not in: %+v\nwant %+v", last.Samples, got, last)
			}
			if last.At.Sub(got.At) >= time.Second {
				t.Fatalf("the view is of %s before the last answer", last.At.Sub(got.At))
			}
		}
	})
}
