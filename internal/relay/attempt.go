package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/health"
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
	health   health.Outcome    // what it says of the endpoint
	place    int               // of the candidates that shared the wait, which it is
	passed   []hearth.Attempt  // those before it, which were not ready
	quotes   bool              // Message holds words of the upstream, or of the caller
	judged   bool              // its tool calls are being looked at: who does will tell of them
	broke    bool              // the connection failed: nothing that the upstream said
	unsent   <-chan struct{}   // as far as can be told no living engine had the request; this says when it is gone; else nil
}

// begin names the endpoint that is tried.
func (o *outcome) begin(e *hearth.Endpoint) {
	o.endpoint = e
	o.Model, o.Provider, o.Slug, o.Endpoint = e.Model.ID, e.Provider.Name, e.Provider.Slug, e.ID
}

// attempt tries the first of the candidates, or another if its slot is ready first: they share a wait. What it holds (a
// place in a slot, the permit to try the endpoint) is given back before it returns.
func (r *Relay) attempt(ctx context.Context, w http.ResponseWriter, x *exchange, cs []hearth.Candidate, hasNext bool) (o outcome) {
	o.begin(cs[0].Endpoint)
	x.tally.raw, x.tally.param, x.tally.code = "", "", ""
	start := time.Now()
	var g grant
	tried := false
	defer func() {
		if !tried { // a panic is on its way out, and nobody else knows of this attempt
			o.Latency, o.Message = time.Since(start), defect
			x.gen.Attempts = append(x.gen.Attempts, o.Attempt)
		}
		g.try.Done(x.result(&o), o.ended())
		g.giveBack(&o)
	}()
	call := upstream.Call{Stream: x.chat.Stream, Stamp: &x.stamp, MaxTokens: x.chat.MaxTokens}
	if !r.obtain(ctx, x, cs, &call, &g, &o, hasNext) {
		o.Latency, tried = time.Since(start), true
		return o
	}
	e := o.endpoint
	x.stamp = x.newStamp(e)
	x.stamp.Seed = r.makers.seed
	x.leftOut(e)
	x.watch.Dispatch()
	x.tally.tried++
	sent := time.Now()
	g.try = r.begins(x, e, sent)

	opened, failure, err := r.upstream.Open(ctx, &call)
	o.Latency = time.Since(start)
	sent = sent.Add(x.waitedElsewhere(g.lease, &o))
	switch {
	case err != nil:
		o.left(err)
	case failure != nil:
		o.failed(failure)
		x.tally.add(failure)
		o.unsent = g.unsent(failure, time.Since(sent))
		if o.Skip.Slot() { // it is skipped, as its record says
			x.tally.tried--
		}
		r.alert(e, failure)
	case opened.Cut != nil:
		o.broken(opened.Cut)
	case opened.Answer != nil:
		x.watch.FirstToken()
		o.Verdict, o.Status, o.answer, o.opened = hearth.Served, opened.Status, opened.Answer, opened
		o.UpstreamID, o.health = opened.Answer.UpstreamID, health.Success
	default:
		g.permit.Answering(time.Now())
		g.try.First(opened.Stream.FirstAt)
		r.pass(w, x, &o, opened)
	}
	x.watch.EndAt(o.ended())
	r.made(x, &o)
	r.measure(x, &o, &g, sent)
	x.tally.quotes = x.tally.quotes || o.quotes
	tried = true
	return o
}

// ended is when the upstream's last byte came, or now if that cannot be told: however long the caller takes, it is not the
// endpoint's time.
func (o *outcome) ended() time.Time {
	if o.stream == nil || o.stream.LastAt.IsZero() {
		return time.Now()
	}
	return o.stream.LastAt
}

// paced says whether the caller took a stream so slowly that it says nothing of how fast the endpoint is: what is not
// read ahead comes at the caller's pace.
func (o *outcome) paced() bool {
	const noise, part = 250 * time.Millisecond, 10
	s := o.stream
	return s != nil && s.Waited > max(noise, s.LastAt.Sub(s.FirstAt)/part)
}

// newStamp is the stamp for an attempt at e: one learns from the upstream that it rewrites, so each attempt gets its own.
func (x *exchange) newStamp(e *hearth.Endpoint) dialect.Stamp {
	return dialect.Stamp{
		ID: x.gen.ID, Model: e.Model.ID, Provider: e.Provider.Name, Created: x.stamp.Created, Shown: x.stamp.Shown, Tools: x.chat.ToolNames, Keep: x.kept.again(),
		Running: running(e), PassUsage: x.chat.RunningUsage, PassTimings: x.chat.Timings,
	}
}

// defect is what the record says of an attempt that ended in a panic.
const defect = "the gateway made a mistake while it tried this candidate"

// obtain gets what an attempt needs before anything is sent: the money, what its media hold, a place in the slot, the
// permit, the body to send. Without one of them the outcome says why.
func (r *Relay) obtain(ctx context.Context, x *exchange, cs []hearth.Candidate, call *upstream.Call, g *grant, o *outcome, hasNext bool) bool {
	c, e := &cs[0], o.endpoint
	if h := r.health.View()[e.Index]; h.Out(time.Now()) && !c.LastResort { // no slot is woken for an endpoint that may not be tried
		o.cooled(h)
		return false
	}
	if !r.afford(x, c) {
		o.unaffordable()
		return false
	}
	if e.Local() && x.chat.Request.MediaURLs > 0 && !r.fetchMedia(ctx, x, o) {
		return false
	}
	if e.Slot != nil {
		if !r.lease(ctx, x, cs, g, o, hasNext) {
			return false
		}
		c, e = &cs[o.place], o.endpoint
		if o.place > 0 && !r.afford(x, c) {
			o.unaffordable()
			return false
		}
		call.Lease, call.EngineURL, call.EngineKey, call.Transport = g.lease, g.lease.URL, g.lease.APIKey, g.lease.Transport
		if g.lease.Remote {
			call.Wait = min(x.waitLeft, e.Slot.Wait)
		}
	}
	call.Endpoint = e
	take := r.health.Take
	if c.LastResort {
		take = r.health.TakeAnyway
	}
	var ok bool
	if g.permit, ok = take(e.Index, time.Now()); !ok {
		o.cooled(r.health.View()[e.Index])
		return false
	}
	if !r.forward(x, c, call) {
		o.Message = "no memory is left for the body of this request"
		x.tally.overloaded++
		return false
	}
	return true
}

