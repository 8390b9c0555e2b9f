package server

import (
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"myip.co.kr/hearth"
)

// Metrics counts what the gateway does, for Prometheus. It outlives reloads: what was counted under an earlier
// configuration stays counted. Names end in their unit; durations are in seconds.
//
// No label takes a caller's own words: models, providers and endpoints are those of the configuration, everything else
// is a word or a number of a fixed list.
type Metrics struct {
	registry *prometheus.Registry
	page     http.Handler

	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	chosen   *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	wait     *prometheus.HistogramVec
	inflight prometheus.Gauge

	answers sync.Map // answerer → *answered
	tries   sync.Map // try → prometheus.Counter
	choices sync.Map // choice → prometheus.Counter
}

// Buckets of histograms, in seconds.
var (
	answerBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}
	firstBuckets  = []float64{.025, .05, .1, .2, .4, .8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4}
	waitBuckets   = []float64{.01, .1, .5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120}
)

// NewMetrics makes the counters of a process. current is the server whose slots and endpoints are shown at each scrape.
func NewMetrics(version string, current func() *Server, log *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("hearth_requests_total", "Chat requests that have a record, by who answered (empty = nobody) and the status the caller got; 499 = it left before.", "model", "provider", "code"),
		errors:   counter("hearth_errors_total", "Requests of every route that were answered with an error before anything else was sent.", "type", "code"),
		attempts: counter("hearth_attempts_total", "What became of the candidates of chat requests: served, broken (off in the middle), left (by the caller), a skip word, timeout, an upstream's HTTP status, bad_answer (status 200, but none), or error (no status).", "model", "provider", "endpoint", "outcome"),
		chosen:   counter("hearth_routing_choices_total", "Tiers of external endpoints that were ordered by routing cost, by the endpoint that got the first place and why: share, stick, explore, probe, forced, flagged_overflow, only (there is no other), or retry (what was left after a failure).", "model", "endpoint", "reason"),
		tokens:   counter("hearth_tokens_total", "Tokens of answered requests. Cached ones are part of prompt, reasoning ones of completion.", "model", "provider", "kind"),
		cost:     counter("hearth_cost_total", "What callers were charged, in the billing currency. The exact sums are in the records.", "model", "provider", "currency"),
		duration: histogram("hearth_request_duration_seconds", "From a chat request's arrival to the end of its answer.", answerBuckets, "model", "provider"),
		first:    histogram("hearth_time_to_first_token_seconds", "From a chat request's arrival to the first content, skipped and failed candidates included.", firstBuckets, "model", "provider"),
		wait:     histogram("hearth_slot_wait_seconds", "How long requests waited for an own slot, served or not.", waitBuckets, "model"),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearth_requests_in_flight", Help: "Chat requests that are being handled."}),
	}
	m.registry.MustRegister(m.requests, m.errors, m.attempts, m.chosen, m.tokens, m.cost, m.duration, m.first, m.wait, m.inflight)
	m.page = pageOf(m.registry, version, &scrape{current: current}, log)
	return m
}

// SlotMetrics is the page for Prometheus of a machine that has slots and no callers: its own slots alone. It is to be
// guarded by whoever serves it.
func SlotMetrics(version string, current func() *Server, log *slog.Logger) http.Handler {
	return pageOf(prometheus.NewRegistry(), version, &scrape{current: current, own: true}, log)
}

// pageOf is the page of a registry, with what is said of every process.
func pageOf(r *prometheus.Registry, version string, s *scrape, log *slog.Logger) http.Handler {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hearth_build_info", Help: "1, with what the program was built from.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: 4,
	})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Gauge shows a number that is read at each scrape.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Counter shows a number that only grows, read at each scrape.
