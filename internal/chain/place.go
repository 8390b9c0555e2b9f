package chain

import "myip.co.kr/hearth"

// leaveOut remembers that an endpoint is out. It stays in the list until takeOut, so that it finds its place.
func (b *builder) leaveOut(e *hearth.Endpoint, why *out) {
	if b.dropAt == nil {
		b.dropAt = make([]int32, len(b.Views.Catalog.Endpoints))
	}
	b.drops = append(b.drops, hearth.Drop{
		Model: e.Model.ID, Provider: e.Provider.Slug, Endpoint: e.ID, Stage: why.stage, Reason: why.reason, Skip: why.skip,
	})
	b.dropAt[e.Index] = int32(len(b.drops))
	if why.stage != hearth.StageHealth {
		return
	}
	if e.Stale {
		b.failed.stale = e.Provider.Currency
		return
	}
	b.failed.cooling(b.health(e))
}

func (b *builder) dropped(e *hearth.Endpoint) bool { return b.dropAt != nil && b.dropAt[e.Index] != 0 }

// takeOut takes the endpoints that were filtered out of the list. Each keeps the place it would have had: the number of
// candidates before it.
func (b *builder) takeOut() {
	list := b.chain.Candidates
	b.chain.Drops = append(make([]hearth.Drop, 0, len(b.chain.Drops)+len(b.drops)+1), b.chain.Drops...)
	n := 0
	for _, c := range list {
		if at := b.dropAt[c.Endpoint.Index]; at != 0 {
			d := b.drops[at-1]
			d.Before = n
			b.chain.Drops = append(b.chain.Drops, d)
			continue
		}
		list[n] = c
		n++
	}
	clear(list[n:])
	b.chain.Candidates = list[:n]
}

// lastResortsLast moves the endpoints in cooldown behind everything else.
func (b *builder) lastResortsLast() {
	n := toBack(b.chain.Candidates, func(c *hearth.Candidate) bool { return c.LastResort })
	for i := range b.chain.Candidates[n:] {
		b.chain.Candidates[n+i].Reason = reasonLastResort
	}
}

// cut keeps the first candidate only: allow_fallbacks is false.
func (b *builder) cut() {
	for _, c := range b.chain.Candidates[1:] {
		e := c.Endpoint
		b.chain.Drops = append(b.chain.Drops, hearth.Drop{
			Model: e.Model.ID, Provider: e.Provider.Slug, Endpoint: e.ID, Stage: hearth.StageCut,
			Reason: "provider.allow_fallbacks is false", Before: 1,
		})
	}
	b.chain.Candidates = b.chain.Candidates[:1]
}

// toBack moves the candidates that back picks behind the others, both in their order, and counts the others.
func toBack(cs []hearth.Candidate, back func(*hearth.Candidate) bool) int {
	var few [16]hearth.Candidate
	moved, n := few[:0], 0
	for i := range cs {
		if back(&cs[i]) {
			moved = append(moved, cs[i])
			continue
		}
		if n != i {
			cs[n] = cs[i]
		}
		n++
	}
	copy(cs[n:], moved)
	return n
}