// alert tells the operator of what only they can mend: a provider that refuses our account.
func (r *Relay) alert(e *hearth.Endpoint, f *upstream.Failure) {
	refused := f.Status == http.StatusPaymentRequired || f.Status == http.StatusForbidden
	if f.Blame == hearth.BlameAccount || refused && f.Blame == hearth.BlameEndpoint {
		r.log.Warn("a provider refuses our account: check its api_key and credit", "provider", e.Provider.Slug, "endpoint", e.ID, "status", f.Status)
	}
}

// pass names the winner in the headers and passes its stream on. An early comment that the caller has not taken yet is
// waited for where the stream's own first write would be: it holds up no engine.
func (r *Relay) pass(w http.ResponseWriter, x *exchange, o *outcome, opened *upstream.Opened) {
	s := opened.Stream
	o.Status, o.UpstreamID = opened.Status, s.UpstreamID
	x.watch.FirstToken()
	s.Begin = func() error { // a stream that has come so far writes something
		r.began(x, o.endpoint)
		if x.took() {
			return x.early.failed()
		}
		r.winner(w, o.endpoint)
		r.noteLeftOut(w, x)
		r.streamHeaders(w)
		x.begun = true
		return nil
	}
	r.letGo(x) // streams are long
	end := s.Copy(w, r.opt.WriteLimit)
	o.Verdict, o.stream, o.UpstreamID = end.Verdict, s, s.UpstreamID
	switch end.Verdict {
	case hearth.Broken:
		o.broken(end.Failure)
		o.Status, o.Message, o.quotes = opened.Status, end.Failure.Message, false // the request is not at hand any more: see unquote
		if end.Failure.Code != "" {
			o.Message += " (" + end.Failure.Code + ")"
		}
	case hearth.Served:
		o.health = health.Success
	case hearth.Gone:
		if end.Failure != nil { // nobody waited for the answer: it says nothing of the endpoint
			o.failure, o.Message = end.Failure, "failed when its caller had left: "+end.Failure.Message
		}
	}
}

// unaffordable notes that the key cannot pay for the candidate.
func (o *outcome) unaffordable() {
	o.Skip, o.Message = hearth.SkipOverBudget, "the key's limit does not cover what this candidate may cost"
}

// cooled notes that the endpoint may not be tried now, although it could when the chain was built.
func (o *outcome) cooled(h hearth.EndpointHealth) {
	o.Skip, o.Message = hearth.SkipCooldown, "went into cooldown meanwhile, or another request is trying whether it is over"
	if h.Skip == hearth.SkipRateLimited {
		o.Skip, o.Message = hearth.SkipRateLimited, "the provider said meanwhile that it is asked too often"
	}
	o.RetryAfter = max(time.Until(h.Until), time.Second)
}

// left notes that the request's context ended: the caller went away, or the gateway is shutting down.
func (o *outcome) left(err error) {
	o.Verdict, o.Skip = hearth.Gone, hearth.SkipCancelled
	if errors.Is(err, upstream.ErrShutdown) {
		o.Message = upstream.ErrShutdown.Error()
		o.fault = shuttingDown()
	}
}

func shuttingDown() *hearth.Error {
	e := hearth.Errorf(hearth.ErrOverloaded, "the gateway is shutting down; send the request again")
	e.RetryAfter = time.Second
	return e
}

// broken notes a failure that comes too late for another candidate.
func (o *outcome) broken(f *upstream.Failure) {
	o.failed(f)
	o.Verdict, o.failure, o.Skip = hearth.Broken, f, ""
}

// failed notes a failure, and what it means for the endpoint's health.
func (o *outcome) failed(f *upstream.Failure) {
	word := elsewhere(f)
	o.Verdict, o.Status, o.Message, o.TimedOut = hearth.TryNext, f.Status, f.Message, f.TimedOut
	o.Blame, o.RetryAfter = f.Blame, min(f.RetryAfter, health.MaxRetryAfter) // the caller is told what we wait ourselves
	if f.Raw != "" {
		o.Message += ": " + f.Raw
		o.quotes = true
	}
	if f.Loading {
		word = hearth.SkipLoading
	}
	if f.Stopped {
		word, o.RetryAfter = hearth.SkipFailed, time.Second
	}
	if word != "" {
		o.Status, o.Skip = 0, word
	}
	o.broke = f.Broke
	switch f.Blame {
	case hearth.BlameEndpoint:
		o.health = health.Failure
	case hearth.BlameRateLimit:
		o.health = health.RateLimited
	case hearth.BlameAccount:
		o.health = health.KeyRefused
	case hearth.BlameNobody:
		o.health = health.NoVerdict
	}
}

// add counts a failure.
func (t *tally) add(f *upstream.Failure) {
	t.raw, t.param, t.code = f.Raw, f.Param, f.Code
	if f.Context {
		t.context++
	}
	if f.Overloaded {
		t.overloaded++
	}
}
