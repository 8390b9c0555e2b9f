package account

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestCreate_WithPolicy(t *testing.T) {
	a := newAccounts(t)
	want := hearth.Key{
		Name: "narrow", Admin: true, Models: []string{"a/b", "c/d:free"}, Providers: []string{"local-gpu", "acme/fp8"},
		LocalOnly: true, EarlyHeaders: 20 * time.Second, Limit: 5_000_000_000,
	}
	asked := want
	asked.Models = []string{"a/b", "c/d:free", "a/b"}
	asked.ID, asked.Label, asked.Hash = "key-mine", "mine", hearth.KeyHash{1} // not the asker's to say
	plain, made, err := a.Create(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if made.ID == asked.ID || made.Hash != hash(plain) || made.Label != label(plain, DefaultPrefix) {
		t.Errorf("made %+v of what the asker said", made)
	}
	want.ID, want.Hash, want.Label, want.CreatedAt = made.ID, made.Hash, made.Label, made.CreatedAt
	got, err := a.Authorise(bearer(plain), here)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, *got); d != "" {
		t.Errorf("authorised key (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, made); d != "" {
		t.Errorf("returned key (-want +got):\n%s", d)
	}
}

// TestChange changes a key in one process and looks at it in another.
func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	gateway, command := openPath(t, path), openPath(t, path)
	plain, k := create(t, command, "laptop", false)
	create(t, command, "another", false)
	for _, c := range []hearth.KeyChange{
		{Models: &[]string{"a/b", "a/b", "c/d"}},
		{Providers: &[]string{"acme"}},
		{EarlyHeaders: new(time.Second)},
		{EarlyHeaders: new(hearth.NoEarlyHeaders)},
		{Limit: new(hearth.Nano(1))},
		{ExpiresAt: new(time.Date(2099, 1, 2, 3, 4, 5, 6_000_000, time.UTC)), Owner: new("주인")},
		{ExpiresAt: new(time.Time), Owner: new("")},
		{Models: new([]string), Limit: new(hearth.Nano)},
		{Providers: &[]string{"local-gpu/gpu-1"}, LocalOnly: new(true)},
		{LocalOnly: new(false), Providers: &[]string{}, EarlyHeaders: new(time.Duration)},
	} {
		want := c.Apply(k)
		want.Models, want.Providers = dedupe(want.Models), dedupe(want.Providers)
		got, err := command.Change(t.Context(), "laptop", c)
		if err != nil {
			t.Fatal(err)
		}
		if got.UpdatedAt.Before(k.CreatedAt) || time.Since(got.UpdatedAt) > time.Minute {
			t.Errorf("changed at %s", got.UpdatedAt)
		}
		want.UpdatedAt = got.UpdatedAt
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("returned key (-want +got):\n%s", d)
		}
		waitFor(t, "a change made by another process", func() bool {
			seen, err := gateway.Authorise(bearer(plain), here)
			return err == nil && cmp.Equal(want, *seen)
		})
		k = got
	}
	list, err := command.List(t.Context())
	if err != nil || len(list) != 2 || len(list[1].Models) != 0 || list[1].Limit != 0 {
		t.Errorf("the other key was changed: %+v, %v", list, err)
	}
}

func dedupe(names []string) []string {
	var once []string
	for i, n := range names {
		if i == 0 || n != names[i-1] {
			once = append(once, n)
		}
	}
	return once
}

func TestPolicy_Refused(t *testing.T) {
	a := newAccounts(t)
	_, k := create(t, a, "laptop", false)
	if _, err := a.Change(t.Context(), "laptop", hearth.KeyChange{Providers: &[]string{"acme"}}); err != nil {
		t.Fatal(err)
	}
	many := strings.Split(strings.Repeat("a/b ", maxNames)+"a/b", " ")
	for name, tc := range map[string]struct {
		c     hearth.KeyChange
		param string
	}{
		"no name":                    {hearth.KeyChange{Models: &[]string{"a/b", ""}}, "models"},
		"a space":                    {hearth.KeyChange{Models: &[]string{"a/b "}}, "models"},
		"a comma":                    {hearth.KeyChange{Providers: &[]string{"a,b"}}, "providers"},
		"control characters":         {hearth.KeyChange{Providers: &[]string{"a\x1b[31m"}}, "providers"},
		"not ASCII":                  {hearth.KeyChange{Models: &[]string{"회사/모델"}}, "models"},
		"too long":                   {hearth.KeyChange{Models: &[]string{strings.Repeat("a", maxListed+1)}}, "models"},
		"too many":                   {hearth.KeyChange{Models: &many}, "models"},
		"early headers at once":      {hearth.KeyChange{EarlyHeaders: new(time.Millisecond)}, "early_headers"},
		"early headers before":       {hearth.KeyChange{EarlyHeaders: new(-time.Second)}, "early_headers"},
		"early headers after a day":  {hearth.KeyChange{EarlyHeaders: new(24 * time.Hour)}, "early_headers"},
		"a debt":                     {hearth.KeyChange{Limit: new(hearth.Nano(-1))}, "limit"},
		"an external debt":           {hearth.KeyChange{ExternalLimit: new(hearth.Nano(-1))}, "external_limit"},
		"a period of no calendar":    {hearth.KeyChange{LimitReset: new(hearth.Period("yearly"))}, "limit_reset"},
		"a currency in words":        {hearth.KeyChange{Currency: new("won")}, "currency"},
		"local only, with externals": {hearth.KeyChange{LocalOnly: new(true)}, "providers"},
		"a value of time below 0":    {hearth.KeyChange{Kappa: new(hearth.Kappa(-1))}, "kappa"},
		"a value of time over 100":   {hearth.KeyChange{Kappa: new(hearth.KappaMost + 1)}, "kappa"},
		"local only, with one alike": {hearth.KeyChange{LocalOnly: new(true), Providers: &[]string{"local-gpus"}}, "providers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, changeErr := a.Change(t.Context(), k.ID, tc.c)
			_, _, createErr := a.Create(t.Context(), tc.c.Apply(hearth.Key{Name: "x", Providers: []string{"acme"}}))
			for _, err := range []error{changeErr, createErr} {
				if e := refusal(err); e == nil || e.Param != tc.param || e.Type != hearth.ErrInvalidRequest || strings.Contains(e.Message, "\x1b") {
					t.Errorf("error %v, want one that names %s", err, tc.param)
				}
			}
		})
	}
	list, err := a.List(t.Context())
	if err != nil || len(list) != 1 || !cmp.Equal(list[0].Providers, []string{"acme"}) || list[0].LocalOnly {
		t.Errorf("keys %+v, %v: a refused change left something behind", list, err)
	}
	if _, err := a.Change(t.Context(), "nobody", hearth.KeyChange{LocalOnly: new(true)}); refusal(err) == nil || refusal(err).Type != hearth.ErrNotFound {
		t.Errorf("no such key: %v", err)
	}
}
