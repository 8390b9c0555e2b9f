package app_test

import (
	"errors"
	"path/filepath"
	"testing"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// Keys that could not be handed out are forgotten: the next start is the first one again.
func TestFirstKeysAreHandedOutOrForgotten(t *testing.T) {
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte("currency: KRW\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if _, err := app.Open(t.Context(), cfg, app.Options{FirstKeys: func(string, string) error { return full }}); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	var admin, user string
	open := func() *app.App {
		a, err := app.Open(t.Context(), cfg, app.Options{FirstKeys: func(a, u string) error { admin, user = a, u; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := open()
	keys, err := a.Accounts.List(t.Context())
	if err != nil || len(keys) != 2 || admin == "" || user == "" {
		t.Errorf("%d keys, %v; handed out %q and %q", len(keys), err, admin, user)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin = ""
	a = open()
	defer a.Close(t.Context())
	if admin != "" {
		t.Error("a second start made keys again")
	}
}
