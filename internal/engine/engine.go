// Package engine simulates what stands behind the gateway, over real sockets: an engine that speaks llama-server's
// API, with load time, context window, token speed and places, and an external provider whose faults can be
// switched at run time. `hearth demo` and tests run against them.
package engine

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// Config is what an engine is like.
type Config struct {
	Model           string        // the one model it serves; its answers name it
	Context         int           // window in tokens of one request, default 32768
	Load            time.Duration // from New until it is ready
	FirstToken      time.Duration // from a free place to the first token
	TokensPerSecond float64       // of one request, 0 = as fast as can be
	Parallel        int           // requests served at once, default 1; the others queue inside, without limit
	APIKey          hearth.Secret // asked for everywhere but at /health, "" = none
}

// Engine is one simulated engine, an http.Handler.
type Engine struct {
	conf    Config
	started time.Time
	places  chan struct{}
	mux     *http.ServeMux

	inflight, queued, total, cancelled atomic.Int64

	mu      sync.Mutex
	control EngineControl
}

// Stats is what an engine has seen.
type Stats struct {
	Inflight  int64 `json:"inflight"`  // requests being answered
	Queued    int64 `json:"queued"`    // requests waiting for a place inside
	Total     int64 `json:"total"`     // chat requests accepted
	Cancelled int64 `json:"cancelled"` // of these, left by their client before the end
}

// New makes an engine that begins to load now.
func New(c Config) *Engine {
	if c.Context <= 0 {
		c.Context = 32768
	}
	if c.Parallel <= 0 {
		c.Parallel = 1
	}
	e := &Engine{conf: c, started: time.Now(), places: make(chan struct{}, c.Parallel), mux: http.NewServeMux()}
	e.control = EngineControl{Context: c.Context, Fault: None}
	e.mux.HandleFunc("GET /health", e.health)
	e.mux.HandleFunc("GET /v1/health", e.health)
	e.mux.HandleFunc("GET /v1/models", e.models)
	e.mux.HandleFunc("GET /models", e.models)
	e.mux.HandleFunc("GET /props", e.props)
	e.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, e.Stats()) })
	e.mux.HandleFunc("POST /v1/chat/completions", e.chat)
	e.mux.HandleFunc("POST /chat/completions", e.chat)
	e.mux.HandleFunc("POST /tokenize", e.tokenize)
	e.mux.HandleFunc("POST /apply-template", e.applyTemplate)
	e.mux.HandleFunc("GET /control", e.showControl)
	e.mux.HandleFunc("POST /control", e.setControl)
	e.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, &failure{Code: http.StatusNotFound, Message: "File Not Found", Type: "not_found_error"})
	})
	return e
}

// Stats returns what the engine has seen up to now.
func (e *Engine) Stats() Stats {
	return Stats{e.inflight.Load(), e.queued.Load(), e.total.Load(), e.cancelled.Load()}
}

// ServeHTTP answers as llama-server does: while it loads, every path says so.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := r.URL.Path == "/health" || r.URL.Path == "/v1/health"
	switch {
	case time.Since(e.started) < e.conf.Load:
		writeError(w, &failure{Code: http.StatusServiceUnavailable, Message: "Loading model", Type: "unavailable_error"})
	case !open && !authorised(r, e.conf.APIKey):
		writeError(w, &failure{Code: http.StatusUnauthorized, Message: "Invalid API Key", Type: "authentication_error"})
	default:
		e.mux.ServeHTTP(w, r)
	}
}

func authorised(r *http.Request, key hearth.Secret) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key == "" || ok && got == key.Reveal()
}

func (e *Engine) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	type meta struct {
		Context int `json:"n_ctx"`
		Trained int `json:"n_ctx_train"`
	}
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Owner   string `json:"owned_by"`
		Meta    meta   `json:"meta"`
	}
	m := model{e.conf.Model, "model", e.started.Unix(), "llamacpp", meta{e.Control().Context, e.conf.Context}}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{m}})
}

func (e *Engine) props(w http.ResponseWriter, _ *http.Request) {
	type settings struct {
		Context int `json:"n_ctx"`
	}
	writeJSON(w, http.StatusOK, struct {
		Settings   settings        `json:"default_generation_settings"`
		Slots      int             `json:"total_slots"`
		Alias      string          `json:"model_alias"`
		Path       string          `json:"model_path"`
		Modalities map[string]bool `json:"modalities"`
		Template   string          `json:"chat_template"`
		Build      string          `json:"build_info"`
		Sleeping   bool            `json:"is_sleeping"`
	}{
		settings{e.Control().Context}, e.conf.Parallel, e.conf.Model, e.conf.Model + ".gguf",
		map[string]bool{"vision": false, "audio": false}, "chatml", "hearth-simulated", false,
	})
}

// chat answers a chat request, after those that came before it, or does to it what is switched.
func (e *Engine) chat(w http.ResponseWriter, r *http.Request) {
	q, f := readQuestion(r)
	ctl := e.take()
	if f == nil && q.tokens >= ctl.Context {
		f = overflow(q.tokens, ctl.Context)
	}
	if f == nil {
		f = ctl.failure()
	}
	if f != nil {
		writeError(w, f)
		return
	}
	e.total.Add(1)
	if !e.enter(r.Context()) {
		e.cancelled.Add(1)
		return
	}
	defer func() { e.inflight.Add(-1); <-e.places }()
	text := introduce(q, e.conf.Model, "")
	c := newCompletion(w, q, e.conf.Model, text, ctl.Context-q.tokens, tempo{e.conf.FirstToken, e.conf.TokensPerSecond})
	c.timed = true
	if e.answer(r, c, ctl.Fault) != nil {
		e.cancelled.Add(1)
	}
}

// answer sends the answer, whole or broken; an error means that the client left.
func (e *Engine) answer(r *http.Request, c *completion, fault Fault) error {
	switch fault {
	case Refuse:
		reset(c.w)
		return nil
	case Hang:
		<-r.Context().Done()
		return r.Context().Err()
	case Cut:
		return c.cut(r.Context(), len(c.tokens)/2)
	}
	return c.write(r.Context())
}

// enter waits for a place; false = the client left.
func (e *Engine) enter(ctx context.Context) bool {
	e.queued.Add(1)
	defer e.queued.Add(-1)
	select {
	case e.places <- struct{}{}:
		e.inflight.Add(1)
		return true
	case <-ctx.Done():
		return false
	}
}
