package relay

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// build makes the chain from the present state and fixes what the request may wait for slots in all.
func (r *Relay) build(req *http.Request, x *exchange) (hearth.Chain, *hearth.Error) {
	q := &x.chat.Request
	in := r.input(q, x.key, x.gen.CreatedAt)
	x.priced = in.Now
	x.routed.session, x.routed.opening = x.chat.Session(req.Header.Get("X-Session-Id")), x.chat.Opening()
	x.parts, x.routed.maker = r.history(x.chat, x.key, in.Now)
	r.route(&in, &x.routed, x.gen.ID)
	ch, err := chain.Build(in)
	for err != nil {
		e := chain.Recount(in, ch)
		if e == nil || !r.count(req.Context(), x, &in, e) {
			break
		}
		ch, err = chain.Build(in)
	}
	x.gen.Requested = append(x.one[:0], q.Models...) // q's own would keep the body in memory
	x.gen.Estimate, x.gen.Images, x.gen.Streamed = q.Estimate, q.Images, q.Stream
	x.gen.Drops = ch.Drops
	x.gen.Notes = append(append(x.gen.Notes, q.Notes...), ch.Notes...)
	if len(x.gen.Requested) == 0 {
		x.gen.Requested = append(x.gen.Requested, r.catalog.DefaultModel)
	}
	x.stamp.Model = x.gen.Requested[0] // until somebody answers
	x.gen.User = bounded(x.chat.User())
	for _, c := range ch.Candidates {
		if c.Endpoint.Slot != nil {
			x.gen.Local++
			x.waitLeft = max(x.waitLeft, c.Endpoint.Slot.Wait)
		}
	}
	if left, ok := r.callersPatience(req.Header, x.waitLeft); ok {
		x.waitLeft = left
	} else {
		x.gen.Notes = append(x.gen.Notes, r.opt.HeaderPrefix+"-Max-Wait ignored: it is not a number of seconds from 0 to 86400")
	}
	return ch, err
}

// input is what a chain is made from now, for a request that arrived at an instant.
func (r *Relay) input(q *hearth.Request, key *hearth.Key, arrived time.Time) chain.Input {
	v := chain.Views{Catalog: r.catalog, Slots: r.fleet.Views(r.catalog.Slots, nil), Health: r.health.View()}
	if r.windows != nil {
		v.Speeds = r.windows.Speeds()
	}
	in := chain.Input{Request: q, Key: key, Views: v, Now: time.Now(), LastResort: r.opt.LastResort, FetchMedia: r.media != nil}
	if key != nil && r.ledger != nil {
		w := r.wallet(key, arrived)
		left := r.ledger.Left(&w)
		in.Left, in.LeftExternal = left.All, left.External
	}
	return in
}

// count lets the engine behind a ready slot count the prompt that seemed too long for it, and puts the count into what
// the chain is made from. It is false if there is no count: the estimate stands. The engine is asked within a place of
// its slot, and never waited for.
func (r *Relay) count(ctx context.Context, x *exchange, in *chain.Input, e *hearth.Endpoint) bool {
	lease, err := r.fleet.Acquire(ctx, slot.Ask{Slot: e.Slot, Key: x.key.ID, Class: x.key.Class, Brief: true, HasNext: true})
	if err != nil {
		return false
	}
	defer lease.Release()
	call := upstream.Call{Endpoint: e, Lease: lease, EngineURL: lease.URL, EngineKey: lease.APIKey, Transport: lease.Transport}
	if !r.forward(x, &hearth.Candidate{Endpoint: e}, &call) {
		return false
	}
	n, err := r.upstream.Count(ctx, &call)
	if err != nil {
		r.log.Debug("an engine did not count a prompt", "endpoint", e.ID, "err", err)
		return false
	}
	if in.Exact == nil {
		in.Exact = make(map[int]int)
	}
	in.Exact[e.Index] = n
	x.gen.Notes = append(x.gen.Notes, fmt.Sprintf("%s counted the prompt: %d tokens, estimated at %d", e.Tag, n, x.chat.Estimate))
	return true
}

// Explained is a chain with what it was built from.
type Explained struct {
	In    chain.Input
	Chain hearth.Chain
	Err   *hearth.Error // what the caller would get: the chain is empty; nil = it is not
	// Terms are what the tiers of external endpoints are ordered by, by Endpoint.Index; those that stand alone have none.
	Terms map[int]routing.Terms
}

// Explain builds the chain that a request body would get under a key (nil = one that may do everything) from the present
// state, and calls nobody. Where a tier's first place is drawn, the candidate that is drawn most often has it; with the id
// of a generation, the one that is drawn for that. session is how the request names its conversation in a header, "" = not
// there. A request that no candidate can serve is explained too; only one that cannot be read, or names an unknown model
// alone, is an error.
func (r *Relay) Explain(raw []byte, key *hearth.Key, generation, session string) (Explained, error) {
	chat, err := dialect.DecodeRouting(raw, estimate.JSON)
	if err != nil {
		return Explained{}, err
	}
	if shown := r.catalog.Money(key); !shown.Rate.IsZero() {
		chat.Prefs.MaxPrice = chat.Prefs.MaxPrice.Times(shown.Rate)
	}
	x := Explained{In: r.input(&chat.Request, key, time.Now().In(r.opt.Zone)), Terms: map[int]routing.Terms{}}
	_, maker := r.history(chat, key, x.In.Now)
	r.route(&x.In, &routed{session: chat.Session(session), opening: chat.Opening(), maker: maker, explained: generation == "", terms: x.Terms}, generation)
	x.Chain, x.Err = chain.Build(x.In)
	if x.Err != nil && (x.Err.Type == hearth.ErrModelNotFound || x.Err.Type == hearth.ErrInvalidRequest) {
		return Explained{}, x.Err
	}
	x.Chain.Notes = append(append([]string(nil), chat.Notes...), x.Chain.Notes...)
	return x, nil
}

// rerank orders what is left of the failed candidate's tier anew, from the present state. The chain behind it stays as
// it was built.
func (r *Relay) rerank(x *exchange, failed hearth.Candidate, rest []hearth.Candidate) {
	if tierLen(failed, rest) > 1 {
		in := r.input(&x.chat.Request, x.key, x.gen.CreatedAt)
		in.Priced, in.Maker = x.priced, x.routed.maker
		if r.router != nil && r.opt.ByCost {
			x.routed.now, x.routed.ask.Retry = in.Now, true
			in.Rank = func(tier []hearth.Candidate) { r.rank(&x.routed, tier) }
			defer func() { x.routed.ask.Retry = false }()
		}
		chain.Rerank(in, failed, rest)
	}
}

// tierLen is how many of the first candidates are of the failed one's model and priority.
func tierLen(failed hearth.Candidate, rest []hearth.Candidate) int {
	n := 0
	for n < len(rest) && rest[n].Endpoint.Model == failed.Endpoint.Model && rest[n].Endpoint.Priority == failed.Endpoint.Priority {
		n++
	}
	return n
}

// enough says whether max_attempts ends the walk.
func (r *Relay) enough(x *exchange) bool {
	return r.opt.MaxAttempts > 0 && x.tally.tried >= r.opt.MaxAttempts
}
