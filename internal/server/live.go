package server

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// Live is the handler of a gateway whose configuration may change while it runs. A request is answered by the Server
// that holds when it comes, to its end.
type Live struct {
	now atomic.Pointer[Server]

	mu       sync.Mutex // held while now is changed
	draining bool
}

// NewLive makes a handler that answers with s.
func NewLive(s *Server) *Live {
	l := new(Live)
	l.now.Store(s)
	return l
}

// ServeHTTP answers one request.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.now.Load().ServeHTTP(w, r) }

// Now is the server that holds.
func (l *Live) Now() *Server { return l.now.Load() }

// Swap makes s answer the requests that come from now on.
func (l *Live) Swap(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		s.Drain()
	}
	l.now.Store(s)
}

// Drain is Server.Drain, for the server that holds and those that follow.
func (l *Live) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.now.Load().Drain()
}
