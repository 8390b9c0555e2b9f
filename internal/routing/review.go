package routing

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// review opens breakers and sets and clears flags, by comparing the endpoints of a model.
func (r *Router) review(k *market, at float64) {
	var errors, tries, bad, tools float64
	for i := range k.copies {
		c := &k.copies[i]
		c.Tools.fade(at, halfLong)
		errors, tries = errors+c.Fast.Errors, tries+c.Fast.Tries
		bad, tools = bad+c.Tools.Part, tools+c.Tools.Of
	}
	for i := range k.copies {
		c := &k.copies[i]
		peers := (bad - c.Tools.Part + priorTries*firstBad) / (tools - c.Tools.Of + priorTries)
		before := c.Flag.Tools
		c.review(at, peers)
		others := (errors - c.Fast.Errors + priorTries*firstError) / (tries - c.Fast.Tries + priorTries)
		opens := c.Breaker.Until == 0 && c.fails(others) && k.carry(i, at)
		if c.Flag.Tools == before && !opens {
			continue
		}
		e := k.ends[i]
		e.mu.Lock()
		if c.Flag.Tools != before {
			e.Flag.Tools, e.Flag.Since, e.Flag.Tests = c.Flag.Tools, c.Flag.Since, c.Flag.Tests
			e.Tools, e.ToolsFast = c.Tools, c.ToolsFast
		}
		if opens && e.Breaker.Until == 0 {
			e.Breaker.open(at, e.jitter.next())
			e.shut.Store(toNanos(e.Breaker.Until))
			r.open.Add(1)
		}
		c.Breaker = e.Breaker
		e.mu.Unlock()
	}
}

// carry says whether the other endpoints could take the model's present load under their caps. With nobody left, nobody
// takes it.
func (k *market) carry(without int, at float64) bool {
	load := 0.0
	for _, e := range k.ends {
		load += float64(max(e.flight.Load(), 0))
	}
	k.model.mu.Lock()
	load = max(load, k.model.load, 1)
	k.model.mu.Unlock()
	room := 0.0
	for j := range k.copies {
		if c := &k.copies[j]; j != without && c.Breaker.Until == 0 && c.Row < rowOut {
			room += c.Limit.at(at, c.perSecond(), longest(k.kappa))
		}
	}
	return room >= load
}

// Health lays open breakers over what stands against the endpoints otherwise, by Endpoint.Index: they are in cooldown,
// and so is a half-open one while a request tries it. If nothing is open, which is usual, it is view itself.
func (r *Router) Health(view []hearth.EndpointHealth, now time.Time) []hearth.EndpointHealth {
	if r.open.Load() == 0 {
		return view
	}
	at, out := r.nanos(now), view
	for i := range min(len(r.places), len(view)) {
		p := r.places[i]
		if p.market == nil {
			continue
		}
		e := p.market.ends[p.row]
		shut := e.shut.Load()
		if shut == 0 || view[i].Out(now) {
			continue
		}
		until := max(shut, e.probe.Load())
		if at >= until {
			continue
		}
		if &out[0] == &view[0] {
			out = slices.Clone(view)
		}
		out[i] = hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: r.began.Add(time.Duration(until)), Since: now}
	}
	return out
}

// Probes appends the endpoints, by Endpoint.Index, whose breaker is half-open and which nobody tries: a request of one
// token would tell whether they have recovered, at nobody's expense but the operator's.
func (r *Router) Probes(into []int, now time.Time) []int {
	if r.open.Load() == 0 {
		return into
	}
	at := r.nanos(now)
	for i, p := range r.places {
		if p.market == nil {
			continue
		}
		e := p.market.ends[p.row]
		if shut := e.shut.Load(); shut != 0 && at >= shut && at >= e.probe.Load() {
			into = append(into, i)
		}
	}
	return into
}

// Judge tells of the tool calls of an answer, when they were looked at after its last byte. Answers without calls say
// nothing.
func (r *Router) Judge(endpoint, calls, bad int, now time.Time) {
	p := r.find(endpoint)
	if p.market == nil || calls <= 0 {
		return
	}
	e, at := p.market.ends[p.row], r.secs(now)
	e.mu.Lock()
	e.tools(at, bad > 0)
	e.mu.Unlock()
	p.market.model.news.Store(true)
}

func (e *estimate) tools(at float64, bad bool) {
	part := 0.0
	if bad {
		part = 1
	}
	e.Tools.add(at, halfLong, 1, part)
	e.ToolsFast.add(at, halfToolsFast, 1, part)
	if e.Flag.Tools {
		e.Flag.Tests.add(at, halfLong, 1, part)
	}
}

// Flag sets or clears the flag for answers that are worse than the model's should be, as a benchmark or the operator
// says. It concerns all requests, where that for tool calls, which the router sets itself, concerns those with tools.
func (r *Router) Flag(endpoint int, on bool) {
	p := r.find(endpoint)
	if p.market == nil {
		return
	}
	e := p.market.ends[p.row]
	e.mu.Lock()
	e.estimate.Flag.Benchmark = on
	e.mu.Unlock()
	p.market.model.news.Store(true)
}
