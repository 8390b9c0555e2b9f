package app

import (
	"cmp"
	"fmt"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/media"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/server"
	"myip.co.kr/hearth/internal/upstream"
)

// snapshot is all that follows from one configuration. It is never changed once requests see it: a request ends with the
// snapshot that it began with.
type snapshot struct {
	cfg      *config.Config
	catalog  *hearth.Catalog
	options  relay.Options
	upstream *upstream.Client
	health   *health.Tracker
	windows  *routing.Windows
	router   *routing.Router // nil = tiers go by price
	media    *media.Fetcher
	relay    *relay.Relay
}

// newSnapshot begins a snapshot with what needs nothing but the configuration and the exchange rates.
func newSnapshot(cfg *config.Config, rates config.Rates) (s *snapshot, err error) {
	s = &snapshot{cfg: cfg}
	if s.catalog, err = cfg.CatalogAt(rates); err != nil {
		return nil, err
	}
	s.options, err = relayOptions(cfg)
	return s, err
}

func (a *App) relayOptions(s *snapshot) relay.Options {
	o := s.options
	o.UserSalt, o.WriteLimit = a.store.Salt(), cmp.Or(a.o.WriteLimit, writeLimit)
	return o
}

func (a *App) relayParts(s *snapshot) relay.Parts {
	return relay.Parts{
		Catalog: s.catalog, Fleet: a.fleet, Health: s.health, Upstream: s.upstream, Ledger: a.ledger, Windows: s.windows, Router: s.router,
		Media: s.media, Contents: a.contents, Judge: a.judge, Log: a.log, Done: a.metrics.Done,
	}
}

// notices is what the operator should know of the gateway.
func (a *App) notices() []string {
	list := a.reloads.notices()
	if n := a.now.Load().relay.Overruns(); n > 0 {
		list = append(list, fmt.Sprintf("since the start %d answers cost more than was held back of a spend limit; the log names them", n))
	}
	if n := a.contents.Dropped(); n > 0 {
		list = append(list, fmt.Sprintf("since the start the prompts and answers of %d requests were dropped, for they come faster than they can be kept, or cannot be written", n))
	}
	return list
}

func (a *App) server(s *snapshot) *server.Server {
	return server.New(server.Options{PublicCatalog: s.cfg.PublicCatalog, PublicMetrics: s.cfg.PublicMetrics, CORSOrigins: s.cfg.CORSOrigins}, server.Parts{
		Catalog: s.catalog, Relay: s.relay, Accounts: a.Accounts, Fleet: a.fleet, Health: s.health, Windows: s.windows, Router: s.router, Log: a.log,
		Zone: s.options.Zone, Spent: a.spent(s), Activity: a.store.Activity, Content: a.contents.Content,
		Keys:    &directKeys{a.Accounts, a.store, s.catalog, s.options.Zone},
		Metrics: a.metrics, Order: a.order, Flags: a.quality, Notices: a.notices, Ending: a.ending,
	})
}

// spent tells what a key has spent in the billing currency of a snapshot, by its calendar.
func (a *App) spent(s *snapshot) func(*hearth.Key, time.Time) server.Spent {
	return func(k *hearth.Key, at time.Time) server.Spent {
		at = at.In(s.options.Zone)
		x := a.ledger.Spent(k.ID, s.catalog.Currency, at)
		all, external := a.ledger.SpentIn(k.ID, s.catalog.Currency, k.LimitReset, at)
		return server.Spent{Ever: x.Ever, Day: x.Day, Week: x.Week, Month: x.Month, External: x.External, Period: all, PeriodExternal: external}
	}
}
