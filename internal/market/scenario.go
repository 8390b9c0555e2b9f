package market

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"myip.co.kr/hearth/internal/routing"
)

// Scenario is a market with what comes to it.
type Scenario struct {
	Name      string
	Endpoints int
	Shape     Shape
	Load      Workload
	Seconds   float64
	Tight     float64 // scarcity of room: 1 = as in a market in balance, less = scarcer
	Storm     float64 // how much more often endpoints fail than their uptime says, 1 = as it says
	// Dominant: one very cheap endpoint holds most of the room and is bad.
	Dominant bool
	// PriceCut: in the middle the dearest endpoint halves the lowest price.
	PriceCut bool
	// Newcomer: the last endpoint is not there before the middle.
	Newcomer bool
	// Lists are the market and Arrivals what comes to it, in place of what is drawn: somebody's own. Nil is drawn.
	Lists    []Listing
	Arrivals []Arrival
}

// Run plays a scenario under a policy. A policy is a name, or routing-cost@0.1 for a value of time of its own. The same
// scenario and seed is the same world to every policy.
func Run(ctx context.Context, s *Scenario, policy string, seed uint64, o routing.Options) (Figures, error) {
	w, list, seed := s.world(seed)
	return w.play(ctx, list, policy, seed, o)
}

// world is the market of a scenario with what comes to it. No two scenarios have the same for the same seed.
func (s *Scenario) world(seed uint64) (*bazaar, []Listing, uint64) {
	name := fnv.New64a()
	name.Write([]byte(s.Name))
	seed = mix(seed ^ name.Sum64())
	r := rand.New(rand.NewPCG(seed, 1))
	list := slices.Clone(s.Lists)
	if list == nil {
		list = s.Shape.Draw(r, s.Endpoints)
		for i := range list {
			list[i].Uptime = 1 - min(0.3, (1-list[i].Uptime)*max(s.Storm, 1))
		}
	}
	arrivals := s.Arrivals
	if arrivals == nil {
		arrivals = s.Load.Draw(r, s.Seconds)
	}
	w := newBazaar(seed, list, arrivals, s.Seconds, max(s.Tight, 0.01))
	s.arrange(w, list)
	return w, list, seed
}

// arrange makes a drawn world what its scenario says.
func (s *Scenario) arrange(w *bazaar, list []Listing) {
	half := s.Seconds / 2
	if s.Dominant {
		total := 0.0
		for _, p := range w.places {
			total += p.room
		}
		l, t := &list[0], w.places[0].truth
		l.In, l.Out, l.Cache, l.Uptime = cheapest(list)*0.5, cheapest(list)*1.5, cheapest(list)*0.1, 0.9
		t.Listing, t.room, t.queue, t.bucket, t.errors = *l, max(t.room, 1.5*total), int(0.1*total), 0, 0.06
	}
	if s.Newcomer && len(list) > 1 {
		w.known = len(list) - 1
		w.script = append(w.script, change{half, func(w *bazaar) error {
			w.known = len(list)
			return w.buyer.listed(list, w.now)
		}})
	}
	if s.PriceCut {
		least := cheapest(list)
		w.script = append(w.script, change{half, func(w *bazaar) error {
			dear := slices.MaxFunc(list, func(a, b Listing) int { return cmp.Compare(a.blended(), b.blended()) })
			i := slices.Index(list, dear)
			list[i].In, list[i].Out, list[i].Cache = least*0.5, least*1.5, least*0.1
			w.places[i].Listing = list[i]
			return w.buyer.listed(list, w.now)
		}})
	}
}

// cheapest is the lowest prompt price of a market.
func cheapest(list []Listing) float64 {
	least := list[0].In
	for i := range list {
		least = min(least, list[i].In)
	}
	return least
}

func (w *bazaar) play(ctx context.Context, list []Listing, name string, seed uint64, o routing.Options) (Figures, error) {
	w.tally = newTally(list, w.arrivals, w.end)
	p, err := newBuyer(name, list[:w.known], len(w.arrivals), seed, o)
	if err != nil {
		return Figures{}, err
	}
	w.buyer = p
	w.run(ctx)
	return w.tally.figures(), w.err
}

// CheckPolicy returns what is wrong with a policy's name.
func CheckPolicy(name string) error {
	base, kappa, own := strings.Cut(name, "@")
	if !slices.Contains(Policies(), base) {
		return fmt.Errorf("there is no policy %q; there are %s", name, strings.Join(Policies(), ", "))
	}
	if !own {
		return nil
	}
	if base != RoutingCost {
		return fmt.Errorf("policy %q: only %s has a value of time", name, RoutingCost)
	}
	if k, err := strconv.ParseFloat(kappa, 64); err != nil || !(k >= 0 && k <= MaxKappa) {
		return fmt.Errorf("policy %q: its value of time must be from 0 to %d, as in %s@0.1", name, MaxKappa, RoutingCost)
	}
	return nil
}

// MaxKappa is the most that a value of time can be. At the least, 0, price and failed tries alone count.
const MaxKappa = 100

// Policies are the names of all, that of the gateway first.
func Policies() []string {
	return []string{RoutingCost, ByPrice, PriceCooldown, InverseSquare, LeastLatency, P2CEWMA, Prequal, Random}
}

// valueOfTime is a value of time as an option of the router, to which 0 is the default and what is below it none.
func valueOfTime(kappa float64) float64 {
	if kappa == 0 {
		return -1
	}
	return kappa
}

func newBuyer(name string, list []Listing, arrivals int, seed uint64, o routing.Options) (buyer, error) {
	if err := CheckPolicy(name); err != nil {
		return nil, err
	}
	base, kappa, own := strings.Cut(name, "@")
	if base != RoutingCost {
		return newRule(base, list, seed)
	}
	if own {
		k, _ := strconv.ParseFloat(kappa, 64) // it was checked
		o.Kappa = valueOfTime(k)
	}
	return newRouted(list, arrivals, seed, o)
}
