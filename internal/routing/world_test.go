package routing

import (
	"container/heap"
	"math"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
)

// site is the truth about an endpoint of a world.
type site struct {
	offer
	ttft   float64                         // seconds, median without load
	speed  float64                         // tokens per second
	places int                             // requests at once, then 429; 0 = any number
	queue  bool                            // it queues instead
	fails  float64                         // seconds that a failed try takes, 0 = 0.3
	mood   func(at float64, d *draws) mood // nil = it answers
	tools  func(at float64) float64        // part of its tool calls that are broken
	hit    float64                         // what its cache gives of what it could

	comes   float64 // it is in no chain before
	flight  int
	freeAt  []float64          // of a queueing site's places
	served  []float64          // when its answers were dispatched
	tried   []float64          // when it was tried
	limited []float64          // when it said 429
	failed  []float64          // when tries failed
	broken  []float64          // when its tool calls were broken
	opened  []float64          // when conversations were to begin there
	holds   map[uint64]float64 // tokens in its cache, by session
}

type mood uint8

const (
	fine mood = iota
	breaks
	hangs
	crawls // four times as slow
)

// world is a discrete-event market: arrivals, sites, the router under test and the cooldown after three failures.
type world struct {
	*bazaar
	sites  []*site
	health *health.Tracker
	d      draws
	events events
	now    float64
	tools  bool
	bare   bool // without the cooldown after three failures
	sticky int  // sessions, 0 = none
	turns  int  // each arrival opens a conversation of so many requests, 0 = it is a request of its own

	requests, lost int
	wait           float64 // sum of the waits for first tokens
	waits          int
	each           func(at float64) // called every 250 ms
}

type event struct {
	at float64
	n  int
	do func()
}

