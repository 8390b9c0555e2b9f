package relay

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/meter"
)

// finish settles and records an answer, and then writes its last bytes: the record is there before the caller knows
// that the answer is complete.
func (r *Relay) finish(w http.ResponseWriter, x *exchange, o *outcome) error {
	defer o.opened.Free()
	r.settle(x, o)
	x.gen.HTTP = http.StatusOK
	var fault *hearth.Error
	if o.Verdict == hearth.Broken {
		fault = brokenError(x, o)
		x.gen.Error = string(fault.Type)
		if !x.begun {
			x.gen.HTTP = fault.HTTPStatus()
		}
	}
	if err := r.record(x); err != nil {
		// An answer that cannot be recorded is not given: nobody could ever check its bill.
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
		fault = hearth.Errorf(hearth.ErrOverloaded, "the gateway cannot write its records, so the answer was withheld; if it was charged all the same, its record will say so")
		fault.Err = err
	}
	switch {
	case x.begun:
		r.writeTail(w, x, fault)
		return nil
	case fault != nil:
		return fault
	}
	r.winner(w, o.endpoint)
	box := tails.Get().(*[]byte)
	tail := o.answer.Append((*box)[:0], &x.stamp, x.gen.Bill)
	defer func() {
		if cap(tail) <= maxPooledBody {
			*box = tail[:0]
			tails.Put(box)
		}
	}()
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(tail))}
	if err := r.writeWhole(w, tail); err != nil {
		r.log.Debug("caller left before the last byte", "generation", x.gen.ID, "err", err)
	}
	return nil
}

// writePiece is how much of a whole answer, in bytes, the caller must take within the write limit.
const writePiece = 256 << 10

// writeWhole writes a whole answer. A caller who takes none of it must not hold it in memory for ever.
func (r *Relay) writeWhole(w http.ResponseWriter, b []byte) error {
	rc := http.NewResponseController(w)
	for len(b) > 0 {
		if r.opt.WriteLimit > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(r.opt.WriteLimit)) // not every writer has deadlines; those that lack them never block
		}
		n, err := w.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// writeTail ends a stream: the chunk that repeats the finish reason and carries the usage, or an error chunk, then
// [DONE]. The body is ended cleanly in both cases.
func (r *Relay) writeTail(w http.ResponseWriter, x *exchange, fault *hearth.Error) {
	var chunk []byte
	if fault != nil {
		chunk = x.stamp.AppendErrorChunk(nil, fault)
	} else {
		chunk = x.stamp.AppendFinal(nil, x.gen.FinishReason, x.gen.NativeFinish, x.gen.Usage, x.gen.Bill)
	}
	if _, err := w.Write(dialect.AppendLastEvents(nil, chunk)); err != nil {
		r.log.Debug("caller left before the last byte", "generation", x.gen.ID, "err", err)
	}
}

// settle writes the winner, its tokens and its price into the record.
func (r *Relay) settle(x *exchange, o *outcome) {
	e, g := o.endpoint, &x.gen
	g.Model, g.Slug, g.Provider, g.Endpoint, g.UpstreamID = e.Model.ID, e.Provider.Slug, e.Provider.Name, e.ID, o.UpstreamID
	switch {
	case o.answer != nil:
		g.Usage, g.FinishReason, g.NativeFinish = o.answer.Usage, o.answer.Finish, o.answer.Native
	case o.stream != nil:
		g.Usage, g.FinishReason, g.NativeFinish = o.stream.Usage, x.stamp.FinishReason(o.stream.Finish), o.stream.Native
	}
	switch o.Verdict {
	case hearth.Broken:
		g.FinishReason = "error"
	case hearth.Gone:
		g.FinishReason = o.stream.Finish // not one that nobody said
	}
	bill, err := meter.Settle(e, g.Usage, meter.Outcome{Currency: r.catalog.Currency, Finish: g.FinishReason, Images: g.Images})
	if err != nil {
		r.log.Error("usage not billable", "generation", g.ID, "endpoint", e.ID, "err", err)
		if errors.Is(err, meter.ErrUsage) {
			g.Usage = hearth.Usage{}
		}
	}
	g.Bill = bill
}

// abandon records a request whose caller left. What the upstream had reported by then is billed; nothing is written.
// When it was the gateway that had to leave, the caller is told.
func (r *Relay) abandon(x *exchange, o *outcome) error {
	if o.fault != nil {
		return r.refuse(x, o.fault)
	}
	x.gen.Cancelled, x.gen.HTTP = true, statusClientGone
	if x.begun {
		x.gen.HTTP = http.StatusOK
	}
	if o.stream != nil {
		r.settle(x, o)
	}
	if err := r.record(x); err != nil {
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
	}
	return nil
}

// statusClientGone is nginx's number for a caller who left before an answer.
const statusClientGone = 499

// reject ends a request whose chain is empty.
func (r *Relay) reject(w http.ResponseWriter, x *exchange, e *hearth.Error) error {
	r.note(w, x)
	switch e.HTTPStatus() {
	case http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable:
		x.worth = r.misses.allow(x.key.ID, time.Now())
	}
	return r.refuse(x, e)
}

