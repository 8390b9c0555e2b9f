// Package fx keeps exchange rates that are published at a web address: it fetches them at an interval, keeps the last good
// value over failures and restarts, refuses values that jump, and says which rates are too old to be used.
package fx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Source says where the rate of a currency is published, and how far it is trusted.
type Source struct {
	Currency string                   // of which the rate is told
	URL      string                   // answers a GET with JSON
	Pointer  string                   // where in it the number stands, a JSON pointer (RFC 6901): "/rates/KRW"
	Invert   bool                     // the number says how much of Currency one unit of the billing currency costs
	Headers  map[string]hearth.Secret // sent with the request
	Every    time.Duration            // between two fetches
	// MaxJump is how far a new value may be from the last good one, 0.1 = ten per cent, for each day begun since that was
	// fetched; the first may be from half to twice Start. Zero = any distance.
	MaxJump    decimal.Decimal
	MaxAge     time.Duration   // after it the last good value is too old, 0 = never
	AllowStale bool            // a value that is too old is used nevertheless
	Start      decimal.Decimal // holds until the first good fetch; positive
}

// Book holds the rates of its sources. Its methods may be called from many goroutines.
type Book struct {
	client *http.Client
	log    *slog.Logger
	file   string

	mu      sync.Mutex
	sources map[string]Source
	rates   map[string]rate
	told    map[string]string // per currency, the last failure that was logged
	changed chan struct{}     // closed and replaced by Follow, so that Run looks at the new sources
}

// rate is the last good value of one currency.
type rate struct {
	value   decimal.Decimal // billing currency per one unit
	fetched time.Time       // zero = the configured one
	tried   time.Time       // the last attempt, good or not
	failed  string          // why the last attempt failed, "" = it did not
	fails   int             // attempts in a row that failed
	from    string          // what the value was read from: another source's value is not this one's
}

// Open makes a book that keeps its last good values in a file, "" = nowhere. What an earlier book left there is used if
// it came from the same source.
func Open(file string, log *slog.Logger) *Book {
	b := &Book{
		client: newClient(), log: log, file: file,
		sources: map[string]Source{}, rates: map[string]rate{}, told: map[string]string{}, changed: make(chan struct{}),
	}
	if err := b.load(); err != nil {
		log.Warn("exchange rates: the last good values cannot be read; they are fetched anew", "error", err)
	}
	return b
}

// Follow makes another set of sources hold. A source that is in both, with the same address, keeps its value.
func (b *Book) Follow(sources []Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.sources
	b.sources = make(map[string]Source, len(sources))
	for _, s := range sources {
		b.sources[s.Currency] = s
		r := b.rates[s.Currency]
		if r.from != s.place() || r.fetched.IsZero() {
			r = rate{value: s.Start, from: s.place()}
		}
		if w, ok := was[s.Currency]; !ok || w.Every != s.Every || w.place() != s.place() {
			r.tried = r.fetched // is due by the new interval
		}
		b.rates[s.Currency] = r
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// place names what a value is read from. It is a hash, since it is kept in a file and an address may hold a key.
func (s *Source) place() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %t", s.URL, s.Pointer, s.Invert))
	return hex.EncodeToString(sum[:])
}

// Rate is what is known of one currency's rate at an instant.
type Rate struct {
	Currency string
	Value    decimal.Decimal // billing currency per one unit
	Fetched  time.Time       // zero = the configured one
	Stale    bool            // too old to be used
	Failed   string          // why the last attempt failed, "" = it did not; for the operator
}

// Rates are the rates at an instant, in the order of their currencies.
func (b *Book) Rates(now time.Time) []Rate {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Rate, 0, len(b.sources))
	for _, c := range slices.Sorted(maps.Keys(b.sources)) {
		s, r := b.sources[c], b.rates[c]
		list = append(list, Rate{Currency: c, Value: r.value, Fetched: r.fetched, Stale: s.stale(r, now), Failed: r.failed})
	}
	return list
}

// stale says whether a value is too old to be used. One that was never fetched is as old as can be, unless nothing bounds
// its age.
func (s *Source) stale(r rate, now time.Time) bool {
	if s.AllowStale || s.MaxAge == 0 {
		return false
	}
	return r.fetched.IsZero() || now.Sub(r.fetched) > s.MaxAge
}

// Fetch fetches what is due, side by side, each within 15 s.
func (b *Book) Fetch(ctx context.Context) { b.fetchDue(ctx, time.Now()) }

