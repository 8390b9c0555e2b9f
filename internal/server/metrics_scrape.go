package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// scrape shows what slots and endpoints are like at the moment of a scrape.
type scrape struct {
	current func() *Server
	own     bool // only the slots of this machine
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	slotState    = desc("hearth_slot_state", "1 for the state that a slot is in, 0 for the others; unknown = its machine is not heard of.", "node", "slot", "model", "state")
	slotUsable   = desc("hearth_slot_takes_requests", "0 while the operator, the calendar or another gateway keeps requests from the slot.", "node", "slot", "model")
	slotInflight = desc("hearth_slot_requests_in_flight", "Requests in the slot's engine.", "node", "slot", "model")
	slotWaiting  = desc("hearth_slot_requests_waiting", "Requests in the slot's queue, by the class of their keys.", "node", "slot", "model", "class")
	slotPlaces   = desc("hearth_slot_places", "Requests that the engine takes at once.", "node", "slot", "model")
	slotRest     = desc("hearth_slot_load_rest_seconds", "Predicted time until the slot is ready; 0 = it is.", "node", "slot", "model")
	slotLoads    = desc("hearth_slot_loads_total", "Starts of the slot's engine that came up.", "node", "slot", "model")
	slotServed   = desc("hearth_slot_served_total", "Requests that were let into the slot's engine.", "node", "slot", "model")

	slotVotes   = desc("hearth_slot_votes", "Requests that went elsewhere because waiting was hopeless, and that may start the slot yet.", "node", "slot", "model")
	slotTurn    = desc("hearth_slot_turn_seconds", "For how long the turn of a ready slot has been limited because another model is waited for; 0 = it is not.", "node", "slot", "model")
	slotNext    = desc("hearth_slot_next_turn", "1 while the slot's turn comes next on its node, by the reason: deadline, votes, wanted (an order, or its hours) or other.", "node", "slot", "model", "why")
	slotLearned = desc("hearth_slot_learned_seconds", "What the slot's load, stop, drain and service (of one request) took lately: p50, p95 and min.", "node", "slot", "model", "kind", "figure")

	endpointOut = desc("hearth_endpoint_out", "1 while an endpoint is not tried, by the reason: cooldown, rate_limited or account.", "model", "provider", "endpoint", "reason")
)

// Describe names the figures.
func (*scrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{slotState, slotUsable, slotInflight, slotWaiting, slotPlaces, slotRest, slotLoads, slotServed, slotVotes, slotTurn, slotNext, slotLearned, endpointOut} {
		out <- d
	}
	describeRouting(out)
}

// Collect reads them.
func (c *scrape) Collect(out chan<- prometheus.Metric) {
	s := c.current()
	if s == nil {
		return
	}
	now := time.Now()
	for _, conf := range s.Catalog.Slots {
		if c.own && conf.Node.Remote != nil {
			continue
		}
		v := s.Fleet.View(conf)
		collectSlot(out, conf, v)
		collectTurns(out, conf, v, now)
	}
	if c.own {
		return
	}
	view := s.Health.View()
	collectOut(out, s.Catalog, view, now)
	if s.Router != nil {
		collectRouting(out, s.Catalog, s.Router, view, now)
	}
}

// collectOut shows which endpoints are not tried.
func collectOut(out chan<- prometheus.Metric, c *hearth.Catalog, view []hearth.EndpointHealth, now time.Time) {
	for _, e := range c.Endpoints {
		h := view[e.Index]
		for _, reason := range [...]string{string(hearth.SkipCooldown), string(hearth.SkipRateLimited), "account"} {
			is := string(h.Skip)
			if h.Account {
				is = "account"
			}
			out <- gauge(endpointOut, flag(h.Out(now) && is == reason), e.Model.ID, e.Provider.Slug, e.ID, reason)
		}
	}
}

func collectSlot(out chan<- prometheus.Metric, conf *hearth.Slot, v hearth.SlotView) {
	labels := []string{conf.Node.Name, conf.Name, conf.Model.ID}
	for st := hearth.SlotAsleep; st <= hearth.SlotFailed; st++ {
		out <- gauge(slotState, flag(!v.Unknown && v.State == st), append(labels[:3:3], st.String())...)
	}
	out <- gauge(slotState, flag(v.Unknown), append(labels[:3:3], unheardOf)...)
	out <- gauge(slotUsable, flag(!v.Disabled && !v.Drained && v.Paused.IsZero() && v.Shut.IsZero() && !v.Foreign && !v.Unknown), labels...)
	out <- gauge(slotInflight, float64(v.Inflight), labels...)
	out <- gauge(slotWaiting, float64(v.Waiting-v.Batch), append(labels[:3:3], hearth.Interactive.String())...)
	out <- gauge(slotWaiting, float64(v.Batch), append(labels[:3:3], hearth.Batch.String())...)
	out <- gauge(slotPlaces, float64(slotOf(conf, v).Concurrency), labels...)
	out <- gauge(slotRest, v.LoadRest.Seconds(), labels...)
	out <- prometheus.MustNewConstMetric(slotLoads, prometheus.CounterValue, float64(v.Loads), labels...)
	out <- prometheus.MustNewConstMetric(slotServed, prometheus.CounterValue, float64(v.Served), labels...)
}

// collectTurns shows how the slot stands with the others of its node. Nothing is known of that while its machine is not
// heard of.
func collectTurns(out chan<- prometheus.Metric, conf *hearth.Slot, v hearth.SlotView, now time.Time) {
	if v.Unknown {
		return
	}
	labels := []string{conf.Node.Name, conf.Name, conf.Model.ID}
	out <- gauge(slotVotes, float64(v.Votes), labels...)
	turn := time.Duration(0)
	if !v.Turn.IsZero() {
		turn = max(0, now.Sub(v.Turn)) // of another machine, its clock's ticks may be ahead
	}
	out <- gauge(slotTurn, turn.Seconds(), labels...)
	for _, why := range [...]string{"deadline", "votes", "wanted", "other"} {
		out <- gauge(slotNext, flag(v.Next && nextWord(v.NextWhy) == why), append(labels[:3:3], why)...)
	}
	for _, l := range [...]struct {
		kind string
		f    hearth.Figures
	}{{"load", v.Learned.Load}, {"stop", v.Learned.Stop}, {"drain", v.Learned.Drain}, {"service", v.Learned.Service}} {
		if l.f.N == 0 {
			continue // nothing was measured
		}
		out <- gauge(slotLearned, l.f.P50.Seconds(), append(labels[:3:3], l.kind, "p50")...)
		out <- gauge(slotLearned, l.f.P95.Seconds(), append(labels[:3:3], l.kind, "p95")...)
		out <- gauge(slotLearned, l.f.Min.Seconds(), append(labels[:3:3], l.kind, "min")...)
	}
}

// nextWord is why a slot's turn comes next, as one of a few words: another machine's text is no label.
func nextWord(why string) string {
	switch why {
	case slot.NextByDeadline:
		return "deadline"
	case slot.NextByVotes:
		return "votes"
	case slot.NextByWish:
		return "wanted"
	}
	return "other"
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
