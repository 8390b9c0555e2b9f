// Package routing orders external endpoints that tie on priority by Routing Cost: the price, the wait and the failed
// tries of a good answer. And it knows what was measured at each endpoint lately: how often it answered, how soon and how
// fast.
//
// A Router learns from each try (try.go, estimate.go), condenses what it knows into a snapshot per model (snapshot.go),
// and orders a tier from the snapshot and the present load (cost.go, choice.go). It has no clock, no goroutine and no
// random source: times and draws are its callers', so that a simulator can drive the code that serves. Windows holds the
// percentiles and the uptime that are published.
package routing

import (
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// Outcome is how an attempt at an endpoint ended, as far as it speaks of the endpoint. What was the request's or the
// caller's own fault is no sample.
type Outcome uint8

const (
	Answered Outcome = iota
	Failed           // the endpoint's fault
	Limited          // it refused for its rate limit: neither up nor down
	Unjudged         // the caller left, or it was the request's own fault: no sample for Windows
)

// Sample is one attempt at an endpoint that says something about it.
type Sample struct {
	At      time.Time // when the attempt ended
	Outcome Outcome
	// Latency is from dispatch to the first content-bearing event, Total from dispatch to the end of the answer. What is
	// 0 is not known; an attempt that was not answered has neither.
	Latency, Total time.Duration
	Tokens         int // of output, 0 = not known
	Calls          int // tool calls in the answer
	BadCalls       int // of them those that are not well formed
}

// Bounds of what is remembered of an endpoint.
const (
	ringMax = 1024              // answers whose speed is known, at most
	ringAge = 30 * time.Minute  // how long their speed counts
	dayLong = 24 * 60           // minutes whose outcomes are counted
	eager   = 32                // fewer answers than that are summed up again at each one
	period  = time.Second       // between two sums of more answers, with up to 256 endpoints
	perPart = period / (1 << 8) // with more of them, so much for each: publishing a sum copies the figures of all
)

// Windows remembers what was measured at each endpoint: the speed of the last 1024 answers of 30 minutes, and how the
// attempts of the last day ended, by the minute. It is safe for concurrent use.
//
// Time is what the samples say it is, on a clock that began when the Windows were made: while the times carry a
// monotonic reading, the wall clock may jump.
type Windows struct {
	*line
	period time.Duration
	ends   []*window                              // by endpoint
	view   atomic.Pointer[[]hearth.EndpointSpeed] // changed while the line's mu is held
}

// line is the windows of one configuration after another.
type line struct {
	began  time.Time
	mu     sync.Mutex // held while a view is published
	newest *Windows
}

// NewWindows makes windows for as many endpoints, by Endpoint.Index.
func NewWindows(endpoints int) *Windows {
	from := make([]int, endpoints)
	for i := range from {
		from[i] = -1
	}
	return follow(&line{began: time.Now()}, from)
}

// Next makes the windows of a newer catalog. Endpoint i of it is endpoint from[i] of the present one, with all that was
// measured there; with -1 nothing was. What is added to the present windows from now on, by requests that began before,
// is in the next ones too; the speeds that the present ones show stay as they are. Only the newest can be followed.
func (w *Windows) Next(from []int) *Windows { return follow(w.line, from) }

func follow(l *line, from []int) *Windows {
	w := &Windows{line: l, period: max(period, time.Duration(len(from))*perPart), ends: make([]*window, len(from))}
	view := make([]hearth.EndpointSpeed, len(from))
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.newest
	if before != nil {
		for _, e := range before.ends {
			e.place = -1
		}
	}
	for i, was := range from {
		if was < 0 {
			w.ends[i] = &window{place: i}
			continue
		}
		w.ends[i] = before.ends[was]
		w.ends[i].place, view[i] = i, (*before.view.Load())[was]
	}
	w.view.Store(&view)
	l.newest = w
	return w
}

// Add remembers a sample of endpoint i. An i that is no endpoint's is ignored, and so is an Unjudged sample.
func (w *Windows) Add(i int, s Sample) {
	if i < 0 || i >= len(w.ends) || s.Outcome == Unjudged {
		return
	}
	at := s.At.Sub(w.began)
	e := w.ends[i]
	e.mu.Lock()
	e.count(at, s.Outcome)
	if s.Outcome != Answered {
		e.mu.Unlock()
		return
	}
	e.put(measure(at, s))
	if !e.due(at, w.period) {
		e.mu.Unlock()
		return
	}
	recent, turn := e.sum(at)
	e.mu.Unlock()
	v := speed(recent)
	v.At = s.At
	w.publish(e, turn, v)
}

// publish shows the speed of an endpoint, unless a later one is shown already.
func (l *line) publish(e *window, turn uint64, v hearth.EndpointSpeed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if turn <= e.shown || e.place < 0 {
		return
	}
	e.shown = turn
	old := *l.newest.view.Load()
	next := make([]hearth.EndpointSpeed, len(old))
	copy(next, old)
	next[e.place] = v
	l.newest.view.Store(&next)
}

// Speeds are the figures of the last 5 minutes, by Endpoint.Index, as they were at each endpoint's last sum: at most a
// second before its last answer, or at it while answers are few. EndpointSpeed.Fresh says whether they may still be
// used. The slice is shared: it must not be written to.
func (w *Windows) Speeds() []hearth.EndpointSpeed { return *w.view.Load() }

// Outcomes are how attempts at an endpoint ended.
type Outcomes struct {
	Answered, Failed, Limited int
}

// Uptime is how many of a hundred attempts were answered, those that met a rate limit left out. ok is false if there
// were none.
func (o Outcomes) Uptime() (percent float64, ok bool) {
	n := o.Answered + o.Failed
	if n == 0 {
		return 0, false
	}
	return 100 * float64(o.Answered) / float64(n), true
}

// Outcomes are how the attempts at endpoint i ended in the time before now: whole minutes, the present one included, at
// most a day.
func (w *Windows) Outcomes(i int, over time.Duration, now time.Time) Outcomes {
	if i < 0 || i >= len(w.ends) {
		return Outcomes{}
	}
	e := w.ends[i]
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outcomes(now.Sub(w.began), over)
}

// Stats is what was measured at an endpoint in some time.
type Stats struct {
	Outcomes
	hearth.EndpointSpeed
}

// Stats are the figures of endpoint i in the time before now: speeds of at most 30 minutes, outcomes of at most a day.
func (w *Windows) Stats(i int, over time.Duration, now time.Time) Stats {
	if i < 0 || i >= len(w.ends) {
		return Stats{}
	}
	e, at := w.ends[i], now.Sub(w.began)
	e.mu.Lock()
	s := Stats{Outcomes: e.outcomes(at, over)}
	recent := e.since(at, min(over, ringAge))
	e.mu.Unlock()
	s.EndpointSpeed = speed(recent)
	if n := len(recent); n > 0 {
		s.At = w.began.Add(recent[n-1].at)
	}
	return s
}
