package chain

import (
	"cmp"
	"math"
	"slices"

	"myip.co.kr/hearth"
)

// Tool quality is the operator's grade, 0 to 1, times the share of tool calls that were well formed lately. The share of
// bad ones is shrunk towards 1 % with the weight of 20 calls, so that one bad call of three decides nothing; an
// endpoint without a grade counts as a good one, not as the best.
const (
	ungraded  = 0.9
	priorBad  = 0.01
	priorSize = 20.0
)

// reorder applies what the caller chose for the endpoints of one model: a sort, or else the order of names.
func (b *builder) reorder(cs []hearth.Candidate, by hearth.Sort, suffix bool) {
	if by != "" {
		if !b.Request.Prefs.AcrossModels || b.Request.Prefs.Sort == "" {
			b.sortBy(cs, by, sortReason(by, suffix))
		}
		return
	}
	names := b.Request.Prefs.Order
	slices.SortStableFunc(cs, func(x, y hearth.Candidate) int {
		return cmp.Compare(matchIndex(x.Endpoint, names), matchIndex(y.Endpoint, names))
	})
	for i := range cs {
		if matchesAny(cs[i].Endpoint, names) {
			cs[i].Reason = reasonOrder
		}
	}
	if b.Stays != nil {
		b.stay(cs)
	}
}

// stay moves the external endpoint at which the session is to the front of those that the caller named: which of them it
// is makes less of a difference to the caller than the cache there. Own slots that stand before it stay where they are.
func (b *builder) stay(cs []hearth.Candidate) {
	n := 0
	for n < len(cs) && matchesAny(cs[n].Endpoint, b.Request.Prefs.Order) {
		n++
	}
	at := b.Stays(cs[:n])
	if at <= 0 || cs[at].Endpoint.Local() || cs[at].LastResort || b.dropped(cs[at].Endpoint) {
		return
	}
	to := at
	for to > 0 && !cs[to-1].Endpoint.Local() {
		to--
	}
	if to == at {
		return
	}
	c := cs[at]
	copy(cs[to+1:at+1], cs[to:at])
	c.Reason = reasonStays
	cs[to] = c
	b.note("the session stays at " + c.Endpoint.Tag + ", which stands later in provider.order: its cache is there")
}

// acrossModels applies a sort, and the bars, to the endpoints of all models together.
func (b *builder) acrossModels() {
	p := &b.Request.Prefs
	if !p.AcrossModels {
		return
	}
	if p.Sort != "" && len(p.Order) == 0 {
		b.sortBy(b.chain.Candidates, p.Sort, acrossReason(p.Sort))
	}
	if b.bars {
		b.demote(b.chain.Candidates)
	}
}

// sortBy sorts endpoints, local ones included, and gives each the reason.
func (b *builder) sortBy(cs []hearth.Candidate, by hearth.Sort, reason string) {
	known := len(cs)
	if by == hearth.SortPrice {
		b.sortByPrice(cs)
	} else {
		known = b.sortByMeasure(cs, by)
	}
	for i := range cs {
		cs[i].Reason = reason
	}
	if known == len(cs) {
		return
	}
	reason += ", not measured lately: by expected price"
	for i := range cs[known:] {
		cs[known+i].Reason = reason
	}
}

// sortByMeasure sorts by throughput, latency or tool quality, ties by slug, and counts the endpoints with a figure to go
// by. Those without one stand behind the others, by price: nothing is explored where the caller chose an order, and a slot
// that sleeps would make a caller wait who asked for speed. Endpoints of one tool quality stand by price too.
func (b *builder) sortByMeasure(cs []hearth.Candidate, by hearth.Sort) (n int) {
	type keyed struct {
		hearth.Candidate
		first, then float64 // ascending
	}
	list := make([]keyed, len(cs))
	known := false
	for i, c := range cs {
		k := keyed{Candidate: c, first: math.Inf(1)}
		s := b.speed(c.Endpoint)
		switch {
		case by == hearth.SortTools:
			k.first, k.then = -toolQuality(c.Endpoint, s), b.expected(&cs[i])
			known = known || c.Endpoint.ToolQuality > 0 || s.Calls > 0
			n++
		case by == hearth.SortThroughput && s.Throughput.P50 > 0:
			k.first, known, n = -s.Throughput.P50, true, n+1
		case by == hearth.SortLatency && s.Latency.P50 > 0:
			k.first, known, n = s.Latency.P50, true, n+1
		default:
			k.then = b.expected(&cs[i])
		}
		list[i] = k
	}
	if !known && len(cs) > 1 {
		b.noteUnmeasured(cs[0].Endpoint.Model, by)
	}
	slices.SortStableFunc(list, func(x, y keyed) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.then, y.then), compareSlugs(x.Endpoint, y.Endpoint))
	})
	for i := range list {
		cs[i] = list[i].Candidate
	}
	return n
}

// toolQuality is how well tool calls are made at an endpoint, 0 to 1.
func toolQuality(e *hearth.Endpoint, s hearth.EndpointSpeed) float64 {
	grade := e.ToolQuality
	if grade == 0 {
		grade = ungraded
	}
	return grade * (1 - (float64(s.BadCalls)+priorSize*priorBad)/(float64(s.Calls)+priorSize))
}

// speed is what was measured at an endpoint, the zero value if that is not fresh.
func (b *builder) speed(e *hearth.Endpoint) hearth.EndpointSpeed {
	if e.Index < len(b.Views.Speeds) {
		if s := b.Views.Speeds[e.Index]; s.Fresh(b.Now) {
			return s
		}
	}
	return hearth.EndpointSpeed{}
}

// demote moves the endpoints that miss one of the caller's bars behind the others. One that was not measured lately misses
// none.
func (b *builder) demote(cs []hearth.Candidate) {
	toBack(cs, func(c *hearth.Candidate) bool {
		why := b.misses(c.Endpoint)
		if why != "" {
			c.Reason = why
		}
		return why != ""
	})
}

// misses says which bar the endpoint misses, "" for none.
func (b *builder) misses(e *hearth.Endpoint) string {
	s, p := b.speed(e), &b.Request.Prefs
	fast, slow := percentiles(s.Throughput), percentiles(s.Latency)
	least, most := percentiles(p.MinThroughput), percentiles(p.MaxLatency)
	why := ""
	for i := range least {
		if least[i] > 0 && fast[i] > 0 {
			b.measured = true
			if fast[i] < least[i] {
				why = reasonSlow
			}
		}
		if most[i] > 0 && slow[i] > 0 {
			b.measured = true
			if slow[i] > most[i] && why == "" {
				why = reasonLate
			}
		}
	}
	return why
}

func percentiles(p hearth.Percentiles) [4]float64 { return [4]float64{p.P50, p.P75, p.P90, p.P99} }

// sortReason and acrossReason say that a candidate stands where the caller's sort put it.
func sortReason(by hearth.Sort, suffix bool) string {
	if suffix {
		return "suffix " + suffixOf(by)
	}
	return "provider.sort " + string(by)
}

func acrossReason(by hearth.Sort) string { return "provider.sort " + string(by) + " across models" }
