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

// state is what is known of one endpoint beyond its published health.
type state struct {
	failures  int    // consecutive
	limits    int    // consecutive 429s
	reason    uint64 // number of what last took the endpoint out; a renewal keeps it
	probing   uint64 // number of the probe under way, 0 = none
	probeEnds time.Time
	probes    uint64 // number of the last probe
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
	t      *Tracker // nil when it was given back
	i      int
	probe  uint64 // number of the half-open permit, 0 for another one
	reason uint64 // what it was given in spite of, 0 for a permit of an endpoint in use
}

// Take asks for the right to try endpoint i at now. It is refused while the endpoint is out, and while another request
// holds the one probe that follows.
func (t *Tracker) Take(i int, now time.Time) (Permit, bool) {
	if t.View()[i].Skip == "" {
		return Permit{t: t, i: i}, true // the usual way, without the lock
	}
	return t.takeProbe(i, now)
}

func (t *Tracker) takeProbe(i int, now time.Time) (Permit, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.View()[i]
	switch {
	case h.Skip == "":
		return Permit{t: t, i: i}, true
	case h.Out(now):
		return Permit{}, false
	}
	s, valid := &t.state[i], max(t.probeTTL[i], time.Second)
	if left := s.probeEnds.Sub(now); s.probing != 0 && left > 0 && left <= valid { // more is left only if the clock was set back
		return Permit{}, false
	}
	s.probes++
	s.probing, s.probeEnds = s.probes, now.Add(valid)
	return Permit{t: t, i: i, probe: s.probes, reason: s.reason}, true
}

// TakeAnyway is Take for the last resort: an endpoint in cooldown is tried all the same, for there is nothing better. A
// success ends the cooldown, a failure begins it anew. What is rate limited, or whose account is refused, stays out.
func (t *Tracker) TakeAnyway(i int, now time.Time) (Permit, bool) {
	t.mu.Lock()
	if h := t.View()[i]; h.Out(now) && h.Skip == hearth.SkipCooldown && !h.Account {
		defer t.mu.Unlock()
		return Permit{t: t, i: i, reason: t.state[i].reason}, true
	}
	t.mu.Unlock()
	return t.Take(i, now)
}

// Done gives the permit back with what came of it. retryAfter is the upstream's own wish after a 429, 0 = none.
func (p *Permit) Done(o Outcome, retryAfter time.Duration, now time.Time) {
	t := p.t
	if t == nil {
		return
	}
	p.t = nil
	if p.reason == 0 && (o == NoVerdict || o == Success && !t.dirty[p.i].Load()) {
		return // nothing to change: the usual way out, without the lock
	}
	t.weigh(p, o, retryAfter, now)
}

// weigh draws the consequences of an outcome.
func (t *Tracker) weigh(p *Permit, o Outcome, retryAfter time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := t.settle(p)
	switch o {
	case Success:
		t.succeeded(p.i, news)
	case Failure:
		s, h := &t.state[p.i], t.View()[p.i]
		s.failures++
		t.dirty[p.i].Store(true)
		if cooled := h.Skip == hearth.SkipCooldown && !h.Account; news && (cooled || s.failures >= Threshold) {
			t.takeOut(p.i, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(Cooldown)}, now)
		}
	case RateLimited:
		if news || retryAfter > 0 { // a crowd of requests that are limited together is one limit
			t.takeOut(p.i, hearth.EndpointHealth{Skip: hearth.SkipRateLimited, Until: now.Add(t.limit(p.i, news, retryAfter))}, now)
		}
	case KeyRefused:
		if h := t.View()[p.i]; h.Account && h.Out(now) {
			return // of a request that was under way when the first was refused
		}
		for j, account := range t.account {
			if account == t.account[p.i] {
				t.takeOut(j, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(AccountPause), Account: true}, now)
			}
		}
	}
}

// Answering says that the endpoint has begun to answer. For a request that was let through in spite of something, that is
// the proof: the endpoint is back in use at once. The permit goes on as an ordinary one, and Done still says how the
// answer ended.
func (p *Permit) Answering(time.Time) {
	t := p.t
	if t == nil || p.reason == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.succeeded(p.i, t.settle(p))
	p.probe, p.reason = 0, 0
}

// settle ends the probe, if the permit is the one under way. It says whether what comes of the permit is news: it was
// given after, and in spite of, what stands against the endpoint now. The late word of an earlier request neither
// prolongs a cooldown nor ends it. The caller holds mu.
func (t *Tracker) settle(p *Permit) (news bool) {
	s := &t.state[p.i]
	if p.probe != 0 && s.probing == p.probe {
		s.probing = 0
	}
	return t.View()[p.i].Skip == "" || p.reason != 0 && p.reason == s.reason
}

// succeeded clears the counters, and what stands against the endpoint if the success is news. The caller holds mu.
func (t *Tracker) succeeded(i int, news bool) {
	t.state[i].failures, t.state[i].limits = 0, 0
	t.dirty[i].Store(false)
	h := t.View()[i]
	if !news || h.Skip == "" {
		return
	}
	view := append([]hearth.EndpointHealth(nil), t.View()...)
	for j := range view {
		if j == i || h.Account && view[j].Account && t.account[j] == t.account[i] { // the key is good again, for all
			view[j], t.state[j].probing = hearth.EndpointHealth{}, 0
		}
	}
	t.view.Store(&view)
}

// takeOut publishes what stands against endpoint i from now on, unless it is out for longer already. The caller holds mu.
func (t *Tracker) takeOut(i int, h hearth.EndpointHealth, now time.Time) {
	was := t.View()[i]
	if was.Out(now) && !was.Until.Before(h.Until) {
		return
	}
	if was.Skip != h.Skip || was.Account != h.Account {
		t.state[i].reason++
	}
	h.Since = now
	view := append([]hearth.EndpointHealth(nil), t.View()...)
	view[i] = h
	t.view.Store(&view)
}

// limit is how long a 429 takes the endpoint out: what the upstream asked for, else 0.5 s × 1.6ⁿ up to 30 s.
func (t *Tracker) limit(i int, news bool, asked time.Duration) time.Duration {
	s := &t.state[i]
	if news {
		s.limits++
		t.dirty[i].Store(true)
	}
	if asked > 0 {
		return min(asked, MaxRetryAfter)
	}
	d := float64(rateLimitFirst)
	for range min(s.limits-1, 16) {
		d *= 1.6
	}
	return min(time.Duration(d), rateLimitMax)
}
