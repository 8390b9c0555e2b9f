package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// ServerOptions are what a server needs.
type ServerOptions struct {
	Catalog *hearth.Catalog
	Fleet   *slot.Fleet
	Order   func(context.Context, slot.Order) error // carries out an operator's order; nil = the fleet does
	Token   hearth.Secret                           // that gateways must send
	MaxBody int64                                   // bytes of one request body
	// Engines reaches the engines of this machine, and nothing else.
	Engines *http.Transport
	// Stall ends a request of which nothing can be read, or of whose answer nothing can be written, for so long; 0 = half a
	// minute.
	Stall   time.Duration
	Metrics http.Handler // the page for Prometheus; nil = there is none
	Log     *slog.Logger // nil = nobody is told
}

// Server is the side of the machine that owns slots. It is safe for concurrent use.
type Server struct {
	o       ServerOptions
	token   [sha256.Size]byte
	once    *http.Transport // for bodies that cannot be sent again: its connections are new
	catalog atomic.Pointer[hearth.Catalog]
	leaving atomic.Bool
	cutAll  context.Context // ends when requests in flight are to end
	cut     context.CancelFunc

	mu     sync.Mutex
	busy   int                // requests in engines
	idle   chan struct{}      // closed when there is none any more; nil = nobody waits for that
	parked map[string]*parked // places that are kept, by id of the request
}

// NewServer makes a server. Its fleet is the caller's to close.
func NewServer(o ServerOptions) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stall <= 0 {
		o.Stall = 30 * time.Second
	}
	if o.Order == nil {
		o.Order = o.Fleet.Order
	}
	s := &Server{o: o, token: sha256.Sum256([]byte(o.Token)), once: o.Engines.Clone(), parked: make(map[string]*parked)}
	s.once.DisableKeepAlives = true
	s.catalog.Store(o.Catalog)
	s.cutAll, s.cut = context.WithCancel(context.Background())
	return s
}

// Bounds of the server's connections. A request that waits costs its unread body: a stream's buffer of it, and all streams
// of a connection fit into the connection's, so that none that waits can hold up another one.
const (
	maxStreams    = 250
	streamBuffer  = 256 << 10
	headerWait    = 10 * time.Second
	idleWait      = 5 * time.Minute
	maxHeaderSize = 32 << 10
)

// HTTP is the HTTP server of s, TLS if conf is there.
func (s *Server) HTTP(conf *tls.Config) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: s, TLSConfig: conf, Protocols: p, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeaderSize,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: maxStreams * streamBuffer,
			SendPingTimeout: pingAfter, PingTimeout: pingWait, WriteByteTimeout: s.o.Stall,
		},
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
}

// Reload makes a newer catalog hold, which the fleet has taken already.
func (s *Server) Reload(c *hearth.Catalog) { s.catalog.Store(c) }

// Drain has gateways send no more requests, refuses those that come all the same, and returns when no engine has one any
// more. When ctx ends first, those that are left are ended.
func (s *Server) Drain(ctx context.Context) {
	s.leaving.Store(true)
	s.o.Fleet.RefuseWaiters()
	s.mu.Lock()
	idle := make(chan struct{})
	if s.idle = idle; s.busy == 0 {
		close(idle)
		s.idle = nil
	}
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		s.cut()
	}
}

// Close ends what still goes on.
func (s *Server) Close() {
	s.cut()
	s.once.CloseIdleConnections()
	s.o.Engines.CloseIdleConnections()
}

func (s *Server) enter() {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// metricsPath is where Prometheus reads, with the token of the gateways.
const metricsPath = "/metrics"

// ServeHTTP answers a gateway. Whoever does not know the token learns nothing, not even which paths there are.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.knows(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "the token is missing or wrong")
		return
	}
	if r.URL.Path == viewsPath {
		if allow(w, r, http.MethodGet) {
			s.views(w, r)
		}
		return
	}
	if r.URL.Path == metricsPath && s.o.Metrics != nil {
		if allow(w, r, http.MethodGet) {
			s.o.Metrics.ServeHTTP(w, r)
		}
		return
	}
	name, route, ok := split(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, "there is nothing here")
		return
	}
	at := s.find(name)
	switch {
	case at == nil:
		refuse(w, http.StatusNotFound, "the machine has no such slot")
	case routes[route]:
		if allow(w, r, http.MethodPost) {
			s.infer(w, r, at, route)
		}
	case route == voteRoute:
		if allow(w, r, http.MethodPost) {
			s.vote(w, r, at)
		}
	case route == logRoute, route == startRoute:
		if allow(w, r, http.MethodGet) {
			s.tell(w, name, route)
		}
	case orders[route]:
		if allow(w, r, http.MethodPost) {
			s.order(w, r, at, slot.Verb(route[1:]))
		}
	default:
		refuse(w, http.StatusNotFound, "there is nothing here")
	}
}

// orders are the routes of operators' orders. One to the node goes to that of the slot.
var orders = map[string]bool{
	"/" + string(slot.Wake): true, "/" + string(slot.Sleep): true, "/" + string(slot.Drain): true, "/" + string(slot.Disable): true,
	"/" + string(slot.Enable): true, "/" + string(slot.Pause): true, "/" + string(slot.Resume): true,
}

// knows says whether the request bears the token. How long that takes says nothing of the token, not even its length.
func (s *Server) knows(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 && ok && s.o.Token != ""
}

// find returns the slot with that name.
func (s *Server) find(name string) *hearth.Slot {
	for _, at := range s.catalog.Load().Slots {
		if at.Name == name && at.Node.Remote == nil {
			return at
		}
	}
	return nil
}

// order carries out an operator's order.
func (s *Server) order(w http.ResponseWriter, r *http.Request, at *hearth.Slot, verb slot.Verb) {
	o := slot.Order{Node: at.Node.Name, Slot: at.Name, Verb: verb}
	if text := r.URL.Query().Get("for"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			refuse(w, http.StatusBadRequest, "for is not a duration, such as 2h")
			return
		}
		o.For = d
	}
	err := s.o.Order(r.Context(), o)
	switch {
	case errors.Is(err, slot.ErrNoSlot), errors.Is(err, slot.ErrNoNode):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusConflict, err.Error())
	default:
		s.o.Log.Info("an order from a gateway", "order", verb, "slot", at.Name)
		answerJSON(w, struct{}{})
	}
}

// tell answers what an operator wants to know of a slot.
func (s *Server) tell(w http.ResponseWriter, name, route string) {
	var told any
	var err error
	if route == logRoute {
		told, err = s.o.Fleet.LogTail(name)
	} else {
		var starts []slot.Start
		starts, err = s.o.Fleet.Starts(name)
		list, now := make([]start, len(starts)), time.Now()
		for i, at := range starts {
			list[i] = start{now.Sub(at.At).Milliseconds(), at.Took.Milliseconds(), string(at.Outcome), at.Why}
		}
		told = list
	}
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answerJSON(w, told)
}

func allow(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method {
		return true
	}
	w.Header().Set("Allow", method)
	refuse(w, http.StatusMethodNotAllowed, "use "+method)
	return false
}

// refuse answers that it will not be.
func refuse(w http.ResponseWriter, status int, message string) {
	var p problem
	p.Error.Code, p.Error.Message = status, message
	b, err := json.Marshal(&p)
	if err != nil { // a message that is not UTF-8
		b = []byte(`{"error":{}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // who left needs no answer
}

// answerJSON answers with a document.
func answerJSON(w http.ResponseWriter, document any) {
	b, err := json.Marshal(document)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "what is to be told cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
