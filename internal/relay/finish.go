package relay

import (
	"errors"
	"net/http"
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
	if o.Verdict == hearth.Broken {
		return r.refuse(x, brokenError(x, o))
	}
	x.gen.HTTP = http.StatusOK
	if err := r.record(x); err != nil {
		// An answer that cannot be recorded is not given: nobody could ever check its bill.
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
		e := hearth.Errorf(hearth.ErrOverloaded, "the gateway cannot write its records, so the answer was withheld; if it was charged all the same, its record will say so")
		e.Err = err
		return e
	}
	if o.answer == nil {
		r.writeTail(w, x, x.stamp.AppendFinal(nil, x.gen.FinishReason, x.gen.NativeFinish, x.gen.Usage, x.gen.Bill))
		return nil
	}
	r.writeAnswer(w, x, o)
	return nil
}

// writeAnswer writes a whole answer, with its bill.
func (r *Relay) writeAnswer(w http.ResponseWriter, x *exchange, o *outcome) {
	r.winner(w, o.endpoint)
	r.noteLeftOut(w, x)
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
}

// tails are buffers for whole answers on their way out.
var tails = sync.Pool{New: func() any { return new([]byte) }}

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
func (r *Relay) writeTail(w http.ResponseWriter, x *exchange, chunk []byte) {
	if err := r.writeWhole(w, dialect.AppendLastEvents(nil, chunk)); err != nil {
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
		if o.answer.Content && g.Usage.CompletionTokens == 0 {
			g.Unbilled = 1
		}
	case o.stream != nil:
		g.Usage, g.FinishReason, g.NativeFinish = o.stream.Usage, x.stamp.FinishReason(o.stream.Finish), o.stream.Native
		g.Unbilled = o.stream.Unbilled
	}
	switch o.Verdict {
	case hearth.Broken:
		g.FinishReason = "error"
	case hearth.Gone:
		g.FinishReason = o.stream.Finish // not one that nobody said
		if o.failure != nil {
			g.FinishReason = "error"
		}
	}
	bill, err := meter.Settle(e, g.Usage, meter.Outcome{Currency: r.catalog.Currency, At: x.priced, Finish: g.FinishReason, Images: g.Images})
	if err != nil {
		r.log.Error("usage not billable", "generation", g.ID, "endpoint", e.ID, "err", err)
		if errors.Is(err, meter.ErrUsage) {
			g.Usage = hearth.Usage{}
		}
	}
	g.Bill = bill
	r.checkHold(x, e)
}

// checkHold notices an answer that cost more than was held back of a limit: the upstream counted a longer prompt than
// was estimated, gave more than it was allowed to, or names a higher cost than its list price.
func (r *Relay) checkHold(x *exchange, e *hearth.Endpoint) {
	g := &x.gen
	if w := r.wallet(x.key, g.CreatedAt); !w.Bounds(!e.Local()) || g.Bill.Cost <= x.hold.Amount() {
		return
	}
	r.overruns.Add(1)
	r.log.Warn("an answer cost more than was held back for it", "generation", g.ID, "endpoint", e.ID, "cost", g.Bill.Cost, "held", x.hold.Amount(),
		"prompt", g.Usage.PromptTokens, "estimate", g.Estimate, "completion", g.Usage.CompletionTokens)
}

// abandon records a request whose caller left. What the upstream had reported by then is billed; nothing is written.
// When it was the gateway that had to leave, the caller is told.
func (r *Relay) abandon(x *exchange, o *outcome) error {
	if o.fault != nil {
		return r.refuse(x, o.fault)
	}
	x.gen.Cancelled, x.gen.HTTP = true, statusClientGone
	if x.took() {
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

// reject ends a request whose chain is empty. What is the request's own fault has no record, and of the rest the first
// few of a second.
func (r *Relay) reject(x *exchange, e *hearth.Error) error {
	switch e.HTTPStatus() {
	case http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable:
		if r.misses.allow(x.key.ID, time.Now()) {
			return r.refuse(x, e)
		}
	}
	r.forgo(x)
	return e
}

// refuse records a request that ends in an error, and returns it.
func (r *Relay) refuse(x *exchange, e *hearth.Error) error {
	x.gen.HTTP, x.gen.Error = e.HTTPStatus(), string(e.Type)
	x.kept.failed(e)
	if x.took() {
		x.gen.HTTP = http.StatusOK
	}
	if err := r.record(x); err != nil {
		r.log.Error("record not written", "generation", x.gen.ID, "err", err)
	}
	return e
}
