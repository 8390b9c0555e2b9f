package account

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// A key is let in up to the instant at which it expires, and not at it.
func TestAuthorise_Expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plain = "sk-myip-short-lived"
		began := time.Now()
		k := hearth.Key{ID: "key-1", Hash: hash(plain), ExpiresAt: began.Add(time.Hour)}
		a := new(Accounts)
		a.view.Store(&view{keys: map[hearth.KeyHash]*known{k.Hash: {k, new(atomic.Bool)}}})
		<-time.After(time.Hour - 1)
		if got, err := a.Authorise(bearer(plain), here); err != nil || got.ID != k.ID {
			t.Errorf("a nanosecond before its end: %v, %v", got, err)
		}
		<-time.After(1)
		got, err := a.Authorise(bearer(plain), here)
		if e := refusal(err); got != nil || e == nil || e.HTTPStatus() != http.StatusUnauthorized ||
			e.Message != "This API key expired at "+k.ExpiresAt.Format(time.RFC3339)+". Ask the operator for another one." {
			t.Errorf("at its end: %v, %v", got, err)
		}
		if time.Since(began) != time.Hour {
			t.Errorf("%s passed", time.Since(began))
		}
	})
}

func TestExpiry(t *testing.T) {
	a := newAccounts(t)
	at := time.Now().Add(time.Hour).In(time.FixedZone("", 9*3600))
	_, k, err := a.Create(t.Context(), hearth.Key{Name: "x", ExpiresAt: at})
	if err != nil || k.ExpiresAt != moment(at) || k.ExpiresAt.Location() != time.UTC {
		t.Errorf("expires at %s, %v, want %s", k.ExpiresAt, err, moment(at))
	}
	for name, bad := range map[string]time.Time{
		"past": time.Now().Add(-time.Second), "before the epoch": time.Unix(-1, 0), "too far": lastExpiry.Add(1),
	} {
		if _, _, err := a.Create(t.Context(), hearth.Key{Name: "x", ExpiresAt: bad}); refusal(err) == nil || refusal(err).Param != "expires_at" {
			t.Errorf("made with %s: %v", name, err)
		}
		if _, err := a.Change(t.Context(), "x", hearth.KeyChange{ExpiresAt: &bad}); refusal(err) == nil || refusal(err).Param != "expires_at" {
			t.Errorf("changed to %s: %v", name, err)
		}
	}
	if k, err = a.Change(t.Context(), "x", hearth.KeyChange{ExpiresAt: new(lastExpiry)}); err != nil || !k.ExpiresAt.Equal(lastExpiry) {
		t.Errorf("the last: %s, %v", k.ExpiresAt, err)
	}
	for _, bad := range []string{strings.Repeat("o", maxName+1), "a\nb", "\xff"} {
		if _, err := a.Change(t.Context(), "x", hearth.KeyChange{Owner: &bad}); refusal(err) == nil || refusal(err).Param != "owner" {
			t.Errorf("owner %q: %v", bad, err)
		}
		if _, err := a.Change(t.Context(), "x", hearth.KeyChange{Name: &bad}); refusal(err) == nil || refusal(err).Param != "name" {
			t.Errorf("name %q: %v", bad, err)
		}
	}
	if _, err := a.Change(t.Context(), "x", hearth.KeyChange{Name: new(" ")}); refusal(err) == nil || refusal(err).Param != "name" {
		t.Errorf("no name: %v", err)
	}
}

// A key that was used stays, for the records; one that was not is gone; neither is found or let in any more.
func TestDelete(t *testing.T) {
	a := newAccounts(t)
	usedPlain, used := create(t, a, "used", false)
	unusedPlain, unused := create(t, a, "unused", false)
	if _, err := a.Authorise(bearer(usedPlain), here); err != nil {
		t.Fatal(err)
	}
	create(t, a, "other", false) // the views to come know that the key was used
	for _, k := range []hearth.Key{used, unused} {
		if err := a.Delete(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		if err := a.Delete(t.Context(), k.ID); refusal(err) == nil || refusal(err).Type != hearth.ErrNotFound {
			t.Errorf("%s again: %v", k.Name, err)
		}
		if _, err := a.Change(t.Context(), k.Name, hearth.KeyChange{Disabled: new(false)}); refusal(err) == nil || refusal(err).Type != hearth.ErrNotFound {
			t.Errorf("%s changed: %v", k.Name, err)
		}
	}
	if _, err := a.Disable(t.Context(), usedPlain); refusal(err) == nil || refusal(err).Type != hearth.ErrNotFound {
		t.Errorf("found by itself: %v", err)
	}
	for plain, says := range map[string]string{usedPlain: "was deleted", unusedPlain: "not known here"} {
		if _, err := a.Authorise(bearer(plain), here); refusal(err) == nil || refusal(err).HTTPStatus() != http.StatusUnauthorized || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want that it %s", err, says)
		}
	}
	list, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.DeleteFunc(list, func(k hearth.Key) bool { return k.Name == "other" })
	used.Disabled, used.Deleted, used.UpdatedAt = true, true, kept[0].UpdatedAt
	if d := cmp.Diff([]hearth.Key{used}, kept); d != "" || used.UpdatedAt.IsZero() {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	create(t, a, "used", false)
	if _, err := a.Disable(t.Context(), "used"); err != nil {
		t.Errorf("a new key under the old name: %v", err)
	}
}

func TestCurrencies(t *testing.T) {
	a := newAccounts(t)
	for name, c := range map[string]string{"a": "USD", "b": "USD", "c": "EUR", "d": "", "e": "JPY"} {
		if _, _, err := a.Create(t.Context(), hearth.Key{Name: name, Currency: c}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Disable(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bool{"USD": true, "EUR": true}, a.Currencies()); d != "" {
		t.Errorf("currencies (-want +got):\n%s", d)
	}
}
