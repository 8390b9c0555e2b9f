package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/store"
	"myip.co.kr/hearth/internal/suggest"
)

// Keys are the API keys of a configuration, for commands: those of the gateway that runs with it or, if none does, of its
// database. Create and Change know the models and providers of the configuration.
type Keys struct {
	keyBook
	close func() error
}

// keyBook is what commands do with keys.
type keyBook interface {
	// List reads all keys, oldest first.
	List(ctx context.Context) ([]hearth.Key, error)
	// Spent is what every key spent, by key id.
	Spent(ctx context.Context) (map[string]KeySpend, error)
	// Create makes a key as Accounts does. Its models and providers must be there; an alias becomes the model it stands for.
	Create(ctx context.Context, key hearth.Key) (plain string, made hearth.Key, err error)
	// Change changes a key as Accounts does. Models and providers that are to be new must be there.
	Change(ctx context.Context, which string, c hearth.KeyChange) (hearth.Key, error)
	// Disable switches a key off as Accounts does.
	Disable(ctx context.Context, which string) (hearth.Key, error)
	// Retire deletes a key as Accounts does.
	Retire(ctx context.Context, which string) (hearth.Key, error)
}

// OpenKeys opens the keys of a configuration.
func OpenKeys(ctx context.Context, cfg *config.Config) (*Keys, error) {
	c, err := DialAdmin(ctx, cfg.DataDir)
	if err == nil {
		return &Keys{socketKeys{c}, func() error { c.Close(); return nil }}, nil
	} else if !errors.Is(err, ErrNotRunning) {
		return nil, err
	}
	k, err := openDirect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Keys{k, k.Close}, nil
}

// Close ends the use of the keys.
func (k *Keys) Close() error { return k.close() }

// directKeys are the keys of a database. A gateway may be running on it: it sees changes within a second.
type directKeys struct {
	*account.Accounts
	store   *store.Store
	catalog *hearth.Catalog
	zone    *time.Location
}

func openDirect(ctx context.Context, cfg *config.Config) (*directKeys, error) {
	catalog, err := catalogOf(cfg)
	if err != nil {
		return nil, err
	}
	zone, err := cfg.Location()
	if err != nil {
		return nil, err
	}
	st, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	acc, err := account.Open(ctx, st, cfg.KeyPrefix)
	if err != nil {
		_ = st.Close() // the first error is the one to tell
		return nil, err
	}
	return &directKeys{acc, st, catalog, zone}, nil
}

// Close closes the database.
func (k *directKeys) Close() error {
	k.Accounts.Close()
	if err := k.store.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// KeySpend is what a key spent, by currency.
type KeySpend struct {
	Ever     map[string]hearth.Nano `json:"ever,omitempty"`
	Period   map[string]hearth.Nano `json:"period,omitempty"`   // in the present period of its limits
	External map[string]hearth.Nano `json:"external,omitempty"` // of Period, at external providers
}

func (s *KeySpend) add(d store.DaySpend, present bool) {
	sums := []*map[string]hearth.Nano{&s.Ever}
	if present {
		sums = append(sums, &s.Period)
		if d.External {
			sums = append(sums, &s.External)
		}
	}
	for _, m := range sums {
		if *m == nil {
			*m = make(map[string]hearth.Nano)
		}
		sum, err := (*m)[d.Currency].Add(d.Cost)
		if err != nil {
			sum = math.MaxInt64
		}
		(*m)[d.Currency] = sum
	}
}

// Spent is what every key spent, by key id: all that its limits count, but for what requests in flight hold back and what
// a gateway recorded in the last moment.
func (k *directKeys) Spent(ctx context.Context) (map[string]KeySpend, error) {
	keys, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().In(k.zone)
	type window struct{ first, last string }
	windows := make(map[string]window, len(keys))
	for _, key := range keys {
		first, last := ledger.Window(key.LimitReset, now)
		windows[key.ID] = window{first, last}
	}
	by := make(map[string]KeySpend)
	err = k.store.EachDay(ctx, "", "9999-12-31", func(d store.DaySpend) error {
		w := windows[d.KeyID]
		s := by[d.KeyID]
		s.add(d, w.first <= d.Day && d.Day <= w.last)
		by[d.KeyID] = s
		return nil
	})
	return by, err
}

// Create makes a key as Accounts does. Its models and providers must be there, and a rate for its currency; an alias becomes
// the model it stands for.
func (k *directKeys) Create(ctx context.Context, key hearth.Key) (plain string, made hearth.Key, err error) {
	if err := k.known(&key.Models, &key.Providers, key.Currency); err != nil {
		return "", hearth.Key{}, err
	}
	return k.Accounts.Create(ctx, key)
}

// Change changes a key as Accounts does. Models, providers and a currency that are to be new must be there.
func (k *directKeys) Change(ctx context.Context, which string, c hearth.KeyChange) (hearth.Key, error) {
	currency := ""
	if c.Currency != nil {
		currency = *c.Currency
	}
	if err := k.known(c.Models, c.Providers, currency); err != nil {
		return hearth.Key{}, err
	}
	return k.Accounts.Change(ctx, which, c)
}

// known checks names against the configuration and puts model ids in place of aliases; what is nil or empty is not looked at.
func (k *directKeys) known(models, providers *[]string, currency string) error {
	if currency != "" {
		if _, ok := k.catalog.In(currency); !ok {
			return hearth.Invalid("currency", "there is no exchange rate from %.40q to %s, so no amount can be shown in it: add it to exchange_rates or exchange_sources in the configuration", currency, k.catalog.Currency)
		}
	}
	if models != nil {
		ids, err := k.modelIDs(*models)
		if err != nil {
			return err
		}
		*models = ids
	}
	if providers == nil {
		return nil
	}
	tags := k.tags()
	for _, name := range *providers {
		if !slices.Contains(tags, name) {
			return unknown("providers", "provider", name, tags)
		}
	}
	return nil
}

func (k *directKeys) modelIDs(names []string) ([]string, error) {
	var ids, all []string
	for _, m := range k.catalog.Models {
		all = append(all, m.ID)
	}
	for _, name := range names {
		m := k.catalog.Resolve(name)
		if m == nil {
			for alias := range k.catalog.Aliases {
				all = append(all, alias)
			}
			slices.Sort(all)
			return nil, unknown("models", "model", name, all)
		}
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// tags are all names of providers and of their parts that a key can be allowed.
func (k *directKeys) tags() []string {
	var tags []string
	for _, p := range k.catalog.Providers {
		tags = append(tags, p.Slug)
	}
	for _, e := range k.catalog.Endpoints {
		tags = append(tags, e.Tag)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// unknown is the error for a name that is not in the configuration.
func unknown(field, what, name string, known []string) error {
	e := hearth.Invalid(field, "the configuration has no %s %.100q", what, name)
	if near := suggest.Nearest(name, known, 1); len(near) > 0 {
		e.Message += "; did you mean " + near[0] + "?"
	} else if len(known) > 0 {
		e.Message += "; it has " + strings.Join(known[:min(10, len(known))], ", ")
	}
	return e
}
