// Package server is the HTTP face of the gateway: the whole route table on one page, and one place that writes errors.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/relay"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/store"
)

// Options are the settings of a Server.
type Options struct {
	PublicMetrics bool     // the metrics need no key
	PublicCatalog bool     // the lists of models, endpoints and providers need no key
	CORSOrigins   []string // "*" = any
}

// Parts are what a Server shows.
type Parts struct {
	Catalog  *hearth.Catalog
	Relay    *relay.Relay
	Accounts *account.Accounts
	Fleet    *slot.Fleet
	Health   *health.Tracker
	Windows  *routing.Windows // what was measured; nil = nothing is
	Router   *routing.Router  // whose figures the metrics show; nil = there are none
	Log      *slog.Logger

	Zone     *time.Location                                                              // in which days begin; nil = UTC
	Spent    func(k *hearth.Key, at time.Time) Spent                                     // what a key has spent
	Activity func(ctx context.Context, keyID, from, to string) ([]store.Activity, error) // see store.Store
	Content  func(ctx context.Context, id string) ([]byte, error)                        // what is kept of a prompt and answer; store.ErrNotFound = nothing
	Keys     Keyring
	Metrics  *Metrics // nil = nothing is counted

	Order   func(context.Context, slot.Order) error // carries out an operator's orders; nil = Fleet.Order
	Flags   Flags                                   // whose quality is in doubt; nil = nobody's
	Notices func() []string                         // what an operator should know of the gateway itself; nil = nothing
	Ending  <-chan struct{}                         // closed when answers that would go on have to end; nil = never
}

// Server answers the gateway's routes.
type Server struct {
	Parts
	opt      Options
	mux      *http.ServeMux
	methods  map[string][]string // path pattern → methods, for 405
	draining atomic.Bool
}

// handler is a route's function. What it returns is written by one place.
type handler func(w http.ResponseWriter, r *http.Request) error

// New makes the server with all its routes.
func New(o Options, p Parts) *Server {
	if p.Zone == nil {
		p.Zone = time.UTC
	}
	s := &Server{Parts: p, opt: o, mux: http.NewServeMux(), methods: make(map[string][]string)}
	s.route("GET", "/health", s.health)
	s.route("GET", "/ready", s.ready)
	s.route("GET", "/metrics", s.guarded(s.metrics))
	for _, base := range [...]string{"/api/v1", "/v1"} {
		s.route("POST", base+"/chat/completions", s.chat)
		s.route("POST", base+"/chain", s.explain)
		s.route("GET", base+"/generation", s.generation)
		s.route("GET", base+"/generation/content", s.content)
		s.route("GET", base+"/models", s.catalog(s.models))
		s.route("GET", base+"/models/{author}/{slug}/endpoints", s.catalog(s.endpoints))
		s.route("GET", base+"/models/{id}/endpoints", s.catalog(s.endpoints)) // an alias, or an id with its slash as %2F
		s.route("GET", base+"/model/{author}/{slug}", s.catalog(s.model))
		s.route("GET", base+"/model/{id}", s.catalog(s.model))
		s.route("GET", base+"/providers", s.catalog(s.providers))
		s.route("GET", base+"/key", s.key)
		s.route("GET", base+"/auth/key", s.key) // its name of before
		s.route("GET", base+"/keys", s.admin(s.listKeys))
		s.route("POST", base+"/keys", s.admin(s.createKey))
		s.route("GET", base+"/keys/{hash}", s.admin(s.showKey))
		s.route("PATCH", base+"/keys/{hash}", s.admin(s.changeKey))
		s.route("DELETE", base+"/keys/{hash}", s.admin(s.deleteKey))
		s.route("GET", base+"/credits", s.admin(s.credits))
		s.route("GET", base+"/activity", s.admin(s.activity))
		s.slotsRoutes(base)
		s.qualityRoutes(base)
	}
	s.route("GET", "/docs/{page}", docPages)
	s.mux.HandleFunc("/", s.wrap(s.unknown))
	return s
}

// NewOperator makes a server with the operator's routes alone, for slots that have no callers here. Its connections must be
// trusted. p needs a catalog, a fleet and a log.
func NewOperator(p Parts) *Server {
	s := &Server{Parts: p, mux: http.NewServeMux(), methods: make(map[string][]string)}
	s.slotsRoutes("/api/v1")
	s.mux.HandleFunc("/", s.wrap(func(_ http.ResponseWriter, r *http.Request) error {
		return hearth.Errorf(hearth.ErrNotFound, "there is no route %s on a machine that serves gateways", printable(r.URL.Path))
	}))
	return s
}

