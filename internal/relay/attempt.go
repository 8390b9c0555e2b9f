package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// outcome is an attempt with what the walk needs to finish the request. The last bytes of an answer are still unsent.
type outcome struct {
	hearth.Attempt
	endpoint *hearth.Endpoint
	answer   *dialect.Answer   // a whole non-stream answer
	opened   *upstream.Opened  // whose memory is given back when the answer was written
	stream   *upstream.Stream  // a stream that was passed on, for its facts
	failure  *upstream.Failure // why it is Broken
	fault    *hearth.Error     // our own error, when there is no upstream to name
}

// attempt tries one candidate. The lease, the health permit and the upstream are given back before it returns.
func (r *Relay) attempt(ctx context.Context, w http.ResponseWriter, x *exchange, c hearth.Candidate, hasNext bool) (o outcome) {
	e := c.Endpoint
	o = outcome{endpoint: e, Attempt: hearth.Attempt{Model: e.Model.ID, Provider: e.Provider.Name, Slug: e.Provider.Slug, Endpoint: e.ID}}
	start := time.Now()
	verdict := health.NoVerdict
	defer func() {
		if o.Latency == 0 {
			o.Latency = time.Since(start)
		}
	}()
	if r.health.View()[e.Index].Out(start) { // no slot is woken for an endpoint that may not be tried
		o.Skip, o.Message = hearth.SkipCooldown, cooledMeanwhile
		return o
	}
	call := upstream.Call{Endpoint: e, Stream: x.chat.Stream, Stamp: &x.stamp}
	if e.Slot != nil {
		lease := r.lease(ctx, x, e, hasNext, &o)
		if lease == nil {
			return o
		}
		defer lease.Release()
		call.EngineURL, call.EngineKey = lease.URL, lease.APIKey
	}
	permit, ok := r.health.Take(e.Index, time.Now())
	if !ok {
		o.Skip, o.Message = hearth.SkipCooldown, cooledMeanwhile
		return o
	}
	defer func() { permit.Done(verdict, o.RetryAfter, time.Now()) }()
	r.forward(x, e, &call)
	// A stamp learns from the upstream it rewrites, so each attempt gets a new one.
	x.stamp = dialect.Stamp{ID: x.gen.ID, Model: e.Model.ID, Provider: e.Provider.Name, Created: x.stamp.Created}
	x.watch.Dispatch()

	opened, failure, err := r.upstream.Open(ctx, &call)
	o.Latency = time.Since(start)
	switch {
	case err != nil:
		o.left(err)
	case failure != nil:
		verdict = o.failed(failure)
		x.raw = failure.Raw
		r.alert(e, failure)
	case opened.Cut != nil:
		verdict = o.failed(opened.Cut)
		o.Verdict, o.failure = hearth.Broken, opened.Cut
	case opened.Answer != nil:
		x.watch.FirstToken()
		o.Verdict, o.Status, o.answer, o.opened = hearth.Served, opened.Status, opened.Answer, opened
		o.UpstreamID = opened.Answer.UpstreamID
		verdict = health.Success
	default:
		permit.Answering(time.Now())
		verdict = r.pass(w, x, &o, opened)
	}
	x.watch.End()
	return o
}

const cooledMeanwhile = "went into cooldown meanwhile, or another request is trying whether it is over"

// forward makes the body that goes to the endpoint. Large ones are made in kept buffers, which come back when the last
// reader has left.
func (r *Relay) forward(x *exchange, e *hearth.Endpoint, call *upstream.Call) {
	to := dialect.Target{Model: e.UpstreamModel, StreamUsage: !e.Provider.NoStreamOptions, UserSalt: r.opt.UserSalt}
	if x.size < minPooledForward || x.size > maxPooledBody {
		call.Body = x.chat.AppendForward(nil, to)
		return
	}
	box := bodyBuffers.Get().(*[]byte)
	call.Body = x.chat.AppendForward((*box)[:0], to)
	kept := call.Body
	call.Done = func() { *box = kept[:0]; bodyBuffers.Put(box) }
}

