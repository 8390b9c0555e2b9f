package routing

import (
	"math"
	"time"

	"myip.co.kr/hearth"
)

const (
	stickWithin  = 1.03 // times the lowest cost
	band         = 0.08 // over the lowest cost: endpoints within share most of the traffic
	beyond       = 0.04 // the share falls by e with each so much beyond the band
	negligible   = 0.6  // over the lowest cost: no share is left
	crowded      = 0.7  // of the cap, from which on the share falls
	answerWeight = 3.0  // prompt tokens that a token of an answer costs, as a rule
	tierUsual    = 40   // candidates of a tier that cost no allocation
)

// class is how good a candidate is before cost is looked at.
type class uint8

const (
	usable   class = iota
	flagged        // for its quality, but under its cap
	full           // at its cap
	cooling        // after a rate limit
	halfOpen       // and nobody tries it
	open
	unknown
)

// option is one candidate of a tier.
type option struct {
	r     float64 // routing cost; what is full is dearer by the square of its load
	w     float64 // share, before it is divided by the sum
	at    int32   // place in the tier
	row   int32
	class class
}

// before says whether o is to be tried before p.
func (o *option) before(p *option) bool {
	return o.class < p.class || o.class == p.class && o.r < p.r
}

// scene is a choice in the making.
type scene struct {
	v      *view
	q      query
	at     int64
	lowest float64 // cost of the usable
	sum    float64 // of the weights
	armed  bool    // the session sticks to where its cache is

	n     int
	usual [tierUsual]option
	more  []option // in place of usual, for a longer tier
}

// opts are the candidates. The slice is not kept in the scene, for then the scene would not fit on the stack.
func (s *scene) opts() []option {
	if s.more != nil {
		return s.more
	}
	return s.usual[:s.n]
}

// Order puts the candidates of a tier (external, of one model and one priority) into the order in which they are to be
// tried: the first place is drawn, the rest follow by ascending cost. It counts nothing: a request is known to the router
// from Begin on. why, unless nil, is as long as the tier and gets the terms of each candidate, in the new order. It does
// not allocate for up to 40 candidates.
func (r *Router) Order(a *Ask, tier []hearth.Candidate, why []Terms, now time.Time) Decision {
	var s scene
	d := r.pick(a, tier, &s, now)
	if d.Place < 0 {
		return d
	}
	if why != nil {
		s.explain(a, tier, why, d)
	}
	s.arrange(tier, why, d)
	return d
}

// Pick is Order without the order: it says which candidate has the first place.
func (r *Router) Pick(a *Ask, tier []hearth.Candidate, now time.Time) Decision {
	var s scene
	return r.pick(a, tier, &s, now)
}

func (r *Router) pick(a *Ask, tier []hearth.Candidate, s *scene, now time.Time) Decision {
	var k *market
	for i := range tier {
		if k = r.find(tier[i].Endpoint.Index).market; k != nil {
			break
		}
	}
	if k == nil {
		return Decision{Place: -1, Endpoint: -1}
	}
	s.v, s.at, s.n = k.view.Load(), r.nanos(now), len(tier)
	if s.n > tierUsual {
		s.more = make([]option, s.n)
	}
	r.ask(a, k, s)
	s.q.opens = a.Session != 0 && s.q.warm == nil
	r.weigh(tier, k, s, a.Retry)
	o, why, p := s.choose(a, draws(a.Draw^k.salt^uint64(tier[0].Endpoint.Priority)))
	return Decision{Place: int(o.at), Endpoint: tier[o.at].Endpoint.Index, Reason: why, Share: p, Kappa: s.q.kappa, Snapshot: s.v.number}
}

