package store

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"myip.co.kr/hearth"
)

func TestKeys(t *testing.T) {
	s := newStore(t)
	before, err := s.KeysVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := hearth.Key{ID: "key-1", Hash: hearth.KeyHash{1, 2, 3}, Name: "이름", Label: "sk-myip-abc…xyz", Admin: true,
		CreatedAt: time.UnixMilli(1_764_460_800_123).UTC(),
		Models:    []string{"a/b", `odd"one`}, Providers: []string{"local-gpu"}, LocalOnly: true, EarlyHeaders: 1500 * time.Millisecond, Limit: 5_000_000_001,
		LimitReset: hearth.Weekly, ExternalLimit: 2_000_000_003, Currency: "USD", NoContent: true, Class: hearth.Batch, RequestsPerMinute: 60, TokensPerMinute: 100_000, Kappa: 50, NoExplore: true,
		ExpiresAt: time.UnixMilli(1_864_460_800_321).UTC(), Owner: "주인"}
	if err := s.InsertKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	twice := k
	twice.ID = "key-2"
	if err := s.InsertKey(t.Context(), twice); !errors.Is(err, ErrKeyExists) {
		t.Errorf("the same hash twice: %v, want ErrKeyExists", err)
	}
	at := time.UnixMilli(1_764_460_900_456).UTC()
	if err := s.ChangeKey(t.Context(), "key-1", hearth.KeyChange{Disabled: new(true)}, at); err != nil {
		t.Fatal(err)
	}
	k.Disabled, k.UpdatedAt = true, at
	got, err := s.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hearth.Key{k}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if after, err := s.KeysVersion(t.Context()); after != before+2 || err != nil {
		t.Errorf("version %d became %d, %v, want two more", before, after, err)
	}
}

func TestChangeKey(t *testing.T) {
	s := newStore(t)
	k := hearth.Key{ID: "key-1", Hash: hearth.KeyHash{1}, Name: "n", Label: "l", CreatedAt: time.UnixMilli(1).UTC()}
	other := hearth.Key{ID: "key-2", Hash: hearth.KeyHash{2}, Name: "n", Label: "l", CreatedAt: time.UnixMilli(2).UTC(), Limit: 7, LimitReset: hearth.Daily}
	for _, k := range []hearth.Key{k, other} {
		if err := s.InsertKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	version := func() int64 {
		t.Helper()
		v, err := s.KeysVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, c := range map[string]hearth.KeyChange{
		"name":          {Name: new("another")},
		"disabled":      {Disabled: new(true)},
		"expiry":        {ExpiresAt: new(time.UnixMilli(1_864_460_800_321).UTC())},
		"owner":         {Owner: new("o")},
		"models":        {Models: &[]string{"a/b", "c/d"}},
		"providers":     {Providers: &[]string{"acme/fp8"}},
		"local only":    {LocalOnly: new(true)},
		"early headers": {EarlyHeaders: new(20 * time.Second)},
		"never early":   {EarlyHeaders: new(hearth.NoEarlyHeaders)},
		"limit":         {Limit: new(hearth.Nano(math.MaxInt64))},
		"period":        {LimitReset: new(hearth.Monthly)},
		"external":      {ExternalLimit: new(hearth.Nano(math.MaxInt64))},
		"currency":      {Currency: new("EUR")},
		"content":       {NoContent: new(false)},
		"class":         {Class: new(hearth.Interactive)},
		"requests":      {RequestsPerMinute: new(int64(60))},
		"tokens":        {TokensPerMinute: new(int64(100_000))},
		"kappa":         {Kappa: new(hearth.Kappa(850))},
		"explore":       {NoExplore: new(true)},
		"all of it": {Models: &[]string{"x/y"}, Providers: &[]string{"beta"}, LocalOnly: new(true),
			EarlyHeaders: new(time.Second), Limit: new(hearth.Nano(1)), LimitReset: new(hearth.Daily), ExternalLimit: new(hearth.Nano(2)), Currency: new("JPY")},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			before := version()
			check := func(want hearth.Key, at time.Time) {
				t.Helper()
				want.UpdatedAt = at
				got, err := s.Keys(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]hearth.Key{want, other}, got); diff != "" {
					t.Errorf("keys (-want +got):\n%s", diff)
				}
			}
			if err := s.ChangeKey(t.Context(), "key-1", c, time.UnixMilli(9).UTC()); err != nil {
				t.Fatal(err)
			}
			check(c.Apply(k), time.UnixMilli(9).UTC())
			if v := version(); v != before+1 {
				t.Errorf("version %d became %d: others would not see the change", before, v)
			}
			none := hearth.KeyChange{Name: new("n"), Disabled: new(false), ExpiresAt: new(time.Time), Owner: new(""), Models: new([]string), Providers: new([]string), LocalOnly: new(bool), EarlyHeaders: new(time.Duration), Limit: new(hearth.Nano),
				LimitReset: new(hearth.Forever), ExternalLimit: new(hearth.Nano), Currency: new(""), RequestsPerMinute: new(int64), TokensPerMinute: new(int64), Kappa: new(hearth.Kappa), NoExplore: new(bool)}
			if err := s.ChangeKey(t.Context(), "key-1", none, time.UnixMilli(10).UTC()); err != nil {
				t.Fatal(err)
			}
			check(k, time.UnixMilli(10).UTC())
		})
	}
	if err := s.ChangeKey(t.Context(), "key-9", hearth.KeyChange{LocalOnly: new(true)}, time.UnixMilli(9)); !errors.Is(err, ErrNotFound) {
		t.Errorf("changing no key: %v, want ErrNotFound", err)
	}
}

