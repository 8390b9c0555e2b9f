package routing

import (
	"myip.co.kr/hearth"
)

// Basis is what it takes, besides the terms, to make a recorded choice anew under other rules.
type Basis struct {
	Fixed      float64 // the part of Cost.Failed that does not grow with the value of time
	Ramp       float64 // the part of its share that it gets while it comes back, 0 = all of it
	Explored   float64 // the part of Share that is for the sake of knowing
	List       float64 // Price by the list alone, without cache hits
	OtherPrice float64 // Price if the session's cache were elsewhere instead of here, or here instead of elsewhere; 0 = the same
	OtherTTFT  float64 // TTFT likewise
	Queue      float64 // the part of TTFT that is for a queue there, four times what it is
	Warm       bool    // the session's cache is here
	Holds      bool    // and the session stays here unless another one is cheaper by more than a little
}

// basis fills in Basis but for Explored.
func (s *scene) basis(row *row, w *Terms, n float64) {
	q := &s.q
	w.Fixed = row.fail0
	if row.ramp < 1 {
		w.Ramp = row.ramp
	}
	w.List = row.list(q)
	if n+1 > row.knee {
		w.Queue = queueWeight * (n + 1 - row.knee) * row.perQueued
	}
	if q.trust <= 0 || q.warm == nil {
		return
	}
	other := *q
	if w.Warm = q.warm == row.end; w.Warm {
		w.Holds = s.armed
		other.warm, other.trust = nil, 0
	} else {
		other.warm = row.end
	}
	var t terms
	s.v.cost(&t, row, &other, n)
	if t.Price != w.Price {
		w.OtherPrice = t.Price
	}
	if t.ttft != w.TTFT {
		w.OtherTTFT = t.ttft
	}
}

// list is what the endpoint's price list says, as if nothing came from a cache and all bills were as listed.
func (r *row) list(q *query) float64 {
	l := &r.lists[0]
	for i := 1; q.in <= l.above; i++ {
		l = &r.lists[i]
	}
	return l.prompt*q.in + l.completion*q.out + l.image*q.images + l.request
}

// Recorded is the terms as a record keeps them. endpoint is the id.
func (w *Terms) Recorded(endpoint string) hearth.RoutedTerms {
	return hearth.RoutedTerms{
		Endpoint: endpoint, Share: w.Share, Price: w.Price, Wait: w.Wait, Decode: w.Decode, Failed: w.Failed, Quality: w.Quality, Later: w.Later, Total: w.R,
		TTFT: w.TTFT, Rest: w.Rest, Cached: w.Cached, Tries: w.Tries, InFlight: w.InFlight, Cap: w.Cap, Knee: w.Knee, Errors: w.Errors,
		Limits: w.Limits, BadTools: w.BadTools, Fixed: w.Fixed, Ramp: w.Ramp, Explored: w.Explored, List: w.List, OtherPrice: w.OtherPrice,
		OtherTTFT: w.OtherTTFT, Queue: w.Queue, State: string(w.Standing), Flagged: w.Flagged, New: w.New, Warm: w.Warm, Holds: w.Holds,
	}
}

// QueueWeight is how many times the wait in a queue counts in Terms.TTFT, for a queued request also holds up those behind it.
const QueueWeight = queueWeight

// Chance is how likely a candidate has the first place, and which part of that is with the session's cache there.
type Chance struct{ Share, Warm float64 }

// Replay makes the choice of a recorded tier anew under another value of time, 0 = the recorded one. into is as long as
// the candidates and gets the chance of each. What was recorded of the tier is taken as it was: requests under way, rates,
// breakers and what is to be explored.
//
// Where the cache of a session stands is a thing of its earlier requests, which other rules would have sent elsewhere too.
// warm says how likely it stands at each candidate; what is missing to 1 is nowhere. Nil is nowhere at all.
func Replay(t *hearth.Routed, kappa float64, warm []float64, into []Chance) {
	n := len(t.Candidates)
	if n == 0 || len(into) != n {
		return
	}
	if kappa <= 0 || t.Kappa <= 0 || free(t) {
		kappa = t.Kappa
	}
	p := remake{tier: t, kappa: kappa}
	shares := make([]float64, n)
	p.s.more = make([]option, n)
	p.s.n = n
	clear(into)
	holds, nowhere := false, 1.0
	for i := range t.Candidates {
		holds = holds || t.Candidates[i].Holds
	}
	for at, often := range warm[:min(len(warm), n)] {
		if !(often > 0) {
			continue
		}
		nowhere -= often
		p.choose(at, holds, shares)
		for i := range into {
			into[i].Share += often * shares[i]
		}
		into[at].Warm += often * shares[at]
	}
	if nowhere < 1e-9 {
		return
	}
	p.choose(-1, false, shares)
	for i := range into {
		into[i].Share += nowhere * shares[i]
	}
}

