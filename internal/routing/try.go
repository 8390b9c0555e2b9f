package routing

import (
	"math"
	"time"
)

// probeValid is how long a request may hold up others while it finds out whether an endpoint has recovered.
const probeValid = 60 * time.Second

// rowOut is the number of failures in a row that puts an endpoint into the cooldown that every endpoint has.
const rowOut = 3

// Try is one request at one endpoint. The zero value is one of an endpoint that the router does not know, such as a
// local one: it learns nothing. It is not safe for concurrent use.
type Try struct {
	r        *Router
	k        *market
	e        *end
	sent     float64
	firstAt  float64 // 0 = no first token yet
	flight   float64 // others under way at dispatch
	cap      float64
	length   float64 // see scale
	level    float64 // seconds to the first token expected at scale 1
	decode   float64 // seconds per token expected
	queue    float64 // seconds of a queue expected
	waits    float64 // seconds expected to the first token, or to the answer if it comes as a whole
	usual    float64 // seconds expected to the end of the answer
	in       float64 // prompt as estimated, corrected
	guess    float64 // and as it was estimated
	prefix   float64 // tokens that a cache there could hold, 0 = it is not where the session was
	session  uint64
	explicit bool
	stream   bool
	goes     bool  // it goes on with a session that was known when it was sent
	brief    bool  // one token was asked for, as probes and warm-ups do: it tells nothing of usual requests
	probe    int64 // what this request has put into the endpoint's probe
}

// Begin says that a request is sent to an endpoint: the one that has the first place for the reason that the Decision
// gives, any other one to Retry. First and Done say what comes of it.
func (r *Router) Begin(a *Ask, endpoint int, why Reason, now time.Time) Try {
	p := r.find(endpoint)
	if p.market == nil {
		return Try{}
	}
	at := r.nanos(now)
	k, e := p.market, p.market.ends[p.row]
	t := Try{r: r, k: k, e: e, sent: float64(at) / 1e9, session: a.Session, explicit: a.Explicit, stream: a.Stream, brief: a.MaxTokens == 1}
	t.flight = float64(max(e.flight.Add(1)-1, 0))
	e.sent.Store(at)
	if a.Tools {
		e.tooled.Store(at)
	}
	if e.shut.Load() != 0 {
		if probe := e.probe.Load(); at >= probe && e.probe.CompareAndSwap(probe, at+int64(probeValid)) {
			t.probe = at + int64(probeValid)
		}
	}
	m, v := k.model, k.view.Load()
	if why != Retry {
		m.firsts.Add(1)
		if why == Explore || why == Probe {
			m.explored.Add(int64(1000 * v.rows[p.row].toll))
		}
	}
	m.used.Store(at)
	m.news.Store(true)
	t.expect(a, why, p.row, v)
	e.mu.Lock()
	e.waiting.n++
	e.waiting.since += t.sent
	e.waiting.expected += t.waits
	e.mu.Unlock()
	return t
}

// expect notes what the endpoint's slow window makes one expect of this try, so that what comes can be compared with it.
func (t *Try) expect(a *Ask, why Reason, place int, v *view) {
	row := &v.rows[place]
	var s scene
	s.v, s.at = v, toNanos(t.sent)
	t.r.ask(a, t.k, &s)
	t.guess, t.in, t.cap = float64(max(a.In, 0)), s.q.in, row.cap
	t.goes = s.q.warm != nil
	if s.q.warm == t.e {
		t.prefix = min(s.q.prefix, t.in)
	}
	t.length = scale(t.in-s.q.cached(row), v.in)
	t.level, t.decode = row.slowTTFT, row.slowDecode
	if t.flight+1 > row.knee {
		t.queue = (t.flight + 1 - row.knee) * row.perQueued
	}
	t.waits = t.level*t.length + t.queue
	t.usual = t.waits + s.q.out*t.decode
	if !t.stream {
		t.waits = t.usual
	}
	if t.k.bound > 0 && why != Retry && a.Kappa == 0 {
		t.pays(&s.q, v, row, draws(a.Draw^mixSalt))
	}
}

// First says that the first content-bearing event of a stream has come.
func (t *Try) First(now time.Time) {
	if t.e == nil || t.firstAt > 0 || !t.stream {
		return
	}
	t.firstAt = max(t.r.secs(now), t.sent)
	t.e.mu.Lock()
	t.arrived()
	t.e.first(t.firstAt, seen{
		ttft: max(t.firstAt-t.sent, 1e-3), scale: t.length, level: t.level, queue: t.queue, flight: t.flight,
	})
	t.e.mu.Unlock()
	t.k.model.news.Store(true)
}

// arrived ends the wait for the first token. The caller holds the endpoint's lock.
func (t *Try) arrived() {
	w := &t.e.waiting
	if w.n--; w.n <= 0 { // sums of floats drift: nobody waits, so they are 0
		*w = waiting{}
		return
	}
	w.since -= t.sent
	w.expected -= t.waits
}