func (m *Metrics) Counter(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// answerer is who answered a request, and with which status.
type answerer struct {
	model, provider, currency string
	code                      int
}

// answered are the counters of an answerer, found once.
type answered struct {
	requests                              prometheus.Counter
	prompt, cached, completion, reasoning prometheus.Counter
	cost                                  prometheus.Counter
	duration, first                       prometheus.Observer
}

// Done counts a request that is over. It is safe for concurrent use, and keeps nothing of g.
func (m *Metrics) Done(g *hearth.Generation) {
	a := m.answerer(answerer{model: g.Model, provider: g.Slug, currency: g.Bill.Currency, code: g.HTTP})
	a.requests.Inc()
	for i := range g.Attempts {
		t := &g.Attempts[i]
		m.try(t).Inc()
		if t.SlotWait > 0 || t.Skip.Slot() {
			m.wait.WithLabelValues(t.Model).Observe(t.SlotWait.Seconds())
		}
	}
	for i := range g.Routing {
		m.choice(&g.Routing[i]).Inc()
	}
	for i := range g.Drops {
		if d := &g.Drops[i]; d.Skip != "" && d.Endpoint != "" {
			m.try(&hearth.Attempt{Model: d.Model, Slug: d.Provider, Endpoint: d.Endpoint, Skip: d.Skip}).Inc()
		}
	}
	if g.Model == "" {
		return
	}
	a.prompt.Add(float64(g.Usage.PromptTokens))
	a.cached.Add(float64(g.Usage.CachedTokens))
	a.completion.Add(float64(g.Usage.CompletionTokens))
	a.reasoning.Add(float64(g.Usage.ReasoningTokens))
	a.cost.Add(shownCost(g.Bill.Cost))
	a.duration.Observe(g.Duration.Seconds())
	if g.FirstToken > 0 {
		a.first.Observe(g.FirstToken.Seconds())
	}
}

// shownCost is an amount as a gauge can hold it: near enough for a graph, never for a bill.
func shownCost(n hearth.Nano) float64 { return float64(n) / 1e9 }

func (m *Metrics) answerer(k answerer) *answered {
	if a, ok := m.answers.Load(k); ok {
		return a.(*answered)
	}
	a := &answered{
		requests: m.requests.WithLabelValues(k.model, k.provider, strconv.Itoa(k.code)),
	}
	if k.model != "" {
		a.prompt = m.tokens.WithLabelValues(k.model, k.provider, "prompt")
		a.cached = m.tokens.WithLabelValues(k.model, k.provider, "cached")
		a.completion = m.tokens.WithLabelValues(k.model, k.provider, "completion")
		a.reasoning = m.tokens.WithLabelValues(k.model, k.provider, "reasoning")
		a.cost = m.cost.WithLabelValues(k.model, k.provider, k.currency)
		a.duration, a.first = m.duration.WithLabelValues(k.model, k.provider), m.first.WithLabelValues(k.model, k.provider)
	}
	m.answers.Store(k, a)
	return a
}

// try is what became of one candidate.
type try struct {
	endpoint string
	outcome  string
	code     int
}

func (m *Metrics) try(a *hearth.Attempt) prometheus.Counter {
	k := try{endpoint: a.Endpoint, outcome: outcomeOf(a), code: a.Status}
	if c, ok := m.tries.Load(k); ok {
		return c.(prometheus.Counter)
	}
	word := k.outcome
	if word == "" {
		word = strconv.Itoa(k.code)
	}
	c := m.attempts.WithLabelValues(a.Model, a.Slug, a.Endpoint, word)
	m.tries.Store(k, c)
	return c
}

// outcomeOf is the word of an attempt, "" = its status.
func outcomeOf(a *hearth.Attempt) string {
	switch {
	case a.Skip != "":
		return string(a.Skip)
	case a.Verdict == hearth.Served:
		return "served"
	case a.Verdict == hearth.Broken:
		return "broken"
	case a.Verdict == hearth.Gone:
		return "left"
	case a.TimedOut:
		return "timeout"
	case a.Status == 0:
		return "error"
	case a.Status == http.StatusOK:
		return "bad_answer"
	}
	return ""
}

// failed counts an answer of writeError.
func (m *Metrics) failed(e *hearth.Error) {
	if m != nil {
		m.errors.WithLabelValues(strings.ToValidUTF8(string(e.Type), ""), strconv.Itoa(e.HTTPStatus())).Inc()
	}
}

// enter counts a chat request that is being handled, until leave.
func (m *Metrics) enter() {
	if m != nil {
		m.inflight.Inc()
	}
}

func (m *Metrics) leave() {
	if m != nil {
		m.inflight.Dec()
	}
}

// metrics is the page that Prometheus reads.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.Metrics == nil {
		return hearth.Errorf(hearth.ErrNotFound, "this gateway has no metrics")
	}
	s.Metrics.page.ServeHTTP(w, r)
	return nil
}
