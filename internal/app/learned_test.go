package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/store"
)

// shop is a gateway on a directory that others have used before: three external endpoints of one model.
type shop struct {
	cfg *config.Config
	key string // of its first start
}

func newShop(t *testing.T, providers ...string) *shop {
	t.Helper()
	text := "currency: USD\ndefault_model: a/b\ndata_dir: data\nproviders:\n"
	for i, slug := range providers {
		text += fmt.Sprintf("  - {slug: %s, base_url: 'https://%[1]s.example/v1', api_key: k, models: [{model: a/b, price: {prompt: 0.2%d, completion: 0.6}}]}\n", slug, i)
	}
	if len(providers) == 0 {
		text = "currency: USD\ndata_dir: data\ndefault_model: a/b\nnodes: [{name: n, slots: [{name: s, model: a/b, command: [x, '${port}'], price: {prompt: 1, completion: 1}}]}]\n"
	}
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	furnish(t, cfg)
	return &shop{cfg: cfg}
}

// standing is what POST /chain says of a candidate.
type standing struct {
	Slug    string  `json:"provider_slug"`
	Share   float64 `json:"share"`
	Reason  string  `json:"reason"`
	Routing struct {
		TTFT   float64 `json:"ttft_seconds"`
		Cap    float64 `json:"cap"`
		Errors float64 `json:"error_rate"`
		State  string  `json:"state"`
		New    bool    `json:"new"`
	} `json:"routing"`
}