// Done says how the try ended. now is when the last byte came from the upstream, however slowly the caller reads. Only the
// first Done counts.
func (t *Try) Done(res Result, now time.Time) {
	e := t.e
	if e == nil {
		return
	}
	at := max(t.r.secs(now), t.sent)
	e.flight.Add(-1)
	e.mu.Lock()
	if t.firstAt == 0 {
		t.arrived()
	}
	switch res.Outcome {
	case Answered:
		t.answered(&res, at)
	case Failed:
		e.tried(at, at-t.sent, t.usual, Failed)
	case Limited:
		e.tried(at, at-t.sent, t.usual, Limited)
		e.estimate.Limit.refused(at, t.flight, t.cap, res.RetryAfter.Seconds(), e.jitter.next())
		e.cool.Store(toNanos(e.estimate.Limit.Until))
	case Unjudged:
		if t.firstAt == 0 {
			e.late(at, at-t.sent-t.waits)
		}
	}
	t.judge(res.Outcome, at)
	e.mu.Unlock()
	if res.Outcome == Answered {
		t.remember(&res, at)
	}
	t.k.model.news.Store(true)
	t.e = nil
}

// judge moves the breaker. The caller holds the endpoint's lock.
func (t *Try) judge(o Outcome, at float64) {
	e := t.e
	if t.probe != 0 {
		e.probe.CompareAndSwap(t.probe, 0)
	}
	if o != Answered && o != Failed {
		return
	}
	was := e.Breaker.Until
	if was != 0 && t.sent < was {
		return // sent before it was half-open: it proves nothing
	}
	if e.judged(at, e.jitter.next(), o == Answered); e.Breaker.Until != was {
		e.shut.Store(toNanos(e.Breaker.Until))
		if e.Breaker.Until == 0 {
			t.r.open.Add(-1)
		}
	}
}

// answered learns from an answer. The caller holds the endpoint's lock.
func (t *Try) answered(res *Result, at float64) {
	e, total := t.e, at-t.sent
	e.tried(at, total, t.usual, Answered)
	n := t.flight + 1
	e.estimate.Limit.answered(n, t.cap)
	e.estimate.Limit.accepted(at, n)
	if out := float64(max(res.Out, 0)); out > 0 && !res.Paced {
		rest := at - t.firstAt
		if t.firstAt == 0 {
			var wait float64
			wait, rest = t.divide(total, out)
			e.first(at, seen{ttft: max(wait, 1e-3), scale: t.length, level: t.level, queue: t.queue, flight: t.flight})
		}
		e.decoded(at, max(rest, 1e-4), out, total, t.decode, t.flight)
	}
	t.cache(res, at)
	if res.Calls > 0 {
		e.tools(at, res.BadCalls > 0)
	}
}

// divide shares the seconds of an answer that came as a whole out to the wait for its first token and to the rest, in the
// proportion in which they were expected: both are as much faster or slower as the answer is. Where streams tell them apart
// their proportion stays, and answers of different lengths tell them apart as well.
func (t *Try) divide(total, out float64) (wait, rest float64) {
	wait, rest = t.level*t.length+t.queue, out*t.decode
	part := total / (wait + rest)
	return wait * part, rest * part
}

// cache learns what the endpoint's cache holds and what answers cost. The caller holds the endpoint's lock.
func (t *Try) cache(res *Result, at float64) {
	e, in := t.e, float64(max(res.In, 0))
	if in <= 0 {
		return
	}
	cached := min(float64(max(res.Cached, 0)), in)
	if could := min(t.prefix, in); could > 0 {
		e.Warm.add(at, halfLong, could, min(cached, could))
	} else {
		e.Cold.add(at, halfLong, in, cached)
	}
	if fresh := in - cached; fresh > 0 {
		e.Written.add(at, halfLong, fresh, min(float64(max(res.Written, 0)), fresh))
	}
	if res.Cost > 0 && !math.IsInf(res.Cost, 0) {
		row := row{lists: t.k.view.Load().rows[t.k.place(e)].lists, adjust: 1}
		if fresh := in - cached; fresh > 0 {
			row.written = min(float64(max(res.Written, 0))/fresh, 1)
		}
		if listed := row.price(&query{in: in, out: float64(max(res.Out, 0))}, cached); listed > 0 {
			e.Bills.add(at, halfLong, listed, res.Cost)
		}
	}
}

// place is the row of an endpoint.
func (k *market) place(e *end) int {
	for i := range k.ends {
		if k.ends[i] == e {
			return i
		}
	}
	return 0
}

// remember notes the answer in the model's means and in its session.
func (t *Try) remember(res *Result, at float64) {
	in, out := float64(max(res.In, 0)), float64(max(res.Out, 0))
	if in == 0 {
		in = t.in
	}
	if m := t.k.model; !t.brief {
		m.mu.Lock()
		m.add(at, in, t.guess, t.prefix, out)
		if t.session != 0 {
			m.turn(t.goes)
		}
		m.mu.Unlock()
	}
	t.r.sessions.answered(t.session, at, t.e, in+out, out, t.explicit || res.Cached > 0)
}
