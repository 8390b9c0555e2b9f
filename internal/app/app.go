// Package app is the only wiring: it builds everything from a configuration and owns the order in which it starts and
// ends. Commands and end-to-end tests use it.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/content"
	"myip.co.kr/hearth/internal/fx"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/media"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/server"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/store"
	"myip.co.kr/hearth/internal/toolcheck"
	"myip.co.kr/hearth/internal/upstream"
)

// writeLimit is what Options.WriteLimit is if it is not given.
const writeLimit = 30 * time.Second

// Options are what a command decides, not the configuration.
type Options struct {
	Log     *slog.Logger
	Version string
	// AdoptKey is accepted as a caller's key when the database has no keys yet, in place of a made-up one.
	AdoptKey string
	// FirstKeys is told the keys that the first start on an empty database made; user is empty if one was adopted. An
	// error undoes the start: keys that nobody saw are of no use.
	FirstKeys func(admin, user string) error
	// LockDir holds the locks of the nodes if the configuration does not say where; "" = in the data directory, so that
	// other gateways of the machine do not count.
	LockDir string
	// Dial and LocalDial make the connections to providers and to engines, nil = as usual.
	Dial, LocalDial upstream.Dialer
	// WriteLimit ends a stream whose caller takes nothing for so long, 0 = half a minute.
	WriteLimit time.Duration
}

// App is a built gateway. Serve runs it, Reload changes its configuration, Close ends what Serve did not.
type App struct {
	Accounts *account.Accounts
	Server   *server.Live

	o        Options
	log      *slog.Logger
	now      atomic.Pointer[snapshot]
	reloads  reloads
	fleet    *slot.Fleet
	ledger   *ledger.Ledger
	journal  *journal.Journal
	store    *store.Store
	metrics  *server.Metrics
	orders   *orders
	quality  *quality
	judge    *toolcheck.Judge
	contents *content.Log
	rates    *fx.Book
	admin    net.Listener                  // nil = there is none
	ending   chan struct{}                 // closed when the listeners are: answers without an end have to end
	closers  []func(context.Context) error // in the order of Close
}

// Catalog is the one of the configuration that holds.
func (a *App) Catalog() *hearth.Catalog { return a.now.Load().catalog }

// config is the configuration that holds.
func (a *App) config() *config.Config { return a.now.Load().cfg }

// Open builds the gateway: data directory, database, journal, slots, routes. Nothing is started but what records need.
func Open(ctx context.Context, cfg *config.Config, o Options) (a *App, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a = &App{o: o, log: o.Log, ending: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close(context.WithoutCancel(ctx)))
		}
	}()
	first, err := newSnapshot(cfg, config.Rates{})
	if err != nil {
		return a, err
	}
	a.now.Store(first)
	if err := a.openRecords(ctx); err != nil { // from here on the data directory is this gateway's
		return a, err
	}
	a.openContents(ctx)
	a.openRates(ctx)
	if first, err = newSnapshot(cfg, ratesNow(a.rates)); err != nil {
		return a, err
	}
	a.now.Store(first)
	if err := a.firstKeys(ctx, o); err != nil {
		return a, err
	}
	if err := a.openSlots(ctx, o); err != nil {
		return a, err
	}
	a.push(func(context.Context) error { return a.journal.Sync() }) // engines may take their time; records do not wait for them
	if first.upstream, err = upstream.New(first.catalog, upstreamOptions(cfg, o)); err != nil {
		return a, err
	}
	first.health, first.windows = health.NewTracker(first.catalog), routing.NewWindows(len(first.catalog.Endpoints))
	first.media = fetcher(cfg, o.Version)
	a.openMetrics()
	a.checkTools(ctx)
	first.router = routing.NewRouter(first.catalog, routingOptions(cfg), time.Now())
	a.recall(ctx, first)
	if a.quality, err = openQuality(cfg.DataDir, a.now.Load); err != nil {
		return a, err
	}
	a.quality.tell(first)
	a.route(ctx)
	a.learn(ctx)
	first.relay = relay.New(a.relayOptions(first), a.relayParts(first))
	a.probe(ctx)
	a.Server = server.NewLive(a.server(first))
	a.listenAdmin()
	a.tellUnshown()
	a.followRates(ctx)
	return a, nil
}

// upstreamOptions are what the configuration and the command say of connections to providers and engines.
func upstreamOptions(cfg *config.Config, o Options) upstream.Options {
	return upstream.Options{
		Agent: "hearth/" + o.Version, KeepAlive: cfg.KeepAlive, StreamBuffer: int(cfg.Local.StreamBuffer), AnswerTotal: int64(cfg.Request.MaxAnswerTotal), Dial: o.Dial, LocalDial: o.LocalDial,
	}
}

// fetcher downloads media for own engines; nil = they are not downloaded.
func fetcher(cfg *config.Config, version string) *media.Fetcher {
	if cfg.Local.MediaURLs != "fetch" {
		return nil
	}
	return media.New(media.Options{Agent: "hearth/" + version})
}

