package account

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openPath opens accounts on a database file of their own handle, as another process would.
func openPath(t testing.TB, path string) *Accounts {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func newAccounts(t testing.TB) *Accounts { return openPath(t, filepath.Join(t.TempDir(), "hearth.db")) }

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// refusal is the *hearth.Error in err, nil if there is none.
func refusal(err error) *hearth.Error {
	var e *hearth.Error
	errors.As(err, &e)
	return e
}

func create(t testing.TB, a *Accounts, name string, admin bool) (string, hearth.Key) {
	t.Helper()
	plain, k, err := a.Create(t.Context(), hearth.Key{Name: name, Admin: admin})
	if err != nil {
		t.Fatal(err)
	}
	return plain, k
}

func TestCreate(t *testing.T) {
	a := newAccounts(t)
	plain, k := create(t, a, "laptop 노트북", true)
	if !regexp.MustCompile(`^sk-myip-[0-9A-Za-z]{43}$`).MatchString(plain) {
		t.Errorf("key %q", plain)
	}
	if want := plain[:11] + "…" + plain[len(plain)-3:]; k.Label != want || !strings.HasPrefix(k.ID, "key-") || !k.Admin || k.Disabled {
		t.Errorf("key %+v, want label %q", k, want)
	}
	got, err := a.Authorise(bearer(plain), here)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(k, *got); diff != "" {
		t.Errorf("authorised key (-want +got):\n%s", diff)
	}
	other, _ := create(t, a, "laptop 노트북", false)
	if other == plain {
		t.Error("the same key twice")
	}
	list, err := a.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("List = %+v, %v", list, err)
	}

	for name, bad := range map[string]string{
		"empty": "", "blank": "  ", "control": "a\x1b[31mb", "newline": "a\nb", "not UTF-8": "a\xff", "long": strings.Repeat("가", 101),
		"direction override": "a\u202eb",
	} {
		t.Run("name is refused/"+name, func(t *testing.T) {
			_, _, err := a.Create(t.Context(), hearth.Key{Name: bad})
			_, adoptErr := a.Adopt(t.Context(), bad, "some-key-of-mine", false)
			for _, err := range []error{err, adoptErr} {
				if e := refusal(err); e == nil || e.Param != "name" || e.Type != hearth.ErrInvalidRequest {
					t.Errorf("error %v, want one that names the field", err)
				}
			}
		})
	}
	if _, _, err := a.Create(t.Context(), hearth.Key{Name: strings.Repeat("가", 100)}); err != nil {
		t.Errorf("a name of 100 characters: %v", err)
	}
}

func TestAdopt(t *testing.T) {
	a := newAccounts(t)
	k, err := a.Adopt(t.Context(), "demo", "sk-mine", true)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(k.Label, "mine") {
		t.Errorf("label %q gives a short key away", k.Label)
	}
	again, err := a.Adopt(t.Context(), "another name", "sk-mine", false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(k, again); diff != "" {
		t.Errorf("adopted again (-want +got):\n%s", diff)
	}
	if got, err := a.Authorise(bearer("sk-mine"), here); err != nil || got.ID != k.ID {
		t.Errorf("Authorise = %+v, %v", got, err)
	}
	for name, bad := range map[string]string{"empty": "", "space": "a b", "control": "a\x00", "not ASCII": "키", "long": strings.Repeat("k", 257)} {
		if _, err := a.Adopt(t.Context(), "demo", bad, false); refusal(err) == nil || refusal(err).Param != "key" ||
			(bad != "" && strings.Contains(err.Error(), bad)) {
			t.Errorf("%s: %v, want an error that names the field and does not repeat the key", name, err)
		}
	}
	if _, err := a.Adopt(t.Context(), "demo", strings.Repeat("k", 256), false); err != nil {
		t.Errorf("a key of 256 characters: %v", err)
	}
}

func TestLabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.StringMatching(`(sk-myip-)?[0-9A-Za-z]{1,60}`).Draw(t, "key")
		secret := strings.TrimPrefix(plain, DefaultPrefix)
		shown := strings.TrimPrefix(label(plain, DefaultPrefix), DefaultPrefix)
		if shownLen := len(strings.ReplaceAll(shown, "…", "")); shownLen*4 > len(secret) {
			t.Fatalf("label %q shows %d of %d characters", shown, shownLen, len(secret))
		}
	})
}

