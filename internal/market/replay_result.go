package market

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Replayed is what records say of other policies.
type Replayed struct {
	Currency string         `json:"currency"`
	From     time.Time      `json:"from"` // arrival of the first request
	To       time.Time      `json:"to"`   // and of the last
	Requests int            `json:"requests"`
	Replayed int            `json:"replayed"` // whose choice was made anew; the others count as they were
	Carried  map[string]int `json:"carried"`  // those others, by why
	Hours    int            `json:"hours"`    // of the 24 of the day (UTC) in which there are replayed ones
	Policies []string       `json:"policies"`
	All      ReplayPart     `json:"all"`
	Models   []ReplayPart   `json:"models"` // by requests, the most first
	Warnings []string       `json:"warnings"`
}

// ReplayPart is what a part of the records says.
type ReplayPart struct {
	Model    string                `json:"model,omitempty"` // "" = all
	Requests int                   `json:"requests"`
	Replayed int                   `json:"replayed"`
	Happened Outcome               `json:"happened"`
	Policies map[string]*Estimated `json:"policies"`
}

// Outcome is what requests came to. Times count from a request's arrival.
type Outcome struct {
	Cost    float64 `json:"cost"`      // of all requests, in the currency
	TTFT    float64 `json:"ttft"`      // mean seconds to the first token, of streams
	TTFTP50 float64 `json:"ttft_p50"`  // its percentiles
	TTFTP95 float64 `json:"ttft_p95"`  //
	E2E     float64 `json:"e2e"`       // output tokens over all seconds of complete answers
	Failed  float64 `json:"failed"`    // failed tries per request, 429s too
	User    float64 `json:"user_cost"` // price and waiting of a replayed request, at the value of time that was in force
}

// Estimated is what requests would have come to under a policy.
type Estimated struct {
	Cost    Estimate `json:"cost"`
	TTFT    Estimate `json:"ttft"`
	TTFTP50 float64  `json:"ttft_p50"`
	TTFTP95 float64  `json:"ttft_p95"`
	E2E     Estimate `json:"e2e"`
	Failed  Estimate `json:"failed"`
	User    Estimate `json:"user_cost"`
	// Overlap is which part of the policy's choices the traffic could have made, 0 to 1. Of the others there are
	// expectations alone.
	Overlap float64 `json:"overlap"`
	// Moved is which part of the replayed requests the policy would have sent elsewhere, 0 to 1.
	Moved float64 `json:"moved"`
	// Sample is how many requests the weighted ones are worth.
	Sample float64 `json:"effective_sample"`
	// Clipped is which part of the weight lies on records whose weight was cut off, 0 to 1.
	Clipped   float64        `json:"clipped"`
	Endpoints []ReplayedSpot `json:"endpoints"` // by share, the largest first
}

// Estimate is a figure with the bounds between which it is to be expected: what chance does in 19 of 20 cases, and beside it
// what a policy would have changed itself, see replayFurther.
type Estimate struct {
	Value  float64  `json:"value"`
	Error  *float64 `json:"standard_error"`   // by chance alone; null = there are too few records to say
	Low    *float64 `json:"low"`              // likewise
	High   *float64 `json:"high"`             //
	Change float64  `json:"change"`           // by what part it is above what happened: -0.5 is half
	IPS    *float64 `json:"weighted_records"` // by the weighted records alone (self-normalised), without expectations; null = there are none
}

// ReplayedSpot is an endpoint under a policy.
type ReplayedSpot struct {
	Endpoint string  `json:"endpoint"`
	Was      float64 `json:"was"`   // its share of the replayed requests
	Share    float64 `json:"share"` // under the policy
	Tried    int     `json:"tried"` // times it was chosen
}

// ErrNothingToReplay says that no record can be replayed.
type ErrNothingToReplay struct{ Requests int }

func (e ErrNothingToReplay) Error() string {
	return fmt.Sprintf("of %d records none says how its endpoint was drawn; records do where routing goes by cost (routing.by: cost), the request leaves the order to the gateway and a model has two external endpoints of one priority", e.Requests)
}

// Result sums up what was added.
func (r *Replay) Result() (*Replayed, error) {
	out := &Replayed{
		Currency: r.currency, From: r.from, To: r.to, Requests: r.rows, Carried: r.carried, Hours: bits.OnesCount32(r.hours), Models: []ReplayPart{}, Warnings: []string{},
	}
	for _, p := range r.policies {
		out.Policies = append(out.Policies, p.name)
	}
	models := slices.Clone(r.models)
	slices.SortFunc(models, func(a, b *replayModel) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(a.id, b.id))
	})
	for _, m := range models {
		out.Replayed += m.replayed
		out.Models = append(out.Models, r.part(m.id, []*replayModel{m}))
	}
	if out.Replayed == 0 {
		return nil, ErrNothingToReplay{r.rows}
	}
	out.All = r.part("", models)
	r.warn(out, models)
	return out, nil
}

