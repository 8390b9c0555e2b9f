package relay

import (
	"hash/maphash"
	"slices"
	"sync"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// choices is how the tiers of a request were ordered, for its record. Its memory is used again when the request is over.
type choices struct {
	tiers      []hearth.Routed
	candidates []hearth.RoutedTerms // of all tiers, those of one behind those of the other
}

var choicesPool = sync.Pool{New: func() any { return new(choices) }}

// maxPooledChoices is how many candidates' terms a kept buffer holds at most.
const maxPooledChoices = 64

// scratches hold the terms of a tier while it is ordered.
var scratches = sync.Pool{New: func() any { return new([]routing.Terms) }}

// scratch is room for the terms of n candidates. It is to be put back into scratches.
func scratch(n int) *[]routing.Terms {
	box := scratches.Get().(*[]routing.Terms)
	*box = slices.Grow((*box)[:0], n)[:n]
	return box
}

// note keeps for the record how the tier of e was ordered. why is the terms of its candidates in their order, nil for one
// that was ordered anew after a failure.
func (x *routed) note(r *Relay, e *hearth.Endpoint, d *routing.Decision, why []routing.Terms) {
	if d.Place < 0 { // the router knows none of them
		return
	}
	if x.choices == nil {
		x.choices = choicesPool.Get().(*choices)
	}
	k, c := x.choices, r.catalog
	t := hearth.Routed{
		Model: e.Model.ID, Priority: e.Priority, Endpoint: c.Endpoints[d.Endpoint].ID, Reason: string(d.Reason), Share: d.Share, Kappa: d.Kappa, Snapshot: d.Snapshot,
		Session: r.mark(x.sessionOf(e.Model)),
	}
	if why != nil {
		from := len(k.candidates)
		cut := cutOf(why)
		for i := range why {
			if i < hearth.MaxRouted-1 || i == cut {
				w := &why[i]
				k.candidates = append(k.candidates, w.Recorded(c.Endpoints[w.Endpoint].ID))
			}
		}
		t.Candidates = k.candidates[from:len(k.candidates):len(k.candidates)]
	}
	k.tiers = append(k.tiers, t)
}

// mark is what records call a session: the same for its requests up to the end of the program, and nothing can be told
// from it.
func (r *Relay) mark(session uint64) uint64 {
	if session == 0 {
		return 0
	}
	return maphash.Comparable(r.marks, session)>>12 | 1 // a number that JSON holds exactly
}

// cutOf is the place of the last candidate that is recorded: that of the cheapest by price, or the next by routing cost.
func cutOf(why []routing.Terms) int {
	last := hearth.MaxRouted - 1
	if len(why) <= hearth.MaxRouted {
		return last
	}
	cheapest := 0
	for i := range why {
		if why[i].List < why[cheapest].List {
			cheapest = i
		}
	}
	return max(last, cheapest)
}

// noted are the tiers that were ordered, in turn; nil = none was. They are to be read before forget.
func (x *routed) noted() []hearth.Routed {
	if x.choices == nil {
		return nil
	}
	return x.choices.tiers
}

// forget gives the memory of the choices back.
func (x *routed) forget() {
	k := x.choices
	if x.choices = nil; k == nil || cap(k.candidates) > maxPooledChoices {
		return
	}
	clear(k.tiers) // so that nothing of a configuration that is no more is kept
	clear(k.candidates)
	k.tiers, k.candidates = k.tiers[:0], k.candidates[:0]
	choicesPool.Put(k)
}
