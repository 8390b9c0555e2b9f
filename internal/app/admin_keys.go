package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/relay"
)

// What hearth keys and a running gateway say to each other on the admin socket. Both are one program: nobody else is
// promised that it stays so.

// maxAdmin bounds a message, in bytes.
const maxAdmin = 16 << 20

type keyWire struct {
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	Label         string        `json:"label"`
	Admin         bool          `json:"admin"`
	Disabled      bool          `json:"disabled"`
	Deleted       bool          `json:"deleted"`
	CreatedAt     time.Time     `json:"created_at"`
	UpdatedAt     time.Time     `json:"updated_at"`
	ExpiresAt     time.Time     `json:"expires_at"`
	Owner         string        `json:"owner"`
	Models        []string      `json:"models"`
	Providers     []string      `json:"providers"`
	LocalOnly     bool          `json:"local_only"`
	EarlyHeaders  int64         `json:"early_headers"` // nanoseconds
	Limit         hearth.Nano   `json:"limit"`
	LimitReset    hearth.Period `json:"limit_reset"`
	ExternalLimit hearth.Nano   `json:"external_limit"`
	Currency      string        `json:"currency"`
	NoContent     bool          `json:"no_content"`
	Class         hearth.Class  `json:"class"`
	Requests      int64         `json:"requests_per_minute"`
	Tokens        int64         `json:"tokens_per_minute"`
	Kappa         hearth.Kappa  `json:"kappa"` // thousandths
	NoExplore     bool          `json:"no_explore"`
	Spent         KeySpend      `json:"spent,omitzero"`  // in a list
	Plain         string        `json:"plain,omitempty"` // of a key that was just made
}

func toWire(k hearth.Key) keyWire {
	return keyWire{
		ID: k.ID, Name: k.Name, Label: k.Label, Admin: k.Admin, Disabled: k.Disabled, Deleted: k.Deleted,
		CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt, ExpiresAt: k.ExpiresAt, Owner: k.Owner,
		Models: k.Models, Providers: k.Providers, LocalOnly: k.LocalOnly, EarlyHeaders: int64(k.EarlyHeaders), Limit: k.Limit,
		LimitReset: k.LimitReset, ExternalLimit: k.ExternalLimit, Currency: k.Currency, NoContent: k.NoContent, Class: k.Class,
		Requests: k.RequestsPerMinute, Tokens: k.TokensPerMinute, Kappa: k.Kappa, NoExplore: k.NoExplore,
	}
}

func (w *keyWire) key() hearth.Key {
	return hearth.Key{
		NoContent: w.NoContent,
		ID:        w.ID, Name: w.Name, Label: w.Label, Admin: w.Admin, Disabled: w.Disabled, Deleted: w.Deleted,
		CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, ExpiresAt: w.ExpiresAt, Owner: w.Owner,
		Models: w.Models, Providers: w.Providers, LocalOnly: w.LocalOnly, EarlyHeaders: time.Duration(w.EarlyHeaders), Limit: w.Limit,
		LimitReset: w.LimitReset, ExternalLimit: w.ExternalLimit, Currency: w.Currency, Class: w.Class,
		RequestsPerMinute: w.Requests, TokensPerMinute: w.Tokens, Kappa: w.Kappa, NoExplore: w.NoExplore,
	}
}

// changeWire asks for a change of the key Which names; with Disable or Delete it is that one.
type changeWire struct {
	Which         string         `json:"which"`
	Disable       bool           `json:"disable"`
	Delete        bool           `json:"delete"`
	Name          *string        `json:"name"`
	Disabled      *bool          `json:"disabled"`
	ExpiresAt     *time.Time     `json:"expires_at"`
	Owner         *string        `json:"owner"`
	Models        *[]string      `json:"models"`
	Providers     *[]string      `json:"providers"`
	LocalOnly     *bool          `json:"local_only"`
	EarlyHeaders  *int64         `json:"early_headers"` // nanoseconds
	Limit         *hearth.Nano   `json:"limit"`
	LimitReset    *hearth.Period `json:"limit_reset"`
	ExternalLimit *hearth.Nano   `json:"external_limit"`
	Currency      *string        `json:"currency"`
	NoContent     *bool          `json:"no_content"`
	Class         *hearth.Class  `json:"class"`
	Requests      *int64         `json:"requests_per_minute"`
	Tokens        *int64         `json:"tokens_per_minute"`
	Kappa         *hearth.Kappa  `json:"kappa"`
	NoExplore     *bool          `json:"no_explore"`
}

