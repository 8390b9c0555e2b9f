package app_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// TestKeys_Names: a key may list what the configuration has, and nothing else.
func TestKeys_Names(t *testing.T) {
	text := `
aliases: {small: a/b}
currency: KRW
exchange_rates: {USD: 1390, JPY: 9.2}
nodes: [{name: gpu-1, slots: [{name: s, model: a/b, command: [e, "${port}"]}]}]
providers:
  - {slug: acme, name: Acme AI, base_url: 'https://acme.example/v1', models: [{model: a/b}, {model: c/d, variant: fp8}]}
`
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := app.OpenKeys(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, made, err := k.Create(t.Context(), hearth.Key{
		Name: "x", Models: []string{"small", "c/d", "a/b"}, Providers: []string{"local-gpu", "local-gpu/gpu-1", "acme", "acme/fp8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a/b", "c/d"}, made.Models); d != "" {
		t.Errorf("models (-want +got):\n%s", d)
	}
	for name, tc := range map[string]struct {
		c    hearth.KeyChange
		says string
	}{
		"model":             {hearth.KeyChange{Models: &[]string{"a/b", "c/dd"}}, `no model "c/dd"; did you mean c/d?`},
		"alias":             {hearth.KeyChange{Models: &[]string{"smal"}}, `did you mean small?`},
		"nothing near":      {hearth.KeyChange{Models: &[]string{"zzzzzzzz"}}, `no model "zzzzzzzz"; it has a/b, c/d, small`},
		"provider":          {hearth.KeyChange{Providers: &[]string{"acmee"}}, `no provider "acmee"; did you mean acme?`},
		"display name":      {hearth.KeyChange{Providers: &[]string{"Acme AI"}}, `did you mean acme?`},
		"node":              {hearth.KeyChange{Providers: &[]string{"local-gpu/gpu-2"}}, `did you mean local-gpu/gpu-1?`},
		"control character": {hearth.KeyChange{Providers: &[]string{"\x1b[31m"}}, `no provider "\x1b[31m"`},
		"currency":          {hearth.KeyChange{Currency: new("CHF")}, `no exchange rate from "CHF" to KRW`},
		"long":              {hearth.KeyChange{Models: &[]string{strings.Repeat("x", 5000)}}, `no model "xxx`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := k.Change(t.Context(), "x", tc.c)
			var e *hearth.Error
			if !errors.As(err, &e) || e.Type != hearth.ErrInvalidRequest || !strings.Contains(e.Message, tc.says) || len(e.Message) > 500 {
				t.Errorf("%v, want %s", err, tc.says)
			}
		})
	}
	for _, currency := range []string{"JPY", "KRW", ""} {
		if k, err := k.Change(t.Context(), "x", hearth.KeyChange{Currency: &currency}); err != nil || k.Currency != currency {
			t.Errorf("%q: %+v, %v", currency, k, err)
		}
	}
	if _, _, err := k.Create(t.Context(), hearth.Key{Name: "y", Currency: "CHF"}); err == nil || !strings.Contains(err.Error(), "no exchange rate") {
		t.Errorf("made with a currency that cannot be shown: %v", err)
	}
	if k, err := k.Change(t.Context(), "x", hearth.KeyChange{Models: &[]string{"small"}}); err != nil || !cmp.Equal(k.Models, []string{"a/b"}) || len(k.Providers) != 4 {
		t.Errorf("changed to %+v, %v", k, err)
	}
}

// TestKeys_Spent: the command shows what a running gateway has billed.
func TestKeys_Spent(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	r := w.chat(ask(qwen, `,"provider":{"only":["acme"]}`))
	usage, _ := r.document(t)["usage"].(map[string]any)
	cost, _ := usage["cost"].(float64)
	if r.status != 200 || cost <= 0 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	k, err := app.OpenKeys(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	keys, err := k.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	user := keys[slices.IndexFunc(keys, func(k hearth.Key) bool { return k.Name == "first user key" })]
	eventually(t, "the cost of the request is shown", func() bool {
		spent, err := k.Spent(t.Context())
		return err == nil && len(spent) == 1 && len(spent[user.ID].Ever) == 1 && spent[user.ID].Ever["KRW"].Decimal().InexactFloat64() == cost
	})
}
