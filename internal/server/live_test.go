package server

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
)

func TestLive(t *testing.T) {
	of := func(public bool) *Server {
		c := new(hearth.Catalog)
		if err := c.Seal(); err != nil {
			t.Fatal(err)
		}
		return New(Options{PublicCatalog: public}, Parts{Catalog: c, Health: health.NewTracker(c), Log: slog.New(slog.DiscardHandler)})
	}
	status := func(l *Live, path string) (int, string) {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Header().Get("Connection")
	}
	t.Run("requests get the server that holds", func(t *testing.T) {
		first, second := of(true), of(true)
		l := NewLive(first)
		if l.Now() != first {
			t.Error("not the one it was made with")
		}
		l.Swap(second)
		second.route("GET", "/new", second.health)
		if code, _ := status(l, "/new"); code != 200 || l.Now() != second {
			t.Errorf("status %d after the swap", code)
		}
	})
	t.Run("a swap does not end a drain", func(t *testing.T) {
		l := NewLive(of(true))
		if code, connection := status(l, "/ready"); code != 200 || connection != "" {
			t.Fatalf("status %d, Connection %q", code, connection)
		}
		l.Drain()
		for range 2 {
			if code, connection := status(l, "/ready"); code != 503 || connection != "close" {
				t.Errorf("status %d, Connection %q", code, connection)
			}
			l.Swap(of(true))
		}
	})
}

// BenchmarkLive is what a request pays for a configuration that may change.
func BenchmarkLive(b *testing.B) {
	c := new(hearth.Catalog)
	if err := c.Seal(); err != nil {
		b.Fatal(err)
	}
	s := New(Options{}, Parts{Catalog: c, Health: health.NewTracker(c), Log: slog.New(slog.DiscardHandler)})
	l := NewLive(s)
	r := httptest.NewRequest("GET", "/health", nil)
	b.Run("server", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
	b.Run("live", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
}
