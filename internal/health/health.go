// Package health remembers which endpoints failed. Three consecutive failures put an endpoint into a 60-second
// cooldown in which it is never tried; one success clears the counter at once. After the cooldown exactly one request
// probes. A rate limit takes an endpoint out for its own time and counts to nothing.
package health

import (
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

const (
	// Threshold is the number of consecutive failures that starts a cooldown.
	Threshold = 3
	// Cooldown is how long an endpoint is then skipped.
	Cooldown = 60 * time.Second
	// MaxRetryAfter caps what an upstream may ask for in Retry-After.
	MaxRetryAfter = 10 * time.Minute
	// AccountPause is how long the endpoints of an account stay out after the provider refused its key.
	AccountPause = 5 * time.Minute

	rateLimitFirst = 500 * time.Millisecond
	rateLimitMax   = 30 * time.Second
)

// Outcome is how an attempt ended, as far as the endpoint's health goes.
type Outcome uint8

const (
	NoVerdict   Outcome = iota // the caller left, the request's own fault, the slot was not ready
	Success                    // a content-bearing event, or an answer with a finish reason, came
	Failure                    // counts to the three
	RateLimited                // 429: out for its Retry-After, else with back-off
	KeyRefused                 // 401: every endpoint of the account is out
)

// Tracker holds the health of the endpoints of one catalog.
type Tracker struct {
	mu       sync.Mutex
	dirty    []atomic.Bool                           // a success has something to clear
	state    []state                                 // guarded by mu
	view     atomic.Pointer[[]hearth.EndpointHealth] // published after every change; never written to
	account  []*hearth.Provider                      // by endpoint index
	probeTTL []time.Duration                         // a probe permit older than this is void
}

type state struct {
	failures  int // consecutive
	limits    int // consecutive 429s
	probing   uint64
	probeEnds time.Time
	permits   uint64 // number of the last permit given
}

// NewTracker makes a tracker in which every endpoint of the catalog is healthy.
func NewTracker(c *hearth.Catalog) *Tracker {
	t := &Tracker{
		dirty:    make([]atomic.Bool, len(c.Endpoints)),
		state:    make([]state, len(c.Endpoints)),
		account:  make([]*hearth.Provider, len(c.Endpoints)),
		probeTTL: make([]time.Duration, len(c.Endpoints)),
	}
	for i, e := range c.Endpoints {
		t.account[i] = e.Provider
		t.probeTTL[i] = e.Provider.Limits.FirstByte
	}
	view := make([]hearth.EndpointHealth, len(c.Endpoints))
	t.view.Store(&view)
	return t
}

// View is the present health by endpoint index. It is shared: do not write to it.
func (t *Tracker) View() []hearth.EndpointHealth { return *t.view.Load() }

// Permit is the right to try an endpoint once. Give it back exactly once with Done; a second Done does nothing.
type Permit struct {
	t     *Tracker
	i     int
	probe uint64 // number of the half-open permit, 0 for an ordinary one
	done  bool
}

// Take asks for the right to try endpoint i at now. It is refused while the endpoint is out, and while another request
// holds the one probe that follows a cooldown.
func (t *Tracker) Take(i int, now time.Time) (Permit, bool) {
	h := t.View()[i]
	if h.Skip == "" {
		return Permit{t: t, i: i}, true
	}
	if h.Out(now) {
		return Permit{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h = t.View()[i]
	switch {
	case h.Skip == "":
		return Permit{t: t, i: i}, true
	case h.Out(now):
		return Permit{}, false
	}
	return t.probe(i, now)
}

// Done gives the permit back with what came of it. retryAfter is the upstream's own wish after a 429, 0 = none.
func (p *Permit) Done(o Outcome, retryAfter time.Duration, now time.Time) {
	if p.done || p.t == nil {
		return
	}
	p.done = true
	t := p.t
	if p.probe == 0 && (o == NoVerdict || o == Success && !t.dirty[p.i].Load()) {
		return // nothing to change: the usual way out, without the lock
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.state[p.i]
	if p.probe != 0 && s.probing == p.probe {
		s.probing = 0
	}
	switch o {
	case Success:
		s.failures, s.limits = 0, 0
		t.dirty[p.i].Store(false)
		t.publish(p.i, hearth.EndpointHealth{})
	case Failure:
		s.failures++
		t.dirty[p.i].Store(true)
		if late := p.probe == 0 && t.View()[p.i].Out(now); s.failures >= Threshold && !late {
			t.publish(p.i, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(Cooldown)})
		}
	case RateLimited:
		t.dirty[p.i].Store(true)
		until := now.Add(s.rateLimit(retryAfter))
		if h := t.View()[p.i]; !h.Out(until) { // the late answer of an earlier request does not shorten a cooldown
			t.publish(p.i, hearth.EndpointHealth{Skip: hearth.SkipRateLimited, Until: until})
		}
	case KeyRefused:
		t.pauseAccount(p.i, now)
	}
}

// Answering says that the endpoint has begun to answer. For a probe that is the proof: the endpoint is back in use at
// once. The permit goes on as an ordinary one, and Done still says how the answer ended.
func (p *Permit) Answering(now time.Time) {
	if p.done || p.t == nil || p.probe == 0 {
		return
	}
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	s := &p.t.state[p.i]
	if s.probing == p.probe {
		s.probing = 0
		s.failures, s.limits = 0, 0
		if !p.t.View()[p.i].Out(now) {
			p.t.publish(p.i, hearth.EndpointHealth{})
		}
	}
	p.probe = 0
}

// rateLimit is how long a 429 takes the endpoint out: what the upstream asked for, else 0.5 s × 1.6ⁿ up to 30 s.
func (s *state) rateLimit(asked time.Duration) time.Duration {
	s.limits++
	if asked > 0 {
		return min(asked, MaxRetryAfter)
	}
	d := float64(rateLimitFirst)
	for range min(s.limits-1, 16) {
		d *= 1.6
	}
	return min(time.Duration(d), rateLimitMax)
}

func (t *Tracker) pauseAccount(i int, now time.Time) {
	view := append([]hearth.EndpointHealth(nil), t.View()...)
	for j := range view {
		if t.account[j] == t.account[i] {
			t.dirty[j].Store(true)
			view[j] = hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(AccountPause), Account: true}
		}
	}
	t.view.Store(&view)
}

// publish swaps in a view with endpoint i changed. The caller holds mu.
func (t *Tracker) publish(i int, h hearth.EndpointHealth) {
	view := append([]hearth.EndpointHealth(nil), t.View()...)
	view[i] = h
	t.view.Store(&view)
}

// TakeAnyway is Take for the last resort: an endpoint that is out is tried all the same, by one request at a time. A
// success ends its cooldown, a failure begins it anew.
func (t *Tracker) TakeAnyway(i int, now time.Time) (Permit, bool) {
	if h := t.View()[i]; h.Skip == "" || !h.Out(now) {
		return t.Take(i, now)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.probe(i, now)
}

// probe gives out the one permit of an endpoint that is not in use. The caller holds mu.
func (t *Tracker) probe(i int, now time.Time) (Permit, bool) {
	s := &t.state[i]
	if s.probing != 0 && now.Before(s.probeEnds) {
		return Permit{}, false
	}
	s.permits++
	s.probing = s.permits
	s.probeEnds = now.Add(max(t.probeTTL[i], time.Second))
	return Permit{t: t, i: i, probe: s.permits}, true
}
