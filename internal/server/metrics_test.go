package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"myip.co.kr/hearth"
)

// page is what Prometheus reads.
func (m *Metrics) text() string {
	w := httptest.NewRecorder()
	m.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func generation() *hearth.Generation {
	return &hearth.Generation{
		Model: "a/b", Slug: "acme", HTTP: 200, FirstToken: 300 * time.Millisecond, Duration: 3 * time.Second,
		Usage: hearth.Usage{PromptTokens: 7, CompletionTokens: 5, CachedTokens: 3, ReasoningTokens: 2, Reported: true},
		Bill:  hearth.Bill{Currency: "KRW", Cost: 2_500_000_000},
		Attempts: []hearth.Attempt{
			{Model: "a/b", Slug: "local-gpu", Endpoint: "l", Skip: hearth.SkipLoading, SlotWait: 2 * time.Second},
			{Model: "a/b", Slug: "acme", Endpoint: "e", TimedOut: true},
			{Model: "a/b", Slug: "acme", Endpoint: "e"},
			{Model: "a/b", Slug: "acme", Endpoint: "e", Status: 200},
			{Model: "a/b", Slug: "acme", Endpoint: "e", Status: 429},
			{Model: "a/b", Slug: "acme", Endpoint: "e", Status: 200, Verdict: hearth.Served},
		},
		Drops: []hearth.Drop{
			{Model: "a/b", Provider: "x", Endpoint: "x", Skip: hearth.SkipCooldown},
			{Model: "what a caller wrote", Skip: hearth.SkipContext},
			{Model: "a/b", Provider: "y", Endpoint: "y", Reason: "not asked for"},
		},
	}
}

func TestMetrics_Done(t *testing.T) {
	m := NewMetrics("v1", func() *Server { return nil }, slog.New(slog.DiscardHandler))
	m.Done(generation())
	m.Done(generation())
	m.Done(&hearth.Generation{HTTP: 503, Bill: hearth.Bill{Currency: "KRW"}})
	m.Gauge("hearth_a", "A.", func() float64 { return 4 })
	m.failed(hearth.Errorf(hearth.ErrNotFound, "no"))
	text := m.text()
	for _, line := range []string{
		`hearth_requests_total{code="200",model="a/b",provider="acme"} 2`,
		`hearth_requests_total{code="503",model="",provider=""} 1`,
		`hearth_attempts_total{endpoint="l",model="a/b",outcome="slot_loading",provider="local-gpu"} 2`,
		`hearth_attempts_total{endpoint="e",model="a/b",outcome="timeout",provider="acme"} 2`,
		`hearth_attempts_total{endpoint="e",model="a/b",outcome="error",provider="acme"} 2`,
		`hearth_attempts_total{endpoint="e",model="a/b",outcome="bad_answer",provider="acme"} 2`,
		`hearth_attempts_total{endpoint="e",model="a/b",outcome="429",provider="acme"} 2`,
		`hearth_attempts_total{endpoint="e",model="a/b",outcome="served",provider="acme"} 2`,
		`hearth_attempts_total{endpoint="x",model="a/b",outcome="cooldown",provider="x"} 2`,
		`hearth_tokens_total{kind="prompt",model="a/b",provider="acme"} 14`,
		`hearth_tokens_total{kind="cached",model="a/b",provider="acme"} 6`,
		`hearth_tokens_total{kind="completion",model="a/b",provider="acme"} 10`,
		`hearth_tokens_total{kind="reasoning",model="a/b",provider="acme"} 4`,
		`hearth_cost_total{currency="KRW",model="a/b",provider="acme"} 5`,
		`hearth_request_duration_seconds_sum{model="a/b",provider="acme"} 6`,
		`hearth_time_to_first_token_seconds_count{model="a/b",provider="acme"} 2`,
		`hearth_slot_wait_seconds_sum{model="a/b"} 4`,
		`hearth_errors_total{code="404",type="not_found"} 1`,
		`hearth_a 4`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	for _, word := range []string{"what a caller wrote", `endpoint="y"`} {
		if strings.Contains(text, word) {
			t.Errorf("%q stands in it", word)
		}
	}
}

// The page keeps to Prometheus' conventions of names, units and help texts.
func TestMetrics_Lint(t *testing.T) {
	s := listServer(t)
	m := NewMetrics("v1", func() *Server { return s }, slog.New(slog.DiscardHandler))
	m.Done(generation())
	m.failed(hearth.Errorf(hearth.ErrNotFound, "no"))
	text := m.text()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "hearth_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if !strings.Contains(text, `hearth_endpoint_out{endpoint="acme:a/b",model="a/b",provider="acme",reason="cooldown"} 0`) {
		t.Errorf("no endpoints in %s", text)
	}
}

func BenchmarkMetricsDone(b *testing.B) {
	m := NewMetrics("v1", func() *Server { return nil }, slog.New(slog.DiscardHandler))
	g := generation()
	g.Attempts, g.Drops = g.Attempts[5:], nil
	b.ReportAllocs()
	for b.Loop() {
		m.Done(g)
	}
}
