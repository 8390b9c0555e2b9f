package market

import (
	"fmt"
	"strconv"
	"strings"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// ReplayPolicies are the names of the policies that records can be replayed under. routing-cost is as it was, and
// routing-cost@0.1 with that value of time for every request.
func ReplayPolicies() []string { return []string{ByPrice, InverseSquare, RoutingCost} }

// CheckReplayPolicy returns what is wrong with a policy's name.
func CheckReplayPolicy(name string) error {
	_, err := newReplayPolicy(name)
	return err
}

// replayPolicy is a way to choose from a recorded tier.
type replayPolicy struct {
	name   string
	base   string
	kappa  float64 // of routing-cost, 0 = the recorded one; a hair above it is 0
	spread []float64
}

func newReplayPolicy(name string) (*replayPolicy, error) {
	base, _, own := strings.Cut(name, "@")
	switch base {
	case ByPrice, InverseSquare, RoutingCost:
	default:
		return nil, fmt.Errorf("records cannot be replayed under %.60q; they can be under %s and routing-cost@0.1, with any value of time", name, strings.Join(ReplayPolicies(), ", "))
	}
	if err := CheckPolicy(name); err != nil {
		return nil, err
	}
	p := &replayPolicy{name: name, base: base}
	if own {
		_, kappa, _ := strings.Cut(name, "@")
		p.kappa, _ = strconv.ParseFloat(kappa, 64) // it was checked
		p.kappa = max(p.kappa, 1e-9)
	}
	return p, nil
}

// asDrawn says whether the policy is that under which the records were made.
func (p *replayPolicy) asDrawn() bool { return p.base == RoutingCost && p.kappa == 0 }

// chances finds how likely each candidate of a tier is chosen first. warm says how likely the cache of the request's
// session is at each.
func (p *replayPolicy) chances(t *hearth.Routed, warm []float64, into []routing.Chance) {
	switch p.base {
	case RoutingCost:
		routing.Replay(t, p.kappa, warm, into)
	case ByPrice:
		clear(into)
		i := cheapestOf(t)
		into[i] = routing.Chance{Share: 1, Warm: warm[i]}
	case InverseSquare:
		p.inverse(t, warm, into)
	}
}

// listed is what a candidate's list says that the request costs.
func listed(c *hearth.RoutedTerms) float64 {
	if c.List > 0 {
		return c.List
	}
	return c.Price
}

// cheapestOf is the cheapest candidate by its list of those in use, else of all.
func cheapestOf(t *hearth.Routed) int {
	best := 0
	for i := range t.Candidates {
		a, b := &t.Candidates[i], &t.Candidates[best]
		if ua, ub := routing.Usable(a), routing.Usable(b); ua != ub {
			if ua {
				best = i
			}
			continue
		}
		if la, lb := listed(a), listed(b); la < lb || la == lb && a.Endpoint < b.Endpoint {
			best = i
		}
	}
	return best
}

// inverse draws by the inverse square of prices.
func (p *replayPolicy) inverse(t *hearth.Routed, warm []float64, into []routing.Chance) {
	p.spread = p.spread[:0]
	sum, some := 0.0, false
	for i := range t.Candidates {
		some = some || routing.Usable(&t.Candidates[i])
	}
	for i := range t.Candidates {
		c, w := &t.Candidates[i], 0.0
		if routing.Usable(c) || !some {
			w = inverseSquare(listed(c))
		}
		p.spread = append(p.spread, w)
		sum += w
	}
	for i, w := range p.spread {
		into[i] = routing.Chance{Share: w / sum, Warm: w / sum * warm[i]}
	}
}
