package market

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"myip.co.kr/hearth/internal/routing"
)

// Thrifty is routing-cost at the value of time at which it is held against the cheapest first.
const Thrifty = RoutingCost + "@0.1"

// Plan is what is to be played: every policy in every scenario with every seed.
type Plan struct {
	Scenarios []Scenario
	Policies  []string
	Seeds     []uint64
	// Kappa is the value of time of routing-cost, nil = as by default.
	Kappa *float64
	// MaxPremium is its ceiling over the mix by price; 0 = as by default, negative = none.
	MaxPremium float64
	// Versus says with which policy, of those played, others are compared.
	Versus map[string]string
}

// Usual are the comparisons that are made unless others are wanted.
func Usual() map[string]string {
	return map[string]string{InverseSquare: RoutingCost, PriceCooldown: Thrifty}
}

// Change is by what part one policy's figures are above another's: -0.5 is half.
type Change struct {
	TTFT     float64 `json:"ttft"`
	E2E      float64 `json:"e2e"`
	Rate429  float64 `json:"rate_429"`
	Cost     float64 `json:"cost"`
	UserCost float64 `json:"user_cost"`
}

// Played is what became of one scenario.
type Played struct {
	Name      string             `json:"name"`
	Saturated bool               `json:"saturated"` // what is bought at the busiest is more than there is room for
	Policies  map[string]Figures `json:"policies"`  // means over the seeds
	Vs        map[string]Change  `json:"vs,omitempty"`

	endpoints []string    // their names
	runs      [][]Figures // by policy of the plan and seed
}

// Comparison is what became of a plan. Vs are the geometric means over its scenarios.
type Comparison struct {
	Seeds     []uint64          `json:"seeds"`
	Scenarios []Played          `json:"scenarios"`
	Vs        map[string]Change `json:"vs,omitempty"`
	Missed    []Missed          `json:"gates,omitempty"` // by gate, where there are several scenarios
}

// options are those of routing-cost.
func (p *Plan) options() routing.Options {
	o := routing.Options{MaxPremium: p.MaxPremium}
	if p.Kappa != nil {
		o.Kappa = valueOfTime(*p.Kappa)
	}
	return o
}

// Runs is how many runs the plan has.
func (p *Plan) Runs() int { return len(p.Scenarios) * len(p.Policies) * len(p.Seeds) }

// Play plays all of it, as many runs at once as there are processors. The same plan gives the same figures. done, unless
// nil, is called after each run, one call at a time.
func (p *Plan) Play(ctx context.Context, done func()) (*Comparison, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &Comparison{Seeds: p.Seeds, Scenarios: make([]Played, len(p.Scenarios))}
	type run struct{ scenario, policy, seed int }
	todo := make(chan run)
	var workers sync.WaitGroup
	var mu sync.Mutex
	for i := range c.Scenarios {
		c.Scenarios[i].runs = make([][]Figures, len(p.Policies))
		for j := range p.Policies {
			c.Scenarios[i].runs[j] = make([]Figures, len(p.Seeds))
		}
	}
	for range min(runtime.GOMAXPROCS(0), p.Runs()) {
		workers.Go(func() {
			for r := range todo {
				f, err := Run(ctx, &p.Scenarios[r.scenario], p.Policies[r.policy], p.Seeds[r.seed], p.options())
				if err != nil {
					stop(fmt.Errorf("play %s under %s: %w", p.Scenarios[r.scenario].Name, p.Policies[r.policy], err))
					continue
				}
				c.Scenarios[r.scenario].runs[r.policy][r.seed] = f
				mu.Lock()
				if done != nil {
					done()
				}
				mu.Unlock()
			}
		})
	}
	for i := range p.Runs() {
		todo <- run{i / len(p.Policies) / len(p.Seeds), i / len(p.Seeds) % len(p.Policies), i % len(p.Seeds)}
	}
	close(todo)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p.compare(c)
	return c, nil
}

// compare sums the runs up.
func (p *Plan) compare(c *Comparison) {
	all := map[string][]Change{}
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		s.Name, s.Policies, s.Vs = p.Scenarios[i].Name, map[string]Figures{}, map[string]Change{}
		s.look(&p.Scenarios[i], p.Seeds[0])
		for j, name := range p.Policies {
			f := average(s.runs[j])
			f.name(s.endpoints)
			s.Policies[name] = f
		}
		for other, own := range p.Versus {
			a, b := slices.Index(p.Policies, own), slices.Index(p.Policies, other)
			if a < 0 || b < 0 {
				continue
			}
			s.Vs[other] = changed(s.runs[a], s.runs[b])
			all[other] = append(all[other], s.Vs[other])
		}
	}
	c.Vs = map[string]Change{}
	for other, list := range all {
		c.Vs[other] = geometric(list)
	}
	if len(c.Scenarios) > 1 {
		c.Missed = c.misses()
	}
}

// changed compares the runs of one policy with those of another, seed by seed: the geometric mean of the quotients. The
// 429s are counted over all seeds, and one half on either side: there may be none.
func changed(own, other []Figures) Change {
	var list []Change
	var n, m, ours, theirs float64
	for i := range own {
		a, b := &own[i], &other[i]
		list = append(list, Change{
			TTFT: quotient(a.TTFT, b.TTFT) - 1, E2E: quotient(a.E2E, b.E2E) - 1, Cost: quotient(a.Cost, b.Cost) - 1, UserCost: quotient(a.UserCost, b.UserCost) - 1,
		})
		n, ours = n+float64(a.Requests), ours+a.Rate429*float64(a.Requests)
		m, theirs = m+float64(b.Requests), theirs+b.Rate429*float64(b.Requests)
	}
	c := geometric(list)
	c.Rate429 = quotient((ours+0.5)/max(n, 1), (theirs+0.5)/max(m, 1)) - 1
	return c
}

// quotient is 1 where both are nothing, as with a market that costs nothing.
func quotient(a, b float64) float64 {
	const least = 1e-12
	return max(a, least) / max(b, least)
}

// geometric is the geometric mean of changes.
func geometric(list []Change) Change {
	mean := func(of func(*Change) float64) float64 {
		sum := 0.0
		for i := range list {
			sum += math.Log(max(1+of(&list[i]), 1e-12))
		}
		return math.Exp(sum/max(float64(len(list)), 1)) - 1
	}
	return Change{
		TTFT: mean(func(c *Change) float64 { return c.TTFT }), E2E: mean(func(c *Change) float64 { return c.E2E }),
		Rate429: mean(func(c *Change) float64 { return c.Rate429 }), Cost: mean(func(c *Change) float64 { return c.Cost }),
		UserCost: mean(func(c *Change) float64 { return c.UserCost }),
	}
}

// look notes the endpoints of a scenario, and whether all of them together cannot serve what comes in the busiest minute.
func (s *Played) look(of *Scenario, seed uint64) {
	w, list, _ := of.world(seed)
	for i := range list {
		s.endpoints = append(s.endpoints, list[i].Name)
	}
	_, out := means(w.arrivals)
	capacity := 0.0
	for _, p := range w.places {
		rate := p.room / (p.TTFT*fullWait + out/p.TPS*fullDecode)
		if p.bucket > 0 {
			rate = min(rate, p.bucket)
		}
		capacity += rate
	}
	const minute = 60.0
	most, from := 0, 0
	for i := range w.arrivals {
		for w.arrivals[i].At-w.arrivals[from].At > minute {
			from++
		}
		most = max(most, i-from+1)
	}
	s.Saturated = float64(most) > capacity*minute && most > 20
}
