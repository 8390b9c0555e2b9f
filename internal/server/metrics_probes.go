package server

import "myip.co.kr/hearth"

// Probes counts the requests of one token with which the gateway itself asks endpoints that have failed whether they answer
// again. What it returns counts one; it is to be called once.
func (m *Metrics) Probes() func(e *hearth.Endpoint, outcome, currency string, cost hearth.Nano) {
	sent := counter("hearth_probes_total", "Requests with which the gateway itself asked endpoints that had failed whether they answer again: answered, failed, rate_limited, key_refused, or no_verdict.", "model", "provider", "endpoint", "outcome")
	paid := counter("hearth_probe_cost_total", "What those would have cost a caller, in the billing currency. It is on no key's bill.", "model", "provider", "currency")
	m.registry.MustRegister(sent, paid)
	return func(e *hearth.Endpoint, outcome, currency string, cost hearth.Nano) {
		sent.WithLabelValues(e.Model.ID, e.Provider.Slug, e.ID, outcome).Inc()
		if cost > 0 {
			paid.WithLabelValues(e.Model.ID, e.Provider.Slug, currency).Add(shownCost(cost))
		}
	}
}
