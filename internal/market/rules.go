package market

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"myip.co.kr/hearth"
)

// rule is one of the policies that routing is compared with. Each orders a tier by a number, the least first.
type rule struct {
	*gateway
	list []Listing
	r    *rand.Rand
	ends []seen
	// heedless: it sends requests to endpoints that are out, too.
	heedless bool
}

// seen is what a plain policy has measured of an endpoint.
type seen struct {
	inflight int
	latency  float64 // decayed mean of the time to the first token, 0 = nothing was measured
	at       float64 // when it was measured last
	failedAt float64
}

// Plain policies, by name.
const (
	ByPrice       = "price"          // the cheapest for the request first; nothing is learned
	PriceCooldown = "price-cooldown" // likewise, but what failed three times in a row rests for a minute
	InverseSquare = "inverse-square" // drawn by the inverse square of prices among those without a failure in 30 s, the rest by price
	LeastLatency  = "least-latency"  // the shortest mean time to the first token
	P2CEWMA       = "p2c-ewma"       // the better of two random ones, by peak mean latency times requests under way
	Prequal       = "prequal"        // of four random ones: not among the fullest, then the fastest
	Random        = "random"
)

func newRule(name string, list []Listing, seed uint64) (buyer, error) {
	g, err := newGateway(list)
	if err != nil {
		return nil, err
	}
	p := &rule{gateway: g, list: slices.Clone(list), r: rand.New(rand.NewPCG(seed, 77)), ends: make([]seen, len(list))}
	for i := range p.ends {
		p.ends[i].failedAt = math.Inf(-1)
	}
	by := map[string]func(*Arrival, []float64, float64){
		ByPrice: p.byPrice, PriceCooldown: p.byPrice, InverseSquare: p.inverseSquare, LeastLatency: p.leastLatency,
		P2CEWMA: p.p2c, Prequal: p.prequal, Random: p.random,
	}[name]
	if p.heedless = name == ByPrice || name == Random; p.heedless {
		g.view = func(float64) []hearth.EndpointHealth { return make([]hearth.EndpointHealth, len(p.list)) }
	}
	var keys []float64
	g.rank = func(a *Arrival, _ int, tier []hearth.Candidate, now float64) {
		if len(keys) != len(p.list) {
			keys = make([]float64, len(p.list))
		}
		by(a, keys, now)
		slices.SortStableFunc(tier, func(a, b hearth.Candidate) int { return cmp.Compare(keys[a.Endpoint.Index], keys[b.Endpoint.Index]) })
	}
	return p, nil
}

func (p *rule) byPrice(a *Arrival, keys []float64, _ float64) {
	for i := range p.list {
		keys[i] = (float64(a.In)*p.list[i].In + 500*p.list[i].Out) / 1e6
	}
}

func (p *rule) inverseSquare(a *Arrival, keys []float64, now float64) {
	p.byPrice(a, keys, now)
	drawn, total := -1, 0.0
	for i := range p.list {
		if now-p.ends[i].failedAt < 30 || p.health.View()[i].Out(at(now)) {
			continue
		}
		w := inverseSquare(p.list[i].blended())
		if total += w; p.r.Float64()*total < w {
			drawn = i
		}
	}
	if drawn >= 0 {
		keys[drawn] = -1
	}
	for i := range p.list {
		if now-p.ends[i].failedAt < 30 {
			keys[i] += 1e6
		}
	}
}

func (p *rule) leastLatency(_ *Arrival, keys []float64, _ float64) {
	for i := range p.ends {
		keys[i] = p.ends[i].latency
	}
}

func (p *rule) p2c(_ *Arrival, keys []float64, now float64) {
	p.sample(keys, 2, func(i int) float64 {
		e := &p.ends[i]
		return (e.latency*math.Exp(-(now-e.at)/10) + 0.1) * float64(e.inflight+1)
	})
}

func (p *rule) prequal(_ *Arrival, keys []float64, _ float64) {
	fill := make([]int, len(p.ends))
	for i := range p.ends {
		fill[i] = p.ends[i].inflight
	}
	slices.Sort(fill)
	hot := fill[min(len(fill)-1, len(fill)*4/5)]
	p.sample(keys, 4, func(i int) float64 {
		if e := &p.ends[i]; e.inflight > hot {
			return 1e3 + float64(e.inflight)
		}
		return p.ends[i].latency
	})
}

func (p *rule) random(_ *Arrival, keys []float64, _ float64) {
	for i := range keys {
		keys[i] = p.r.Float64()
	}
}

// sample orders n random endpoints by of and the others behind them at random.
func (p *rule) sample(keys []float64, n int, of func(int) float64) {
	for place, i := range p.r.Perm(len(keys)) {
		if keys[i] = 1e6 + float64(place); place < n {
			keys[i] = of(i)
		}
	}
}

func (p *rule) sent(a *Arrival, q *try, now float64) bool {
	if !p.gateway.sent(a, q, now) && !p.heedless {
		return false
	}
	p.ends[q.endpoint].inflight++
	return true
}

func (p *rule) first(q *try, now float64) {
	p.gateway.first(q, now)
	p.learn(q.endpoint, now-q.sent, now)
}

// learn keeps the worst at once and forgets it slowly (peak EWMA, 10 s).
func (p *rule) learn(i int, latency, now float64) {
	e := &p.ends[i]
	keep := math.Exp(-(now - e.at) / 10)
	e.latency = latency*(1-keep) + e.latency*keep
	if latency > e.latency || e.at == 0 {
		e.latency = latency
	}
	e.at = now
}

func (p *rule) ended(a *Arrival, q *try, e ending, bad bool, cost, now float64) {
	p.gateway.ended(a, q, e, bad, cost, now)
	p.ends[q.endpoint].inflight--
	if e != answered {
		p.ends[q.endpoint].failedAt = now
		if e == failed {
			p.learn(q.endpoint, patience, now)
		}
	}
}

func (p *rule) listed(list []Listing, _ float64) error {
	p.list = slices.Clone(list)
	for len(p.ends) < len(list) {
		p.ends = append(p.ends, seen{failedAt: math.Inf(-1)})
	}
	return p.reload(list)
}
