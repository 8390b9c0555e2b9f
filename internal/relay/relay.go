// Package relay is the walk of one request: read, decode, build the chain, try its candidates in turn, settle,
// record, and only then let the last bytes go.
package relay

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/content"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/media"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/toolcheck"
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
	ByCost       bool           // tiers of external endpoints are ordered by routing cost, else by price
	LastResort   bool           // endpoints in cooldown are tried behind everything else of their tier
	// ExternalLimit bounds what all keys together spend at external providers.
	ExternalLimit ledger.Budget
	// Content says whose prompts and answers are kept; nil = nobody's.
	Content *content.Rules
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
	windows  *routing.Windows
	router   *routing.Router
	media    *media.Fetcher
	contents *content.Log
	judge    *toolcheck.Judge
	log      *slog.Logger
	done     func(*hearth.Generation)
	bodies   *atomic.Int64    // bytes of request bodies held now, also by the relays before and after this one
	misses   *sampler         // likewise
	overruns *atomic.Int64    // likewise
	minutes  *account.Minutes // likewise
	makers   *makers          // likewise
	marks    maphash.Seed     // likewise; what sessions are recorded by
	followed chan struct{}    // closed when a newer relay has taken over
	next     *Relay           // which one; to be read when followed is closed
}

// Parts are what a Relay works with.
type Parts struct {
	Catalog  *hearth.Catalog
	Fleet    *slot.Fleet
	Health   *health.Tracker
	Upstream *upstream.Client
	Ledger   *ledger.Ledger
	Windows  *routing.Windows // nil: nothing is measured
	Router   *routing.Router  // orders tiers of external endpoints; nil: they go by price
	Media    *media.Fetcher   // nil: no engine of the house gets a request with media behind web addresses
	Contents *content.Log     // where prompts and answers are kept; nil = they are not
	Judge    *toolcheck.Judge // holds tool calls against their schemas; nil = nobody does
	Log      *slog.Logger
	// Done is told of every request that has a record, after its last bytes; it must keep nothing of it. nil = nobody is.
	Done func(*hearth.Generation)
}

// New makes a Relay.
func New(o Options, p Parts) *Relay {
	return newRelay(o, p, new(atomic.Int64), new(sampler), new(atomic.Int64), new(account.Minutes), newMakers(), maphash.MakeSeed())
}

func newRelay(o Options, p Parts, bodies *atomic.Int64, misses *sampler, overruns *atomic.Int64, minutes *account.Minutes, makers *makers, marks maphash.Seed) *Relay {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 10 * time.Second
	}
	return &Relay{
		opt: o, names: namesFor(o.HeaderPrefix), catalog: p.Catalog, fleet: p.Fleet, health: p.Health,
		upstream: p.Upstream, ledger: p.Ledger, windows: p.Windows, router: p.Router, media: p.Media, contents: p.Contents, judge: p.Judge, log: p.Log, done: p.Done, bodies: bodies, misses: misses, overruns: overruns, minutes: minutes, makers: makers, marks: marks,
		followed: make(chan struct{}),
	}
}

// Name gives a request its generation id and tells it to the caller, whatever becomes of the request.
func (r *Relay) Name(w http.ResponseWriter) (id string) {
	var text [ulid.EncodedSize]byte
	_ = ulid.Make().MarshalTextTo(text[:]) // fails only where there is too little room
	id = r.opt.IDPrefix + string(text[:])
	v := []string{id}
	h := w.Header()
	h[r.names.generation], h["X-Generation-Id"] = v, v
	return id
}

// Chat answers a chat request of an authorised caller under the id that Name gave it. The body has not been read yet.
// An error that is returned has been recorded and nothing has been sent; the server writes it.
func (r *Relay) Chat(w http.ResponseWriter, req *http.Request, id string, key *hearth.Key) (err error) {
	x := r.begin(req, id, key)
	defer r.letGo(x)
	defer x.settleUse()
	if err := r.read(w, req, x); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(x, p)
		}
		err = r.end(w, x, err)
		x.gen.Routing = nil
		x.routed.forget()
	}()
	ch, e := r.build(req, x)
	r.note(w, x)
	if e != nil {
		return r.reject(x, e)
	}
	r.votes(x, ch.Candidates)
	return r.walk(r.early(req.Context(), w, x), w, x, ch.Candidates)
}

// walk tries the candidates in turn until one answers, or the caller leaves.
func (r *Relay) walk(ctx context.Context, w http.ResponseWriter, x *exchange, rest []hearth.Candidate) error {
	again := false
	for len(rest) > 0 && !r.enough(x) {
		n := r.together(rest)
		a := r.attempt(ctx, w, x, rest[:n], len(rest) > n)
		c := rest[a.place]
		rest = without(rest, a.place)
		if a.Verdict != hearth.TryNext { // else those before it are tried yet
			x.gen.Attempts = append(x.gen.Attempts, a.passed...)
		}
		x.gen.Attempts = append(x.gen.Attempts, a.Attempt)
		switch a.Verdict {
		case hearth.TryNext:
			if len(rest) == 0 && !again && x.comesBack(ctx, &a) {
				again, rest = true, []hearth.Candidate{c}
				if !a.Skip.Slot() { // a slot word was not counted
					x.tally.tried-- // it is the same candidate
				}
				continue
			}
			r.rerank(x, c, rest)
		case hearth.Served, hearth.Broken:
			return r.finish(w, x, &a)
		case hearth.Gone:
			return r.abandon(x, &a)
		}
	}
	if next := r.overtaken(ctx, x); next != nil {
		return next.anew(ctx, w, x, len(rest))
	}
	return r.fail(x, len(rest))
}

// Overruns is how many answers cost more than was held back for them, by this relay and those before it. Each stands in
// the log. A spend limit may have been passed by that much.
func (r *Relay) Overruns() int64 { return r.overruns.Load() }

// Generation finds the record of a request by its id. Whether the caller may see it is for the server to decide, by its
// KeyID. The error is a *hearth.Error of type not_found, or the store's.
func (r *Relay) Generation(ctx context.Context, id string) (*hearth.Generation, error) {
	return r.ledger.Generation(ctx, id)
}

// AppendError appends the body with which an error is told to a caller of the chat API.
func AppendError(dst []byte, e *hearth.Error) []byte { return dialect.AppendError(dst, e) }
