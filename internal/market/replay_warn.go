package market

import "fmt"

const (
	leastSample  = 50.0 // requests, of an estimate that rests on what happened
	leastTried   = 20   // requests, of an endpoint that is known
	worthAWord   = 0.05 // of the requests
	manyClipped  = 0.25 // of the weight
	manyMoved    = 0.15 // of the requests
	mostHours    = 24
	fullFrom     = 0.7 // of the requests at once that an endpoint is known to take
	mostWarnings = 20
)

// warn says where the estimates rest on little.
func (r *Replay) warn(out *Replayed, models []*replayModel) {
	add := func(form string, a ...any) {
		if len(out.Warnings) < mostWarnings {
			out.Warnings = append(out.Warnings, fmt.Sprintf(form, a...))
		}
	}
	if part := float64(out.Replayed) / float64(out.Requests); part < 0.5 {
		add("only %.0f %% of the requests were drawn by routing cost; the others count as they were under every policy", 100*part)
	}
	if out.All.Policies[out.Policies[0]].Cost.Low == nil {
		add("the records span too little time for intervals: at least %d periods of %.0f minutes are needed", leastGroups, replayBlock.Minutes())
	}
	if out.Hours < mostHours {
		add("the replayed requests came in %d of the 24 hours of the day: nothing is said of the others", out.Hours)
	}
	seconds := r.to.Sub(r.from).Seconds()
	for k, p := range r.policies {
		e := out.All.Policies[p.name]
		if e.Sample < leastSample {
			add("%s: what really happened to requests that it would have sent the same way is worth %.0f requests; its figures rest on expectations", p.name, e.Sample)
		}
		if e.Moved > manyMoved {
			add("%s would have sent %.0f %% of the replayed requests elsewhere; caches would have filled there and emptied here, and the router would have learned more: the change may be more than twice as large as estimated", p.name, 100*e.Moved)
		}
		if e.Clipped > manyClipped {
			add("%s: %.0f %% of the weight lies on records that your traffic was too unlikely to bring; its figures lean on expectations", p.name, 100*e.Clipped)
		}
		for _, m := range models {
			for _, s := range m.spots {
				if l := s.under[k]; l != nil && m.replayed > 0 {
					s.warn(l, p.name, l.mass/float64(m.replayed), seconds, add)
				}
			}
		}
	}
}

// warn says where an endpoint would have got what nobody knows of it.
func (s *spot) warn(l *lot, policy string, share, seconds float64, add func(string, ...any)) {
	if share < worthAWord {
		return
	}
	if s.chosen < leastTried {
		add("%s would have sent %.0f %% of the requests to %s, which your traffic tried %s: what is said of it rests on expectations alone", policy, 100*share, s.id, times(s.chosen))
	}
	if s.room == 0 || seconds < 60 {
		return
	}
	sums := l.sums(-1)
	if at := sums.direct[whole] / seconds; at > fullFrom*s.room {
		add("%s would have had %.1f requests at once at %s on average, where %.1f were once as many as it took: it would have been slower than estimated, or refused some", policy, at, s.id, s.room)
	}
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