// A key is removed only if nothing was recorded of it, and one that was retired cannot be changed any more.
func TestRetireKey(t *testing.T) {
	s := newStore(t)
	for i, id := range []string{"key-1", "key-2"} {
		if err := s.InsertKey(t.Context(), hearth.Key{ID: id, Hash: hearth.KeyHash{byte(i)}, Name: "n", CreatedAt: time.UnixMilli(int64(i + 1)).UTC()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Apply(t.Context(), "j", 1, []Row{NewRow(1, &hearth.Generation{ID: "gen-1", KeyID: "key-1", CreatedAt: time.UnixMilli(5)}, []byte("{}"))}); err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(7).UTC()
	for _, id := range []string{"key-1", "key-2"} {
		if err := s.RetireKey(t.Context(), id, at); err != nil {
			t.Fatal(err)
		}
		if err := s.RetireKey(t.Context(), id, at); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s twice: %v", id, err)
		}
		if err := s.ChangeKey(t.Context(), id, hearth.KeyChange{Disabled: new(false)}, at); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s was changed after its end: %v", id, err)
		}
		if err := s.DeleteKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []hearth.Key{{ID: "key-1", Hash: hearth.KeyHash{0}, Name: "n", Disabled: true, Deleted: true, CreatedAt: time.UnixMilli(1).UTC(), UpdatedAt: at}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// TestKeys_UnreadablePolicy: a list that cannot be read is an error, never an empty one: that would allow everything.
func TestKeys_UnreadablePolicy(t *testing.T) {
	for _, text := range []string{"", "null", "{}", `["a"`, `"a"`, "[1]"} {
		t.Run(text, func(t *testing.T) {
			for _, column := range []string{"models", "providers"} {
				s := newStore(t)
				if err := s.InsertKey(t.Context(), hearth.Key{ID: "key-1", Models: []string{"a/b"}}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.writer.ExecContext(t.Context(), "UPDATE keys SET "+column+" = ?", text); err != nil {
					t.Fatal(err)
				}
				if keys, err := s.Keys(t.Context()); err == nil {
					t.Errorf("%s: read as %+v", column, keys)
				}
			}
		})
	}
}

// TestOpen_OlderTables opens a database whose keys had no policy yet.
func TestOpen_OlderTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	s := mustOpen(t, path)
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writer, dir, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.ExecContext(t.Context(), `INSERT INTO keys (id, hash, name, label, admin, disabled, created_at)
		VALUES ('key-1', ?, 'n', 'l', 1, 0, 5)`, make([]byte, 32)); err != nil {
		t.Fatalf("the old tables are not back: %v", err)
	}
	if _, err := s.Keys(t.Context()); err == nil {
		t.Fatal("keys without a policy were read before the upgrade")
	}
	got, err := mustOpen(t, path).Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []hearth.Key{{ID: "key-1", Name: "n", Label: "l", Admin: true, CreatedAt: time.UnixMilli(5).UTC()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
