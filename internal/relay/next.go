package relay

import (
	"context"
	"net/http"
	"slices"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
)

// Next makes the Relay of a newer configuration. The two share what the process holds of request bodies, what is
// recorded of refused requests, what keys used in the last minute, who made what of their histories and the count of Overruns; a request that began with one of them ends with it.
func (r *Relay) Next(o Options, p Parts) *Relay {
	return newRelay(o, p, r.bodies, r.misses, r.overruns, r.minutes, r.makers, r.marks)
}

// Follow says that next has taken over, to be called once. A request of r that can be served no more, for its slot is gone
// or has another model, is given to it.
func (r *Relay) Follow(next *Relay) {
	r.next = next
	close(r.followed)
}

// reloadTime bounds the time between the moment in which a slot is gone and that in which the relay knows its successor.
const reloadTime = time.Second

// overtaken is the relay that a failed request is to be given to, nil = it stays as it is.
func (r *Relay) overtaken(ctx context.Context, x *exchange) *Relay {
	if !x.tally.overtaken {
		return nil
	}
	t := time.NewTimer(reloadTime)
	defer t.Stop()
	select {
	case <-r.followed:
	case <-ctx.Done():
		return nil
	case <-t.C:
		return nil
	}
	for next := r.next; ; next = next.next {
		select {
		case <-next.followed:
		default:
			return next
		}
	}
}

// anew walks the chain that the request has under r, for one whose own chain a reload took slots from. What was tried
// before is not tried again, and if nothing else is there it fails as it would have.
func (r *Relay) anew(ctx context.Context, w http.ResponseWriter, x *exchange, untried int) error {
	x.tally.overtaken = false
	x.hold.Release() // else the chain would count it against the key; and it may be of another currency
	// What max_price says is in the billing currency of before.
	if was, _ := r.catalog.In(x.gen.Bill.Currency); !was.Rate.IsZero() {
		x.chat.Prefs.MaxPrice = x.chat.Prefs.MaxPrice.Times(was.Rate)
	}
	x.stamp.Shown = r.catalog.Money(x.key)
	in := r.input(&x.chat.Request, x.key, x.gen.CreatedAt)
	x.priced = in.Now
	r.route(&in, &x.routed, x.gen.ID)
	ch, err := chain.Build(in)
	rest := slices.DeleteFunc(ch.Candidates, func(c hearth.Candidate) bool {
		return slices.ContainsFunc(x.gen.Attempts, func(a hearth.Attempt) bool { return a.Endpoint == c.Endpoint.ID && a.Skip == "" })
	})
	if err != nil || len(rest) == 0 {
		return r.fail(x, untried)
	}
	x.gen.Bill.Currency = r.catalog.Currency
	return r.walk(ctx, w, x, rest)
}