// figure is one of the figures that an interval is found for.
type figure uint8

const (
	figCost figure = iota
	figTTFT
	figE2E
	figFailed
	figUser
	allFigures
)

// part sums up models.
func (r *Replay) part(name string, models []*replayModel) ReplayPart {
	p := ReplayPart{Model: name, Policies: map[string]*Estimated{}}
	var wait histogram
	for _, m := range models {
		p.Requests, p.Replayed = p.Requests+m.requests, p.Replayed+m.replayed
		wait.join(&m.wait, 1)
	}
	was := outcomeOf(models, -1, -1)
	p.Happened = Outcome{
		Cost: was[figCost] * float64(p.Requests), TTFT: was[figTTFT], TTFTP50: wait.at(0.5), TTFTP95: wait.at(0.95), E2E: was[figE2E], Failed: was[figFailed], User: was[figUser],
	}
	for k, policy := range r.policies {
		p.Policies[policy.name] = estimated(models, k, p.Requests)
	}
	return p
}

// estimated sums up models under a policy.
func estimated(models []*replayModel, policy, requests int) *Estimated {
	e := &Estimated{Endpoints: []ReplayedSpot{}}
	was, now := outcomeOf(models, -1, -1), outcomeOf(models, policy, -1)
	alone, known := weighted(models, policy)
	deviation, groups := jackknife(models, policy)
	for f, to := range [allFigures]*Estimate{figCost: &e.Cost, figTTFT: &e.TTFT, figE2E: &e.E2E, figFailed: &e.Failed, figUser: &e.User} {
		scale := 1.0
		if figure(f) == figCost {
			scale = float64(requests)
		}
		*to = Estimate{Value: now[f] * scale}
		if was[f] > 0 {
			to.Change = now[f]/was[f] - 1
		}
		if known {
			v := alone[f] * scale
			to.IPS = &v
		}
		if deviation != nil {
			less, more := 0.0, 0.0
			if figure(f) == figCost {
				less, more = caches(models, policy)
			}
			to.within(was[f]*scale, deviation[f]*scale, student(groups-1), less, more)
		}
	}
	var wait histogram
	var mass, unknown, weight, square, clipped, chosen float64
	for _, m := range models {
		wait.join(&m.carried, 1)
		chosen += float64(m.replayed)
		for _, s := range m.spots {
			if l := s.under[policy]; l != nil {
				mass, unknown, weight = mass+l.mass, unknown+l.unknown, weight+l.weight
				square, clipped = square+l.square, clipped+l.clipped
				ratio := &m.ratio
				if s.ratio.total() >= 20 {
					ratio = &s.ratio
				}
				wait.times(&l.expectedWait, ratio)
			}
		}
	}
	e.TTFTP50, e.TTFTP95 = wait.at(0.5), wait.at(0.95)
	e.Overlap = 1 - unknown/math.Max(mass, 1e-9)
	if square > 0 {
		e.Sample = weight * weight / square
	}
	e.Clipped = clipped / math.Max(weight, 1e-9)
	e.spread(models, policy, chosen, mass)
	return e
}

// spread says where the chosen requests went, and where those under a policy would have gone.
func (e *Estimated) spread(models []*replayModel, policy int, chosen, mass float64) {
	for _, m := range models {
		for _, s := range m.spots {
			x := ReplayedSpot{Endpoint: s.id, Was: float64(s.chosen) / math.Max(chosen, 1), Tried: s.chosen}
			if l := s.under[policy]; l != nil {
				x.Share = l.mass / math.Max(mass, 1e-9)
			}
			e.Moved += math.Abs(x.Share-x.Was) / 2
			e.Endpoints = append(e.Endpoints, x)
		}
	}
	slices.SortStableFunc(e.Endpoints, func(a, b ReplayedSpot) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Was, a.Was), cmp.Compare(a.Endpoint, b.Endpoint))
	})
}

