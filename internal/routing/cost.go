package routing

// Weights of the routing cost.
const (
	firstWeight  = 2.0 // a second before the first token counts that often
	errorPenalty = 2.0 // answers' worth, of a failed try
	limitPenalty = 0.3 // answers' worth, of a 429
	limitOften   = 0.05
	queueWeight  = 4.0 // a queued request also holds up those behind it
	flagFactor   = 2.0
	slowLeast    = 0.4 // of its level, for an endpoint with fewer requests under way than usual
	restLeast    = 0.5
)

// query is a request as the terms need it.
type query struct {
	in, out, images float64
	kappa           float64
	tools           bool
	warm            *end    // where the session's cache is, nil = nowhere
	prefix          float64 // tokens that it may hold
	trust           float64 // how likely it is still there, 0 to 1; -1 = prefix is a mean over all requests
}

// cached is how many prompt tokens are expected to come from the endpoint's cache.
func (q *query) cached(r *row) float64 {
	cold := q.in * r.cold
	switch {
	case q.trust < 0:
		p := min(q.prefix, q.in)
		return p*r.hit + (q.in-p)*r.cold
	case q.warm == r.end && q.warm != nil:
		return q.trust*r.hit*min(q.in, q.prefix) + (1-q.trust)*cold
	}
	return cold
}

// price is what the endpoint is expected to charge when so many of the prompt's tokens come from its cache.
func (r *row) price(q *query, cached float64) float64 {
	l := &r.lists[0]
	for i := 1; q.in <= l.above; i++ {
		l = &r.lists[i]
	}
	fresh := q.in - cached
	p := l.prompt*fresh + (l.written-l.prompt)*r.written*fresh + l.cached*cached + l.completion*q.out +
		l.image*q.images + l.request
	return p * r.adjust
}

// terms are a Cost, and the seconds in it.
type terms struct {
	Cost
	cached, ttft, rest float64
}

// cost is the routing cost of a request at an endpoint with n requests under way, in the billing currency per good
// answer. It writes all of t; a result of that size would cost more to copy than to compute.
func (v *view) cost(t *terms, r *row, q *query, n float64) {
	t.cached = q.cached(r)
	t.Price = r.price(q, t.cached)
	more := n - r.flight
	t.ttft = r.ttft * scale(q.in-t.cached, v.in) * max(1+r.perTTFT*more, slowLeast)
	if n+1 > r.knee {
		t.ttft += queueWeight * (n + 1 - r.knee) * r.perQueued
	}
	t.rest = q.out * r.decode * max(1+r.perRest*more, restLeast)
	second := q.kappa * v.lambda
	t.Wait, t.Decode = second*firstWeight*t.ttft, second*t.rest
	t.Failed = r.fail0 + q.kappa*r.fail1
	t.Quality = 0
	if q.tools {
		t.Quality = r.bad * (t.Price + t.Wait + t.Decode + v.unit*(1+q.kappa))
	}
	t.R = t.Price + t.Wait + t.Decode + t.Failed + t.Quality
	if r.flagged(q) {
		t.R *= flagFactor
	}
}

// flagged says whether the endpoint is flagged for a quality that the request needs.
func (r *row) flagged(q *query) bool { return r.flaggedAll || q.tools && r.flaggedTools }

// decline is e to the minus y, for y from 0 to 15, within one per cent: shares need no more, and it is a third of the work.
func decline(y float64) float64 {
	const parts = 32
	x := -y / parts
	p := 1 + x*(1+x*(1.0/2+x*(1.0/6+x*(1.0/24))))
	p *= p
	p *= p
	p *= p
	p *= p
	return p * p
}