// ask turns an Ask into what the terms need.
func (r *Router) ask(a *Ask, k *market, s *scene) {
	v, q := s.v, &s.q
	*q = query{in: float64(max(a.In, 0)) * v.real, out: v.out, images: float64(max(a.Images, 0)), kappa: v.kappa, tools: a.Tools}
	q.special = a.Images > 0
	if a.Kappa > 0 {
		q.kappa = min(a.Kappa, kappaMost)
	}
	if a.Session != 0 {
		at := float64(s.at) / 1e9
		if known, ok := r.sessions.find(a.Session, at); ok {
			q.warm, q.prefix, q.trust = known.end, known.prefix, 1
			if at-known.at > warmFor {
				q.trust = fadingWeight
			}
			s.armed = (known.armed || a.Explicit) && q.trust == 1
			q.out = (known.out + outPrior*v.out) / (known.n + outPrior)
		}
	}
	if a.Out > 0 {
		q.out = float64(a.Out)
	}
	if a.MaxTokens > 0 {
		q.out = min(q.out, float64(a.MaxTokens))
	}
}

// weigh finds the class, the cost and the weight of every candidate.
func (r *Router) weigh(tier []hearth.Candidate, k *market, s *scene, retry bool) {
	lowest := math.Inf(1)
	var t terms
	opts := s.opts()
	for i := range tier {
		o := &opts[i]
		p := r.find(tier[i].Endpoint.Index)
		o.at, o.row, o.class, o.r = int32(i), int32(p.row), unknown, math.Inf(1)
		if p.market != k {
			continue
		}
		row := &s.v.rows[p.row]
		n := float64(max(row.end.flight.Load(), 0))
		o.class = s.classOf(row, n)
		s.v.cost(&t, row, &s.q, n)
		o.r = t.R
		switch o.class {
		case usable:
			o.w = row.ramp
			o.w *= room(n * row.perCap)
			if o.r < lowest {
				lowest = o.r
			}
		case full:
			u := (n + 1) * row.perCap
			o.r *= u * u
		}
	}
	if s.lowest = lowest; math.IsInf(lowest, 1) && !retry {
		s.spare(opts)
	}
	s.share(opts)
}

// spare takes the flagged endpoints for usable if there are no others: a flag says who is worse than the rest. In a retry
// there were others.
func (s *scene) spare(opts []option) {
	for i := range opts {
		if o := &opts[i]; o.class != unknown && !s.v.rows[o.row].flagged(&s.q) {
			return
		}
	}
	for i := range opts {
		if o := &opts[i]; o.class == flagged {
			row := &s.v.rows[o.row]
			o.class, o.w = usable, row.ramp*room(float64(max(row.end.flight.Load(), 0))*row.perCap)
			s.lowest = min(s.lowest, o.r)
		}
	}
}

// share multiplies the weights of the usable by what their costs are worth.
func (s *scene) share(opts []option) {
	per := 0.0 // where the lowest cost is nothing, all that cost nothing more are equal
	if s.lowest > 0 {
		per = 1 / s.lowest
	}
	for i := range opts {
		o := &opts[i]
		if o.class == usable {
			o.w *= worth((o.r - s.lowest) * per)
			s.sum += o.w
		}
	}
}

// room is what part of its share an endpoint gets at a load of its cap.
func room(load float64) float64 {
	if load <= crowded {
		return 1
	}
	return (1 - load) * (1 / (1 - crowded))
}

// worth is the weight of a cost that is so much above the lowest, as a part of that.
func worth(x float64) float64 {
	switch {
	case x <= band:
		return decline(x * (1 / band))
	case x > negligible:
		return 0
	}
	return decline(1 + (x-band)*(1/beyond))
}

func (s *scene) classOf(row *row, n float64) class {
	e := row.end
	if shut := e.shut.Load(); shut != 0 {
		if s.at < shut || s.at < e.probe.Load() {
			return open
		}
		return halfOpen
	}
	switch {
	case s.at < e.cool.Load():
		return cooling
	case n+1 > row.cap:
		return full
	case row.flagged(&s.q):
		return flagged
	}
	return usable
}

