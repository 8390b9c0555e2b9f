package account

import (
	"context"
	"errors"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// moment is an instant as precisely as keys keep it.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// lastExpiry bounds what can be written as a date.
var lastExpiry = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// checkExpiry checks when a key is to expire and returns it as precisely as it is kept; the zero time is never.
func checkExpiry(at, now time.Time) (time.Time, error) {
	switch {
	case at.IsZero():
		return time.Time{}, nil
	case !at.After(now):
		return at, hearth.Invalid("expires_at", "a key must expire in the future: %s is past", at.UTC().Format(time.RFC3339))
	case at.After(lastExpiry):
		return at, hearth.Invalid("expires_at", "a key must expire before the year 10000, or never")
	}
	return moment(at), nil
}

// expired says whether a key is to be refused at an instant because of its age.
func expired(k *hearth.Key, now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// Delete disables the key with an id for good: it is in no list any more. It stays where records have to say whose they
// are; one that was never used is gone. The error is a *hearth.Error if there is no such key.
func (a *Accounts) Delete(ctx context.Context, id string) error {
	if err := a.retire(ctx, id); err != nil { // from here on nobody is let in with it
		return err
	}
	for _, k := range a.view.Load().keys {
		if k.ID == id && k.used.Load() {
			return nil // a request of it may not be recorded yet
		}
	}
	return a.Forget(ctx, id)
}

// Retire deletes a key as Delete does, named as for Disable, and returns it. It stays in the database even if nothing is
// recorded of it there: a journal that no gateway has applied yet may hold records of it.
func (a *Accounts) Retire(ctx context.Context, which string) (hearth.Key, error) {
	k, err := a.Find(ctx, which)
	if err != nil {
		return hearth.Key{}, err
	}
	if err := a.retire(ctx, k.ID); err != nil {
		return hearth.Key{}, err
	}
	k.Disabled, k.Deleted = true, true
	return k, nil
}

func (a *Accounts) retire(ctx context.Context, id string) error {
	if err := a.store.RetireKey(ctx, id, moment(time.Now())); err != nil {
		return gone(err)
	}
	return a.changed(ctx)
}

// Forget removes a key of which nothing was recorded.
func (a *Accounts) Forget(ctx context.Context, id string) error {
	if err := a.store.DeleteKey(ctx, id); err != nil {
		return err
	}
	return a.changed(ctx)
}

// Currencies are those that keys in use are to see, besides the configured one, each once.
func (a *Accounts) Currencies() map[string]bool {
	list := map[string]bool{}
	for _, k := range a.view.Load().keys {
		if k.Currency != "" && !k.Disabled {
			list[k.Currency] = true
		}
	}
	return list
}

// gone is the error for who named a key that another has deleted meanwhile.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return hearth.Errorf(hearth.ErrNotFound, "there is no such key any more")
	}
	return err
}
