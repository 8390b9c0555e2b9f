package routing

import (
	"math"
	"slices"
	"time"
)

// view is what is known of a model's endpoints, condensed for choosing. It is never changed.
type view struct {
	number   uint64
	at       float64
	rows     []row
	in, out  float64 // mean tokens of a prompt and of an answer
	later    float64 // part of the requests in conversations that go on with one
	prefix   float64 // tokens that the cache may hold of those that go on where it is, their mean
	perToken float64 // see the function
	real     float64 // tokens of a prompt per token estimated
	kappa    float64
	unit     float64 // what failures are reckoned by: an answer of mean length at the median or, if less, twice what a mix by price pays
	lambda   float64 // what a second of waiting costs, at a kappa of one
	explore  float64 // how likely a first attempt is made for the sake of knowing, if there is anything to know
	probe    float64 // likewise if what is to be known is whether an endpoint has recovered
}

// row is an endpoint in a view.
type row struct {
	end                *end
	lists              []list
	special            bool    // it has several price lists
	perIn, perOut      float64 // price of a token, see usual
	perRequest         float64
	adjust             float64 // what answers cost over what the lists say
	hit, cold, written float64 // cached of what could be, cached of a prompt that is new, written of what is not cached
	levels
	perTTFT, perRest float64 // slower per further request under way
	knee, perQueued  float64 // requests served at once (infinite if not known), seconds per request beyond
	cap              float64 // requests under way; infinite if none is known
	perCap           float64 // one over it
	mixCap           float64 // what it would be if requests went by price alone
	fail0, fail1     float64 // cost of failed tries: fail0 + kappa·fail1
	tries            float64 // per good answer
	bad              float64 // rate of broken tool calls
	keeps            float64 // what part of a request's cost its cache saves over a conversation, see view.ahead
	ramp             float64 // part of its share
	better           bool    // its last try went better than expected
	toll             float64 // first attempts that a try for the sake of knowing is counted as
	perLimit         float64 // one over the nanoseconds without a try after which it is overdue
	errors, limits   float64 // rates
	priority         int
	flaggedTools     bool
	flaggedAll       bool
	fresh            bool // nothing was measured
}

const (
	viewEvery = 5 * time.Second  // without news, while it was used lately
	viewIdle  = 60 * time.Second // without use
	usedFor   = 20 * time.Minute

	exploreSoon  = 60.0  // seconds
	exploreAgain = 8.0   // seconds, of an endpoint whose last try went better than expected
	exploreSmall = 0.6   // of the mean request: what is larger is not spent on knowing while the budget is below exploreAny
	exploreAny   = 1.5   // tries
	exploreAll   = 600.0 // seconds in which every endpoint is tried, if the budget allows
	exploreLate  = 420.0 // seconds, of an endpoint that has no chance: with the wait for a draw it is ten minutes
	noChance     = 1.3   // times the lowest cost
	exploreDear  = 3.0   // tries, at most, that one is counted as because it costs more than the best
	exploreKept  = 0.4   // of the budget that keeps every endpoint within its ten minutes
	exploreHaste = 2.0   // the budget is used up that much faster than it grows
	budgetMost   = 3.0   // tries
	loadHalf     = 15.0  // seconds
)

// Refresh makes the views of the models anew where something has happened since the last one, or where time has. It is
// to be called every 250 ms or so, by one caller; what happened in between is not known to Order, but for the requests
// under way and rate limits.
func (r *Router) Refresh(now time.Time) {
	at := r.nanos(now)
	for _, k := range r.markets {
		age := at - toNanos(k.view.Load().at)
		used := at-k.model.used.Load() < int64(usedFor)
		if k.model.news.Swap(false) || age >= int64(viewIdle) || used && age >= int64(viewEvery) || age < 0 {
			r.refresh(k, now)
		}
	}
}

// refresh makes the view of one model.
func (r *Router) refresh(k *market, now time.Time) {
	at := r.secs(now)
	k.mu.Lock()
	defer k.mu.Unlock()
	v := &view{at: at, rows: make([]row, len(k.ends))}
	mean := k.model.condense(at, v, k, &r.opt)
	overdue := k.collect(at)
	typ := k.typical(v.out)
	r.review(k, at)
	for i := range k.ends {
		if s := &k.sells[i]; s.lists == nil || !sameHours(s.endpoint) {
			s.lists = listsAt(s.endpoint, now)
		}
		v.rows[i].fill(k, i, at, typ, overdue[i])
	}
	v.value(&r.opt, mean)
	for i := range v.rows {
		v.rows[i].fails(&k.copies[i], v)
	}
	v.limits(typ, mean)
	v.tolls(mean, k.tests(&r.opt))
	v.ahead(mean)
	k.view.Store(v)
}

