package routing

// Weights of the routing cost.
const (
	firstWeight  = 4.0 // a second before the first token counts that often
	errorPenalty = 1.0 // answers' worth, of a failed try, besides the time that it takes
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
	special         bool    // there are images, or the prefix is a mean
	warm            *end    // where the session's cache is, nil = nowhere
	prefix          float64 // tokens that it may hold
	opens           bool    // it opens a conversation: later turns will find its cache where it goes
	trust           float64 // how likely it is still there, 0 to 1; -1 = prefix is a mean over all requests
}

// cached is how many prompt tokens are expected to come from the endpoint's cache.
func (q *query) cached(r *row) float64 {
	cold := q.in * r.cold
	if q.trust == 0 || q.trust > 0 && q.warm != r.end {
		return cold
	}
	p := min(q.prefix, q.in)
	if q.trust < 0 {
		return p*r.hit + (q.in-p)*r.cold
	}
	return q.trust*r.hit*p + (1-q.trust)*cold
}

// price is what the endpoint is expected to charge when so many of the prompt's tokens come from its cache.
func (r *row) price(q *query, cached float64) float64 {
	l := &r.lists[0]
	for i := 1; q.in <= l.above; i++ {
		l = &r.lists[i]
	}
	fresh := q.in - cached
	p := (l.prompt+l.dearer*r.written)*fresh + l.cached*cached + l.completion*q.out + l.image*q.images + l.request
	return p * r.adjust
}

// usual condenses the first price list for requests without a warm cache and images, which most are; special rows have
// further lists.
func (r *row) usual() {
	l := &r.lists[0]
	r.special = len(r.lists) > 1
	r.perIn = r.adjust * ((l.prompt+l.dearer*r.written)*(1-r.cold) + l.cached*r.cold)
	r.perOut, r.perRequest = r.adjust*l.completion, r.adjust*l.request
}

// terms are a Cost, and the seconds in it.
type terms struct {
	Cost
	cached, ttft, rest float64
}

// cost is the routing cost of a request at an endpoint with n requests under way, in the billing currency per good
// answer. It writes all of t; a result of that size would cost more to copy than to compute. For the same reason it works
// with variables, and without max, which is slow for floats.
func (v *view) cost(t *terms, r *row, q *query, n float64) {
	cached, price := q.in*r.cold, q.in*r.perIn+q.out*r.perOut+r.perRequest
	if r.special || q.special || q.warm == r.end {
		cached = q.cached(r)
		price = r.price(q, cached)
	}
	more := n - r.flight
	slower := 1 + r.perTTFT*more
	if slower < slowLeast {
		slower = slowLeast
	}
	ttft := r.ttft * (0.5 + (q.in-cached)*v.perToken) * slower // as scale has it
	if n+1 > r.knee {
		ttft += queueWeight * (n + 1 - r.knee) * r.perQueued
	}
	slower = 1 + r.perRest*more
	if slower < restLeast {
		slower = restLeast
	}
	rest := q.out * r.decode * slower
	second := q.kappa * v.lambda
	wait, decode, failed, quality, later := second*firstWeight*ttft, second*rest, r.fail0+q.kappa*r.fail1, 0.0, 0.0
	all := price + wait + decode
	if q.tools {
		quality = r.bad * (all + v.unit*(1+q.kappa))
	}
	all += failed + quality
	if q.opens && r.keeps > 0 {
		later = -all * r.keeps
		all += later
	}
	if r.flagged(q) {
		all *= flagFactor
	}
	t.Price, t.Wait, t.Decode, t.Failed, t.Quality, t.Later, t.R = price, wait, decode, failed, quality, later, all // one by one: no copy
	t.cached, t.ttft, t.rest = cached, ttft, rest
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
