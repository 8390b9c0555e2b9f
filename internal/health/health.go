// Package health remembers which endpoints failed. Three consecutive failures put an endpoint into a 60-second
// cooldown in which it is never tried; one success clears the counter at once. After the cooldown exactly one request
// probes. A rate limit takes an endpoint out for its own time and counts to nothing.
package health

import (
	"cmp"
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
	line *line
	ends []*end                                  // by endpoint index
	view atomic.Pointer[[]hearth.EndpointHealth] // published after every change and never written to; nil = a newer tracker publishes
}

// line is the trackers of one configuration after another. Its lock guards what is known of all their endpoints.
type line struct {
	mu     sync.Mutex
	newest *Tracker
}

// end is one endpoint. Trackers that follow one another share those that are in both of their catalogs.
type end struct {
	dirty atomic.Bool // a success has something to clear
	state             // guarded by line.mu
}

// state is what is known of one endpoint.
type state struct {
	health   hearth.EndpointHealth
	place    int              // in the newest tracker, -1 = it is in an older one alone
	account  *hearth.Provider // as it was when it was first seen
	probeTTL time.Duration    // a probe permit older than this is void

	failures  int    // consecutive
	limits    int    // consecutive 429s
	reason    uint64 // number of what last took the endpoint out; a renewal keeps it
	probing   uint64 // number of the probe under way, 0 = none
	probeEnds time.Time
	probes    uint64 // number of the last probe
}

// NewTracker makes a tracker in which every endpoint of the catalog is healthy.
func NewTracker(c *hearth.Catalog) *Tracker {
	from := make([]int, len(c.Endpoints))
	for i := range from {
		from[i] = -1
	}
	l := new(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.follow(c, from, nil)
}

// Next makes the tracker of a newer catalog. Endpoint i of it is endpoint from[i] of the present one, with all that is
// known of it; with -1 it is healthy. What comes of requests that the present tracker has let through is known to both.
// Only the newest tracker can be followed.
func (t *Tracker) Next(c *hearth.Catalog, from []int) *Tracker {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	return t.line.follow(c, from, t.ends)
}

// follow makes the newest tracker. The caller holds mu.
func (l *line) follow(c *hearth.Catalog, from []int, before []*end) *Tracker {
	t := &Tracker{line: l, ends: make([]*end, len(c.Endpoints))}
	for _, e := range before {
		e.place = -1
	}
	accounts := make(map[*hearth.Provider]*hearth.Provider) // of the endpoints that were there before
	for i, e := range c.Endpoints {
		if from[i] >= 0 {
			t.ends[i] = before[from[i]]
			accounts[e.Provider] = t.ends[i].account
		}
	}
	view := make([]hearth.EndpointHealth, len(c.Endpoints))
	for i, e := range c.Endpoints {
		if t.ends[i] == nil {
			t.ends[i] = &end{state: state{account: cmp.Or(accounts[e.Provider], e.Provider)}}
		}
		t.ends[i].place, t.ends[i].probeTTL = i, e.Provider.Limits.FirstByte
		view[i] = t.ends[i].health
	}
	t.view.Store(&view)
	if l.newest != nil {
		l.newest.view.Store(nil)
	}
	l.newest = t
	return t
}

// View is the present health by endpoint index. It is shared: do not write to it.
func (t *Tracker) View() []hearth.EndpointHealth {
	if v := t.view.Load(); v != nil {
		return *v
	}
	return t.late()
}

// late is the view of a tracker that a newer one has followed: only requests that began before still ask for it.
func (t *Tracker) late() []hearth.EndpointHealth {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	view := make([]hearth.EndpointHealth, len(t.ends))
	for i, e := range t.ends {
		view[i] = e.health
	}
	return view
}

// publish shows the health of endpoints that has changed. The caller holds mu.
func (l *line) publish(changed ...*end) {
	view := append([]hearth.EndpointHealth(nil), *l.newest.view.Load()...)
	for _, e := range changed {
		if e.place >= 0 {
			view[e.place] = e.health
		}
	}
	l.newest.view.Store(&view)
}

// Permit is the right to try an endpoint once. Give it back exactly once with Done; a second Done does nothing.
type Permit struct {
	t      *Tracker // nil when it was given back
	e      *end
	probe  uint64 // number of the half-open permit, 0 for another one
	reason uint64 // what it was given in spite of, 0 for a permit of an endpoint in use
}

// Take asks for the right to try endpoint i at now. It is refused while the endpoint is out, and while another request
// holds the one probe that follows a cooldown.
func (t *Tracker) Take(i int, now time.Time) (Permit, bool) {
	if v := t.view.Load(); v != nil && (*v)[i].Skip == "" {
		return Permit{t: t, e: t.ends[i]}, true // the usual way, without the lock
	}
	return t.takeProbe(t.ends[i], now)
}

func (t *Tracker) takeProbe(e *end, now time.Time) (Permit, bool) {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	switch {
	case e.health.Skip == "":
		return Permit{t: t, e: e}, true
	case e.health.Out(now):
		return Permit{}, false
	case e.health.Skip == hearth.SkipRateLimited: // its time is over: that is no reason to hold anybody back
		return Permit{t: t, e: e, reason: e.reason}, true
	}
	valid := max(e.probeTTL, time.Second)
	if left := e.probeEnds.Sub(now); e.probing != 0 && left > 0 && left <= valid { // more is left only if the clock was set back
		return Permit{}, false
	}
	e.probes++
	e.probing, e.probeEnds = e.probes, now.Add(valid)
	return Permit{t: t, e: e, probe: e.probes, reason: e.reason}, true
}

// TakeAnyway is Take for the last resort: an endpoint in cooldown is tried all the same, for there is nothing better. A
// success ends the cooldown, a failure begins it anew. What is rate limited, or whose account is refused, stays out.
func (t *Tracker) TakeAnyway(i int, now time.Time) (Permit, bool) {
	e := t.ends[i]
	t.line.mu.Lock()
	if h := &e.health; h.Out(now) && h.Skip == hearth.SkipCooldown && !h.Account {
		defer t.line.mu.Unlock()
		return Permit{t: t, e: e, reason: e.reason}, true
	}
	t.line.mu.Unlock()
	return t.Take(i, now)
}

// Done gives the permit back with what came of it. retryAfter is the upstream's own wish after a 429, 0 = none.
func (p *Permit) Done(o Outcome, retryAfter time.Duration, now time.Time) {
	t := p.t
	if t == nil {
		return
	}
	p.t = nil
	if p.reason == 0 && (o == NoVerdict || o == Success && !p.e.dirty.Load()) {
		return // nothing to change: the usual way out, without the lock
	}
	t.line.weigh(p, o, retryAfter, now)
}

// weigh draws the consequences of an outcome.
func (l *line) weigh(p *Permit, o Outcome, retryAfter time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news, e := settle(p), p.e
	switch o {
	case Success:
		l.succeeded(e, news)
	case Failure:
		e.failures++
		e.dirty.Store(true)
		if cooled := e.health.Skip == hearth.SkipCooldown && !e.health.Account; news && (cooled || e.failures >= Threshold) {
			l.takeOut(e, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(Cooldown)}, now)
		}
	case RateLimited:
		if news || retryAfter > 0 { // a crowd of requests that are limited together is one limit
			l.takeOut(e, hearth.EndpointHealth{Skip: hearth.SkipRateLimited, Until: now.Add(e.limit(news, retryAfter))}, now)
		}
	case KeyRefused:
		if e.health.Account && e.health.Out(now) {
			return // of a request that was under way when the first was refused
		}
		for _, other := range l.account(e) {
			l.takeOut(other, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(AccountPause), Account: true}, now)
		}
	}
}

