package chain

import (
	"fmt"
	"math"
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// Outlook is what is expected of a request beyond what was measured. A nil function knows nothing.
type Outlook struct {
	// Of tells of an external endpoint; ok is false if nothing is known of it.
	Of func(*hearth.Endpoint) (f Forecast, ok bool)
	// Waiting tells what waiting for an answer of a model is worth; ok is false if nobody knows.
	Waiting func(*hearth.Model) (w Waiting, ok bool)
}

// Forecast is what is expected of a request at an external endpoint.
type Forecast struct {
	Cost  float64 // what a good answer costs with the wait for it, in the billing currency
	First float64 // seconds to the first token
	Free  bool    // nothing keeps the request out: it is not at its cap, not out, not flagged
}

// Waiting is what the wait for an answer costs, in the billing currency per second.
type Waiting struct {
	First    float64 // before the first token
	Rest     float64 // from there on
	Out      float64 // tokens that the answer is expected to have
	PerToken float64 // seconds that each takes at a typical endpoint of the model
}

// usualFirst is how long an external endpoint takes to the first token of which nothing is known, in seconds.
const usualFirst = 1.2

// tierMode lets own slots and external endpoints of a model vie as the operator says. mine are ordered by priority and
// within their tiers; what was filtered out stands among them yet, and keeps its place.
func (b *builder) tierMode(m *hearth.Model, mine []hearth.Candidate) {
	switch m.TierMode {
	case hearth.TierSpill:
		b.spill(mine, m.SpillAfter)
	case hearth.TierCost:
		b.compete(m, mine)
	case hearth.TierStrict:
	}
}

// spill moves each slot that would keep a request waiting behind the next tier, and on behind further ones, as long as the
// best endpoint there is expected to be faster by more than after.
func (b *builder) spill(mine []hearth.Candidate, after time.Duration) {
	for i := len(mine) - 1; i >= 0; i-- {
		c := mine[i]
		first, ok := b.slotFirst(&c)
		if !ok {
			continue
		}
		to, than := i, 0.0
		for from := i + 1; from < len(mine); {
			end := from + tierOf(mine[from:])
			if peers(&c, &mine[from]) {
				from = end
				continue
			}
			best := b.soonest(mine[from:end])
			if math.IsInf(best, 1) {
				from = end
				continue
			}
			if first <= best+after.Seconds() {
				break
			}
			from, to, than = end, end-1, best
		}
		if to == i {
			continue
		}
		copy(mine[i:to], mine[i+1:to+1])
		c.Reason = fmt.Sprintf("spilled: its first token is expected in %s, in %s at the tier before it", seconds(first), seconds(than))
		c.Spilled = b.asleep(c.Endpoint.Slot)
		mine[to] = c
	}
}

// tierOf is how many of the first candidates share a priority and are all slots, or all external endpoints.
func tierOf(cs []hearth.Candidate) int {
	n := 1
	for n < len(cs) && peers(&cs[0], &cs[n]) {
		n++
	}
	return n
}

func peers(x, y *hearth.Candidate) bool {
	return x.Endpoint.Priority == y.Endpoint.Priority && x.Endpoint.Local() == y.Endpoint.Local()
}

// soonest is in how many seconds the best of the candidates is expected to give its first token; infinite if none of them
// can serve the request now.
func (b *builder) soonest(tier []hearth.Candidate) float64 {
	best := math.Inf(1)
	for i := range tier {
		if first, ok := b.slotFirst(&tier[i]); ok {
			best = min(best, first)
		} else if first, ok := b.externalFirst(&tier[i]); ok {
			best = min(best, first)
		}
	}
	return best
}

// slotFirst is in how many seconds a slot is expected to give its first token: when the request has its place, and what was
// measured from there on. It is not ok for what is no slot, was filtered out, or lets nobody in, which is passed over at
// once wherever it stands: so does a slot elsewhere of whose machine nothing was heard for two seconds.
func (b *builder) slotFirst(c *hearth.Candidate) (secs float64, ok bool) {
	s := c.Endpoint.Slot
	if s == nil || s.Index >= len(b.Views.Slots) || b.dropped(c.Endpoint) {
		return 0, false
	}
	if class, _ := b.slotRank(s); class == placeFailed {
		return 0, false
	}
	v := &b.Views.Slots[s.Index]
	return max(v.WaitRest, v.LoadRest).Seconds() + b.measuredSpeed(c.Endpoint).Latency.P50, true
}

// externalFirst is in how many seconds an external endpoint is expected to give its first token; not ok if it cannot have
// the request now.
func (b *builder) externalFirst(c *hearth.Candidate) (secs float64, ok bool) {
	if c.Endpoint.Local() || c.LastResort || b.dropped(c.Endpoint) {
		return 0, false
	}
	if b.Outlook.Of != nil {
		if f, known := b.Outlook.Of(c.Endpoint); known {
			return f.First, f.Free
		}
	}
	if p50 := b.speed(c.Endpoint).Latency.P50; p50 > 0 {
		return p50, true
	}
	return usualFirst, true
}

// measuredSpeed is what was last measured at an endpoint, however long ago: a slot's engine does not change.
func (b *builder) measuredSpeed(e *hearth.Endpoint) (s hearth.EndpointSpeed) {
	if e.Index < len(b.Views.Speeds) {
		s = b.Views.Speeds[e.Index]
	}
	return s
}

// asleep says whether a slot has to be started before it can serve anybody, and nobody has begun to.
func (b *builder) asleep(s *hearth.Slot) bool {
	class, _ := b.slotRank(s)
	return class == placeAsleep || class == placeBehind
}

// own is a slot that vies with external endpoints.
type own struct {
	hearth.Candidate
	cost  float64 // its price, if it has one, and what the wait costs
	awake float64 // the same, were it up
}

// compete puts each slot before the first external endpoint that costs as much or more: what a good answer costs there with
// the wait for it. The external endpoints stay in their order; the one that was drawn for the first place of its tier
// stands for the cheapest of it. Slots that let nobody in stay in front, where they are passed over at once.
func (b *builder) compete(m *hearth.Model, mine []hearth.Candidate) {
	if b.Outlook.Of == nil || b.Outlook.Waiting == nil {
		return
	}
	w, ok := b.Outlook.Waiting(m)
	if !ok {
		return
	}
	var slots []own
	var others []hearth.Candidate
	n := 0
	for i := range mine {
		switch first, ok := b.slotFirst(&mine[i]); {
		case ok:
			slots = append(slots, b.ownCost(&mine[i], first, &w))
		case mine[i].Endpoint.Local() && !b.dropped(mine[i].Endpoint):
			mine[n] = mine[i] // those read already are kept elsewhere
			n++
		default:
			others = append(others, mine[i])
		}
	}
	slices.SortStableFunc(slots, func(x, y own) int {
		switch {
		case x.cost < y.cost:
			return -1
		case x.cost > y.cost:
			return 1
		}
		return 0
	})
	b.merge(mine[n:n], slots, others)
}

// ownCost is what a request costs at a slot: its price, and the wait at the model's value of time.
func (b *builder) ownCost(c *hearth.Candidate, first float64, w *Waiting) own {
	prompt, _ := b.prompt(c.Endpoint)
	price := c.Endpoint.Expected(b.priced(), prompt, int(w.Out), b.Request.Images)
	s := b.measuredSpeed(c.Endpoint)
	rest := w.Out * w.PerToken
	if s.Throughput.P50 > 0 { // end to end: what the first token took is in it
		rest = max(w.Out/s.Throughput.P50-s.Latency.P50, 0)
	}
	load := b.Views.Slots[c.Endpoint.Slot.Index].LoadRest.Seconds()
	return own{Candidate: *c, cost: price + w.First*first + w.Rest*rest, awake: price + w.First*(first-load) + w.Rest*rest}
}

// merge writes slots and external endpoints into to, which is as long as both together.
func (b *builder) merge(to []hearth.Candidate, slots []own, others []hearth.Candidate) {
	cheapest := math.Inf(1) // of all
	for i := range others {
		cheapest = min(cheapest, b.externalCost(&others[i]))
	}
	first, second := true, false // of its tier is the next external endpoint; an external one stands in front already
	for i := range others {
		first = first || i > 0 && others[i-1].Endpoint.Priority != others[i].Endpoint.Priority
		if b.dropped(others[i].Endpoint) {
			to = append(to, others[i])
			continue
		}
		than := b.externalCost(&others[i])
		if first {
			than = b.lowest(others[i:])
		}
		for len(slots) > 0 && slots[0].cost <= than {
			to, slots = append(to, b.placed(&slots[0], second, cheapest)), slots[1:]
		}
		to = append(to, others[i])
		first, second = false, true
	}
	for i := range slots {
		to = append(to, b.placed(&slots[i], second, cheapest))
	}
}

// placed is a slot with why it stands where it does. cheapest is what the cheapest external endpoint costs.
func (b *builder) placed(s *own, second bool, cheapest float64) hearth.Candidate {
	at := "own slot at " + b.amount(s.cost) + " " + b.shown().Currency + " with its wait: "
	s.Reason = at + "no external endpoint behind it costs less"
	if second {
		s.Reason = at + "those before it cost less"
		s.Spilled = b.asleep(s.Endpoint.Slot) && s.awake <= cheapest
	}
	return s.Candidate
}

// lowest is what the cheapest endpoint of the tier costs that the others begin with.
func (b *builder) lowest(others []hearth.Candidate) float64 {
	lowest := math.Inf(1)
	for i := range others {
		if others[i].Endpoint.Priority != others[0].Endpoint.Priority {
			break
		}
		lowest = min(lowest, b.externalCost(&others[i]))
	}
	return lowest
}

// externalCost is infinite for an endpoint that cannot have the request now.
func (b *builder) externalCost(c *hearth.Candidate) float64 {
	if c.LastResort || b.dropped(c.Endpoint) {
		return math.Inf(1)
	}
	if f, ok := b.Outlook.Of(c.Endpoint); ok && f.Free {
		return f.Cost
	}
	return math.Inf(1)
}

// seconds prints a time for people.
func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }
