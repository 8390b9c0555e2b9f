package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/upstream"
)

// probeBody is all that a probe ever says. Nothing of any caller is in it.
const probeBody = `{"model":"probe","messages":[{"role":"user","content":"Say: ok"}],"max_tokens":1,"stream":true}`

// probeTotal bounds a probe, whatever the limits of its provider are.
const probeTotal = 2 * time.Minute

var errProbeTotal = errors.New("no answer to a probe in time")

// Probed is what came of a probe.
type Probed struct {
	Endpoint *hearth.Endpoint
	Outcome  health.Outcome // NoVerdict: it says nothing of the endpoint
	Message  string         // why there was no answer; holds no words of the upstream
	Took     time.Duration
	Cost     hearth.Nano // what a caller would have paid: the operator's own, on no key's bill
	Usage    hearth.Usage
}

// Probe asks an endpoint that has failed, with a request of one token, whether it answers again. It is what the one request
// after a cooldown would be, and holds the permit for it, so that no caller's request need be that one. ok is false if the
// endpoint may not be tried now, or somebody else tries it already.
func (r *Relay) Probe(ctx context.Context, e *hearth.Endpoint) (p Probed, ok bool) {
	p.Endpoint = e
	began := time.Now()
	permit, ok := r.health.Take(e.Index, began)
	if !ok {
		return p, false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTotal, errProbeTotal)
	defer cancel()
	var try routing.Try
	if r.router != nil {
		try = r.router.Begin(&routing.Ask{In: 1, MaxTokens: 1, Stream: true}, e.Index, routing.Probe, began)
	}
	res := routing.Result{Outcome: routing.Unjudged}
	var wait time.Duration // that a rate limit asks for
	defer func() {
		now := time.Now()
		try.Done(res, now)
		permit.Done(p.Outcome, wait, now)
		p.Took = now.Sub(began)
	}()
	opened, failure, err := r.upstream.Open(ctx, r.probeCall(e))
	switch {
	case errors.Is(err, errProbeTotal):
		p.Outcome, p.Message, res.Outcome = health.Failure, err.Error(), routing.Failed
	case err != nil:
		p.Message = "given up"
	case failure != nil:
		wait = p.fails(failure, &res)
		r.alert(e, failure)
	default:
		first := time.Now()
		permit.Answering(first)
		try.First(first)
		r.hear(opened.Stream, &p, &res)
	}
	return p, true
}

// probeCall is the call of a probe.
func (r *Relay) probeCall(e *hearth.Endpoint) *upstream.Call {
	body := func(usage bool) []byte {
		chat, err := dialect.DecodeChat([]byte(probeBody), estimate.JSON)
		if err != nil {
			panic("relay: the body of a probe: " + err.Error())
		}
		return chat.AppendForward(nil, dialect.Target{Model: e.UpstreamModel, StreamUsage: usage, MaxTokensKey: e.Provider.MaxTokensKey})
	}
	call := &upstream.Call{
		Endpoint: e, Stream: true, MaxTokens: 1, Body: body(!e.Provider.NoStreamOptions && !r.upstream.PlainOnly(e.Index)),
		Stamp: &dialect.Stamp{ID: "probe", Model: e.Model.ID, Provider: e.Provider.Name, Created: time.Now().Unix()},
	}
	call.Plain = func() ([]byte, func(), bool) { return body(false), nil, true }
	return call
}

// fails notes a probe without an answer, and for how long a rate limit asks to be left alone.
func (p *Probed) fails(f *upstream.Failure, res *routing.Result) (wait time.Duration) {
	p.Message = f.Message
	switch f.Blame {
	case hearth.BlameEndpoint:
		p.Outcome, res.Outcome = health.Failure, routing.Failed
	case hearth.BlameAccount:
		p.Outcome, res.Outcome = health.KeyRefused, routing.Failed
	case hearth.BlameRateLimit:
		wait = f.RetryAfter
		p.Outcome, res.Outcome, res.RetryAfter = health.RateLimited, routing.Limited, wait
	case hearth.BlameNobody:
	}
	return wait
}

// hear reads the answer of a probe to its end.
func (r *Relay) hear(s *upstream.Stream, p *Probed, res *routing.Result) {
	switch end := s.Copy(nobody{}, 0); end.Verdict {
	case hearth.Broken:
		p.fails(end.Failure, res)
		return
	case hearth.Gone: // what there was of it was an answer
		p.Outcome = health.Success
		return
	}
	p.Outcome, p.Usage, res.Outcome = health.Success, s.Usage, routing.Answered
	bill, err := meter.Settle(p.Endpoint, s.Usage, meter.Outcome{Currency: r.catalog.Currency, At: time.Now(), Finish: s.Finish})
	if err != nil {
		r.log.Warn("a probe's usage is not billable", "endpoint", p.Endpoint.ID, "err", err)
		return
	}
	res.In, res.Out, p.Cost = int(s.Usage.PromptTokens), int(s.Usage.CompletionTokens), bill.Cost
}

// nobody reads the answers of probes.
type nobody struct{}

func (nobody) Header() http.Header         { return http.Header{} }
func (nobody) Write(b []byte) (int, error) { return len(b), nil }
func (nobody) WriteHeader(int)             {}
