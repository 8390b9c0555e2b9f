package relay

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/toolcheck"
)

// routed is what the router is asked about a request, and what it decided. The zero value is a request that it has nothing
// to say about.
type routed struct {
	ask       routing.Ask
	session   string        // as the caller names its conversation, "" = it does not
	opening   []byte        // how the conversation begins; of the body, so it is not kept
	keyID     string        // of the caller
	maker     chain.Maker   // of the latest sealed part of the history
	model     *hearth.Model // whose session hash is
	hash      uint64
	tried     *hearth.Model // whose external endpoint was asked last, nil = none was
	now       time.Time
	tools     *toolcheck.Tools // that the request offers; nil = nobody looks at its calls
	explained bool             // nobody is asked: what is most likely to be drawn goes first
	tiers     []ranked         // that were ordered, the latest last
	inline    [2]ranked
	terms     map[int]routing.Terms // of the candidates, by Endpoint.Index; nil = nobody asks
	choices   *choices              // what the record says of it; nil = no tier was ordered, or there is no record
}

// ranked is a tier that was ordered.
type ranked struct {
	model    *hearth.Model
	priority int
	routing.Decision
}

// route prepares the router's part of a chain: where tiers go by cost it orders them, and endpoints that it has taken out
// are as if in cooldown. draw is what the request's choices are drawn from.
func (r *Relay) route(in *chain.Input, x *routed, draw string) {
	in.Maker = x.maker
	if r.router == nil {
		return
	}
	q := in.Request
	x.ask = routing.Ask{
		Draw: routing.Seed(draw), Explicit: x.session != "", In: q.Estimate, Images: q.Images, MaxTokens: q.MaxTokens, Stream: q.Stream, Tools: q.Tools,
	}
	if in.Key != nil {
		x.keyID = in.Key.ID
		x.ask.Kappa, x.ask.NoExplore = float64(in.Key.TimeValue())/1000, in.Key.NoExplore
	}
	x.tiers, x.now = x.inline[:0], in.Now
	in.Outlook = r.outlook(x)
	if !r.opt.ByCost {
		return
	}
	in.Views.Health = r.router.Health(in.Views.Health, in.Now)
	in.Rank = func(tier []hearth.Candidate) { r.rank(x, tier) }
	if x.session != "" { // who names a conversation wants it to stay; one that is guessed moves nothing in the caller's own order
		in.Stays = func(cs []hearth.Candidate) int { return r.stays(x, cs) }
	}
}

// stays is the place of the candidate at which the request's session is.
func (r *Relay) stays(x *routed, cs []hearth.Candidate) int {
	if len(cs) < 2 {
		return -1
	}
	ask := x.ask
	ask.Session = x.sessionOf(cs[0].Endpoint.Model)
	return r.router.Warm(&ask, cs, x.now)
}

// rank orders a tier by what a good answer costs at each of its endpoints.
func (r *Relay) rank(x *routed, tier []hearth.Candidate) {
	e := tier[0].Endpoint
	ask := x.ask
	ask.Session = x.sessionOf(e.Model)
	ask.NoExplore = ask.NoExplore || len(x.tiers) > 0
	made := x.maker.Among(tier) // the chain puts it first
	ask.Retry = ask.Retry || made
	var why []routing.Terms
	if x.terms != nil {
		why = make([]routing.Terms, len(tier))
	} else if !ask.Retry {
		box := scratch(len(tier))
		defer scratches.Put(box)
		why = *box
	}
	d := r.router.Order(&ask, tier, why, x.now)
	if !made {
		x.tiers = append(x.tiers, ranked{e.Model, e.Priority, d})
	}
	if x.terms == nil {
		if !made {
			x.note(r, e, &d, why)
		}
		return
	}
	for _, t := range why {
		x.terms[t.Endpoint] = t
	}
	if x.explained {
		r.likeliest(ask, tier, why, x.now)
	}
}

// likeliest orders a tier that nobody asks about but to have it explained: instead of a candidate that is drawn, the one
// that is drawn most often goes first.
func (r *Relay) likeliest(ask routing.Ask, tier []hearth.Candidate, why []routing.Terms, now time.Time) {
	first := why[0]
	for _, t := range why {
		if t.Share > first.Share {
			first = t
		}
	}
	if first.Endpoint == why[0].Endpoint {
		return
	}
	ask.Retry = true // nothing is drawn then
	r.router.Order(&ask, tier, nil, now)
	i := slices.IndexFunc(tier, func(c hearth.Candidate) bool { return c.Endpoint.Index == first.Endpoint })
	c := tier[i]
	copy(tier[1:i+1], tier[:i])
	tier[0] = c
	for i := range tier {
		tier[i].Reason = routing.Ascending
	}
	tier[0].Reason = string(routing.Share)
}

// sessionOf is the session of the request with a model.
func (x *routed) sessionOf(m *hearth.Model) uint64 {
	if x.model != m {
		x.model, x.hash = m, routing.SessionKey(x.keyID, m.ID, x.session, x.opening[:min(len(x.opening), maxOpening)], nil)
	}
	return x.hash
}

// maxOpening is how much of a conversation's beginning tells it from others, in bytes.
const maxOpening = 64 << 10

// reason is why an endpoint is tried.
func (x *routed) reason(e *hearth.Endpoint) routing.Reason {
	why := routing.Only
	for _, t := range x.tiers {
		if t.model != e.Model || t.priority != e.Priority {
			continue
		}
		if why = routing.Retry; t.Endpoint == e.Index {
			why = t.Reason
		}
	}
	return why
}

// begins tells the router of a request that is sent.
func (r *Relay) begins(x *exchange, e *hearth.Endpoint, sent time.Time) routing.Try {
	r.offers(x)
	if r.router == nil || e.Local() {
		return routing.Try{}
	}
	ask, why := x.routed.ask, x.routed.reason(e)
	ask.Session = x.routed.sessionOf(e.Model)
	if x.routed.tried == e.Model {
		why = routing.Retry
	}
	x.routed.tried = e.Model
	return r.router.Begin(&ask, e.Index, why, sent)
}

// result is what an attempt tells the router; the zero value is that of one that says nothing of the endpoint.
func (x *exchange) result(o *outcome) (res routing.Result) {
	res.Outcome = routing.Unjudged
	switch o.health {
	case health.Success:
		var u hearth.Usage
		if res.Outcome = routing.Answered; o.stream != nil {
			u = o.stream.Usage
			res.Calls, res.BadCalls = x.stamp.ToolCalls()
		} else {
			u, res.Calls, res.BadCalls = o.answer.Usage, o.answer.Calls, o.answer.BadCalls
		}
		if u.Valid() {
			res.Paced = o.paced()
			res.In, res.Cached, res.Written, res.Out = int(u.PromptTokens), int(u.CachedTokens), int(u.CacheWriteTokens), int(u.CompletionTokens)
		}
		if !x.routed.ask.Tools || o.judged {
			res.Calls, res.BadCalls = 0, 0
		}
	case health.Failure, health.KeyRefused:
		res.Outcome = routing.Failed
	case health.RateLimited:
		res.Outcome, res.RetryAfter = routing.Limited, o.RetryAfter
	case health.NoVerdict:
	}
	return res
}
