package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"myip.co.kr/hearth/internal/upstream"
)

const (
	headerTimeout = 10 * time.Second
	// readTimeout bounds the reading of a request whose handler sets no time of its own for the body: one that is refused
	// is read to its end for the connection's sake. It does not run while a request is handled that was read.
	readTimeout = 30 * time.Second
	idleTimeout = 120 * time.Second
	maxHeaders  = 64 << 10
	// sendBuffer is what the kernel may hold of an answer, give or take its own accounting. Left to itself it holds
	// several MiB and says that there is room again when a third is gone: whoever reads steadily, but slowly, would look as
	// if it took nothing within writeLimit.
	sendBuffer = 256 << 10
	// lastWords is how long requests that outlast the grace may take to send their error event.
	lastWords = 3 * time.Second
	// engineStop bounds the stop of the engines and the closing of the records.
	engineStop = 60 * time.Second
)

// Serve answers on ln until ctx ends or ln fails, and then shuts down: not ready for lame_duck, listener closed, waiters refused,
// requests in flight until grace, the rest ended with an error event, records synced, engines stopped, database
// closed. hurry skips the waiting.
func (a *App) Serve(ctx context.Context, ln net.Listener, hurry <-chan struct{}) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	srv := httpServer(base, a.Server, a.log)
	srv.RegisterOnShutdown(a.fleet.RefuseWaiters) // called when the listener is closed
	srv.RegisterOnShutdown(sync.OnceFunc(func() { close(a.ending) }))
	stopAdmin := a.serveAdmin(base, srv.Handler)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed: // no new callers; those who are here are served to the end
		failed <- err
	case <-ctx.Done():
		a.log.Info("shutting down", "lame_duck", a.config().Shutdown.LameDuck, "grace", a.config().Shutdown.Grace)
		a.Server.Drain()
		pause(a.config().Shutdown.LameDuck, hurry)
	}
	a.drain(srv, hurry, cancel)
	stopAdmin()
	err := <-failed
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	} else {
		err = fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), engineStop)
	defer stop()
	err = errors.Join(err, a.Close(end))
	a.log.Info("stopped", "clean", err == nil)
	return err
}

// httpServer is the HTTP server with its bounds on callers. Its requests' contexts end with base.
func httpServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaders,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
				_ = c.SetWriteBuffer(sendBuffer) // a kernel that refuses keeps its own
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// drain closes the listener, refuses waiters and lets requests finish until the grace is over; those that outlast it get
// an error event.
func (a *App) drain(srv *http.Server, hurry <-chan struct{}, cancel context.CancelCauseFunc) {
	grace, stop := context.WithTimeout(context.Background(), max(a.config().Shutdown.Grace, time.Millisecond))
	defer stop()
	go func() {
		select {
		case <-hurry:
			stop()
		case <-grace.Done():
		}
	}()
	if srv.Shutdown(grace) == nil {
		return
	}
	a.log.Warn("grace is over: ending the requests that are left")
	cancel(upstream.ErrShutdown)
	if s := a.now.Load(); s != nil {
		s.upstream.EndAbandoned() // their callers' contexts have ended before
	}
	last, done := context.WithTimeout(context.Background(), lastWords)
	defer done()
	if err := srv.Shutdown(last); err != nil {
		a.log.Warn("closing connections that did not end", "err", srv.Close())
	}
}

// pause waits for d, or until hurry is closed.
func pause(d time.Duration, hurry <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-hurry:
	}
}
