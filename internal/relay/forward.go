package relay

import (
	"cmp"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/upstream"
)

// minPooledForward is the smallest body, in bytes, whose copy is worth keeping the buffer of, and worth counting.
const minPooledForward = 16 << 10

// forward makes the body that goes to the candidate. Large ones count in the budget for bodies, and are made in kept
// buffers, which come back when the last reader has left. It is false if the budget is used up.
func (r *Relay) forward(x *exchange, c *hearth.Candidate, call *upstream.Call) bool {
	e, limit := c.Endpoint, r.outputCap(x, c)
	to := r.target(x, e, limit)
	if to.StreamUsage && x.chat.Stream {
		call.Plain = func() (body []byte, done func(), ok bool) {
			to := r.target(x, e, limit)
			to.StreamUsage = false
			return r.write(x, e, to)
		}
	}
	var ok bool
	call.Body, call.Done, ok = r.write(x, e, to)
	return ok
}

// write makes one such body. The function is to be called when nobody reads it any more; nil = nobody wants to know.
func (r *Relay) write(x *exchange, e *hearth.Endpoint, to dialect.Target) ([]byte, func(), bool) {
	size := int64(len(x.body.raw))
	if e.Local() {
		size += x.media.bytes
	}
	if size < minPooledForward {
		return x.chat.AppendForward(nil, to), nil, true
	}
	if !r.hold(size) {
		return nil, nil, false
	}
	box := bodyBuffers.Get().(*[]byte)
	body := x.chat.AppendForward((*box)[:0], to)
	return body, func() {
		r.bodies.Add(-size)
		if cap(body) <= maxPooledBody {
			*box = body[:0]
			bodyBuffers.Put(box)
		}
	}, true
}

// target says how an endpoint wants the request. limit > 0 is the output cap that it is to get.
func (r *Relay) target(x *exchange, e *hearth.Endpoint, limit int) dialect.Target {
	p := e.Provider
	to := dialect.Target{
		Model: e.UpstreamModel, StreamUsage: !p.NoStreamOptions && !r.upstream.PlainOnly(e.Index),
		MaxTokensKey: p.MaxTokensKey, MaxTokens: limit, UserSalt: r.opt.UserSalt, Running: running(e), Foreign: x.foreign(e),
	}
	if s := e.Slot; s != nil {
		engine, _ := hearth.EngineOf(s.Engine)
		to.Drop, to.Allow, to.Media = engine.Deny, s.StrictKeys, x.media.data
	}
	if p.Dialect == "openrouter" {
		dollar := r.catalog.Rates["USD"]
		if p.Currency == "USD" {
			dollar = e.Rate
		}
		to.Provider, to.Rate = &x.chat.Prefs, dollar.Mul(decimal.NewFromInt(1).Add(e.Margin))
	}
	return to
}

// running is how the endpoint's engine is asked for counts on the way, so that an answer whose caller leaves can be billed.
func running(e *hearth.Endpoint) hearth.Running {
	if e.Slot == nil || e.Slot.StrictKeys {
		return hearth.RunningNot
	}
	engine, _ := hearth.EngineOf(e.Slot.Engine)
	return engine.Running
}

// outputCap is the cap on the output that the candidate gets in place of a larger one of the caller's, 0 = it gets the caller's.
// Where a spend limit bounds the request one is always sent: what an answer may cost is held back before.
func (r *Relay) outputCap(x *exchange, c *hearth.Candidate) int {
	w := r.wallet(x.key, x.gen.CreatedAt)
	if c.MaxTokens > 0 || !w.Bounds(!c.Endpoint.Local()) {
		return c.MaxTokens
	}
	return worstOutput(x, c)
}

// worstOutput is how many tokens one choice of an answer of the candidate may have.
func worstOutput(x *exchange, c *hearth.Candidate) int {
	return cmp.Or(c.MaxTokens, x.chat.MaxTokens, c.Endpoint.MaxOutput, chain.DefaultOutput)
}

// wallet is whose money a request of the key spends that arrived at an instant.
func (r *Relay) wallet(key *hearth.Key, arrived time.Time) ledger.Wallet {
	return ledger.Wallet{Key: key, Currency: r.catalog.Currency, At: arrived, External: r.opt.ExternalLimit}
}

// afford holds back what an attempt at the candidate may cost at most, if a limit bounds it. It is false if the limit does
// not cover it.
func (r *Relay) afford(x *exchange, c *hearth.Candidate) bool {
	w, external := r.wallet(x.key, x.gen.CreatedAt), !c.Endpoint.Local()
	if !external {
		x.hold.Home()
	}
	if !w.Bounds(external) {
		return true
	}
	prompt := x.chat.Estimate + x.chat.Images*c.Endpoint.ImageTokens
	worst, err := meter.Worst(c.Endpoint, x.priced, prompt, max(x.chat.Choices, 1), worstOutput(x, c), x.chat.Images)
	if err != nil {
		return false
	}
	if x.hold.Covers(&w, worst, external) {
		return true
	}
	x.hold.Release()
	var ok bool
	x.hold, ok = r.ledger.Hold(&w, worst, external)
	return ok
}

// measure remembers what a dispatched attempt says of the endpoint. What was the request's or the caller's own doing
// says nothing; what may be the death of an engine is counted when it is known not to be one, and an answer with tool
// calls when these were looked at.
func (r *Relay) measure(x *exchange, o *outcome, g *grant, sent time.Time) {
	s := routing.Sample{At: time.Now()}
	switch o.health {
	case health.Success:
		s.Total = o.ended().Sub(sent)
		if o.stream != nil {
			if s.Latency = o.stream.FirstAt.Sub(sent); !o.paced() {
				s.Tokens = int(o.stream.Usage.CompletionTokens)
			}
			s.Calls, s.BadCalls = x.stamp.ToolCalls()
		} else {
			s.Tokens, s.Calls, s.BadCalls = int(o.answer.Usage.CompletionTokens), o.answer.Calls, o.answer.BadCalls
		}
	case health.Failure, health.KeyRefused:
		s.Outcome = routing.Failed
	case health.RateLimited:
		s.Outcome = routing.Limited
	case health.NoVerdict:
		return
	}
	if o.judged = r.judges(x, o, s); o.judged || r.windows == nil {
		return
	}
	if g.unsure(o) {
		i := o.endpoint.Index
		g.count = func() { r.windows.Add(i, s) }
		return
	}
	r.windows.Add(o.endpoint.Index, s)
}
