package chain

import (
	"cmp"
	"slices"

	"myip.co.kr/hearth"
)

// Why a candidate stands where it stands: constants, so that saying it costs nothing.
const (
	reasonPriority = "priority"
	reasonPrice    = "priority, then expected price"
	reasonLocal    = "priority, then slot state"
	reasonResident = "resident on its node"
	reasonStarting = "already starting on its node"
	reasonOrder    = "provider.order"
	reasonSort     = "provider.sort price"
)

// orderTier sorts candidates of one model and one priority. Local ones follow slot state and are never ranked by
// money; external ones are ranked. Local and external endpoints of equal priority keep local ones in front.
func (b *builder) orderTier(tier []hearth.Candidate, rank Rank) {
	if len(tier) < 2 {
		return
	}
	locals := localsFirst(tier)
	if own := tier[:locals]; len(own) > 1 {
		slices.SortStableFunc(own, func(x, y hearth.Candidate) int {
			return cmp.Compare(b.slotRank(x.Endpoint.Slot), b.slotRank(y.Endpoint.Slot))
		})
		explain(own, reasonLocal)
	}
	if ext := tier[locals:]; len(ext) > 1 && rank != nil {
		rank(ext)
		explain(ext, reasonPrice)
	}
}

// localsFirst moves the local candidates of a tier to its front, both kinds in their order, and counts them.
func localsFirst(tier []hearth.Candidate) int {
	n := 0
	for i, c := range tier {
		if c.Endpoint.Local() {
			copy(tier[n+1:i+1], tier[n:i])
			tier[n] = c
			n++
		}
	}
	return n
}

// slotRank orders the same model on several own nodes: ready with a free place, ready, starting, asleep on a free
// node, asleep behind another model, failed.
func (b *builder) slotRank(s *hearth.Slot) int {
	if s.Index >= len(b.views.Slots) {
		return 3
	}
	v := b.views.Slots[s.Index]
	switch v.State {
	case hearth.SlotReady:
		if v.Inflight < s.Concurrency {
			return 0
		}
		return 1
	case hearth.SlotStarting:
		return 2
	case hearth.SlotFailed:
		return 5
	}
	if v.OtherBusy || v.State == hearth.SlotDraining {
		return 4
	}
	return 3
}

// reorder applies what the caller asked for within one model: order, or else sort.
func (b *builder) reorder(cs []hearth.Candidate) {
	p := &b.req.Prefs
	switch {
	case len(p.Order) > 0:
		slices.SortStableFunc(cs, func(x, y hearth.Candidate) int {
			return cmp.Compare(matchIndex(x.Endpoint, p.Order), matchIndex(y.Endpoint, p.Order))
		})
		for i := range cs {
			if matchesAny(cs[i].Endpoint, p.Order) {
				cs[i].Reason = reasonOrder
			}
		}
	case p.Sort == "price":
		sortByPrice(cs, b.req)
		explain(cs, reasonSort)
	}
}

// sortByPrice sorts by the expected price of this request, ties by tag. Prices are computed once each. What is sorted is
// a list of numbers and not the candidates: these hold pointers, and each move of one costs a write barrier while the
// collector runs. It is an insertion sort because tiers are short; up to 32 candidates it allocates nothing.
func sortByPrice(cs []hearth.Candidate, req *hearth.Request) {
	out := req.MaxTokens
	if out == 0 {
		out = DefaultOutput
	}
	var fewPrices [32]float64
	var fewPlaces [32]int
	var fewOld [32]hearth.Candidate
	price, place, old := fewPrices[:0], fewPlaces[:0], append(fewOld[:0], cs...)
	for i := range old {
		e := old[i].Endpoint
		p := e.Expected(req.Estimate+req.Images*e.ImageTokens, out, req.Images)
		price, place = append(price, p), append(place, i)
		j := i
		for ; j > 0 && (p < price[j-1] || p == price[j-1] && e.Tag < old[place[j-1]].Endpoint.Tag); j-- {
			price[j], place[j] = price[j-1], place[j-1]
		}
		price[j], place[j] = p, i
	}
	for i, was := range place {
		if was != i {
			cs[i] = old[was]
		}
	}
}

// residentFirst moves, within each run of adjacent local candidates on one exclusive node, the one whose slot is ready
// to the front of the run; a starting one counts when none is ready, a draining one never. No candidate crosses an
// external one.
func residentFirst(cs []hearth.Candidate, slots []hearth.SlotView) {
	for i := 0; i < len(cs); {
		run := localRun(cs[i:])
		if run > 1 {
			promote(cs[i:i+run], slots)
		}
		i += max(run, 1)
	}
}

// localRun is the length of the run of local candidates on one exclusive node that cs begins with, 0 if none.
func localRun(cs []hearth.Candidate) int {
	n := 0
	for n < len(cs) && cs[n].Endpoint.Slot != nil && cs[n].Endpoint.Slot.Node.Exclusive &&
		cs[n].Endpoint.Slot.Node == cs[0].Endpoint.Slot.Node {
		n++
	}
	return n
}

func promote(run []hearth.Candidate, slots []hearth.SlotView) {
	best, reason := -1, ""
	for i, c := range run {
		if c.Endpoint.Slot.Index >= len(slots) {
			continue
		}
		switch slots[c.Endpoint.Slot.Index].State {
		case hearth.SlotReady:
			if reason != reasonResident {
				best, reason = i, reasonResident
			}
		case hearth.SlotStarting:
			if best < 0 {
				best, reason = i, reasonStarting
			}
		}
	}
	if best < 0 {
		return
	}
	c := run[best]
	copy(run[1:best+1], run[:best])
	c.Reason = reason
	run[0] = c
}

func explain(cs []hearth.Candidate, reason string) {
	for i := range cs {
		cs[i].Reason = reason
	}
}