// fail ends a request of which every candidate failed. Nothing is charged.
func (r *Relay) fail(x *exchange) error {
	e := chainError(x.gen.Attempts, x.gen.Requested)
	e.Raw = x.raw
	return r.refuse(x, e)
}

func (r *Relay) refuse(x *exchange, e *hearth.Error) error {
	x.gen.HTTP, x.gen.Error = e.HTTPStatus(), string(e.Type)
	if err := r.record(x); err != nil {
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
	}
	return e
}

// chainError names what a chain that failed as a whole means to the caller.
func chainError(attempts []hearth.Attempt, requested []string) *hearth.Error {
	last := &attempts[len(attempts)-1]
	every := func(ok func(*hearth.Attempt) bool) bool {
		return !slices.ContainsFunc(attempts, func(a hearth.Attempt) bool { return !ok(&a) })
	}
	var e *hearth.Error
	switch {
	case last.Skip.Slot():
		e = hearth.Errorf(hearth.ErrModelLoading, "%s is not ready: %s", last.Model, last.Message)
		e.SlotStatus, e.RetryAfter = last.Skip, spread(last.RetryAfter)
	case every(func(a *hearth.Attempt) bool { return a.Skip == hearth.SkipCooldown }):
		e = hearth.Errorf(hearth.ErrCoolingDown, "every endpoint that could serve this request is being tried anew by another one after failures")
		e.RetryAfter = leastRetry(attempts)
	case every(func(a *hearth.Attempt) bool { return a.Blame == hearth.BlameRateLimit }):
		e = hearth.Errorf(hearth.ErrRateLimited, "every provider of this model is rate limited")
		e.RetryAfter = leastRetry(attempts)
	case every(func(a *hearth.Attempt) bool { return a.Blame == hearth.BlameNobody && a.Status >= 400 }):
		e = hearth.Errorf(hearth.ErrInvalidRequest, "every provider rejected the request: %s", last.Message)
		if last.Status < 500 { // an engine's 5xx for a fault of the request is the caller's 400
			e.Status = last.Status
		}
	case every(func(a *hearth.Attempt) bool { return a.TimedOut }):
		e = hearth.Errorf(hearth.ErrTimeout, "every provider of this request timed out")
	default:
		e = hearth.Errorf(hearth.ErrProvider, "no provider answered; the last one, %s: %s", last.Provider, last.Message)
	}
	e.Provider, e.Attempts, e.Requested = last.Provider, attempts, requested
	return e
}

// spread lengthens a wait by 0 to 20 %, so that callers who were refused together do not come back in one second.
func spread(d time.Duration) time.Duration {
	return max(d, time.Second) + time.Duration(rand.Int64N(int64(max(d, time.Second)/5)))
}

// leastRetry is the smallest Retry-After of the attempts, at least a second.
func leastRetry(attempts []hearth.Attempt) time.Duration {
	least := time.Duration(0)
	for _, a := range attempts {
		if a.RetryAfter > 0 && (least == 0 || a.RetryAfter < least) {
			least = a.RetryAfter
		}
	}
	return max(least, time.Second)
}

// brokenError is what the caller gets when an answer had begun and then failed.
func brokenError(x *exchange, o *outcome) *hearth.Error {
	e := hearth.Errorf(hearth.ErrProvider, "%s failed after its answer had begun: %s", o.Provider, o.failure.Message)
	if o.failure.TimedOut {
		e.Type = hearth.ErrTimeout
	}
	if !x.begun {
		e.Type = hearth.ErrProvider
	}
	e.Provider, e.Raw, e.Attempts, e.Requested = o.Provider, o.failure.Raw, x.gen.Attempts, x.gen.Requested
	return e
}

// record writes the record once. A request that is not worth one gives its reserved space back.
func (r *Relay) record(x *exchange) error {
	if x.recorded {
		return nil
	}
	x.recorded = true
	defer r.ledger.Unreserve()
	if !x.worth {
		return nil
	}
	x.gen.FirstToken, x.gen.Duration, x.gen.Generating = x.watch.ToFirstToken(), x.watch.Elapsed(), x.watch.Generating()
	return r.ledger.Record(&x.gen)
}

// close is the last thing to happen to a request: one that left without a record, in a panic too, gets one.
func (r *Relay) close(x *exchange) {
	if x.recorded {
		return
	}
	x.gen.Error, x.gen.HTTP = string(hearth.ErrInternal), http.StatusInternalServerError
	x.worth = true
	if err := r.record(x); err != nil {
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
	}
}

// panicked ends a request whose handling panicked: a defect of ours, told to the caller like any other error.
func (r *Relay) panicked(w http.ResponseWriter, x *exchange, p any) error {
	e := hearth.Errorf(hearth.ErrInternal, "the gateway made a mistake while handling this request; it has been logged")
	r.log.Error("panic in a request", "generation", x.gen.ID, "panic", p, "stack", string(debug.Stack()))
	if !x.begun {
		return e
	}
	r.close(x)
	r.writeTail(w, x, e)
	return nil
}

// tails are buffers for whole answers on their way out.
var tails = sync.Pool{New: func() any { return new([]byte) }}

var (
	eventStream = []string{"text/event-stream"}
	jsonType    = []string{"application/json"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"} // nginx would hold the stream back
)