// free says whether all candidates cost nothing: there the value of time is given by the hour, and not by kappa.
func free(t *hearth.Routed) bool {
	for i := range t.Candidates {
		if t.Candidates[i].Price > 0 {
			return false
		}
	}
	return true
}

// Expected are the price and the seconds to the first token that were expected of a candidate, with the session's cache
// there or not.
func Expected(c *hearth.RoutedTerms, warm bool) (price, ttft float64) {
	price, ttft = c.Price, c.TTFT
	if warm == c.Warm {
		return price, ttft
	}
	if c.OtherPrice > 0 {
		price = c.OtherPrice
	}
	if c.OtherTTFT > 0 {
		ttft = c.OtherTTFT
	}
	return price, ttft
}

// Usable says whether a candidate got requests at all: its breaker was closed and it met no rate limit just then.
func Usable(c *hearth.RoutedTerms) bool { return c.State == string(InUse) || c.State == "" }

// remake is a recorded choice that is made anew.
type remake struct {
	tier  *hearth.Routed
	kappa float64
	s     scene
}

// choose finds how likely each candidate is chosen if the session's cache is at one of them, -1 = at none. holds: the
// session stays there.
func (p *remake) choose(warm int, holds bool, shares []float64) {
	s, opts := &p.s, p.s.more
	p.weigh(warm)
	clear(shares)
	best := &opts[0]
	for i := range opts {
		if opts[i].before(best) {
			best = &opts[i]
		}
	}
	if best.class > usable || s.n == 1 {
		shares[best.at] = 1
		return
	}
	if holds && warm >= 0 && opts[warm].class == usable && opts[warm].r <= stickWithin*s.lowest {
		shares[warm] = 1
		return
	}
	odds := 0.0 // where a session stays, nothing is explored
	for i := range p.tier.Candidates {
		odds += p.tier.Candidates[i].Explored
		shares[i] = p.tier.Candidates[i].Explored
	}
	if !(s.sum > 0) {
		shares[best.at] += 1 - odds
		return
	}
	for i := range opts {
		shares[i] += (1 - odds) * s.part(&opts[i])
	}
}

// weigh finds the class, the cost and the weight of every candidate.
func (p *remake) weigh(warm int) {
	s, opts := &p.s, p.s.more
	s.lowest, s.sum = 0, 0
	found, spared := false, true // see scene.spare
	for i := range p.tier.Candidates {
		spared = spared && p.tier.Candidates[i].Flagged
	}
	for i := range opts {
		c, o := &p.tier.Candidates[i], &opts[i]
		load, u := 0.0, 0.0
		if c.Cap > 0 {
			load, u = float64(c.InFlight)/c.Cap, float64(c.InFlight+1)/c.Cap
		}
		*o = option{r: p.total(c, i == warm, warm < 0), at: int32(i), class: classOf(c, u)}
		if o.class == flagged && spared {
			o.class = usable
		}
		switch o.class {
		case usable:
			if o.w = 1; c.Ramp > 0 {
				o.w = c.Ramp
			}
			if load > crowded {
				o.w *= (1 - load) * (1 / (1 - crowded))
			}
			if !found || o.r < s.lowest {
				s.lowest, found = o.r, true
			}
		case full:
			o.r *= u * u
		}
	}
	s.share(opts)
}

// classOf is a candidate's class by its record. load is that of the endpoint with one request more.
func classOf(c *hearth.RoutedTerms, load float64) class {
	switch Standing(c.State) {
	case Open:
		return open
	case HalfOpen:
		return halfOpen
	case Cooling:
		return cooling
	}
	switch {
	case load > 1:
		return full
	case c.Flagged:
		return flagged
	}
	return usable
}

// total is the routing cost of a candidate at the value of time of the replay. warm: the session's cache is there. opens:
// it is nowhere, so that what was expected of later turns holds.
func (p *remake) total(c *hearth.RoutedTerms, warm, opens bool) float64 {
	more := 1.0
	if p.tier.Kappa > 0 {
		more = p.kappa / p.tier.Kappa
	}
	price, ttft := Expected(c, warm)
	wait, decode := more*c.Wait, more*c.Decode
	if c.TTFT > 0 {
		wait *= ttft / c.TTFT
	}
	all := price + wait + decode
	if c.Quality > 0 && c.BadTools > 0 {
		unit := max((c.Quality/c.BadTools-c.Price-c.Wait-c.Decode)/(1+p.tier.Kappa), 0)
		all += c.BadTools * (all + unit*(1+p.kappa))
	}
	all += c.Fixed + more*(c.Failed-c.Fixed)
	if opens {
		all *= 1 - keepsOf(c)
	}
	if c.Flagged {
		all *= flagFactor
	}
	return all
}

// keepsOf is what part of its cost a candidate's cache was expected to save over the conversation, see view.ahead.
func keepsOf(c *hearth.RoutedTerms) float64 {
	all := c.Price + c.Wait + c.Decode + c.Failed + c.Quality
	if !(c.Later < 0 && all > 0) {
		return 0
	}
	return min(-c.Later/all, 1)
}
