package relay

import (
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/meter"
)

// exchange is one request on its way.
type exchange struct {
	gen      hearth.Generation
	one      [1]string // the usual place of gen.Requested
	key      *hearth.Key
	body     body
	chat     *dialect.Chat // nil when no further candidate will need it
	media    downloads
	stamp    dialect.Stamp
	watch    meter.Stopwatch
	priced   time.Time     // when the chain was built: the price lists of that instant hold
	waitLeft time.Duration // what all slot waits of the request together may still take
	hold     ledger.Hold   // the money that the present attempt may cost
	use      account.Use   // of the limits per minute of the key
	tally    tally
	routed   routed
	parts    []chain.Maker // who made the sealed parts of the history; nil = nobody is known
	unsealed bool          // it is noted that somebody gets the history without some of them
	kept     *keeping      // prompt and answer, for who wants to read them later; nil = they are not kept
	early    *early        // answers before there is a winner; nil = that is not wanted
	begun    bool          // headers of an answer went to the caller; to be asked for with took
	recorded bool          // or it is to have no record
	forgone  bool
}

// tally is what the walk must know of its attempts and their records do not tell.
type tally struct {
	tried      int    // candidates that were dispatched
	context    int    // of them those whose window was too small
	overloaded int    // candidates for which the gateway had no memory left
	raw        string // the last upstream's own words for its failure
	param      string // the field of the request that it named
	code       string // its word for it
	overtaken  bool   // a slot was refused because a newer configuration holds
	quotes     bool   // messages of attempts may quote the request
}

// begin opens the record of a request.
func (r *Relay) begin(req *http.Request, id string, key *hearth.Key) *exchange {
	x := &exchange{key: key, watch: meter.Start()}
	now := x.watch.Arrival()
	x.gen = hearth.Generation{
		ID: id, KeyID: key.ID, CreatedAt: now.In(r.opt.Zone), APIType: "completions",
		Origin: bounded(req.Header.Get("Origin")), Referer: bounded(req.Header.Get("Http-Referer")),
		Title: bounded(first(req.Header, "X-Title", "X-Openrouter-Title")), UserAgent: bounded(req.UserAgent()),
		Bill: hearth.Bill{Currency: r.catalog.Currency},
	}
	x.stamp = dialect.Stamp{ID: x.gen.ID, Created: now.Unix(), Shown: r.catalog.Money(key)}
	return x
}

// read reads and decodes the body and holds back space for the record. What it refuses has none.
func (r *Relay) read(w http.ResponseWriter, req *http.Request, x *exchange) (err error) {
	if err := r.readBody(&x.body, w, req); err != nil {
		return err
	}
	if x.chat, err = dialect.DecodeChat(x.body.raw, estimate.JSON); err != nil {
		return err
	}
	if shown := x.stamp.Shown; !shown.Rate.IsZero() {
		x.chat.Prefs.MaxPrice = x.chat.Prefs.MaxPrice.Times(shown.Rate)
	}
	if err := r.admit(w, x); err != nil {
		return err
	}
	if err := r.ledger.Reserve(); err != nil {
		return err
	}
	r.keepContent(x)
	return nil
}

// took says whether headers of an answer went to the caller. Whoever asks has the caller to itself from then on: no
// comment of the early answer is being written, and none will be.
func (x *exchange) took() bool {
	if x.early.stop() {
		x.begun = true
	}
	return x.begun
}

// letGo gives the body back: no further candidate will need it.
func (r *Relay) letGo(x *exchange) {
	x.unquote()
	x.chat = nil
	x.routed.opening = nil
	x.media.free(r)
	x.body.free()
}

// record writes the record, once. It comes before the last bytes of whatever the caller is told.
func (r *Relay) record(x *exchange) error {
	if x.recorded {
		return nil
	}
	x.recorded = true
	defer r.ledger.Unreserve()
	x.unquote()
	x.settleUse()
	x.gen.Routing = x.routed.noted()
	x.gen.FirstToken, x.gen.Duration, x.gen.Generating = x.watch.ToFirstToken(), x.watch.Elapsed(), x.watch.Generating()
	err := r.ledger.Record(&x.gen)
	x.kept.offer(err == nil)
	return err
}

// forgo leaves a request without a record.
func (r *Relay) forgo(x *exchange) {
	x.recorded, x.forgone = true, true
	x.kept.offer(false)
	r.ledger.Unreserve()
}

// end is the last thing to happen to a request, whatever became of it: one that left without a record gets one, money is
// given back, and an error that comes after headers went out is told within the stream.
func (r *Relay) end(w http.ResponseWriter, x *exchange, err error) error {
	began := x.took()
	if !x.recorded {
		x.gen.Error, x.gen.HTTP = string(hearth.ErrInternal), http.StatusInternalServerError
		if began {
			x.gen.HTTP = http.StatusOK
		}
		if err := r.record(x); err != nil {
			r.log.Error("record not written", "generation", x.gen.ID, "err", err)
		}
	}
	x.early.end()
	x.hold.Release()
	if r.done != nil && !x.forgone {
		defer r.done(&x.gen)
	}
	e, ok := errors.AsType[*hearth.Error](err)
	if !ok || !began {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // the writer itself is broken: there is nobody to tell
			r.log.Error("panic while an error was told", "generation", x.gen.ID, "panic", p)
		}
	}()
	r.writeTail(w, x, x.stamp.AppendErrorChunk(nil, e))
	return nil
}

// panicked is what a request comes to whose handling panicked: a defect of ours, told to the caller like any other error.
func (r *Relay) panicked(x *exchange, p any) error {
	r.log.Error("panic in a request", "generation", x.gen.ID, "panic", p, "stack", string(debug.Stack()))
	return hearth.Errorf(hearth.ErrInternal, "the gateway made a mistake while handling this request; it has been logged")
}
