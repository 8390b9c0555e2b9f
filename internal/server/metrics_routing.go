package server

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

func external(name, help string, labels ...string) *prometheus.Desc {
	return desc(name, help, append([]string{"model", "provider", "endpoint"}, labels...)...)
}

var (
	routingCost     = external("hearth_routing_cost", "Routing cost of an external endpoint by its terms, for a request of mean size and per good answer, in the billing currency: price, wait (for the first token), decode (for the rest), failed (tries and rate limits) and quality (broken tool calls; for requests with tools). Their sum is what a tier is ordered by, but for requests that open a conversation: what caches save in its later turns is not in it.", "term")
	routingShare    = external("hearth_routing_share", "How likely the endpoint has the first place of its tier, 0 to 1, for a request of mean size that belongs to no conversation; 0 while it is not tried (hearth_endpoint_out) or disabled.")
	routingInflight = external("hearth_routing_requests_in_flight", "Requests under way at the endpoint.")
	routingCap      = external("hearth_routing_cap", "Requests under way that the endpoint takes, learned from its rate limits; +Inf = none is known.")
	routingKnee     = external("hearth_routing_knee", "Requests that the endpoint serves at once, learned from waits; +Inf = not known.")
	routingFirst    = external("hearth_routing_first_token_seconds", "Expected time to the first token.")
	routingRest     = external("hearth_routing_rest_seconds", "Expected time from the first token to the end of an answer.")
	routingErrors   = external("hearth_routing_error_ratio", "Failed tries of all tries, 0 to 1, as the router reckons with them.")
	routingLimits   = external("hearth_routing_rate_limited_ratio", "Tries that met a rate limit of all tries, 0 to 1, as the router reckons with them.")
	routingBadTools = external("hearth_routing_bad_tool_calls_ratio", "Answers with broken tool calls of those with any, 0 to 1, as the router reckons with them.")
	routingState    = external("hearth_routing_state", "1 for the state that the router has an endpoint in, 0 for the others: closed (in use), cooling (after a rate limit), open (it fails too often) or half_open (one request at a time finds out).", "state")
	routingFlagged  = external("hearth_routing_flagged", "1 while the endpoint's quality is flagged, for all requests or for those with tools.", "requests")
	routingFresh    = external("hearth_routing_unmeasured", "1 while nothing was measured at the endpoint. Then it is ordered by what is typical of the model, and its other figures are not there.")

	routingKappa   = desc("hearth_routing_kappa", "Value of time in force for a model: what waiting for an answer costs at an endpoint that takes twice as long as the fastest of it, as a part of the price of a typical one.", "model")
	routingPremium = desc("hearth_routing_premium_ratio", "By how much a model's requests were expected to cost more, lately, than in a mix by price alone, as a part of that. Only there under a max_premium, once something was sent.", "model")
)

// describeRouting names the router's figures.
func describeRouting(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{routingCost, routingShare, routingInflight, routingCap, routingKnee, routingFirst, routingRest, routingErrors,
		routingLimits, routingBadTools, routingState, routingFlagged, routingFresh, routingKappa, routingPremium} {
		out <- d
	}
}

// collectRouting reads them. It waits for no request, and no request waits for it.
func collectRouting(out chan<- prometheus.Metric, c *hearth.Catalog, r *routing.Router, view []hearth.EndpointHealth, now time.Time) {
	idle := func(e *hearth.Endpoint) bool { return e.Disabled || view[e.Index].Out(now) }
	for _, m := range c.Models {
		terms := r.OverviewOf(m.ID, false, now, idle)
		if terms == nil {
			continue // own slots only
		}
		for i := range terms {
			collectTerms(out, c.Endpoints[terms[i].Endpoint], &terms[i])
		}
		tools := r.OverviewOf(m.ID, true, now, idle)
		for i := range tools {
			collectQuality(out, c.Endpoints[tools[i].Endpoint], &tools[i])
		}
		premium, kappa, ok := r.Premium(m.ID, now)
		out <- gauge(routingKappa, kappa, m.ID)
		if ok {
			out <- gauge(routingPremium, premium, m.ID)
		}
	}
}

// collectTerms shows one endpoint. Of one at which nothing was measured the figures would be those of the others: they are
// left out, so that a long list of endpoints makes a short page.
func collectTerms(out chan<- prometheus.Metric, e *hearth.Endpoint, t *routing.Terms) {
	labels := []string{e.Model.ID, e.Provider.Slug, e.ID}
	out <- gauge(routingShare, t.Share, labels...)
	out <- gauge(routingInflight, float64(t.InFlight), labels...)
	out <- gauge(routingFresh, flag(t.New), labels...)
	out <- gauge(routingFlagged, flag(t.Flagged), append(labels[:3:3], "all")...)
	if t.New {
		return
	}
	for _, x := range [...]struct {
		term string
		cost float64
	}{{"price", t.Price}, {"wait", t.Wait}, {"decode", t.Decode}, {"failed", t.Failed}} {
		out <- gauge(routingCost, x.cost, append(labels[:3:3], x.term)...)
	}
	out <- gauge(routingCap, orNone(t.Cap), labels...)
	out <- gauge(routingKnee, orNone(t.Knee), labels...)
	out <- gauge(routingFirst, t.TTFT, labels...)
	out <- gauge(routingRest, t.Rest, labels...)
	out <- gauge(routingErrors, t.Errors, labels...)
	out <- gauge(routingLimits, t.Limits, labels...)
	out <- gauge(routingBadTools, t.BadTools, labels...)
	for _, s := range [...]routing.Standing{routing.InUse, routing.Cooling, routing.Open, routing.HalfOpen} {
		out <- gauge(routingState, flag(t.Standing == s), append(labels[:3:3], string(s))...)
	}
}

// collectQuality shows what concerns requests with tools alone.
func collectQuality(out chan<- prometheus.Metric, e *hearth.Endpoint, t *routing.Terms) {
	if !t.New {
		out <- gauge(routingCost, t.Quality, e.Model.ID, e.Provider.Slug, e.ID, "quality")
	}
	out <- gauge(routingFlagged, flag(t.Flagged), e.Model.ID, e.Provider.Slug, e.ID, "tools")
}

// orNone is a bound, +Inf = there is none.
func orNone(bound float64) float64 {
	if bound == 0 {
		return math.Inf(1)
	}
	return bound
}

// choice is what was chosen for the first place of a tier, and why.
type choice struct{ endpoint, reason string }

func (m *Metrics) choice(r *hearth.Routed) prometheus.Counter {
	k := choice{r.Endpoint, r.Reason}
	if c, ok := m.choices.Load(k); ok {
		return c.(prometheus.Counter)
	}
	c := m.chosen.WithLabelValues(r.Model, r.Endpoint, r.Reason)
	m.choices.Store(k, c)
	return c
}
