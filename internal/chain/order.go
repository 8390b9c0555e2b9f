package chain

import (
	"cmp"
	"slices"

	"myip.co.kr/hearth"
)

// Why a candidate stands where it stands: constants, so that saying it costs nothing.
const (
	reasonPriority   = "priority"
	reasonPrice      = "priority, then expected price"
	reasonOpen       = "priority, behind those that declare to take what the request needs"
	reasonLocal      = "priority, then slot state"
	reasonResident   = "resident on its node"
	reasonStarting   = "already starting on its node"
	reasonOrder      = "provider.order"
	reasonStays      = "provider.order, and the session is here"
	reasonMade       = "made the encrypted reasoning of the history"
	reasonLastResort = "in cooldown: the last resort"
	reasonSlow       = "misses provider.preferred_min_throughput"
	reasonLate       = "misses provider.preferred_max_latency"
)

// orderTier sorts endpoints of one model and one priority. Local ones follow slot state and are never ranked by money;
// external ones are ranked. Local and external endpoints of equal priority keep local ones in front. fixed: the caller
// chose an order, so nothing is drawn.
func (b *builder) orderTier(tier []hearth.Candidate, fixed bool) {
	if len(tier) < 2 && (b.Rank == nil || fixed) {
		return
	}
	locals := localsFirst(tier)
	if own := tier[:locals]; len(own) > 1 {
		b.orderLocal(own)
	}
	if ext := tier[locals:]; len(ext) > 0 {
		b.orderExternal(ext, fixed)
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

// orderExternal ranks the usable endpoints of an external tier. A request that needs tools, a response format or media
// goes first to those that declare to take it; the others are not skipped, and follow by expected price. What was filtered
// out, and what is only a last resort, takes the place that its expected price gives it.
func (b *builder) orderExternal(ext []hearth.Candidate, fixed bool) {
	use := ext
	if b.dropAt != nil || b.cooled {
		use = ext[:toBack(ext, func(c *hearth.Candidate) bool { return c.LastResort || b.dropped(c.Endpoint) })]
	}
	if len(use) > 1 || len(use) == 1 && b.Rank != nil && !fixed {
		front := len(use)
		if b.needs || b.bars { // who is behind these anyway has no part in the draw
			if n := toBack(use, b.behind); n > 0 {
				front = n
			}
		}
		b.rank(use[:front], fixed)
		b.rank(use[front:], true)
		for i := range use[front:] {
			use[front+i].Reason = reasonOpen
		}
	}
	for n := len(use); n < len(ext); n++ {
		c := ext[n]
		i := slices.IndexFunc(ext[:n], func(o hearth.Candidate) bool { return b.compareExternal(&c, &o) < 0 })
		if i >= 0 {
			copy(ext[i+1:n+1], ext[i:n])
			ext[i] = c
		}
	}
}

// behind says whether a candidate stands behind the others of its tier, whatever it costs.
func (b *builder) behind(c *hearth.Candidate) bool {
	return b.needs && !b.declares(c.Endpoint) || b.bars && b.misses(c.Endpoint) != ""
}

// rank orders usable endpoints of an external tier; fixed: by expected price. One alone is ranked too, for what it is
// expected to cost is told of it as of others.
func (b *builder) rank(use []hearth.Candidate, fixed bool) {
	if b.Rank != nil && !fixed && len(use) > 0 {
		b.Rank(use)
		return
	}
	b.sortByPrice(use)
	for i := range use {
		use[i].Reason = reasonPrice
	}
}

// compareExternal orders two endpoints of an external tier as it is ordered without a rank of its own.
func (b *builder) compareExternal(x, y *hearth.Candidate) int {
	if b.needs {
		if dx, dy := b.declares(x.Endpoint), b.declares(y.Endpoint); dx != dy {
			if dx {
				return -1
			}
			return 1
		}
	}
	return cmp.Or(cmp.Compare(b.expected(x), b.expected(y)), compareSlugs(x.Endpoint, y.Endpoint))
}

// orderLocal orders the same model on several own nodes: ready with a free place, ready by expected wait, starting by
// what is left of the load, asleep on a free node, asleep behind another model, failed.
func (b *builder) orderLocal(own []hearth.Candidate) {
	slices.SortStableFunc(own, func(x, y hearth.Candidate) int {
		cx, wx := b.slotRank(x.Endpoint.Slot)
		cy, wy := b.slotRank(y.Endpoint.Slot)
		return cmp.Or(cmp.Compare(cx, cy), cmp.Compare(wx, wy))
	})
	for i := range own {
		own[i].Reason = reasonLocal
	}
}

const (
	placeFree   = iota // ready, with a free place
	placeQueue         // ready
	placeLoad          // starting
	placeAsleep        // on a free node
	placeBehind        // behind another model, or leaving
	placeFailed
)

// slotRank is the class of a slot's state and, within ready and starting slots, what is to be waited for: work per place
// that stands before the request, or seconds of loading.
func (b *builder) slotRank(s *hearth.Slot) (class int, wait float64) {
	if s.Index >= len(b.Views.Slots) {
		return placeAsleep, 0
	}
	v := &b.Views.Slots[s.Index]
	if v.Unknown || v.Drained || v.Foreign || !v.Paused.IsZero() || !v.Shut.IsZero() { // it lets nobody in
		return placeFailed, 0
	}
	switch v.State {
	case hearth.SlotReady:
		n := places(s, v)
		if v.Inflight < n {
			return placeFree, 0
		}
		return placeQueue, float64(v.Inflight+v.Waiting) / float64(n)
	case hearth.SlotStarting:
		return placeLoad, v.LoadRest.Seconds()
	case hearth.SlotFailed:
		return placeFailed, 0
	}
	if v.OtherBusy || v.State == hearth.SlotDraining {
		return placeBehind, 0
	}
	return placeAsleep, 0
}

// places is how many requests an engine takes at once: as configured, else as it says, else one.
func places(s *hearth.Slot, v *hearth.SlotView) int {
	if s.Concurrency > 0 {
		return s.Concurrency
	}
	return max(v.Facts.Parallel, 1)
}

// residentFirst moves, within each run of adjacent local candidates that vie for a device, the one whose slot is ready
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

// localRun is the length of the run that cs begins with of local candidates that vie for a device with the first, 0 if that
// is none.
func localRun(cs []hearth.Candidate) int {
	if cs[0].Endpoint.Slot == nil {
		return 0
	}
	n := 1
	for n < len(cs) && cs[n].Endpoint.Slot != nil && cs[0].Endpoint.Slot.Vies(cs[n].Endpoint.Slot) {
		n++
	}
	return n
}

func promote(run []hearth.Candidate, slots []hearth.SlotView) {
	best, reason := -1, ""
	for i, c := range run {
		if i := c.Endpoint.Slot.Index; i >= len(slots) || slots[i].Unknown {
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
	if best <= 0 { // none, or it stands there anyway and for the reason it has
		return
	}
	c := run[best]
	copy(run[1:best+1], run[:best])
	c.Reason = reason
	run[0] = c
}