// outcomeOf is what models came to under a policy, -1 = as they did, without a group of records, -1 = with all: the cost
// of a request, the mean wait, tokens over seconds, failed tries of a request, and the user's cost of a replayed one.
func outcomeOf(models []*replayModel, policy, without int) (f [allFigures]float64) {
	var n, sum [quantities]float64
	tokens := 0.0
	for _, m := range models {
		for g := range m.groups {
			if g == without {
				continue
			}
			h := &m.groups[g]
			tokens += h.tokens
			for q := range quantities {
				n[q], sum[q] = n[q]+h.n[q], sum[q]+h.sum[q]
			}
		}
		if policy >= 0 {
			d := m.difference(policy, without)
			for q := range quantities {
				sum[q] += d[q]
			}
		}
	}
	return figuresOf(n, sum, tokens)
}

func figuresOf(n, sum [quantities]float64, tokens float64) (f [allFigures]float64) {
	f[figCost] = sum[paid] / math.Max(n[paid], 1)
	f[figTTFT] = max(sum[first]/math.Max(n[first], 1), 0)
	if sum[whole] > 0 {
		f[figE2E] = tokens / sum[whole]
	}
	f[figFailed] = max(sum[spoilt]/math.Max(n[spoilt], 1), 0)
	f[figUser] = sum[burden] / math.Max(n[burden], 1)
	return f
}

// difference is what the replayed requests of a model come to under a policy, less what they came to.
func (m *replayModel) difference(policy, without int) (d [quantities]float64) {
	var all basis
	sums := make([]basis, len(m.spots))
	for i, s := range m.spots {
		for g := range s.base {
			if g != without {
				sums[i].add(&s.base[g])
			}
		}
		all.add(&sums[i])
	}
	for i, s := range m.spots {
		var l lotSums
		if s.under[policy] != nil {
			l = s.under[policy].sums(without)
		}
		for q := range quantities {
			came := sums[i].cameTrue(&all, q)
			d[q] += came*(l.direct[q]-l.expected[q]) + l.got[q] - sums[i].got[q]
		}
	}
	return d
}

func (b *basis) add(o *basis) {
	for q := range quantities {
		b.n[q], b.got[q], b.expected[q] = b.n[q]+o.n[q], b.got[q]+o.got[q], b.expected[q]+o.expected[q]
	}
	b.listed += o.listed
}

// cameTrue is what came over what was expected at an endpoint; where it was chosen rarely, that of its model counts too.
func (b *basis) cameTrue(all *basis, q quantity) float64 {
	if !(all.expected[q] > 0) {
		return 1
	}
	mean := faith * all.expected[q] / all.n[q]
	return (b.got[q] + mean*all.got[q]/all.expected[q]) / (b.expected[q] + mean)
}

func (l *lot) sums(without int) (s lotSums) {
	for g := range l.groups {
		if g == without {
			continue
		}
		o := &l.groups[g]
		s.listed += o.listed
		for q := range quantities {
			s.direct[q], s.weight[q] = s.direct[q]+o.direct[q], s.weight[q]+o.weight[q]
			s.got[q], s.expected[q] = s.got[q]+o.got[q], s.expected[q]+o.expected[q]
		}
	}
	return s
}

// weighted is outcomeOf by the weighted records alone. known is false if there are none.
func weighted(models []*replayModel, policy int) (f [allFigures]float64, known bool) {
	var n, sum [quantities]float64
	tokens := 0.0
	for _, m := range models {
		var chose, got, weight, base [quantities]float64
		for g := range m.groups {
			h := &m.groups[g]
			tokens += h.tokens
			for q := range quantities {
				n[q], sum[q], chose[q] = n[q]+h.n[q], sum[q]+h.sum[q], chose[q]+h.chose[q]
			}
		}
		for _, s := range m.spots {
			for g := range s.base {
				for q := range quantities {
					base[q] += s.base[g].got[q]
				}
			}
			if s.under[policy] == nil {
				continue
			}
			l := s.under[policy].sums(-1)
			for q := range quantities {
				got[q], weight[q] = got[q]+l.got[q], weight[q]+l.weight[q]
			}
		}
		for q := range quantities {
			if weight[q] > 0 {
				known = true
				sum[q] += chose[q]*got[q]/weight[q] - base[q]
			}
		}
	}
	return figuresOf(n, sum, tokens), known
}

// Spots are the endpoints of a part, those first that got, or would have got under some policy, the most.
func (p *ReplayPart) Spots() []ReplayedSpot {
	most := map[string]float64{}
	var list []ReplayedSpot
	for _, e := range p.Policies {
		for _, s := range e.Endpoints {
			if _, ok := most[s.Endpoint]; !ok {
				list = append(list, s)
			}
			most[s.Endpoint] = max(most[s.Endpoint], s.Share, s.Was)
		}
	}
	slices.SortFunc(list, func(a, b ReplayedSpot) int {
		return cmp.Or(cmp.Compare(most[b.Endpoint], most[a.Endpoint]), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return list
}