func TestAuthorise(t *testing.T) {
	a := newAccounts(t)
	plain, k := create(t, a, "laptop", false)
	for name, h := range map[string]http.Header{
		"bearer":           bearer(plain),
		"any case, spaces": {"Authorization": {"  bEaReR   " + plain + " "}},
		"x-api-key":        {"X-Api-Key": {plain}},
		"both":             {"Authorization": {"Bearer " + plain}, "X-Api-Key": {"dummy"}},
	} {
		t.Run("accepted/"+name, func(t *testing.T) {
			if got, err := a.Authorise(h, here); err != nil || got.ID != k.ID {
				t.Errorf("Authorise = %+v, %v", got, err)
			}
		})
	}
	off, offKey := create(t, a, "old phone", false)
	if _, err := a.Disable(t.Context(), offKey.ID); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		h    http.Header
		says string
	}{
		"nothing sent":       {http.Header{}, "No API key was sent"},
		"query and cookie":   {http.Header{"Cookie": {"key=" + plain}}, "No API key was sent"},
		"basic":              {http.Header{"Authorization": {"Basic " + plain}}, "must be the word Bearer"},
		"no scheme":          {http.Header{"Authorization": {plain}}, "must be the word Bearer"},
		"empty":              {http.Header{"Authorization": {""}}, "must be the word Bearer"},
		"unset variable":     {http.Header{"Authorization": {"Bearer "}}, "Is the variable"},
		"empty x-api-key":    {http.Header{"X-Api-Key": {" "}}, "Is the variable"},
		"two":                {http.Header{"Authorization": {"Bearer " + plain, "Bearer " + plain}}, "more than once"},
		"two x-api-key":      {http.Header{"X-Api-Key": {plain, plain}}, "more than once"},
		"control characters": {bearer(plain + "\x00"), "cannot be an API key"},
		"space within":       {bearer(plain + " x"), "cannot be an API key"},
		"far too long":       {bearer(strings.Repeat("k", 1<<20)), "cannot be an API key"},
		"unknown":            {bearer(plain[:len(plain)-1] + "!"), "not known here"},
		"a beginning":        {bearer(plain[:len(plain)-1]), "not known here"},
		"disabled":           {bearer(off), "is disabled"},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			got, err := a.Authorise(c.h, here)
			e := refusal(err)
			if got != nil || e == nil || e.HTTPStatus() != http.StatusUnauthorized || !strings.Contains(e.Message, c.says) {
				t.Fatalf("Authorise = %+v, %v, want 401 that says %q", got, err, c.says)
			}
			for _, secret := range []string{plain, off, plain[:len(plain)-1]} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error repeats the key: %v", err)
				}
			}
		})
	}
	t.Run("allocates nothing", func(t *testing.T) {
		h := bearer(plain)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := a.Authorise(h, here); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestDisable(t *testing.T) {
	a := newAccounts(t)
	_, first := create(t, a, "twin", false)
	_, second := create(t, a, "twin", false)
	_, third := create(t, a, first.ID, false) // an id wins over a name
	for name, c := range map[string]struct {
		which string
		want  hearth.ErrorType
	}{
		"ambiguous": {"twin", hearth.ErrInvalidRequest},
		"nobody":    {"no such key", hearth.ErrNotFound},
		"empty":     {"", hearth.ErrNotFound},
	} {
		if _, err := a.Disable(t.Context(), c.which); refusal(err) == nil || refusal(err).Type != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		} else if name == "ambiguous" && (!strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), second.ID)) {
			t.Errorf("%s: %v, want both ids", name, err)
		}
	}
	if k, err := a.Disable(t.Context(), first.ID); err != nil || k.ID != first.ID || !k.Disabled {
		t.Errorf("by id: %+v, %v", k, err)
	}
	if k, err := a.Disable(t.Context(), third.Label); err != nil || k.ID != third.ID {
		t.Errorf("by label: %+v, %v", k, err)
	}
}

func TestOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	gateway, command := openPath(t, path), openPath(t, path)
	plain, k := create(t, command, "laptop", false)
	waitFor(t, "a key created by another process", func() bool {
		got, err := gateway.Authorise(bearer(plain), here)
		return err == nil && got.ID == k.ID
	})
	if _, err := command.Disable(t.Context(), "laptop"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the refusal of a key disabled by another process", func() bool {
		_, err := gateway.Authorise(bearer(plain), here)
		return err != nil
	})
}

func TestLookForUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gateway, err := Open(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	gateway.Close() // without the poll only an unknown key makes it look
	plain, _ := create(t, openPath(t, path), "laptop", false)
	waitFor(t, "a key created by another process", func() bool {
		_, err := gateway.Authorise(bearer(plain), here)
		return err == nil
	})
}

// waitFor asks again and again until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(10*pollEvery), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited too long for: %s", what)
		case <-tick.C:
		}
	}
}

func TestGuessing(t *testing.T) {
	a := newAccounts(t)
	plain, _ := create(t, a, "laptop", false)
	began := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if _, err := a.Authorise(bearer(DefaultPrefix+strings.Repeat("x", i%200)), here); err == nil {
					t.Error("a guess was accepted")
				}
				if _, err := a.Authorise(bearer(plain), here); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("32,000 requests took %s", d)
	}
}

func TestDatabaseGone(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	plain, _ := create(t, a, "laptop", false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authorise(bearer(plain), here); err != nil {
		t.Errorf("a known key without the database: %v", err)
	}
	if _, err := a.Authorise(bearer("unknown"), here); refusal(err) == nil {
		t.Errorf("an unknown key without the database: %v, want a refusal", err)
	}
	if _, _, err := a.Create(context.Background(), hearth.Key{Name: "x"}); err == nil {
		t.Error("Create went well without a database")
	}
}

func TestPrefix(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, bad := range []string{"a b", "키", strings.Repeat("p", 250)} {
		if a, err := Open(t.Context(), s, bad); err == nil {
			a.Close()
			t.Errorf("prefix %q was accepted", bad)
		}
	}
	a, err := Open(t.Context(), s, "acme_")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if plain, k := create(t, a, "x", false); !strings.HasPrefix(plain, "acme_") || !strings.HasPrefix(k.Label, "acme_") {
		t.Errorf("key %+v does not begin with its prefix", k)
	}
}

func BenchmarkAuthorise(b *testing.B) {
	a := newAccounts(b)
	plain, _ := create(b, a, "laptop", false)
	h := bearer(plain)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authorise(h, here); err != nil {
			b.Fatal(err)
		}
	}
}

// A key that another process created works with its first request, also right after a look for another one.
func TestKeyOfAnotherProcessWorksAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	open := func() *Accounts {
		s, err := store.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		a, err := Open(t.Context(), s, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return a
	}
	gateway, command := open(), open()
	for i := range 5 {
		if _, err := gateway.Authorise(bearer("sk-myip-nobody"), here); err == nil {
			t.Fatal("an unknown key was accepted")
		}
		plain, _ := create(t, command, "made beside it", false)
		if _, err := gateway.Authorise(bearer(plain), here); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
}