// relayOptions are what the configuration says of how requests are carried.
func relayOptions(cfg *config.Config) (relay.Options, error) {
	zone, err := cfg.Location()
	if err != nil {
		return relay.Options{}, err
	}
	rules, err := contentRules(cfg)
	if err != nil {
		return relay.Options{}, err
	}
	external, err := hearth.NanoFromDecimal(cfg.ExternalLimit.Amount)
	return relay.Options{
		Content:      rules,
		HeaderPrefix: cfg.HeadersPrefix, IDPrefix: cfg.GenerationPrefix, Zone: zone,
		MaxBody: int64(cfg.Request.MaxBody), MaxBodyTotal: int64(cfg.Request.MaxBodyTotal),
		MaxAttempts: cfg.MaxAttempts, EarlyHeaders: cfg.EarlyHeaders, KeepAlive: cfg.KeepAlive, LastResort: cfg.Cooldown.LastResort, ByCost: cfg.Routing.By == "cost",
		ExternalLimit: ledger.Budget{Amount: external, Reset: cfg.ExternalLimit.Period()},
	}, err
}

// openRecords opens the data directory, the journal (whose lock keeps a second gateway out), the database, the keys and
// the ledger.
func (a *App) openRecords(ctx context.Context) error {
	cfg := a.config()
	dir := cfg.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data_dir: %w", err)
	}
	durability := journal.Process
	if cfg.Records.Durability == "power" {
		durability = journal.Power
	}
	j, err := journal.Open(journal.Options{
		Dir: filepath.Join(dir, "journal"), MaxBytes: int64(cfg.Records.MaxJournal), Durability: durability, Log: a.log,
	})
	if errors.Is(err, journal.ErrInUse) {
		return fmt.Errorf("the data_dir %s is in use by another gateway: end that one, or give this one a data_dir of its own", dir)
	}
	if err != nil {
		return err
	}
	a.journal = j
	a.push(func(context.Context) error { return j.Close() })
	st, err := OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	a.store = st
	a.push(func(context.Context) error { return st.Close() })
	if a.Accounts, err = account.Open(ctx, st, cfg.KeyPrefix); err != nil {
		return err
	}
	a.push(func(context.Context) error { a.Accounts.Close(); return nil })
	if a.ledger, err = ledger.Open(ctx, j, st, a.log); err != nil {
		return err
	}
	a.ledger.Retain(retention(cfg))
	a.push(a.ledger.Close)
	return nil
}

// retention is how long the configuration keeps records.
func retention(cfg *config.Config) ledger.Retention {
	return ledger.Retention{MaxAge: cfg.Records.MaxAge, MaxBytes: int64(cfg.Records.MaxSize)}
}

// OpenStore opens the database of a configuration's data directory, which it makes if need be.
func OpenStore(ctx context.Context, cfg *config.Config) (*store.Store, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data_dir: %w", err)
	}
	return store.Open(ctx, databasePath(cfg))
}

func databasePath(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "hearth.db") }

// push puts a closer in front: what was opened last is closed first.
func (a *App) push(f func(context.Context) error) {
	a.closers = append([]func(context.Context) error{f}, a.closers...)
}

// firstKeys makes one admin and one user key on an empty database.
func (a *App) firstKeys(ctx context.Context, o Options) error {
	keys, err := a.Accounts.List(ctx)
	if err != nil || len(keys) > 0 {
		return err
	}
	user, userKey := "", hearth.Key{}
	if o.AdoptKey != "" { // first of all: a key that cannot be accepted must leave the database empty
		if userKey, err = a.Accounts.Adopt(ctx, "key from the environment", o.AdoptKey, false); err != nil {
			return fmt.Errorf("the key in MYIP_API_KEY cannot be accepted, unset it or give another: %s", message(err))
		}
	} else if user, userKey, err = a.Accounts.Create(ctx, hearth.Key{Name: "first user key"}); err != nil {
		return fmt.Errorf("make the first user key: %w", err)
	}
	admin, adminKey, err := a.Accounts.Create(ctx, hearth.Key{Name: "first admin key", Admin: true})
	if err != nil {
		return errors.Join(fmt.Errorf("make the first admin key: %w", err), a.Accounts.Forget(ctx, userKey.ID))
	}
	if o.FirstKeys == nil {
		return nil
	}
	if err := o.FirstKeys(admin, user); err != nil { // the next start is then the first one again
		return errors.Join(fmt.Errorf("hand out the first keys: %w", err),
			a.Accounts.Forget(ctx, adminKey.ID), a.Accounts.Forget(ctx, userKey.ID))
	}
	return nil
}

// message is what an error says to a caller, without its type.
func message(err error) string {
	var e *hearth.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// Close ends everything in the order of a shutdown: the journal is synced before engines are stopped, the database is
// closed last.
func (a *App) Close(ctx context.Context) error {
	var errs []error
	for _, f := range a.closers {
		errs = append(errs, f(ctx))
	}
	a.closers = nil
	if s := a.now.Load(); s != nil && s.upstream != nil {
		s.upstream.Close()
	}
	return errors.Join(errs...)
}
