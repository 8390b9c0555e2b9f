package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/fx"
)

// rateSources are the exchange_sources of a configuration.
func rateSources(cfg *config.Config) []fx.Source {
	list := make([]fx.Source, 0, len(cfg.ExchangeSources))
	for _, s := range cfg.ExchangeSources {
		list = append(list, fx.Source{
			Currency: s.Currency, URL: s.URL, Pointer: s.Pointer, Invert: s.Invert, Headers: s.Headers,
			Every: s.Every, MaxJump: s.MaxJump.Decimal, MaxAge: s.MaxAge, AllowStale: s.Stale == "allow", Start: cfg.ExchangeRates[s.Currency],
		})
	}
	return list
}

// ratesFile keeps the last good rates over restarts.
func ratesFile(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "rates.json") }

// ratesFirst bounds how long the start waits for exchange rates that are due. Own slots need none.
const ratesFirst = 3 * time.Second

// openRates reads the last good rates and fetches what is due.
func (a *App) openRates(ctx context.Context) {
	cfg := a.config()
	a.rates = fx.Open(ratesFile(cfg), a.log)
	a.rates.Follow(rateSources(cfg))
	first, stop := context.WithTimeout(ctx, ratesFirst)
	defer stop()
	a.rates.Fetch(first)
}

// followRates keeps the rates up to date until Close.
func (a *App) followRates(ctx context.Context) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.rates.Run(run, a.reprice)
	}()
	a.push(func(context.Context) error {
		stop()
		<-ended
		return nil
	})
}

// ratesNow are the rates that a catalog is built with.
func ratesNow(b *fx.Book) config.Rates {
	now := config.Rates{Values: map[string]decimal.Decimal{}, Stale: map[string]bool{}}
	for _, r := range b.Rates(time.Now()) {
		now.Values[r.Currency], now.Stale[r.Currency] = r.Value, r.Stale
	}
	return now
}

// tellUnshown says in the log, once for each, that keys are to see a currency that has no exchange rate any more.
func (a *App) tellUnshown() {
	now, cat := map[string]bool{}, a.Catalog()
	for currency := range a.Accounts.Currencies() {
		if _, ok := cat.In(currency); ok {
			continue
		}
		if now[currency] = true; !a.reloads.unshown[currency] {
			a.log.Warn("keys are to see amounts in a currency that has no exchange rate: they see the billing currency; add it to exchange_rates, or change the keys (hearth keys set KEY --currency '')",
				"currency", currency, "billing_currency", cat.Currency)
		}
	}
	a.reloads.unshown = now
}

// reprice makes the rates that are known now hold for the requests that come from now on.
func (a *App) reprice() {
	a.reloads.turn.Lock()
	defer a.reloads.turn.Unlock()
	if err := a.follow(a.config()); err != nil { // the configuration held a moment ago
		a.log.Error("exchange rates: the new ones cannot be made to hold, the ones before do", "error", err)
	}
}

// keptRates are the rates that a gateway on the configuration's data directory last fetched: for commands that look on.
func keptRates(cfg *config.Config) *fx.Book {
	b := fx.Open(ratesFile(cfg), slog.New(slog.DiscardHandler))
	b.Follow(rateSources(cfg))
	return b
}

// catalogOf is the catalog of a configuration at those rates.
func catalogOf(cfg *config.Config) (*hearth.Catalog, error) {
	return cfg.CatalogAt(ratesNow(keptRates(cfg)))
}
