package routing

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// Options are the operator's settings. The zero value is the defaults.
type Options struct {
	// Kappa is the value of time, without a unit: waiting costs that part of the typical price at an endpoint that takes
	// twice as long as the fastest tenth, and the wait for the first token four times as much. 0 = 1.5; 2 for people who
	// wait, 0.1 for batches.
	Kappa float64
	// Kappas are those of single models, by their ids.
	Kappas map[string]float64
	// MaxPremium bounds what the requests of a model cost over a mix of its endpoints by price alone, as a part of that:
	// 0.05 = five per cent. The value of time gives way to it, but for requests with one of their own. 0 = 0.05, negative =
	// no bound.
	MaxPremium float64
	// MaxPremiums are those of single models, by their ids.
	MaxPremiums map[string]float64
	// TimeValue is what an hour of waiting costs where the median price is 0, in the billing currency; 0 = 0.36.
	TimeValue float64
	// Explore is the part of a model's first attempts that goes to endpoints for the sake of knowing them, 0 = 0.03,
	// negative = none.
	Explore float64
}

const (
	defaultKappa     = 1.5
	kappaMost        = 100.0
	defaultPremium   = 0.05
	defaultTimeValue = 0.36
	defaultExplore   = 0.03
)

// kappa is the value of time of a model.
func (o *Options) kappa(model string) float64 {
	return min(max(cmp.Or(o.Kappas[model], o.Kappa, defaultKappa), 0), kappaMost)
}

// bound is what a model may cost over the mix, 0 = anything.
func (o *Options) bound(model string) float64 {
	return max(cmp.Or(o.MaxPremiums[model], o.MaxPremium, defaultPremium), 0)
}

// part is what part of a model's first attempts may be for the sake of knowing.
func (o *Options) part() float64 { return max(cmp.Or(o.Explore, defaultExplore), 0) }

// Router orders the external endpoints of a catalog and learns how they do. It is safe for concurrent use. Without
// Refresh it orders by what was known at first.
type Router struct {
	*memory
	opt     Options
	places  []place // by Endpoint.Index
	markets []*market
}

// memory is what the routers of one configuration after another share.
type memory struct {
	began    time.Time
	sessions sessions
	open     atomic.Int64 // endpoints whose breaker is not closed
}

// place is where an endpoint is found; market is nil for one that the router does not know.
type place struct {
	market *market
	row    int
}

// market is the external endpoints of one model in one catalog.
type market struct {
	model *model
	salt  uint64 // of its draws; here, for what is in model changes all the time
	ends  []*end // rows of the view stand in their order
	sells []sells
	kappa float64  // as configured
	bound float64  // on the premium, 0 = none
	mix   priceMix // guarded by the model's mu
	view  atomic.Pointer[view]

	mu     sync.Mutex // held while a view is made
	copies []estimate // scratch
}

// sells is what the catalog says of an endpoint.
type sells struct {
	endpoint *hearth.Endpoint
	lists    []list
}

// model is what is learned of a model besides its endpoints.
type model struct {
	id   string
	news atomic.Bool // something happened since the last view
	used atomic.Int64

	_        [64]byte
	firsts   atomic.Int64 // first attempts
	explored atomic.Int64 // thousandths of tries that those made for the sake of knowing are counted as, see row.toll
	_        [64]byte

	mu sync.Mutex
	means
	premium       premium
	counted, paid int64   // of firsts and explored, that are in the budget already
	budget        float64 // tries for the sake of knowing that may be made
	load          float64 // requests under way, mean of some seconds
	views         uint64
}

// end is an endpoint that is learned of. Routers that follow one another share those that are in both of their catalogs.
// What every request reads and writes stands apart from the rest, and no two endpoints share a cache line of it.
type end struct {
	id string

	_      [64]byte
	flight atomic.Int64 // requests under way
	cool   atomic.Int64 // left alone up to then, for it met a rate limit
	shut   atomic.Int64 // the breaker is open up to then, half-open from then on; 0 = closed
	probe  atomic.Int64 // a request finds out whether it has recovered, up to then
	sent   atomic.Int64 // when the last request was sent, 0 = never
	tooled atomic.Int64 // when the last request with tools was sent, 0 = never
	_      [64]byte

	mu sync.Mutex
	estimate
	waiting waiting
	jitter  draws
}

// waiting are the requests whose first token is awaited.
type waiting struct {
	n        float64
	since    float64 // sum of the times at which they were sent
	expected float64 // sum of the seconds that they were expected to wait
}

// overdue is by how many seconds in all they have waited longer than expected.
func (w *waiting) overdue(now float64) float64 { return max(w.n*now-w.since-w.expected, 0) }

// NewRouter makes a router that knows nothing yet. Its times are counted from now.
func NewRouter(c *hearth.Catalog, o Options, now time.Time) *Router {
	from := make([]int, len(c.Endpoints))
	for i := range from {
		from[i] = -1
	}
	return newRouter(c, o, &memory{began: now}, nil, from, now)
}

// Next makes the router of a newer catalog. Endpoint i of it is endpoint from[i] of the present one, with all that is
// known of it; with -1 nothing is. What comes of requests that the present router has sent is known to both.
func (r *Router) Next(c *hearth.Catalog, from []int, o Options, now time.Time) *Router {
	return newRouter(c, o, r.memory, r, from, now)
}

func newRouter(c *hearth.Catalog, o Options, mem *memory, before *Router, from []int, now time.Time) *Router {
	r := &Router{memory: mem, opt: o, places: make([]place, len(c.Endpoints))}
	known := map[string]*model{}
	if before != nil {
		for _, k := range before.markets {
			known[k.model.id] = k.model
		}
	}
	for _, m := range c.Models {
		k := &market{salt: Seed(m.ID), kappa: o.kappa(m.ID), bound: o.bound(m.ID)}
		for _, e := range m.Endpoints {
			if e.Local() {
				continue
			}
			r.places[e.Index] = place{k, len(k.ends)}
			k.sells = append(k.sells, sells{endpoint: e})
			k.ends = append(k.ends, before.end(from[e.Index], e))
		}
		if len(k.ends) == 0 {
			continue
		}
		if k.model = known[m.ID]; k.model == nil {
			k.model = newModel(m.ID)
		}
		r.markets = append(r.markets, k)
		r.refresh(k, now)
	}
	return r
}

// end is endpoint i of the router, or a new one. A nil router has none.
func (r *Router) end(i int, e *hearth.Endpoint) *end {
	if r != nil && i >= 0 && i < len(r.places) && r.places[i].market != nil {
		p := r.places[i]
		return p.market.ends[p.row]
	}
	return &end{id: e.ID, jitter: draws(Seed(e.ID))}
}

// neverUsed is a time far before all others.
const neverUsed = -1 << 62

func newModel(id string) *model {
	m := &model{id: id, budget: 1}
	m.news.Store(true)
	m.used.Store(neverUsed)
	return m
}

// find is the place of an endpoint by its index; its market is nil if the router does not know it.
func (r *Router) find(endpoint int) place {
	if endpoint < 0 || endpoint >= len(r.places) {
		return place{}
	}
	return r.places[endpoint]
}

// nanos and secs are a time on the router's clock.
func (m *memory) nanos(now time.Time) int64  { return max(int64(now.Sub(m.began)), 1) }
func (m *memory) secs(now time.Time) float64 { return float64(m.nanos(now)) / 1e9 }

func toNanos(secs float64) int64 {
	if secs <= 0 {
		return 0
	}
	return int64(min(secs*1e9, math.MaxInt64/2))
}
