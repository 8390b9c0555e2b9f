package relay

import (
	"context"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/slot"
)

// outlook is what the router expects of a request, for models whose own slots vie with external endpoints.
func (r *Relay) outlook(x *routed) chain.Outlook {
	if r.router == nil || !r.catalog.Tiered {
		return chain.Outlook{}
	}
	return chain.Outlook{
		Of: func(e *hearth.Endpoint) (chain.Forecast, bool) {
			ask := x.ask
			ask.Session = x.sessionOf(e.Model)
			f, ok := r.router.Forecast(&ask, e.Index, x.now)
			return chain.Forecast{Cost: f.Cost, First: f.First, Free: f.Free}, ok
		},
		Waiting: func(m *hearth.Model) (chain.Waiting, bool) {
			ask := x.ask
			ask.Session = x.sessionOf(m)
			w, ok := r.router.Worth(&ask, m, x.now)
			return chain.Waiting{First: w.First, Rest: w.Rest, Out: w.Out, PerToken: w.PerToken}, ok
		},
	}
}

const (
	// voteWait bounds how long a vote for a slot may take to be counted.
	voteWait = 5 * time.Second
	// voteBudget is too short for any load: where loads were measured, the node counts the vote at once. Where none was, it
	// begins one if there is room, as for everybody who waits. A node elsewhere does so for what is left of it.
	voteBudget = 20 * time.Millisecond
)

// votes asks for the slots that the request would go to if they were up. It waits for none of them: they are started when
// their nodes find that it pays, for requests to come.
func (r *Relay) votes(x *exchange, cs []hearth.Candidate) {
	for i := range cs {
		if !cs[i].Spilled {
			continue
		}
		ask := slot.Ask{Slot: cs[i].Endpoint.Slot, Key: x.key.ID, Class: x.key.Class, Budget: voteBudget, HasNext: true, Vote: true, Generation: x.gen.ID}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), voteWait)
			defer cancel()
			if lease, err := r.fleet.Acquire(ctx, ask); err == nil { // it has come up meanwhile
				lease.Release()
			}
		}()
	}
}
