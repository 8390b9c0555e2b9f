package market

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

const (
	patience = 30.0 // seconds a try may take to its first token
	maxTries = 6    // of a request
)

// try is one request at one endpoint.
type try struct {
	request, endpoint, number int
	sent                      float64
	first                     float64 // when the first token came, 0 = not yet
	cached                    int     // prompt tokens that came from the endpoint's cache
	state                     progress
	fault                     fault
	permit                    health.Permit
	routed                    routing.Try
}

type progress uint8

const (
	waiting progress = iota // in the endpoint's queue
	working
	over
)

// ending is how a try ended, as the gateway sees it.
type ending uint8

const (
	answered ending = iota
	failed          // an error, or nothing came in time: the next endpoint is tried
	limited         // 429
	broken          // in the middle: the caller has an error
)

// buyer chooses endpoints. It learns of tries what a gateway would.
type buyer interface {
	// order begins a request: the endpoints that are to be tried, the first first.
	order(a *Arrival, id int, now float64) []int
	// again is asked after a failed try: the rest of the endpoints, in the order that now seems right.
	again(a *Arrival, id int, rest []int, now float64) []int
	// sent, first and ended follow a try; one that is not sent after all did not happen.
	sent(a *Arrival, q *try, now float64) (ok bool)
	first(q *try, now float64)
	ended(a *Arrival, q *try, e ending, badCalls bool, cost, now float64)
	// listed tells of new price lists, and of new endpoints behind those known.
	listed(list []Listing, now float64) error
	// beat is called every quarter of a second.
	beat(now float64)
}

// endings are how faults end a try.
var endings = [...]ending{refused: failed, breaks: broken, rejected: limited}

// beatEvery is the time between two calls of buyer.beat, in seconds.
const beatEvery = 0.25

// happening is a kind of event.
type happening uint8

const (
	arrives happening = iota
	ticks
	beats
	getsFirst // the first token of a try comes
	completes // a try's answer is complete
	fails     // a try ends with an error
	gives     // a try has waited long enough for its first token
)

type event struct {
	at   float64
	seq  int
	what happening
	q    *try
}

type diary []event

func (a diary) Len() int { return len(a) }
func (a diary) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a diary) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *diary) Push(x any)   { *a = append(*a, x.(event)) }
func (a *diary) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// place is an endpoint as it is now.
type place struct {
	*truth
	working  int
	queue    []*try
	tokens   float64 // in its bucket
	filledAt float64
	seen     map[uint64]float64 // blocks in its cache: when they were last used
}

// bazaar is a market with what comes to it.
type bazaar struct {
	chance   chance
	places   []*place
	known    int // of places, the first so many; the others are not there yet
	arrivals []Arrival
	script   []change
	buyer    buyer
	diary    diary
	seq      int
	now      float64
	end      float64
	walks    []walk // by arrival
	tally    *tally
	err      error // of a script
}

// walk is a request on its way.
type walk struct {
	rest  []int
	tries int
}

// change is a part of a script: something that happens to an endpoint at a time.
type change struct {
	at float64
	do func(w *bazaar) error
}

func (w *bazaar) later(after float64, what happening, q *try) {
	w.seq++
	heap.Push(&w.diary, event{at: w.now + after, seq: w.seq, what: what, q: q})
}

// run plays the world to its end, or until ctx is done.
func (w *bazaar) run(ctx context.Context) {
	w.walks = make([]walk, len(w.arrivals))
	w.later(tick, ticks, nil)
	w.later(beatEvery, beats, nil)
	next := 0
	for {
		for next < len(w.arrivals) && (len(w.diary) == 0 || w.arrivals[next].At <= w.diary[0].at) {
			w.now = w.arrivals[next].At
			w.arrive(next)
			next++
		}
		if next == len(w.arrivals) && w.idle() {
			return
		}
		e := heap.Pop(&w.diary).(event)
		w.now = e.at
		if e.what == ticks && ctx.Err() != nil {
			w.err = ctx.Err()
			return
		}
		w.happen(e)
	}
}

// idle says whether no request is under way.
func (w *bazaar) idle() bool { return w.tally.open == 0 }

func (w *bazaar) happen(e event) {
	switch e.what {
	case ticks:
		for len(w.script) > 0 && w.script[0].at <= w.now {
			if err := w.script[0].do(w); err != nil {
				w.err = errors.Join(w.err, err)
			}
			w.script = w.script[1:]
		}
		for i, p := range w.places {
			p.advance(w.now)
			w.admit(i)
		}
		w.later(tick, ticks, nil)
	case beats:
		w.buyer.beat(w.now)
		w.later(beatEvery, beats, nil)
	case getsFirst:
		if q := e.q; q.state == working {
			q.first = w.now
			w.buyer.first(q, w.now)
		}
	case completes:
		w.finish(e.q, answered)
	case fails:
		w.finish(e.q, endings[e.q.fault])
	case gives:
		if q := e.q; q.first == 0 {
			w.finish(q, failed)
		}
	}
}

func (w *bazaar) arrive(n int) {
	a := &w.arrivals[n]
	w.tally.begin(n)
	w.walks[n].rest = w.buyer.order(a, n, w.now)
	w.next(n)
}