// route registers a handler, and its path with any other method as a 405.
func (s *Server) route(method, path string, h handler) {
	s.mux.HandleFunc(method+" "+path, s.wrap(h))
	if s.methods[path] == nil {
		s.mux.HandleFunc(path, s.wrap(func(w http.ResponseWriter, r *http.Request) error { return s.wrongMethod(w, r, path) }))
	}
	s.methods[path] = append(s.methods[path], method)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	if s.cors(w, r, r.Header.Get("Origin")) {
		return
	}
	s.mux.ServeHTTP(w, oneSlash(r))
}

// oneSlash makes the path of a base URL that was given with a slash at its end ("/api/v1//models") what was meant. The
// mux would redirect, which a browser's preflight and many clients do not follow.
func oneSlash(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	if !strings.Contains(escaped, "//") {
		return r
	}
	c, u := *r, *r.URL
	u.RawPath = manySlashes.ReplaceAllString(escaped, "/")
	var err error
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return r
	}
	c.URL = &u
	return &c
}

var manySlashes = regexp.MustCompile(`//+`)

// Drain makes /ready answer 503 and asks callers to close their connections. Requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// wrap runs a handler, writes its error and keeps a panic from ending the process.
func (s *Server) wrap(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			s.Log.Error("panic in a handler", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			s.writeError(w, r, hearth.Errorf(hearth.ErrInternal, "the gateway made a mistake while handling this request; it has been logged"))
		}()
		if err := h(w, r); err != nil {
			s.writeError(w, r, err)
		}
	}
}

// keyed lets only callers with a key through.
func (s *Server) keyed(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.authorise(w, r); err != nil {
			return err
		}
		return h(w, r)
	}
}

// catalog lets everybody through, or only callers with a key, as configured.
func (s *Server) catalog(h handler) handler {
	if s.opt.PublicCatalog {
		return h
	}
	return s.keyed(h)
}

// guarded lets everybody through, or only the operator, as configured.
func (s *Server) guarded(h handler) handler {
	if s.opt.PublicMetrics {
		return h
	}
	return s.admin(h)
}

// smallBody is what is still read of the body of a request that is refused, so that its connection can be used again.
const smallBody = 64 << 10

// authorise finds the caller's key from the headers alone.
func (s *Server) authorise(w http.ResponseWriter, r *http.Request) (*hearth.Key, error) {
	key, err := s.Accounts.Authorise(r.Header, r.RemoteAddr)
	if err != nil && (r.ContentLength < 0 || r.ContentLength > smallBody) {
		w.Header().Set("Connection", "close")
		if r.ContentLength < 0 { // net/http would read on for a while, to find its end
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
	}
	return key, err
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	s.Metrics.enter()
	defer s.Metrics.leave()
	id := s.Relay.Name(w)
	key, err := s.authorise(w, r)
	if err != nil {
		return err
	}
	return s.Relay.Chat(w, r, id, key)
}

// health says that the process lives.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// ready says whether new work is welcome.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
	if s.draining.Load() {
		e := hearth.Errorf(hearth.ErrOverloaded, "the gateway is shutting down")
		e.RetryAfter = time.Second
		return e
	}
	return writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ready"})
}

func (s *Server) unknown(_ http.ResponseWriter, r *http.Request) error {
	return hearth.Errorf(hearth.ErrNotFound, "there is no route %s; chat is at /api/v1/chat/completions (and under /v1), the list of models at /api/v1/models", printable(r.URL.Path))
}

func (s *Server) wrongMethod(w http.ResponseWriter, r *http.Request, path string) error {
	allowed := append([]string{"OPTIONS"}, s.methods[path]...)
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	e := hearth.Errorf(hearth.ErrInvalidRequest, "%s is not allowed here; use %s", printable(r.Method), strings.Join(s.methods[path], " or "))
	e.Status = http.StatusMethodNotAllowed
	return e
}

// printable makes a caller's text fit for a message: bounded and quoted where it is not plain.
func printable(s string) string { return plain(s, 80) }

// plain is printable with another bound, in bytes.
func plain(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}