type events struct {
	list []event
	n    int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	return e.list[i].at < e.list[j].at || e.list[i].at == e.list[j].at && e.list[i].n < e.list[j].n
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func newWorld(t testing.TB, seed uint64, sites ...*site) *world {
	offers := make([]offer, len(sites))
	for i, s := range sites {
		offers[i] = s.offer
	}
	w := &world{bazaar: bazaarOf(t, offers...), sites: sites, d: draws(seed * 7919)}
	w.health = health.NewTracker(w.cat)
	return w
}

func (w *world) at(secs float64, do func()) {
	w.events.n++
	heap.Push(&w.events, event{secs, w.events.n, do})
}

func (w *world) time() time.Time { return began.Add(time.Duration(w.now * 1e9)) }

// normal is a draw of the standard normal distribution.
func (w *world) normal() float64 {
	return math.Sqrt(-2*math.Log(1-w.d.next())) * math.Cos(2*math.Pi*w.d.next())
}

// run lets so many requests a second arrive up to a time.
func (w *world) run(rate, until float64) {
	var arrive, tick func()
	arrive = func() {
		w.arrive()
		w.at(w.now-math.Log(1-w.d.next())/rate, arrive)
	}
	tick = func() {
		w.Refresh(w.time())
		if w.each != nil {
			w.each(w.now)
		}
		w.at(w.now+0.25, tick)
	}
	w.events.list = nil
	for _, s := range w.sites {
		s.flight = 0
	}
	w.at(w.now, arrive)
	w.at(w.now, tick)
	for w.events.list[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// request walks the chain of one request.
type request struct {
	w     *world
	ask   Ask
	since float64
	out   float64
	left  []hearth.Candidate
	first Decision
	turn  int // of its conversation, 0 = the first
}

func (w *world) arrive() {
	w.requests++
	a := w.bazaar.ask()
	a.Tools = w.tools
	if w.sticky > 0 {
		a.Session, a.Explicit = uint64(w.d.next()*float64(w.sticky))+1, true
	}
	if w.turns > 0 {
		a.Session, a.Explicit = uint64(w.requests), true
	}
	a.In = int(1000 * math.Exp(0.8*w.normal()-0.32))
	w.send(a, 0)
}

// send lets a request walk its chain.
func (w *world) send(a Ask, turn int) {
	q := &request{w: w, ask: a, turn: turn, since: w.now, out: max(500*math.Exp(0.6*w.normal()-0.18), 1)}
	q.ask.Out = 0
	view := w.Health(w.health.View(), w.time())
	for _, c := range w.tier(0) {
		if i := c.Endpoint.Index; !view[i].Out(w.time()) && w.now >= w.sites[i].comes {
			q.left = append(q.left, c)
		}
	}
	if len(q.left) > 0 {
		q.first = w.Order(&q.ask, q.left, nil, w.time())
		if s := w.sites[q.first.Endpoint]; turn == 0 {
			s.opened = append(s.opened, w.now)
		}
	}
	q.next()
}

// goesOn lets the next turn of a conversation follow after a while, with the answer and a new question behind the prompt.
func (q *request) goesOn() {
	if q.turn+1 >= q.w.turns {
		return
	}
	a := q.w.bazaar.ask()
	a.Session, a.Explicit, a.Tools, a.In = q.ask.Session, true, q.ask.Tools, q.ask.In+int(q.out)+100
	q.w.at(q.w.now+10, func() { q.w.send(a, q.turn+1) })
}

// next tries the next candidate.
func (q *request) next() {
	w := q.w
	for len(q.left) > 0 {
		c := q.left[0].Endpoint.Index
		q.left = q.left[1:]
		permit, ok := w.health.Take(c, w.time())
		if !ok {
			continue
		}
		why := Retry
		if !q.ask.Retry && c == q.first.Endpoint {
			why = q.first.Reason
		}
		q.try(c, why, permit)
		return
	}
	w.lost++
}

func (q *request) try(i int, why Reason, permit health.Permit) {
	w, s := q.w, q.w.sites[i]
	s.tried = append(s.tried, w.now)
	t := w.Begin(&q.ask, i, why, w.time())
	m := fine
	if s.mood != nil {
		m = s.mood(w.now, &w.d)
	}
	end := func(after float64, r Result, h health.Outcome) {
		w.at(w.now+after, func() {
			t.Done(r, w.time())
			if w.bare && h == health.Failure {
				h = health.NoVerdict
			}
			permit.Done(h, 0, w.time())
			q.ask.Retry = true
			if len(q.left) > 1 {
				w.Order(&q.ask, q.left, nil, w.time())
			}
			q.next()
		})
	}
	switch {
	case m == breaks || m == hangs:
		s.failed = append(s.failed, w.now)
		takes := map[mood]float64{breaks: 0.3, hangs: 30}[m]
		if s.fails > 0 {
			takes = s.fails
		}
		end(takes, Result{Outcome: Failed}, health.Failure)
	case s.places > 0 && s.flight >= s.places && !s.queue:
		s.limited = append(s.limited, w.now)
		end(0.15, Result{Outcome: Limited}, health.RateLimited)
	default:
		q.answer(s, &t, permit, m)
	}
}

// answer serves the request.
func (q *request) answer(s *site, t *Try, permit health.Permit, m mood) {
	w := q.w
	s.flight++
	sent := w.now
	load := 0.0
	if s.places > 0 {
		load = min(float64(s.flight)/float64(s.places), 1)
	}
	cached := s.hit * min(s.holds[q.ask.Session], float64(q.ask.In))
	ttft := s.ttft * math.Exp(0.45*w.normal()-0.1) * (0.5 + 0.5*(float64(q.ask.In)-cached)/1000) * (1 + 1.5*load*load*load)
	rest := q.out / (s.speed * math.Exp(0.28*w.normal()-0.04)) * (1 + 0.8*load*load)
	if m == crawls {
		ttft, rest = 4*ttft, 4*rest
	}
	start := w.now
	if s.queue {
		start = s.enqueue(w.now, ttft+rest)
	}
	w.at(start+ttft, func() {
		t.First(w.time())
		permit.Answering(w.time())
		w.wait += w.now - q.since
		w.waits++
	})
	w.at(start+ttft+rest, func() {
		s.flight--
		r := Result{Outcome: Answered, In: q.ask.In, Cached: int(cached), Out: int(q.out)}
		if q.ask.Tools && s.tools != nil {
			if r.Calls = 1; w.d.next() < s.tools(sent) {
				r.BadCalls = 1
				s.broken = append(s.broken, sent)
			}
		}
		t.Done(r, w.time())
		permit.Done(health.Success, 0, w.time())
		s.served = append(s.served, sent)
		if q.ask.Session != 0 {
			if s.holds == nil {
				s.holds = map[uint64]float64{}
			}
			s.holds[q.ask.Session] = float64(q.ask.In) + q.out
		}
		q.goesOn()
	})
}

// enqueue finds when one of the places is free, and takes it.
func (s *site) enqueue(now, service float64) float64 {
	if s.freeAt == nil {
		s.freeAt = make([]float64, s.places)
	}
	k := 0
	for i := range s.freeAt {
		if s.freeAt[i] < s.freeAt[k] {
			k = i
		}
	}
	start := max(now, s.freeAt[k])
	s.freeAt[k] = start + service
	return start
}

// within counts the times in a span.
func within(times []float64, from, to float64) int {
	n := 0
	for _, at := range times {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// part is the part of all tries in a span that went to a site.
func (w *world) part(i int, from, to float64) float64 {
	all := 0
	for _, s := range w.sites {
		all += within(s.tried, from, to)
	}
	return float64(within(w.sites[i].tried, from, to)) / float64(max(all, 1))
}

func (w *world) limits(from, to float64) (n int) {
	for _, s := range w.sites {
		n += within(s.limited, from, to)
	}
	return n
}

// six are equal sites but for the first, which is a quarter cheaper.
func six() []*site {
	out := make([]*site, 6)
	for i := range out {
		out[i] = &site{offer: offer{in: 1, out: 3}, ttft: 1.2, speed: 45}
	}
	out[0].in, out[0].out = 0.75, 2.25
	return out
}

// absent keeps a site out of all chains up to a time.
func (w *world) absent(i int, until float64) { w.sites[i].comes = until }
