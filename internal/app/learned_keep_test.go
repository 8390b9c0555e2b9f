package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/store"
)

// keeperOf keeps what is learned of a catalog with so many models at so many providers each.
func keeperOf(t testing.TB, models, providers int) (k *keeper, log *bytes.Buffer) {
	t.Helper()
	cat := &hearth.Catalog{Currency: "USD"}
	for i := range providers {
		cat.Providers = append(cat.Providers, &hearth.Provider{Slug: fmt.Sprintf("provider-%02d", i), Kind: hearth.External, Currency: "USD"})
	}
	for i := range models {
		m := &hearth.Model{ID: fmt.Sprintf("author/model-%02d", i)}
		cat.Models = append(cat.Models, m)
		for _, p := range cat.Providers {
			cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: m, Provider: p, Tag: p.Slug, UpstreamModel: "m", Priority: 50})
		}
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	log = new(bytes.Buffer)
	a := &App{store: st, log: slog.New(slog.NewTextHandler(log, nil))}
	a.now.Store(&snapshot{catalog: cat, health: health.NewTracker(cat), router: routing.NewRouter(cat, routing.Options{}, time.Now())})
	return &keeper{app: a}, log
}

// answers lets endpoints answer requests of so many sessions in turn.
func (k *keeper) answers(from, sessions int) {
	s := k.app.now.Load()
	for i := range sessions {
		ask := routing.Ask{In: 1200 + i, Session: uint64(from + i + 1), Explicit: true, Stream: true}
		at := time.Now().Add(-time.Second)
		try := s.router.Begin(&ask, i%len(s.catalog.Endpoints), routing.Share, at)
		try.First(at.Add(time.Duration(200+i%700) * time.Millisecond))
		try.Done(routing.Result{In: 1100 + i, Cached: 1000, Out: 100 + i%300, Cost: 0.0123}, time.Now())
	}
}

func (k *keeper) kept(t *testing.T) string {
	t.Helper()
	_, b, err := k.app.store.Learned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestKeep: news are written, and only news; that nothing can be written is said once, and that it can again.
func TestKeep(t *testing.T) {
	k, log := keeperOf(t, 1, 2)
	k.answers(0, 3)
	k.keep(t.Context())
	first := k.kept(t)
	if !strings.Contains(first, `"provider-01:author/model-00"`) || strings.Count(first, `"armed":true`) != 3 {
		t.Fatal(first)
	}
	if k.keep(t.Context()); k.kept(t) != first {
		t.Error("written again without news")
	}
	s := k.app.now.Load()
	for range health.Threshold {
		p, _ := s.health.Take(1, time.Now())
		p.Done(health.Failure, 0, time.Now())
	}
	if k.keep(t.Context()); !strings.Contains(k.kept(t), `"skip":"cooldown"`) {
		t.Error("a cooldown is no news")
	}
	try := s.router.Begin(&routing.Ask{In: 10}, 0, routing.Share, time.Now())
	k.keep(t.Context())
	sent := k.kept(t)
	try.Done(routing.Result{In: 10, Out: 20}, time.Now())
	if k.keep(t.Context()); k.kept(t) == sent {
		t.Error("the end of a request is no news")
	}
	s.router.Flag(0, true)
	if k.keep(t.Context()); strings.Count(k.kept(t), `"benchmark":true`) != 1 {
		t.Error("a flag is no news:", k.kept(t))
	}

	path, working := filepath.Join(t.TempDir(), "other.db"), k.app.store
	closed, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	k.app.store = closed
	for i := range 3 {
		k.answers(i, 1)
		k.keep(t.Context())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "cannot be kept") {
		t.Errorf("log:\n%s", log)
	}
	k.app.store = working
	if k.keep(t.Context()); !strings.Contains(log.String(), "is kept again") || strings.Count(k.kept(t), `"armed":true`) < 3 {
		t.Errorf("what could not be kept before is lost; log:\n%s", log)
	}
}

// BenchmarkKeep is what it costs to keep all that may be known: off the request path, every five seconds.
func BenchmarkKeep(b *testing.B) {
	k, _ := keeperOf(b, 20, 20)
	k.answers(0, 8192)
	for b.Loop() {
		k.mark = 0 // there is news
		k.keep(b.Context())
	}
	_, state, err := k.app.store.Learned(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(state)), "bytes")
}
