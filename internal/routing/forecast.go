package routing

import (
	"time"

	"myip.co.kr/hearth"
)

// Forecast is what the router expects of a request at one of its endpoints.
type Forecast struct {
	Cost  float64 // routing cost: per good answer, in the billing currency
	First float64 // seconds to the first token
	Rest  float64 // seconds from there to the end of the answer
	// Free: nothing keeps the request out: no cap, no rate limit, no breaker, no flag for a quality that it needs.
	Free bool
}

// Forecast says what is to be expected of a request at an endpoint now; ok is false if the router does not know it. It
// counts nothing.
func (r *Router) Forecast(a *Ask, endpoint int, now time.Time) (f Forecast, ok bool) {
	p := r.find(endpoint)
	if p.market == nil {
		return f, false
	}
	var s scene
	s.v, s.at = p.market.view.Load(), r.nanos(now)
	r.ask(a, p.market, &s)
	row := &s.v.rows[p.row]
	n := float64(max(row.end.flight.Load(), 0))
	var t terms
	s.v.cost(&t, row, &s.q, n)
	return Forecast{Cost: t.R, First: t.ttft, Rest: t.rest, Free: s.classOf(row, n) == usable}, true
}

// Worth is what the waiting for a request's answer costs, so that who is not in the router's view can be compared with who
// is.
type Worth struct {
	First    float64 // per second before the first token, in the billing currency
	Rest     float64 // per second from there on
	Out      float64 // tokens that the answer is expected to have
	PerToken float64 // seconds that each takes at an endpoint in the middle of the model's
}

// Worth says what waiting costs in a request for a model; ok is false if the router knows no endpoint of it.
func (r *Router) Worth(a *Ask, m *hearth.Model, now time.Time) (w Worth, ok bool) {
	for _, e := range m.Endpoints {
		p := r.find(e.Index)
		if p.market == nil {
			continue
		}
		var s scene
		s.v, s.at = p.market.view.Load(), r.nanos(now)
		r.ask(a, p.market, &s)
		second := s.q.kappa * s.v.lambda
		each := make([]float64, len(s.v.rows))
		for i := range s.v.rows {
			each[i] = s.v.rows[i].decode
		}
		return Worth{First: second * firstWeight, Rest: second, Out: s.q.out, PerToken: median(each, startDecode)}, true
	}
	return w, false
}