// minPooledForward is the smallest body, in bytes, whose copy is worth keeping the buffer of.
const minPooledForward = 16 << 10

// alert tells the operator of what only they can mend: a provider that refuses our account.
func (r *Relay) alert(e *hearth.Endpoint, f *upstream.Failure) {
	refused := f.Status == http.StatusPaymentRequired || f.Status == http.StatusForbidden
	if f.Blame == hearth.BlameAccount || refused && f.Blame == hearth.BlameEndpoint {
		r.log.Warn("a provider refuses our account: check its api_key and credit", "provider", e.Provider.Slug, "endpoint", e.ID, "status", f.Status)
	}
}

// left notes that the request's context ended: the caller went away, or the gateway is shutting down.
func (o *outcome) left(err error) {
	o.Verdict, o.Skip = hearth.Gone, hearth.SkipCancelled
	if errors.Is(err, upstream.ErrShutdown) {
		o.Message = upstream.ErrShutdown.Error()
		o.fault = hearth.Errorf(hearth.ErrOverloaded, "the gateway is shutting down; send the request again")
		o.fault.RetryAfter = time.Second
	}
}

// pass names the winner in the headers and passes its stream on.
func (r *Relay) pass(w http.ResponseWriter, x *exchange, o *outcome, opened *upstream.Opened) health.Outcome {
	s := opened.Stream
	x.watch.FirstToken()
	r.winner(w, o.endpoint)
	h := w.Header()
	h["Content-Type"] = eventStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
	x.begun = true
	x.free() // no other candidate will need the body, and streams are long
	end := s.Copy(w, r.opt.WriteLimit)
	o.Status, o.Verdict, o.stream, o.UpstreamID = opened.Status, end.Verdict, s, s.UpstreamID
	switch end.Verdict {
	case hearth.Broken:
		status, latency := o.Status, o.Latency
		outcome := o.failed(end.Failure)
		o.Verdict, o.failure, o.Status, o.Latency = hearth.Broken, end.Failure, status, latency
		return outcome
	case hearth.Served:
		return health.Success
	}
	return health.NoVerdict
}

// failed writes a failure into the attempt and says what it means for the endpoint's health.
func (o *outcome) failed(f *upstream.Failure) health.Outcome {
	o.Verdict, o.Status, o.Message, o.TimedOut = hearth.TryNext, f.Status, f.Message, f.TimedOut
	o.Blame, o.RetryAfter = f.Blame, min(f.RetryAfter, health.MaxRetryAfter) // the caller is told what we wait ourselves
	if f.Raw != "" {
		o.Message += ": " + f.Raw
	}
	if f.Loading {
		o.Status, o.Skip = 0, hearth.SkipLoading
	}
	switch f.Blame {
	case hearth.BlameEndpoint:
		return health.Failure
	case hearth.BlameRateLimit:
		return health.RateLimited
	case hearth.BlameAccount:
		return health.KeyRefused
	}
	return health.NoVerdict
}

// lease asks for a place in the endpoint's slot. Without one the attempt says why, in the slot's word.
func (r *Relay) lease(ctx context.Context, x *exchange, e *hearth.Endpoint, hasNext bool, o *outcome) *slot.Lease {
	asked := time.Now()
	lease, err := r.fleet.Acquire(ctx, slot.Ask{Slot: e.Slot, Key: x.key.ID, Budget: min(x.waitLeft, e.Slot.Wait), HasNext: hasNext})
	o.SlotWait = time.Since(asked)
	x.waitLeft = max(x.waitLeft-o.SlotWait, 0)
	if err == nil {
		return lease
	}
	var refusal *slot.Refusal
	if errors.As(err, &refusal) {
		o.Skip, o.Message, o.RetryAfter = refusal.Word, refusal.Message, refusal.RetryAfter
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	o.left(err)
	return nil
}