// collect copies what is known of the endpoints, faded to now, and says for each by how much its waiting requests are
// overdue.
func (k *market) collect(at float64) (overdue []float64) {
	k.copies = slices.Grow(k.copies[:0], len(k.ends))[:len(k.ends)]
	overdue = make([]float64, len(k.ends))
	load := 0.0
	for i, e := range k.ends {
		e.mu.Lock()
		e.both(at)
		k.copies[i] = e.estimate
		overdue[i] = e.waiting.overdue(at)
		e.mu.Unlock()
		load += float64(e.flight.Load())
	}
	m := k.model
	m.mu.Lock()
	f := math.Exp2(-max(at-k.seen(), 0) / loadHalf)
	m.load = f*m.load + (1-f)*load
	m.mu.Unlock()
	return overdue
}

// seen is when the last view was made.
func (k *market) seen() float64 {
	if v := k.view.Load(); v != nil {
		return v.at
	}
	return 0
}

// typical are the model's usual numbers.
func (k *market) typical(out float64) typical {
	var ttft, decode []float64
	for i := range k.copies {
		s := &k.copies[i].Slow
		if s.First >= 3 && s.Scale > 0 {
			ttft = append(ttft, s.TTFT/s.Scale)
		}
		if s.Answers >= 3 && s.Tokens > 0 && s.Secs > 0 {
			decode = append(decode, s.Secs/s.Tokens)
		}
	}
	return typical{ttft: max(median(ttft, startTTFT), 1e-3), decode: max(median(decode, startDecode), 1e-6), out: out}
}