// Run fetches at the sources' intervals until ctx ends, and calls changed whenever a rate has changed, or has become too
// old or usable again.
func (b *Book) Run(ctx context.Context, changed func()) {
	before := b.usable(time.Now())
	for {
		wait, again := b.next(time.Now())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-again:
			timer.Stop()
		case <-timer.C:
		}
		b.fetchDue(ctx, time.Now())
		if now := b.usable(time.Now()); !slices.EqualFunc(before, now, same) {
			before = now
			changed()
		}
	}
}

// usable is what of the rates matters to a bill.
func (b *Book) usable(now time.Time) []Rate {
	list := b.Rates(now)
	for i := range list {
		list[i].Fetched, list[i].Failed = time.Time{}, ""
	}
	return list
}

func same(a, b Rate) bool {
	return a.Currency == b.Currency && a.Stale == b.Stale && a.Value.Equal(b.Value)
}

const (
	retryMin = 5 * time.Second // after a failed fetch, doubled with each further one
	retryMax = time.Minute
	farOff   = 24 * time.Hour
)

// due is in how long a source is to be fetched next, at most its interval, however the clock was set.
func (s *Source) due(r rate, now time.Time) time.Duration {
	every := s.Every
	if r.fails > 0 {
		every = min(every, retryMax, retryMin<<min(r.fails-1, 8))
	}
	return min(r.tried.Add(every).Sub(now), every)
}

// next is how long nothing needs to be done, and a channel that is closed when the sources change.
func (b *Book) next(now time.Time) (time.Duration, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := farOff
	for c, s := range b.sources {
		r := b.rates[c]
		wait = min(wait, s.due(r, now))
		if s.MaxAge > 0 && !r.fetched.IsZero() && !s.stale(r, now) {
			wait = min(wait, r.fetched.Add(s.MaxAge+1).Sub(now))
		}
	}
	return max(wait, 0), b.changed
}

// fetchDue fetches every source whose time has come, side by side.
func (b *Book) fetchDue(ctx context.Context, now time.Time) {
	b.mu.Lock()
	var due []Source
	for c, s := range b.sources {
		if s.due(b.rates[c], now) <= 0 {
			due = append(due, s)
		}
	}
	b.mu.Unlock()
	if len(due) == 0 {
		return
	}
	var all sync.WaitGroup
	for _, s := range due {
		all.Go(func() {
			value, err := fetch(ctx, b.client, s)
			b.take(s, value, err, time.Now())
		})
	}
	all.Wait()
	if err := b.save(); err != nil {
		b.log.Warn("exchange rates: the values cannot be kept over a restart", "error", err)
	}
}

// take makes a fetched value hold, unless it is not to be trusted.
func (b *Book) take(s Source, value decimal.Decimal, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.sources[s.Currency]; now.place() != s.place() {
		return // the configuration has changed meanwhile
	}
	r := b.rates[s.Currency]
	if err == nil {
		err = s.jump(r, value, now)
	}
	r.tried = now
	if err != nil {
		r.failed, r.fails = err.Error(), r.fails+1
		if b.told[s.Currency] != r.failed {
			b.log.Error("exchange rate: the new value is not used, the last good one holds", "currency", s.Currency, "value", r.value, "fetched", r.fetched, "error", err)
			b.told[s.Currency] = r.failed
		}
	} else {
		if !r.value.Equal(value) || r.fails > 0 {
			b.log.Info("exchange rate", "currency", s.Currency, "value", value, "before", r.value)
		}
		r.value, r.fetched, r.failed, r.fails = value, now, "", 0
		delete(b.told, s.Currency)
	}
	b.rates[s.Currency] = r
}

// jump is an error if a value is further from the last good one than is believed.
func (s *Source) jump(r rate, value decimal.Decimal, now time.Time) error {
	if s.MaxJump.IsZero() {
		return nil
	}
	two := decimal.NewFromInt(2)
	if r.fetched.IsZero() {
		if value.GreaterThan(r.value.Mul(two)) || value.Mul(two).LessThan(r.value) {
			return fmt.Errorf("%s is less than half or more than twice of what exchange_rates says, %s; if that is true, write it there", value, r.value)
		}
		return nil
	}
	days := 1 + max(0, int64(now.Sub(r.fetched)/farOff))
	if value.Sub(r.value).Abs().GreaterThan(r.value.Mul(s.MaxJump).Mul(decimal.NewFromInt(days))) {
		return fmt.Errorf("it jumped from %s to %s, by more than max_jump; if that is true, raise max_jump until it is taken", r.value, value)
	}
	return nil
}
