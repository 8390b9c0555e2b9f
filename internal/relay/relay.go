// Package relay is the walk of one request: read, decode, build the chain, try its candidates in turn, settle,
// record, and only then let the last bytes go.
package relay

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/estimate"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/meter"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/upstream"
)

// Options are the settings of a Relay.
type Options struct {
	HeaderPrefix string         // "X-MyIP": the names of our headers begin with it
	IDPrefix     string         // "gen-"
	MaxBody      int64          // bytes of one request body
	MaxBodyTotal int64          // bytes of all request bodies in memory together
	WriteLimit   time.Duration  // an answer whose caller takes nothing for so long is ended
	UserSalt     []byte         // keys the hash under which body.user goes upstream
	Zone         *time.Location // rules the day a record is counted to; nil = UTC
	MaxAttempts  int            // candidates that are tried at most, skipped ones not counted; 0 = all
	EarlyHeaders time.Duration  // a stream without a winner by then gets its headers and comments; 0 = never, a key may say otherwise
	KeepAlive    time.Duration  // between two comments of a silent stream; 0 = 10 s
	LastResort   bool           // endpoints in cooldown are tried behind everything else of their tier
}

// Relay carries requests through their chains. It is safe for concurrent use.
type Relay struct {
	opt      Options
	names    headerNames
	catalog  *hearth.Catalog
	fleet    *slot.Fleet
	health   *health.Tracker
	upstream *upstream.Client
	ledger   *ledger.Ledger
	log      *slog.Logger
	bodies   atomic.Int64 // bytes of request bodies held now
	misses   sampler
}

// Parts are what a Relay works with.
type Parts struct {
	Catalog  *hearth.Catalog
	Fleet    *slot.Fleet
	Health   *health.Tracker
	Upstream *upstream.Client
	Ledger   *ledger.Ledger
	Log      *slog.Logger
}

// New makes a Relay.
func New(o Options, p Parts) *Relay {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	return &Relay{
		opt: o, names: namesFor(o.HeaderPrefix), catalog: p.Catalog, fleet: p.Fleet, health: p.Health,
		upstream: p.Upstream, ledger: p.Ledger, log: p.Log,
	}
}

// exchange is one request on its way.
type exchange struct {
	gen      hearth.Generation
	key      *hearth.Key
	chat     *dialect.Chat
	stamp    dialect.Stamp
	watch    meter.Stopwatch
	waitLeft time.Duration // what all slot waits of the request together may still take
	size     int           // of the body, in bytes
	free     func()        // gives the body's buffer and budget back: chat must not be forwarded afterwards
	raw      string        // the last upstream's own words for its failure
	begun    bool          // headers of an answer went to the caller
	worth    bool          // the request is to be recorded
	recorded bool
}

// Chat answers a chat request of an authorised caller under the id that Name gave it. The body has not been read yet.
// An error that is returned has been recorded and nothing has been sent; the server writes it.
func (r *Relay) Chat(w http.ResponseWriter, req *http.Request, id string, key *hearth.Key) (err error) {
	x := r.begin(req, id, key)
	raw, free, err := r.ReadBody(w, req)
	if err != nil {
		return err
	}
	x.free = free
	defer x.free()
	x.size = len(raw)
	if x.chat, err = dialect.DecodeChat(raw, estimate.JSON); err != nil {
		return err
	}
	if err := r.ledger.Reserve(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(w, x, p)
		}
		r.close(x)
	}()
	ch, cerr := r.build(x, req)
	if cerr != nil {
		return r.reject(w, x, cerr)
	}
	r.note(w, x)
	return r.walk(w, req.Context(), x, ch)
}

// walk tries the candidates in turn until one answers, or the caller leaves.
func (r *Relay) walk(w http.ResponseWriter, ctx context.Context, x *exchange, ch hearth.Chain) error {
	x.worth = true
	for i, c := range ch.Candidates {
		a := r.attempt(ctx, w, x, c, i+1 < len(ch.Candidates))
		x.gen.Attempts = append(x.gen.Attempts, a.Attempt)
		switch a.Verdict {
		case hearth.TryNext:
			continue
		case hearth.Served, hearth.Broken:
			return r.finish(w, x, &a)
		case hearth.Gone:
			return r.abandon(x, &a)
		}
	}
	return r.fail(x)
}

// Name gives a request its generation id and tells it to the caller, whatever becomes of the request.
func (r *Relay) Name(w http.ResponseWriter) (id string) {
	id = r.opt.IDPrefix + ulid.Make().String()
	v := []string{id}
	h := w.Header()
	h[r.names.generation], h["X-Generation-Id"] = v, v
	return id
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
	x.stamp = dialect.Stamp{ID: x.gen.ID, Created: now.Unix()}
	return x
}

// build makes the chain from the present state and fixes what the request may wait for slots in all.
func (r *Relay) build(x *exchange, req *http.Request) (hearth.Chain, *hearth.Error) {
	q := &x.chat.Request
	ch, err := chain.Build(r.input(q, x.key))
	x.gen.Requested, x.gen.Estimate, x.gen.Images, x.gen.Streamed = q.Models, q.Estimate, q.Images, q.Stream
	x.gen.Drops = ch.Drops
	x.gen.Notes = append(append(x.gen.Notes, q.Notes...), ch.Notes...)
	if len(x.gen.Requested) == 0 {
		x.gen.Requested = []string{r.catalog.DefaultModel}
	}
	for _, c := range ch.Candidates {
		if c.Endpoint.Slot != nil {
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

// input is what a chain is made from now.
func (r *Relay) input(q *hearth.Request, key *hearth.Key) chain.Input {
	v := chain.Views{Catalog: r.catalog, Slots: r.fleet.Views(nil), Health: r.health.View()}
	return chain.Input{Request: q, Key: key, Views: v, Now: time.Now(), LastResort: r.opt.LastResort}
}

// Explained is a chain with what it was built from.
type Explained struct {
	In    chain.Input
	Chain hearth.Chain
	Err   *hearth.Error // what the caller would get: the chain is empty; nil = it is not
}

// Explain builds the chain that a request body would get under a key (nil = one that may do everything) from the present
// state, and calls nobody. A request that no candidate can serve is explained too; only one that cannot be read, or
// names an unknown model alone, is an error.
func (r *Relay) Explain(raw []byte, key *hearth.Key) (Explained, error) {
	chat, err := dialect.DecodeRouting(raw, estimate.JSON)
	if err != nil {
		return Explained{}, err
	}
	x := Explained{In: r.input(&chat.Request, key)}
	x.Chain, x.Err = chain.Build(x.In)
	if x.Err != nil && (x.Err.Type == hearth.ErrModelNotFound || x.Err.Type == hearth.ErrInvalidRequest) {
		return Explained{}, x.Err
	}
	x.Chain.Notes = append(append([]string(nil), chat.Notes...), x.Chain.Notes...)
	return x, nil
}

// Generation finds the record of a request by its id. Whether the caller may see it is for the server to decide, by its
// KeyID. The error is a *hearth.Error of type not_found, or the store's.
func (r *Relay) Generation(ctx context.Context, id string) (*hearth.Generation, error) {
	return r.ledger.Generation(ctx, id)
}

// AppendError appends the body with which an error is told to a caller of the chat API.
func AppendError(dst []byte, e *hearth.Error) []byte { return dialect.AppendError(dst, e) }
