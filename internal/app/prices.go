package app

import (
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
)

// PriceList is what callers pay under a configuration.
type PriceList struct {
	Currency string         `json:"currency"` // the billing currency
	Rates    []ExchangeRate `json:"exchange_rates"`
	Prices   []PriceRow     `json:"prices"`
}

// ExchangeRate is one that prices are computed with.
type ExchangeRate struct {
	Currency string          `json:"currency"`
	Rate     decimal.Decimal `json:"rate"`       // billing currency per one unit
	Fetched  *time.Time      `json:"fetched_at"` // null = it stands in the configuration
	Stale    bool            `json:"stale"`      // too old: endpoints in this currency are out
}

// PriceRow is one price list of an endpoint. Token prices are per 1,000,000 tokens.
type PriceRow struct {
	Model    string          `json:"model"`
	Endpoint string          `json:"endpoint"` // its tag: what provider.only and provider.order name
	Provider string          `json:"provider"`
	Local    bool            `json:"local"`
	Disabled bool            `json:"disabled"`
	Reported bool            `json:"reported"` // billed by what the upstream says; this list is for routing
	When     string          `json:"when"`     // the name of a step, "" = the base list
	Price    Amounts         `json:"price"`    // what callers pay, in the billing currency
	List     Amounts         `json:"list"`     // what the provider asks, in its own
	ListIn   string          `json:"list_currency"`
	Rate     decimal.Decimal `json:"exchange_rate"`
	Margin   decimal.Decimal `json:"margin"`
}

// Amounts are a price list as text-safe decimals.
type Amounts struct {
	Prompt     decimal.Decimal `json:"prompt"`
	Completion decimal.Decimal `json:"completion"`
	CacheRead  decimal.Decimal `json:"cache_read"`
	CacheWrite decimal.Decimal `json:"cache_write"`
	Reasoning  decimal.Decimal `json:"reasoning"`
	Image      decimal.Decimal `json:"image"`
	Request    decimal.Decimal `json:"request"`
}

func amounts(p hearth.Price) Amounts { return Amounts(p) }

// Prices lists what callers pay under a configuration, at the exchange rates that a gateway on its data directory fetched
// last: models in the order of the configuration, endpoints by priority.
func Prices(cfg *config.Config) (PriceList, error) {
	cat, err := catalogOf(cfg)
	if err != nil {
		return PriceList{}, err
	}
	list := PriceList{Currency: cat.Currency, Rates: exchangeRates(cfg), Prices: []PriceRow{}}
	for _, m := range cat.Models {
		for _, e := range m.Endpoints {
			row := PriceRow{
				Model: m.ID, Endpoint: e.Tag, Provider: e.Provider.Slug, Local: e.Local(), Disabled: e.Disabled, Reported: e.Reported,
				Price: amounts(e.Price), List: amounts(e.List), ListIn: e.Provider.Currency, Rate: e.Rate, Margin: e.Margin,
			}
			list.Prices = append(list.Prices, row)
			for i := range e.Steps {
				s := &e.Steps[i]
				row.When, row.Price, row.List = s.Name, amounts(s.Price), amounts(s.List)
				list.Prices = append(list.Prices, row)
			}
		}
	}
	return list, nil
}

func exchangeRates(cfg *config.Config) []ExchangeRate {
	fetched := map[string]bool{}
	list := []ExchangeRate{}
	for _, r := range keptRates(cfg).Rates(time.Now()) {
		fetched[r.Currency] = true
		x := ExchangeRate{Currency: r.Currency, Rate: r.Value, Stale: r.Stale}
		if !r.Fetched.IsZero() {
			x.Fetched = &r.Fetched
		}
		list = append(list, x)
	}
	for _, currency := range slices.Sorted(maps.Keys(cfg.ExchangeRates)) {
		if !fetched[currency] {
			list = append(list, ExchangeRate{Currency: currency, Rate: cfg.ExchangeRates[currency]})
		}
	}
	return list
}