// median is the middle of xs, or what it is if there are none. It sorts xs.
func median(xs []float64, none float64) float64 {
	if len(xs) == 0 {
		return none
	}
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// fill is what can be said of an endpoint without the others' prices.
func (r *row) fill(k *market, i int, at float64, typ typical, overdue float64) {
	e := &k.copies[i]
	r.end, r.lists, r.priority = k.ends[i], k.sells[i].lists, k.sells[i].endpoint.Priority
	e.Warm.fade(at, halfLong)
	e.Cold.fade(at, halfLong)
	e.Written.fade(at, halfLong)
	r.hit = min(e.Warm.rate(firstHit, cachePrior), 1)
	r.cold = min(e.Cold.rate(0, cachePrior), 1)
	r.written = min(e.Written.rate(0, cachePrior), 1)
	r.adjust = e.adjust()
	r.usual()
	r.levels = e.levels(typ, overdue)
	e.TTFTSlope.fade(at)
	e.RestSlope.fade(at)
	r.perTTFT, r.perRest = e.TTFTSlope.per(1), e.RestSlope.per(0.5)
	r.knee = math.Inf(1)
	if kn := e.Knee.value(at, e.Limit.peak(at)); kn > 0 {
		r.knee, r.perQueued = kn, e.service(r.slowTTFT+typ.out*r.slowDecode)/kn
	}
	r.better = e.Better > 0 && at-e.Better < betterFor
	r.cap = whole(e.Limit.at(at, e.perSecond(), longest(k.kappa)))
	r.mixCap = whole(e.Limit.mixed(at, e.perSecond(), longest(k.kappa)))
	r.perCap = 1 / r.cap
	r.errors, r.limits = e.errorRate(suspects(overdue, r.slowTTFT)), e.limitRate()
	e.Tools.fade(at, halfLong)
	r.bad = e.Tools.rate(firstBad, priorTries)
	r.ramp = 1
	if e.Breaker.Ramp > 0 {
		r.ramp = e.Breaker.Ramp
	}
	r.flaggedTools, r.flaggedAll, r.fresh = e.Flag.Tools, e.Flag.Benchmark, e.Tried == 0
}

// perSecond is how many requests the endpoint gets a second.
func (e *estimate) perSecond() float64 { return e.Slow.Sent * math.Ln2 / halfSlow }

// adjust is what answers cost over what the lists say they cost.
func (e *estimate) adjust() float64 {
	if e.Bills.Of <= 0 {
		return 1
	}
	return min(max(e.Bills.Part/e.Bills.Of, 0.2), 5)
}

// typicalWait is how many times as long a typical endpoint takes as the fastest tenth: in most markets one and a half to three.
const typicalWait = 2.0

// mixOften bounds what a second is worth, and what a failure is, by so many times what is paid in a mix by price.
const mixOften = 2.0

// mixed is the mean price where shares go by the inverse square of prices, which is what is paid by price alone; none if
// there is no such mix.
func mixed(prices []float64, none float64) float64 {
	var sum, weights float64
	for _, p := range prices {
		if p > 0 {
			w := 1 / (p * p)
			sum, weights = sum+w*p, weights+w
		}
	}
	if !(weights > 0) || math.IsInf(weights, 1) {
		return none
	}
	return sum / weights
}

// value finds what the model's answers cost at the median, and from that what a second is worth: in a market with a few
// endpoints far cheaper than the median, what is really paid bounds it. A kappa of one gives that much for twice the time
// that the fastest tenth of the endpoints takes, for the fastest are what money can buy. Seconds of cheap models are cheap:
// one kappa does for all. Where answers cost nothing, the operator says what an hour is worth.
func (v *view) value(o *Options, mean query) {
	prices, waits := make([]float64, len(v.rows)), make([]float64, len(v.rows))
	for i := range v.rows {
		r := &v.rows[i]
		prices[i] = r.price(&mean, mean.cached(r))
		waits[i] = r.slowTTFT + v.out*r.slowDecode
	}
	wait := typicalWait * tenth(waits)
	if v.unit = median(prices, 0); v.unit <= 0 {
		hour := o.TimeValue
		if hour <= 0 {
			hour = defaultTimeValue
		}
		v.unit = hour / 3600 * wait / max(v.kappa, 1e-3)
	}
	v.unit = min(v.unit, mixOften*mixed(prices, v.unit))
	v.lambda = v.unit / wait
}

// tenth is what a tenth of xs, of which there is at least one, does not exceed. It sorts xs.
func tenth(xs []float64) float64 {
	slices.Sort(xs)
	at := float64(len(xs)-1) / 10
	i := int(at)
	return xs[i] + (xs[min(i+1, len(xs)-1)]-xs[i])*(at-float64(i))
}

// fails is what failed tries and rate limits add to an answer.
func (r *row) fails(e *estimate, v *view) {
	r.tries = 1 / (1 - min(r.errors+r.limits, 0.95))
	failTime, limitTime, usual := e.FailTime, e.LimitTime, r.slowTTFT+v.out*r.slowDecode
	if failTime == 0 {
		failTime = min(startFailTime, usual)
	}
	if limitTime == 0 {
		limitTime = min(startLimit, usual)
	}
	penalty := limitPenalty * (1 + r.limits/limitOften) * v.unit
	r.fail0 = r.tries * (r.errors*errorPenalty*v.unit + r.limits*penalty)
	r.fail1 = r.tries * (r.errors*(v.lambda*firstWeight*failTime+errorPenalty*v.unit) +
		r.limits*(v.lambda*firstWeight*limitTime+penalty))
}

// tests is how many tries for the sake of knowing an endpoint can have in ten minutes.
func (k *market) tests(o *Options) float64 {
	rate := 0.0
	for i := range k.copies {
		rate += k.copies[i].perSecond()
	}
	return o.part() * rate * exploreAll / float64(len(k.copies))
}

// tolls says what a try of each endpoint for the sake of knowing is counted as: as much more than one as it costs more than
// the best, as long as the budget is enough for all in ten minutes. Where it is not, money is what it is shared out by.
func (v *view) tolls(mean query, tests float64) {
	mean.kappa = v.kappa
	most := exploreDear
	if kept := exploreKept * tests; tests >= 1 {
		most = min(max(kept, 1), most)
	}
	lowest := v.lowest(&mean)
	for i := range v.rows {
		var t terms
		r := &v.rows[i]
		v.cost(&t, r, &mean, r.flight)
		r.toll = 1
		if low := lowest[r.priority]; low > 0 {
			r.toll = min(max(t.R/low, 1), most)
		}
	}
}

// limits says after which time each endpoint is overdue for a try: later, if even a favourable surprise would not make
// it worth its price.
func (v *view) limits(typ typical, mean query) {
	mean.kappa = v.kappa
	lowest := v.lowest(&mean)
	for i := range v.rows {
		r := &v.rows[i]
		hopeful := r.price(&mean, mean.cached(r)) + v.kappa*v.lambda*(firstWeight*typ.ttft/2+v.out*typ.decode/2)
		switch {
		case hopeful > noChance*lowest[r.priority]:
			r.perLimit = 1e-9 / exploreLate
		case r.better:
			r.perLimit = 1e-9 / exploreAgain
		default:
			r.perLimit = 1e-9 / exploreSoon
		}
	}
}

// lowest is the lowest cost of the model's mean request, by priority.
func (v *view) lowest(mean *query) map[int]float64 {
	lowest := make(map[int]float64, 2)
	for i := range v.rows {
		var t terms
		r := &v.rows[i]
		v.cost(&t, r, mean, r.flight)
		if low, ok := lowest[r.priority]; !ok || t.R < low {
			lowest[r.priority] = t.R
		}
	}
	return lowest
}
