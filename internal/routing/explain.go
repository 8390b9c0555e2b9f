package routing

import (
	"cmp"
	"math"
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// arrange moves the candidates into their order: the chosen one, then the others by class and cost. The terms, if there
// are any, move along.
func (s *scene) arrange(tier []hearth.Candidate, why []Terms, d Decision) {
	opts := s.opts()
	first := opts[d.Place]
	copy(opts[1:d.Place+1], opts[:d.Place])
	opts[0] = first
	for i := 2; i < len(opts); i++ { // tiers are short
		o := opts[i]
		j := i
		for ; j > 1 && o.before(&opts[j-1]); j-- {
			opts[j] = opts[j-1]
		}
		opts[j] = o
	}
	for i := range opts { // each cycle of the permutation in turn
		if int(opts[i].at) == i {
			continue
		}
		c, to := tier[i], i
		var t Terms
		if why != nil {
			t = why[i]
		}
		for int(opts[to].at) != i {
			from := int(opts[to].at)
			tier[to], opts[to].at = tier[from], int32(to)
			if why != nil {
				why[to] = why[from]
			}
			to = from
		}
		tier[to], opts[to].at = c, int32(to)
		if why != nil {
			why[to] = t
		}
	}
	tier[0].Reason = string(d.Reason)
	for i := 1; i < len(tier); i++ {
		tier[i].Reason = Ascending
	}
}

// explain writes the terms of every candidate, in the order in which they were given.
func (s *scene) explain(a *Ask, tier []hearth.Candidate, why []Terms, d Decision) {
	odds := 0.0
	var lost *option
	drawn := d.Reason == Share || d.Reason == Explore || d.Reason == Probe
	if drawn {
		lost, _, odds = s.overdue(a)
	}
	opts := s.opts()
	for i := range opts {
		o, w := &opts[i], &why[i]
		*w = Terms{Endpoint: tier[i].Endpoint.Index}
		if o.class == unknown {
			continue
		}
		s.terms(o, w)
		switch {
		case drawn:
			w.Share = (1 - odds) * s.part(o)
			if o == lost {
				w.Share, w.Explored = w.Share+odds, odds
			}
		case i == d.Place:
			w.Share = 1
		}
	}
}

// terms fills in what does not depend on the other candidates.
func (s *scene) terms(o *option, w *Terms) {
	row := &s.v.rows[o.row]
	n := max(row.end.flight.Load(), 0)
	var t terms
	s.v.cost(&t, row, &s.q, float64(n))
	w.Cost, w.Cached, w.TTFT, w.Rest = t.Cost, t.cached, t.ttft, t.rest
	w.Tries, w.InFlight, w.Errors, w.Limits, w.BadTools = row.tries, int(n), row.errors, row.limits, row.bad
	if !math.IsInf(row.cap, 1) {
		w.Cap, w.Load = row.cap, float64(n+1)/row.cap
	}
	if !math.IsInf(row.knee, 1) {
		w.Knee = row.knee
	}
	w.Flagged, w.New = row.flagged(&s.q), row.fresh
	s.basis(row, w, float64(n))
	switch {
	case o.class == open:
		w.Standing = Open
	case o.class == halfOpen:
		w.Standing = HalfOpen
	case s.at < row.end.cool.Load():
		w.Standing = Cooling
	default:
		w.Standing = InUse
	}
}

// Overview explains the external endpoints of a model for a request of mean size that belongs to no session: the shares
// are those within each priority, tiers in ascending priority, within them by cost. It is nil for a model without any.
func (r *Router) Overview(model string, now time.Time) []Terms {
	return r.OverviewOf(model, false, now, nil)
}

// OverviewOf is Overview for requests that offer tools, or for others, while endpoints that idle names are not tried: they
// have their terms and no share. nil names none.
func (r *Router) OverviewOf(model string, tools bool, now time.Time, idle func(*hearth.Endpoint) bool) []Terms {
	i := slices.IndexFunc(r.markets, func(k *market) bool { return k.model.id == model })
	if i < 0 {
		return nil
	}
	k := r.markets[i]
	v := k.view.Load()
	a := Ask{In: int(v.in / v.real), Tools: tools, NoExplore: true}
	all := make([]hearth.Candidate, len(k.sells))
	for i := range all {
		all[i].Endpoint = k.sells[i].endpoint
	}
	out := make([]Terms, len(all))
	for from := 0; from < len(all); { // Seal has sorted them by priority
		to := from + 1
		for to < len(all) && all[to].Endpoint.Priority == all[from].Endpoint.Priority {
			to++
		}
		tried := from // where those begin that are not
		for at := from; at < to; at++ {
			if idle == nil || !idle(all[at].Endpoint) {
				all[tried], all[at] = all[at], all[tried]
				tried++
			}
		}
		r.Order(&a, all[from:tried], out[from:tried], now)
		r.Order(&a, all[tried:to], out[tried:to], now)
		for i := tried; i < to; i++ {
			out[i].Share = 0
		}
		slices.SortStableFunc(out[from:to], func(x, y Terms) int { return cmp.Compare(x.R, y.R) })
		from = to
	}
	return out
}

// Warm is the place of the candidate at which the request's session sticks, whatever it costs, -1 = none: for an order of
// the caller's own, in which nothing is drawn. The candidates are of one model; they may have several priorities.
func (r *Router) Warm(a *Ask, cs []hearth.Candidate, now time.Time) int {
	if a.Session == 0 {
		return -1
	}
	for i := range cs {
		p := r.find(cs[i].Endpoint.Index)
		if p.market == nil {
			continue
		}
		var s scene
		s.v, s.at = p.market.view.Load(), r.nanos(now)
		if r.ask(a, p.market, &s); !s.armed {
			return -1
		}
		row := &s.v.rows[p.row]
		if row.end == s.q.warm && s.classOf(row, float64(max(row.end.flight.Load(), 0))) == usable {
			return i
		}
	}
	return -1
}