// open starts a gateway in the shop, asks for a chain, and ends it.
func (s *shop) open(t *testing.T) (chain map[string]standing, dropped, log string) {
	t.Helper()
	said := new(safeBuffer)
	a, err := app.Open(t.Context(), s.cfg, app.Options{Log: slog.New(slog.NewTextHandler(said, nil)), FirstKeys: func(_, user string) error { s.key = user; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	chain, dropped = s.chain(t, a)
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return chain, dropped, said.String()
}

func (s *shop) chain(t *testing.T, a *app.App) (chain map[string]standing, dropped string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/api/v1/chain", strings.NewReader(`{"model":"a/b","session_id":"s","messages":[{"role":"user","content":"hi"}]}`))
	r.Header.Set("Authorization", "Bearer "+s.key)
	rec := httptest.NewRecorder()
	a.Server.ServeHTTP(rec, r)
	var doc struct {
		Data struct {
			Candidates []standing `json:"candidates"`
			Dropped    []struct {
				Endpoint string `json:"endpoint"`
				Reason   string `json:"reason"`
			} `json:"dropped"`
		} `json:"data"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != 200 {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	chain = map[string]standing{}
	for _, c := range doc.Data.Candidates {
		chain[c.Slug] = c
	}
	return chain, fmt.Sprint(doc.Data.Dropped)
}

// taught is the state of a router for the shop's catalog at which a fails all the time, b is slow, and c has met its limit.
func (s *shop) taught(t *testing.T, at time.Time) routing.State {
	t.Helper()
	cat, err := s.cfg.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	begun := at.Add(-200 * time.Second)
	r := routing.NewRouter(cat, routing.Options{}, begun)
	ask := routing.Ask{In: 100, MaxTokens: 100, Stream: true}
	one := func(i int, sent time.Time, first time.Duration, res routing.Result) {
		try := r.Begin(&ask, i, routing.Share, sent)
		if first > 0 {
			try.First(sent.Add(first))
		}
		try.Done(res, sent.Add(first+time.Second))
	}
	for n := range 100 {
		now := begun.Add(time.Duration(n) * 2 * time.Second)
		one(0, now, 0, routing.Result{Outcome: routing.Failed})
		one(1, now, 3*time.Second, routing.Result{In: 100, Out: 50})
		one(2, now, 300*time.Millisecond, routing.Result{In: 100, Out: 50})
		r.Refresh(now.Add(time.Second))
	}
	one(2, at.Add(-2*time.Second), 0, routing.Result{Outcome: routing.Limited, RetryAfter: 2 * time.Minute})
	return r.State(at)
}

// put writes what is to be found at the next start.
func (s *shop) put(t *testing.T, version int, state []byte) {
	t.Helper()
	st, err := store.Open(t.Context(), filepath.Join(s.cfg.DataDir, "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.SaveLearned(t.Context(), version, state); err != nil {
		t.Fatal(err)
	}
}

// document is what is kept, as of what the router knows.
func document(t *testing.T, s routing.State) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"routing": s})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLearned(t *testing.T) {
	t.Parallel()
	s := newShop(t, "a", "b", "c")
	fresh, _, log := s.open(t)
	if c := fresh["a"]; len(fresh) != 3 || !c.Routing.New || c.Share < fresh["c"].Share || strings.Contains(log, "learned") {
		t.Fatalf("of an empty directory: %+v\n%s", fresh, log)
	}
	s.put(t, 1, document(t, s.taught(t, time.Now())))
	known := func(name string, chain map[string]standing, dropped string) {
		t.Helper()
		if !strings.Contains(dropped, "a:a/b") || chain["b"].Routing.New || chain["b"].Routing.TTFT < 2 || chain["c"].Routing.State != "cooling" || chain["c"].Routing.Cap == 0 {
			t.Errorf("%s: %+v, dropped %s", name, chain, dropped)
		}
	}
	chain, dropped, _ := s.open(t)
	known("restored", chain, dropped)
	chain, dropped, _ = s.open(t)
	known("and once more, with nothing learned in between", chain, dropped)
	t.Run("a clock that was set back by a day makes nothing of it", func(t *testing.T) {
		s.put(t, 1, document(t, s.taught(t, time.Now().Add(24*time.Hour))))
		chain, dropped, _ := s.open(t)
		known("", chain, dropped)
	})
	t.Run("of long ago the rates are left, not who is out", func(t *testing.T) {
		s.put(t, 1, document(t, s.taught(t, time.Now().Add(-24*time.Hour))))
		chain, dropped, _ := s.open(t)
		if len(chain) != 3 || chain["b"].Routing.New || chain["c"].Routing.State != "closed" || strings.Contains(dropped, "a/b") {
			t.Errorf("%+v, dropped %s", chain, dropped)
		}
	})
}

func TestLearned_Unreadable(t *testing.T) {
	t.Parallel()
	s := newShop(t, "a", "b")
	s.open(t)
	ok := document(t, s.brief(t))
	for _, c := range []struct {
		name    string
		version int
		state   []byte
	}{
		{"garbage", 1, []byte("\x00\xffnot json")},
		{"cut short", 1, ok[:len(ok)/2]},
		{"empty", 1, []byte{}},
		{"a later program's", 2, ok},
		{"numbers that are none", 1, []byte(`{"routing":{"at":"2026-01-01T00:00:00Z","sessions":[{"key":"x"}]}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.put(t, c.version, c.state)
			chain, _, log := s.open(t)
			if !chain["a"].Routing.New || strings.Count(log, "learned anew") != 1 {
				t.Errorf("%+v\n%s", chain, log)
			}
		})
	}
	t.Run("of other providers", func(t *testing.T) {
		other := newShop(t, "x", "y", "z")
		s.put(t, 1, document(t, other.taught(t, time.Now())))
		chain, _, log := s.open(t)
		if !chain["a"].Routing.New || strings.Contains(log, "level=WARN") {
			t.Errorf("%+v\n%s", chain, log)
		}
	})
	t.Run("without external endpoints", func(t *testing.T) {
		none := newShop(t)
		none.open(t)
		none.put(t, 1, ok)
		if _, _, log := none.open(t); strings.Contains(log, "learned") {
			t.Error(log)
		}
	})
}

// brief is what is known of a shop with two endpoints: something.
func (s *shop) brief(t *testing.T) routing.State {
	t.Helper()
	cat, err := s.cfg.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := routing.NewRouter(cat, routing.Options{}, now)
	for _, e := range cat.Endpoints {
		try := r.Begin(&routing.Ask{In: 10}, e.Index, routing.Share, now)
		try.Done(routing.Result{In: 10, Out: 10}, now.Add(time.Second))
	}
	return r.State(now)
}
