package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"myip.co.kr/hearth"
)

// scrape shows what slots and endpoints are like at the moment of a scrape.
type scrape struct{ current func() *Server }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	slotState    = desc("hearth_slot_state", "1 for the state that a slot is in, 0 for the others; unknown = its machine is not heard of.", "node", "slot", "model", "state")
	slotUsable   = desc("hearth_slot_takes_requests", "0 while the operator, the calendar or another gateway keeps requests from the slot.", "node", "slot", "model")
	slotInflight = desc("hearth_slot_requests_in_flight", "Requests in the slot's engine.", "node", "slot", "model")
	slotWaiting  = desc("hearth_slot_requests_waiting", "Requests in the slot's queue.", "node", "slot", "model")
	slotPlaces   = desc("hearth_slot_places", "Requests that the engine takes at once.", "node", "slot", "model")
	slotRest     = desc("hearth_slot_load_rest_seconds", "Predicted time until the slot is ready; 0 = it is.", "node", "slot", "model")
	slotLoads    = desc("hearth_slot_loads_total", "Starts of the slot's engine that came up.", "node", "slot", "model")
	slotServed   = desc("hearth_slot_served_total", "Requests that were let into the slot's engine.", "node", "slot", "model")

	endpointOut = desc("hearth_endpoint_out", "1 while an endpoint is not tried, by the reason: cooldown, rate_limited or account.", "model", "provider", "endpoint", "reason")
)

// Describe names the figures.
func (*scrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{slotState, slotUsable, slotInflight, slotWaiting, slotPlaces, slotRest, slotLoads, slotServed, endpointOut} {
		out <- d
	}
}

// Collect reads them.
func (c *scrape) Collect(out chan<- prometheus.Metric) {
	s := c.current()
	if s == nil {
		return
	}
	for _, conf := range s.Catalog.Slots {
		collectSlot(out, conf, s.Fleet.View(conf))
	}
	now, view := time.Now(), s.Health.View()
	for _, e := range s.Catalog.Endpoints {
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
	out <- gauge(slotWaiting, float64(v.Waiting), labels...)
	out <- gauge(slotPlaces, float64(slotOf(conf, v).Concurrency), labels...)
	out <- gauge(slotRest, v.LoadRest.Seconds(), labels...)
	out <- prometheus.MustNewConstMetric(slotLoads, prometheus.CounterValue, float64(v.Loads), labels...)
	out <- prometheus.MustNewConstMetric(slotServed, prometheus.CounterValue, float64(v.Served), labels...)
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
