package app

import "myip.co.kr/hearth/internal/server"

// openMetrics makes the counters of this process, and those figures of it that no server knows.
func (a *App) openMetrics() {
	m := server.NewMetrics(a.o.Version, func() *server.Server {
		if a.Server == nil {
			return nil
		}
		return a.Server.Now()
	}, a.log)
	m.Gauge("hearth_records_unapplied", "Records that are in the journal and not yet in the database.", func() float64 { return float64(a.ledger.Pending()) })
	m.Counter("hearth_overruns_total", "Answers that cost more than was held back of a spend limit.", func() float64 { return float64(a.now.Load().relay.Overruns()) })
	m.Counter("hearth_contents_dropped_total", "Requests whose prompt and answer were to be kept and could not.", func() float64 { return float64(a.contents.Dropped()) })
	m.Gauge("hearth_config_last_reload_successful", "0 while the configuration file cannot be used; the one before holds.", a.reloads.successful)
	a.metrics = m
}

// successful is 1, or 0 if the last reload was refused.
func (r *reloads) successful() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0
	}
	return 1
}
