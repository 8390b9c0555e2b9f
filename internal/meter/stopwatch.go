// Package meter measures requests: how long they took and what they cost.
package meter

import "time"

// Stopwatch holds the instants of one request. They are read from the monotonic clock, so a clock that is set
// back or forward changes no duration. It is not safe for concurrent use.
type Stopwatch struct {
	arrival                 time.Time
	dispatch, first, finish time.Duration // since arrival
	dispatched, begun, done bool
}

// Start makes a stopwatch whose arrival is now.
func Start() Stopwatch { return Stopwatch{arrival: time.Now()} }

// Arrival is when the request came.
func (s *Stopwatch) Arrival() time.Time { return s.arrival }

// Dispatch marks the moment a request is sent to an upstream and forgets the marks of the attempt before.
func (s *Stopwatch) Dispatch() {
	s.dispatch, s.first, s.finish = time.Since(s.arrival), 0, 0
	s.dispatched, s.begun, s.done = true, false, false
}

// FirstToken marks the first content-bearing event; only the first call after Dispatch counts.
func (s *Stopwatch) FirstToken() {
	if !s.begun {
		s.first, s.begun = time.Since(s.arrival), true
	}
}

// End marks the end of the upstream's answer; only the first call after Dispatch counts.
func (s *Stopwatch) End() { s.EndAt(time.Now()) }

// EndAt is End for an end that was some time ago.
func (s *Stopwatch) EndAt(at time.Time) {
	if !s.done {
		s.finish, s.done = max(at.Sub(s.arrival), s.dispatch, s.first), true
	}
}

// Elapsed is the time since arrival.
func (s *Stopwatch) Elapsed() time.Duration { return time.Since(s.arrival) }

// ToFirstToken is the time from arrival to the first token, 0 = there was none.
func (s *Stopwatch) ToFirstToken() time.Duration { return s.first }

// Total is the time from arrival to the end of the answer, or to now while it has not ended.
func (s *Stopwatch) Total() time.Duration {
	if s.done {
		return s.finish
	}
	return s.Elapsed()
}

// Generating is the time from dispatch to the end of the upstream's answer, or to now while it has not ended;
// 0 if nothing was dispatched.
func (s *Stopwatch) Generating() time.Duration {
	if !s.dispatched {
		return 0
	}
	return s.Total() - s.dispatch
}
