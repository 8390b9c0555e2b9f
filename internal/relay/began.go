package relay

import (
	"net/http"

	"myip.co.kr/hearth"
)

// began notes that the stream of e begins to go to the caller: should the process die in its middle, there is a record
// that says so. How its tiers were ordered is left to the record: it would be written twice.
func (r *Relay) began(x *exchange, e *hearth.Endpoint) {
	g := x.gen
	g.Model, g.Slug, g.Provider, g.Endpoint = e.Model.ID, e.Provider.Slug, e.Provider.Name, e.ID
	g.HTTP = http.StatusOK
	g.FirstToken, g.Duration = x.watch.ToFirstToken(), x.watch.Elapsed()
	if err := r.ledger.Begin(&g); err != nil {
		r.log.Warn("the beginning of an answer is not noted", "generation", g.ID, "err", err)
	}
}
