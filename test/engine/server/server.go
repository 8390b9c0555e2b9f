// Package server answers as llama-server does, with the real llama.cpp libraries behind it.
package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth/test/engine/llm"
)

// build stands where llama-server names its own.
const build = "b0-test"

// Config is what a server is like.
type Config struct {
	Path   string // of the model file
	Alias  string // what the model is called, names separated by commas
	APIKey string // asked for everywhere but at /health, "" = none

	Endless    bool          // answers end only at a limit
	TokenDelay time.Duration // before each token
	Ping       time.Duration // of a stream in which nothing happens
	Slots      bool          // GET /slots
	Metrics    bool          // GET /metrics
}

// name is what answers call the model: the last alias, or the file.
func (c *Config) name() string {
	names := strings.Split(c.Alias, ",")
	if last := strings.TrimSpace(names[len(names)-1]); last != "" {
		return last
	}
	return c.Path
}

// Server is one server, an http.Handler. Until Ready every path says that the model is being loaded.
type Server struct {
	conf     Config
	created  time.Time
	mux      *http.ServeMux
	ready    atomic.Bool
	stopping context.Context // ends when the server is told to stop
	stop     context.CancelFunc

	model *llm.Model // set before ready
	free  chan *llm.Sequence

	active atomic.Int64 // requests, whatever they ask

	processing, deferred, cancelled, promptTokens, predictedTokens atomic.Int64
}

// New makes a server without a model.
func New(c Config) *Server {
	s := &Server{conf: c, created: time.Now(), mux: http.NewServeMux()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /v1/health", s.health)
	s.mux.HandleFunc("GET /models", s.models)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /props", s.props)
	s.mux.HandleFunc("GET /slots", s.slots)
	s.mux.HandleFunc("GET /metrics", s.metrics)
	s.mux.HandleFunc("POST /chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /apply-template", s.applyTemplate)
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("POST /embeddings", s.embeddings)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { writeFailure(w, notFound) })
	return s
}

// Ready gives the server its model. It may be called once.
func (s *Server) Ready(m *llm.Model) {
	s.model, s.free = m, make(chan *llm.Sequence, len(m.Sequences()))
	for _, seq := range m.Sequences() {
		s.free <- seq
	}
	s.ready.Store(true)
}

// Stop ends the making of answers: streams hang until their next ping and then break off, whole answers hang until
// their clients give up. This is what llama-server does with SIGTERM.
func (s *Server) Stop() { s.stop() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	open := r.URL.Path == "/health" || r.URL.Path == "/v1/health"
	switch {
	case !open && !s.authorised(r):
		writeFailure(w, unauthorised)
	case !s.ready.Load():
		writeFailure(w, loading)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

func (s *Server) authorised(r *http.Request) bool {
	got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return s.conf.APIKey == "" || got == s.conf.APIKey || r.Header.Get("X-Api-Key") == s.conf.APIKey
}

// acquire waits for a free sequence; nil = the client left or the server is stopping.
func (s *Server) acquire(ctx context.Context) *llm.Sequence {
	s.deferred.Add(1)
	defer s.deferred.Add(-1)
	select {
	case seq := <-s.free:
		s.processing.Add(1)
		return seq
	case <-ctx.Done():
	case <-s.stopping.Done():
	}
	return nil
}

func (s *Server) release(seq *llm.Sequence) {
	s.processing.Add(-1)
	s.free <- seq
}

// counted adds an answer to the sums.
func (s *Server) counted(a *answer, err error) {
	s.promptTokens.Add(int64(len(a.prompt) - a.cached))
	s.predictedTokens.Add(int64(a.produced))
	if err != nil {
		s.cancelled.Add(1)
	}
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	if !s.conf.Metrics {
		writeFailure(w, unsupported("This server does not support metrics endpoint. Start it with `--metrics`"))
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, m := range []struct {
		name string
		n    int64
	}{
		{"prompt_tokens_total", s.promptTokens.Load()},
		{"tokens_predicted_total", s.predictedTokens.Load()},
		{"requests_processing", s.processing.Load()},
		{"requests_deferred", s.deferred.Load()},
		{"requests_cancelled_total", s.cancelled.Load()}, // of this server only
	} {
		fmt.Fprintf(w, "llamacpp:%s %d\n", m.name, m.n)
	}
}
