package market

import (
	"fmt"
	"math/rand/v2"

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
	Saturated bool    // there is less room than is bought for
	// Dominant: one very cheap endpoint holds most of the room and is bad.
	Dominant bool
	// PriceCut: in the middle the dearest endpoint halves the lowest price.
	PriceCut bool
	// Newcomer: the last endpoint is not there before the middle.
	Newcomer bool
}

// Run plays a scenario under a policy.
func Run(s *Scenario, policy string, seed uint64, o routing.Options) (Figures, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	list := s.Shape.Draw(r, s.Endpoints)
	for i := range list {
		list[i].Uptime = 1 - min(0.3, (1-list[i].Uptime)*max(s.Storm, 1))
	}
	arrivals := s.Load.Draw(r, s.Seconds)
	w := newBazaar(seed, list, arrivals, s.Seconds, max(s.Tight, 0.01))
	s.arrange(w, list)
	return w.play(list, policy, seed, o)
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
		t.Listing, t.room, t.queue, t.errors = *l, max(t.room, 1.5*total), int(0.1*total), 0.06
	}
	if s.Newcomer {
		w.places[len(list)-1].forcedOutage = episode{until: half, size: 1}
	}
	if s.PriceCut {
		dear := len(list) - 1
		w.script = append(w.script, change{half, func(w *bazaar) error {
			p := w.places[dear]
			p.In, p.Out, p.Cache = cheapest(list)*0.5, cheapest(list)*1.5, cheapest(list)*0.1
			return w.buyer.priced(dear, p.Listing, w.now)
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

func (w *bazaar) play(list []Listing, name string, seed uint64, o routing.Options) (Figures, error) {
	w.tally = newTally(list, w.arrivals, w.end)
	p, err := newBuyer(name, list, len(w.arrivals), seed, o)
	if err != nil {
		return Figures{}, err
	}
	w.buyer = p
	w.run()
	return w.tally.figures(), w.err
}

func newBuyer(name string, list []Listing, arrivals int, seed uint64, o routing.Options) (buyer, error) {
	switch name {
	case RoutingCost:
		return newRouted(list, arrivals, seed, o)
	case ByPrice, PriceCooldown, InverseSquare, LeastLatency, P2CEWMA, Prequal, Random:
		return newRule(name, list, seed)
	}
	return nil, fmt.Errorf("there is no policy %q", name)
}