func (w *changeWire) change() hearth.KeyChange {
	return hearth.KeyChange{
		NoContent: w.NoContent,
		Name:      w.Name, Disabled: w.Disabled, ExpiresAt: w.ExpiresAt, Owner: w.Owner,
		Models: w.Models, Providers: w.Providers, LocalOnly: w.LocalOnly, EarlyHeaders: (*time.Duration)(w.EarlyHeaders), Limit: w.Limit,
		LimitReset: w.LimitReset, ExternalLimit: w.ExternalLimit, Currency: w.Currency, Class: w.Class,
		RequestsPerMinute: w.Requests, TokensPerMinute: w.Tokens, Kappa: w.Kappa, NoExplore: w.NoExplore,
	}
}

const keysPath = "/admin/keys"

// adminRoutes are what the admin socket answers beside the gateway's own routes.
func (a *App) adminRoutes(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	route := func(pattern string, do func(context.Context, *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxAdmin)
			var v any
			err := error(hearth.Errorf(hearth.ErrNotFound, "a hearth that serves gateways has no keys: they are where callers are"))
			if a.Accounts != nil {
				v, err = do(r.Context(), r)
			}
			var b []byte
			if err == nil {
				b, err = json.Marshal(v)
			}
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				var e *hearth.Error
				if !errors.As(err, &e) {
					a.log.Error("keys could not be read or changed", "err", err)
					e = hearth.Errorf(hearth.ErrInternal, "%v", err) // the operator is who asks
				}
				w.WriteHeader(e.HTTPStatus())
				b = relay.AppendError(nil, e)
			}
			_, _ = w.Write(b) // an operator that left needs no answer
		})
	}
	route("GET "+keysPath, func(ctx context.Context, _ *http.Request) (any, error) { return a.keys().wires(ctx) })
	route("POST "+keysPath, func(ctx context.Context, r *http.Request) (any, error) {
		var w keyWire
		if err := json.UnmarshalRead(r.Body, &w); err != nil {
			return nil, fmt.Errorf("read the key: %w", err)
		}
		plain, made, err := a.keys().Create(ctx, w.key())
		if err != nil {
			return nil, err
		}
		w = toWire(made)
		w.Plain = plain
		return w, nil
	})
	route("PATCH "+keysPath, func(ctx context.Context, r *http.Request) (any, error) {
		var w changeWire
		if err := json.UnmarshalRead(r.Body, &w); err != nil {
			return nil, fmt.Errorf("read the change: %w", err)
		}
		k, err := a.keys().alter(ctx, w)
		return toWire(k), err
	})
	return mux
}

// keys are the keys as this gateway knows them.
func (a *App) keys() *directKeys {
	return &directKeys{a.Accounts, a.store, a.Catalog(), a.now.Load().options.Zone}
}

// alter deletes, disables or changes a key.
func (k *directKeys) alter(ctx context.Context, w changeWire) (hearth.Key, error) {
	switch {
	case w.Delete:
		return k.Retire(ctx, w.Which)
	case w.Disable:
		return k.Disable(ctx, w.Which)
	}
	return k.Change(ctx, w.Which, w.change())
}

// wires are all keys with what they spent.
func (k *directKeys) wires(ctx context.Context) ([]keyWire, error) {
	keys, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	spent, err := k.Spent(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]keyWire, len(keys))
	for i, key := range keys {
		list[i] = toWire(key)
		list[i].Spent = spent[key.ID]
	}
	return list, nil
}