// next sends a request to the next endpoint of its order.
func (w *bazaar) next(n int) {
	k := &w.walks[n]
	for len(k.rest) > 0 && k.tries < maxTries {
		q := &try{request: n, endpoint: k.rest[0], number: k.tries, sent: w.now}
		k.rest = k.rest[1:]
		if w.buyer.sent(&w.arrivals[n], q, w.now) {
			k.tries++
			w.receive(q)
			return
		}
	}
	w.tally.lose(n)
}

// receive has an endpoint take a try or reject it.
func (w *bazaar) receive(q *try) {
	p := w.places[q.endpoint]
	places := p.places(w.now)
	if full := float64(p.working) >= places && len(p.queue) >= p.truth.queue; full || !p.spend(w.now) {
		q.fault = rejected
		w.later(0.08+0.27*w.chance.at(q.request, q.endpoint, q.number, forReject), fails, q)
		return
	}
	w.later(patience, gives, q)
	if float64(p.working) < places {
		w.work(q)
		return
	}
	p.queue = append(p.queue, q)
}

// spend takes a token from the bucket.
func (p *place) spend(now float64) bool {
	if p.bucket == 0 {
		return true
	}
	p.tokens = min(p.burst, p.tokens+p.bucket*(now-p.filledAt))
	p.filledAt = now
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	return true
}

// work begins a try in its endpoint.
func (w *bazaar) work(q *try) {
	p := w.places[q.endpoint]
	a := &w.arrivals[q.request]
	load := float64(p.working) / p.places(w.now)
	p.working++
	q.state = working
	q.fault = p.fault(w.chance, q, w.now)
	q.cached = p.lookup(w.chance, a, q, w.now)
	first := p.first(w.chance, q, a.In-q.cached, load, w.now)
	rest := float64(a.Out) / p.speed(w.chance, q, load, w.now)
	when := w.chance.at(q.request, q.endpoint, q.number, forWhen)
	switch q.fault {
	case hangs:
		return // until the caller gives up
	case refused:
		w.later(0.1+1.9*when, fails, q)
		return
	}
	w.later(first, getsFirst, q)
	if q.fault == breaks {
		w.later(first+when*rest, fails, q)
		return
	}
	w.later(first+rest, completes, q)
}

// admit takes from the queue what has room.
func (w *bazaar) admit(endpoint int) {
	p := w.places[endpoint]
	for len(p.queue) > 0 && float64(p.working) < p.places(w.now) {
		q := p.queue[0]
		p.queue = p.queue[1:]
		if q.state == waiting {
			w.work(q)
		}
	}
}

// finish ends a try and goes on with its request.
func (w *bazaar) finish(q *try, e ending) {
	if q.state == over {
		return
	}
	p, a := w.places[q.endpoint], &w.arrivals[q.request]
	switch q.state {
	case working:
		p.working--
	case waiting: // nobody waits for what the caller has given up
		if i := slices.Index(p.queue, q); i >= 0 {
			p.queue = slices.Delete(p.queue, i, i+1)
		}
	}
	q.state = over
	bad, cost := false, 0.0
	if e == answered {
		bad = a.Tools && w.chance.at(q.request, q.endpoint, q.number, forMalformed) < p.badCalls(w.now)
		cost = (float64(a.In-q.cached)*p.In + float64(q.cached)*p.Cache + float64(a.Out)*p.Out) / 1e6
	}
	w.buyer.ended(a, q, e, bad, cost, w.now)
	w.tally.tried(q, e)
	w.admit(q.endpoint)
	switch e {
	case answered:
		w.tally.answered(q, a, bad, cost, w.now)
	case broken:
		w.tally.lose(q.request)
	default:
		k := &w.walks[q.request]
		k.rest = w.buyer.again(a, q.request, k.rest, w.now)
		w.next(q.request)
	}
}

// lookup is how many tokens of the prompt the endpoint has in its cache; what it works on it has from then on.
func (p *place) lookup(c chance, a *Arrival, q *try, now float64) (cached int) {
	hit := c.at(q.request, q.endpoint, q.number, forReplica) < p.replica
	for _, b := range a.prefix {
		at, ok := p.seen[b.id]
		if hit = hit && ok && now-at <= p.keep; hit {
			cached += b.tokens
		}
		p.seen[b.id] = now
	}
	return min(cached, a.In-1)
}

// newBazaar makes the market behind lists for arrivals; tight is how scarce room is, 1 = as in a market in balance.
func newBazaar(seed uint64, list []Listing, arrivals []Arrival, seconds, tight float64) *bazaar {
	w := &bazaar{chance: chance(mix(seed ^ 0x6d61726b6574)), arrivals: arrivals, end: seconds, known: len(list)}
	in, out := means(arrivals)
	demand := float64(len(arrivals)) / max(seconds, 1)
	total := 0.0
	for i := range list {
		total += inverseSquare(list[i].blended())
	}
	for i := range list {
		r := rand.New(rand.NewPCG(seed, uint64(i)+1))
		t := newTruth(list[i], r, demand, inverseSquare(list[i].blended())/total, in, out, tight)
		w.places = append(w.places, &place{truth: t, tokens: t.burst, seen: map[uint64]float64{}})
	}
	return w
}

// inverseSquare is the weight of a price where demand goes by its inverse square.
func inverseSquare(price float64) float64 { return 1 / math.Max(price*price, 1e-12) }