// account is all endpoints of e's account that are configured, and e. The caller holds mu.
func (l *line) account(e *end) []*end {
	all := []*end{e}
	for _, other := range l.newest.ends {
		if other != e && other.account == e.account {
			all = append(all, other)
		}
	}
	return all
}

// Answering says that the endpoint has begun to answer. For a request that was let through in spite of something, that is
// the proof: the endpoint is back in use at once. The permit goes on as an ordinary one, and Done still says how the
// answer ended.
func (p *Permit) Answering(time.Time) {
	t := p.t
	if t == nil || p.reason == 0 {
		return
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	t.line.succeeded(p.e, settle(p))
	p.probe, p.reason = 0, 0
}

// settle ends the probe, if the permit is the one under way. It says whether what comes of the permit is news: it was
// given after, and in spite of, what stands against the endpoint now. The late word of an earlier request neither
// prolongs a cooldown nor ends it. The caller holds mu.
func settle(p *Permit) (news bool) {
	e := p.e
	if p.probe != 0 && e.probing == p.probe {
		e.probing = 0
	}
	return e.health.Skip == "" || p.reason != 0 && p.reason == e.reason
}

// succeeded clears the counters, and what stands against the endpoint if the success is news. The caller holds mu.
func (l *line) succeeded(e *end, news bool) {
	e.failures, e.limits = 0, 0
	e.dirty.Store(false)
	if !news || e.health.Skip == "" {
		return
	}
	back := []*end{e}
	if e.health.Account { // the key is good again, for all
		back = l.account(e)
	}
	for _, other := range back {
		if other == e || other.health.Account {
			other.health, other.probing = hearth.EndpointHealth{}, 0
		}
	}
	l.publish(back...)
}

// takeOut publishes what stands against an endpoint from now on, unless it is out for longer already. The caller holds mu.
func (l *line) takeOut(e *end, h hearth.EndpointHealth, now time.Time) {
	was := e.health
	if was.Out(now) && !was.Until.Before(h.Until) {
		return
	}
	if was.Skip != h.Skip || was.Account != h.Account || h.Skip == hearth.SkipRateLimited && !was.Out(now) {
		e.reason++ // those who were let through together when a rate limit was over are limited once
	}
	h.Since = now
	e.health = h
	l.publish(e)
}

// limit is how long a 429 takes the endpoint out: what the upstream asked for, else 0.5 s × 1.6ⁿ up to 30 s. The caller
// holds mu.
func (e *end) limit(news bool, asked time.Duration) time.Duration {
	if news {
		e.limits++
		e.dirty.Store(true)
	}
	if asked > 0 {
		return min(asked, MaxRetryAfter)
	}
	d := float64(rateLimitFirst)
	for range min(e.limits-1, 16) {
		d *= 1.6
	}
	return min(time.Duration(d), rateLimitMax)
}
