package market

import (
	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// RoutingCost is the policy of the gateway.
const RoutingCost = "routing-cost"

// routed is the gateway's own routing.
type routed struct {
	*gateway
	router *routing.Router
	seed   uint64
	o      routing.Options
	asks   []bought // by arrival
	tier   []hearth.Candidate
}

type bought struct {
	ask      routing.Ask
	decision routing.Decision
}

func newRouted(list []Listing, arrivals int, seed uint64, o routing.Options) (buyer, error) {
	g, err := newGateway(list)
	if err != nil {
		return nil, err
	}
	p := &routed{gateway: g, router: routing.NewRouter(g.catalog, o, opening), seed: seed, o: o, asks: make([]bought, arrivals)}
	g.view = func(now float64) []hearth.EndpointHealth { return p.router.Health(p.health.View(), at(now)) }
	g.rank = func(a *Arrival, id int, tier []hearth.Candidate, now float64) {
		k := &p.asks[id]
		session := a.Session
		if session == 0 {
			session = -1 - id
		}
		k.ask = routing.Ask{Draw: mix(seed ^ mix(uint64(id)+7)), Session: mix(uint64(session)), In: a.In, Stream: true, Tools: a.Tools}
		k.decision = p.router.Order(&k.ask, tier, nil, at(now))
	}
	return p, nil
}

// again ranks the rest anew.
func (p *routed) again(_ *Arrival, id int, rest []int, now float64) []int {
	if len(rest) < 2 {
		return rest
	}
	p.tier = p.tier[:0]
	for _, i := range rest {
		p.tier = append(p.tier, hearth.Candidate{Endpoint: p.catalog.Endpoints[i]})
	}
	ask := p.asks[id].ask
	ask.Retry = true
	p.router.Order(&ask, p.tier, nil, at(now))
	for i, c := range p.tier {
		rest[i] = c.Endpoint.Index
	}
	return rest
}

func (p *routed) sent(a *Arrival, q *try, now float64) bool {
	if !p.gateway.sent(a, q, now) {
		return false
	}
	k, why := &p.asks[q.request], routing.Retry
	if q.number == 0 && k.decision.Endpoint == q.endpoint {
		why = k.decision.Reason
	}
	q.routed = p.router.Begin(&k.ask, q.endpoint, why, at(now))
	return true
}

func (p *routed) first(q *try, now float64) {
	p.gateway.first(q, now)
	q.routed.First(at(now))
}

func (p *routed) ended(a *Arrival, q *try, e ending, bad bool, cost, now float64) {
	p.gateway.ended(a, q, e, bad, cost, now)
	r := routing.Result{Outcome: [...]routing.Outcome{answered: routing.Answered, failed: routing.Failed, limited: routing.Limited, broken: routing.Failed}[e]}
	if e == answered {
		r.In, r.Cached, r.Out, r.Cost = a.In, q.cached, a.Out, cost
		if a.Tools {
			if r.Calls = 1; bad {
				r.BadCalls = 1
			}
		}
	}
	q.routed.Done(r, at(now))
}

func (p *routed) beat(now float64) { p.router.Refresh(at(now)) }

func (p *routed) listed(list []Listing, now float64) error {
	was := p.catalog
	if err := p.reload(list); err != nil {
		return err
	}
	p.router = p.router.Next(p.catalog, p.catalog.From(was), p.o, at(now))
	return nil
}
