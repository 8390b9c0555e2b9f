package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
)

// routedServer is a server whose three endpoints of a/b have one priority, ordered by a router.
func routedServer(t *testing.T) (*Server, *Metrics) {
	t.Helper()
	s := listServer(t)
	for _, e := range s.Catalog.Endpoints {
		e.Priority, e.List = 50, s.Catalog.Endpoints[0].List
	}
	if err := s.Catalog.Seal(); err != nil {
		t.Fatal(err)
	}
	s.Router = routing.NewRouter(s.Catalog, routing.Options{MaxPremium: 0.05}, time.Now().Add(-time.Hour))
	return s, NewMetrics("v1", func() *Server { return s }, slog.New(slog.DiscardHandler))
}

func TestMetrics_Routing(t *testing.T) {
	s, m := routedServer(t)
	is := func(lines ...string) {
		t.Helper()
		text := m.text()
		for _, l := range lines {
			if !strings.Contains(text, l+"\n") {
				name, _, _ := strings.Cut(l, "{")
				t.Errorf("%s is missing", l)
				for had := range strings.Lines(text) {
					if strings.HasPrefix(had, name+"{") {
						t.Log(had)
					}
				}
			}
		}
	}
	const acme, fp8 = `endpoint="acme:a/b",model="a/b",provider="acme"`, `endpoint="acme/fp8:a/b",model="a/b",provider="acme"`
	is(`hearth_routing_requests_in_flight{`+acme+`} 0`, `hearth_routing_unmeasured{`+acme+`} 1`, `hearth_routing_flagged{`+acme+`,requests="all"} 0`,
		`hearth_routing_flagged{`+acme+`,requests="tools"} 0`, `hearth_routing_kappa{model="a/b"} 1.5`)
	for _, name := range []string{"premium_ratio", "cost", "cap", "state"} {
		if strings.Contains(m.text(), "hearth_routing_"+name+"{") {
			t.Errorf("nothing is known of the endpoints, yet there is %s", name)
		}
	}

	now := time.Now()
	ask := routing.Ask{In: 100, MaxTokens: 50}
	s.Router.Begin(&ask, 0, routing.Share, now)
	answered := s.Router.Begin(&ask, 0, routing.Share, now)
	answered.Done(routing.Result{In: 100, Out: 50}, now.Add(time.Second))
	limited := s.Router.Begin(&ask, 2, routing.Share, now)
	limited.Done(routing.Result{Outcome: routing.Limited, RetryAfter: time.Hour}, now)
	s.Router.Flag(1, true)
	s.Router.Refresh(now.Add(time.Second))
	is(`hearth_routing_share{`+acme+`} 1`, `hearth_routing_share{endpoint="acme/off:a/b",model="a/b",provider="acme"} 0`)
	is(`hearth_routing_requests_in_flight{`+acme+`} 1`, `hearth_routing_unmeasured{`+acme+`} 0`, `hearth_routing_cap{`+acme+`} +Inf`, `hearth_routing_knee{`+acme+`} +Inf`,
		`hearth_routing_state{`+acme+`,state="closed"} 1`, `hearth_routing_state{`+acme+`,state="open"} 0`,
		`hearth_routing_state{`+fp8+`,state="cooling"} 1`, `hearth_routing_state{`+fp8+`,state="closed"} 0`,
		`hearth_routing_share{`+fp8+`} 0`, `hearth_routing_flagged{endpoint="acme/off:a/b",model="a/b",provider="acme",requests="all"} 1`)
	for _, term := range []string{"price", "wait", "decode", "failed", "quality"} {
		if strings.Contains(m.text(), `hearth_routing_cost{`+acme+`,term="`+term+`"} 0`+"\n") || strings.Count(m.text(), `term="`+term+`"`) != 2 {
			t.Errorf("the term %s: %s", term, m.text())
		}
	}
	if !strings.Contains(m.text(), `hearth_routing_premium_ratio{model="a/b"} `) {
		t.Error("no premium")
	}

	for range 3 {
		p, ok := s.Health.Take(0, now)
		if !ok {
			t.Fatal("no permit")
		}
		p.Done(health.Failure, 0, now)
	}
	is(`hearth_endpoint_out{`+acme+`,reason="cooldown"} 1`, `hearth_routing_share{`+acme+`} 0`, `hearth_routing_state{`+acme+`,state="closed"} 1`)

	g := generation()
	g.Routing = []hearth.Routed{{Model: "a/b", Endpoint: "e", Reason: "share"}, {Model: "a/b", Endpoint: "f", Reason: "retry"}, {Model: "a/b", Endpoint: "e", Reason: "stick"}}
	m.Done(g)
	m.Done(g)
	is(`hearth_routing_choices_total{endpoint="e",model="a/b",reason="share"} 2`, `hearth_routing_choices_total{endpoint="f",model="a/b",reason="retry"} 2`,
		`hearth_routing_choices_total{endpoint="e",model="a/b",reason="stick"} 2`)
	problems, err := promlint.New(strings.NewReader(m.text())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "hearth_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// BenchmarkMetricsScrape is a scrape of 100 models at 10 endpoints each.
func BenchmarkMetricsScrape(b *testing.B) {
	p := &hearth.Provider{Slug: "acme", Name: "Acme AI", Kind: hearth.External, Currency: "KRW"}
	c := &hearth.Catalog{Currency: "KRW", Providers: []*hearth.Provider{p}}
	for i := range 100 {
		m := &hearth.Model{ID: "a/" + string(rune('a'+i/26)) + string(rune('a'+i%26))}
		c.Models = append(c.Models, m)
		for j := range 10 {
			c.Endpoints = append(c.Endpoints, &hearth.Endpoint{Model: m, Provider: p, Tag: "acme/" + string(rune('a'+j)), Priority: 50})
		}
	}
	if err := c.Seal(); err != nil {
		b.Fatal(err)
	}
	s := New(Options{}, Parts{Catalog: c, Router: routing.NewRouter(c, routing.Options{}, time.Now()), Health: health.NewTracker(c)})
	m := NewMetrics("v1", func() *Server { return s }, slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		if len(m.text()) < 100_000 {
			b.Fatal(m.text())
		}
	}
}
