package chain

import "myip.co.kr/hearth"

// Maker is who made what only its maker can read of a request's history: encrypted reasoning, and signatures. The zero
// value is nobody.
type Maker struct {
	Endpoint string // Endpoint.ID
	Provider string // Provider.Slug
}

// How much of a maker an endpoint is.
const (
	makesNothing = iota
	sameProvider // it reads what its provider made elsewhere
	sameEndpoint
)

func (m *Maker) is(e *hearth.Endpoint) int {
	switch {
	case m.Provider == "" || m.Provider != e.Provider.Slug || e.Local():
		return makesNothing
	case m.Endpoint == e.ID:
		return sameEndpoint
	}
	return sameProvider
}

// Among says whether the maker is one of the candidates: it goes first among them then, and nothing is to be drawn.
func (m *Maker) Among(cs []hearth.Candidate) bool {
	for i := range cs {
		if m.is(cs[i].Endpoint) != makesNothing {
			return true
		}
	}
	return false
}

// makerFirst moves the maker of what the history holds to the front of the external endpoints that it stands with: of one
// tier, or under the caller's own order or sort of all that no own slot and no end of provider.order stands between. One
// that misses a bar of the caller's, or is only a last resort, stays where it is.
func (b *builder) makerFirst(cs []hearth.Candidate, own bool) {
	p := &b.Request.Prefs
	if b.Maker.Provider == "" || p.AcrossModels && p.Sort != "" && len(p.Order) == 0 { // the models are sorted together
		return
	}
	for len(cs) > 0 {
		n := 1
		for n < len(cs) && b.together(&cs[0], &cs[n], own) {
			n++
		}
		b.makerToFront(cs[:n], own)
		cs = cs[n:]
	}
}

// together says whether the maker may move from the place of y to that of x; own: the caller chose the order.
func (b *builder) together(x, y *hearth.Candidate, own bool) bool {
	switch {
	case x.Endpoint.Local():
		return false
	case b.dropped(y.Endpoint): // it is as good as not there
		return true
	case y.Endpoint.Local():
		return false
	case !own:
		return x.Endpoint.Priority == y.Endpoint.Priority
	}
	names := b.Request.Prefs.Order
	return len(names) == 0 || matchesAny(x.Endpoint, names) == matchesAny(y.Endpoint, names) &&
		(matchesAny(x.Endpoint, names) || x.Endpoint.Priority == y.Endpoint.Priority)
}

func (b *builder) makerToFront(run []hearth.Candidate, own bool) {
	best, at := makesNothing, 0
	for i := range run {
		c := &run[i]
		if is := b.Maker.is(c.Endpoint); is > best && !c.LastResort && !b.dropped(c.Endpoint) && (!b.bars || b.misses(c.Endpoint) == "") {
			best, at = is, i
		}
	}
	if best == makesNothing || len(run) == 1 || own && at == 0 {
		return
	}
	c := run[at]
	copy(run[1:at+1], run[:at])
	c.Reason = reasonMade
	run[0] = c
	if own {
		b.note(c.Endpoint.Tag + " goes first, against the order asked for: nobody else can read the reasoning that it made in the history")
	}
}
