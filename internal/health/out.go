package health

import (
	"time"

	"myip.co.kr/hearth"
)

// Out is an endpoint that is not tried for a while.
type Out struct {
	Endpoint string            `json:"endpoint"` // Endpoint.ID
	Skip     hearth.SkipReason `json:"skip"`     // cooldown or rate_limited
	Since    time.Time         `json:"since"`
	Until    time.Time         `json:"until"`
}

// State is which endpoints of the catalog are out now, for the next start of the program. An account that was refused is
// not among them: a start may well be what changes its key.
func (t *Tracker) State(c *hearth.Catalog, now time.Time) (out []Out) {
	for i, h := range t.View() {
		if h.Out(now) && !h.Account && i < len(c.Endpoints) {
			out = append(out, Out{c.Endpoints[i].ID, h.Skip, h.Since, h.Until})
		}
	}
	return out
}

// Restore takes out what was out in an earlier program and would be yet. It is for a tracker that has not been used. What
// makes no sense is passed over.
func (t *Tracker) Restore(c *hearth.Catalog, state []Out, now time.Time) {
	known := make(map[string]Out, len(state))
	for _, o := range state {
		known[o.Endpoint] = o
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	for i, e := range c.Endpoints {
		o, ok := known[e.ID]
		if left := o.Until.Sub(now); !ok || left <= 0 || left > longest(o.Skip) || o.Since.After(now) || i >= len(t.ends) {
			continue
		}
		end := t.ends[i]
		if o.Skip == hearth.SkipCooldown {
			end.failures = Threshold
		} else {
			end.limits = 1
		}
		end.dirty.Store(true)
		end.reason++
		end.health = hearth.EndpointHealth{Skip: o.Skip, Since: o.Since, Until: o.Until}
		t.line.publish(end)
	}
}

// longest is how long an endpoint may be out for a reason; 0 = that is none.
func longest(why hearth.SkipReason) time.Duration {
	if why == hearth.SkipCooldown {
		return Cooldown
	}
	if why == hearth.SkipRateLimited {
		return MaxRetryAfter
	}
	return 0
}