// choose finds the first place, why, and how likely that was.
func (s *scene) choose(a *Ask, d draws) (*option, Reason, float64) {
	opts := s.opts()
	best := &opts[0]
	for i := range opts {
		if opts[i].before(best) {
			best = &opts[i]
		}
	}
	switch {
	case s.n == 1:
		return best, Only, 1
	case best.class == flagged:
		return best, FlaggedOverflow, 1
	case a.Retry:
		return best, Retry, 1
	case best.class > usable:
		return best, Forced, 1
	}
	if o := s.stuck(); o != nil {
		return o, Stick, 1
	}
	lost, why, odds := s.overdue(a)
	if lost != nil && d.next() < odds {
		return lost, why, odds + (1-odds)*s.part(lost)
	}
	return s.draw(best, lost, odds, d.next())
}

// stuck is where the session stays.
func (s *scene) stuck() *option {
	if !s.armed {
		return nil
	}
	opts := s.opts()
	for i := range opts {
		if o := &opts[i]; o.class == usable && s.v.rows[o.row].end == s.q.warm {
			if o.r <= stickWithin*s.lowest {
				return o
			}
			return nil
		}
	}
	return nil
}

// overdue is the candidate that is to be tried for the sake of knowing it, if any: one whose breaker is half-open, else
// the one that has waited for a try most times as long as it should. odds is how likely it is tried.
func (s *scene) overdue(a *Ask) (found *option, why Reason, odds float64) {
	if a.NoExplore || s.armed && s.present(s.q.warm) {
		return nil, "", 0
	}
	most := 1.0
	why, odds = Explore, s.v.explore
	opts := s.opts()
	for i := range opts {
		o := &opts[i]
		if o.class == halfOpen {
			if why != Probe || o.r < found.r {
				found, why, odds = o, Probe, s.v.probe
			}
			continue
		}
		if o.class > flagged || why == Probe {
			continue
		}
		row := &s.v.rows[o.row]
		waits := math.Inf(1)
		sent, per := row.end.sent.Load(), row.perLimit
		if o.class == flagged {
			per = 1e-9 / exploreSoon
			if !row.flaggedAll { // requests without tools are no test
				sent = row.end.tooled.Load()
			}
		}
		if sent != 0 {
			waits = float64(s.at-sent) * per
		}
		if waits > most || waits == most && (found == nil || o.r < found.r) {
			found, most = o, waits
		}
	}
	if found == nil || why == Explore && !math.IsInf(most, 1) && s.large() {
		return nil, "", 0
	}
	return found, why, odds
}

// large says whether a request is too dear to be spent on knowing: there will be smaller ones, unless the budget has piled up.
func (s *scene) large() bool {
	size := func(in, out float64) float64 { return in + answerWeight*out }
	return s.v.explore < exploreAny*s.v.probe && size(s.q.in, s.q.out) > exploreSmall*size(s.v.in, s.v.out)
}

func (s *scene) present(e *end) bool {
	opts := s.opts()
	for i := range opts {
		if o := &opts[i]; o.class != unknown && s.v.rows[o.row].end == e {
			return true
		}
	}
	return false
}

// part is how likely a candidate is drawn by weight.
func (s *scene) part(o *option) float64 {
	if !(s.sum > 0) { // nor if it is no number
		return 0
	}
	return o.w / s.sum
}

// draw takes a candidate by weight. lost is the one that exploration would have taken with the given odds.
func (s *scene) draw(best, lost *option, odds, point float64) (*option, Reason, float64) {
	if !(s.sum > 0) {
		return best, Share, 1 - odds
	}
	point *= s.sum
	last, opts := best, s.opts()
	for i := range opts {
		o := &opts[i]
		if o.w == 0 {
			continue
		}
		last = o
		if point -= o.w; point < 0 {
			break
		}
	}
	p := (1 - odds) * s.part(last)
	if last == lost {
		p += odds
	}
	return last, Share, p
}
