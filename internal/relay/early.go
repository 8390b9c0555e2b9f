package relay

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// comment keeps a connection alive and says that it is us who are at work.
var comment = []byte(": MYIP PROCESSING\n\n")

// early answers the caller of a stream before there is a winner: after a wait the headers and a comment, and then a
// comment every so often. One goroutine does it; it is alone with the caller until stop.
type early struct {
	leave      context.CancelCauseFunc // ends the request's context
	quit, done chan struct{}
	over       bool  // stop was called
	begun      bool  // headers went out; to be read when done is closed, as is err
	err        error // of a comment that could not be written
}

// early begins to wait for a winner, if an answer before it is wanted. The context it returns ends when the caller does
// not take a comment.
func (r *Relay) early(ctx context.Context, w http.ResponseWriter, x *exchange) context.Context {
	wait := r.opt.EarlyHeaders
	if x.key.EarlyHeaders != 0 {
		wait = x.key.EarlyHeaders
	}
	if wait <= 0 || !x.chat.Stream {
		return ctx
	}
	ctx, leave := context.WithCancelCause(ctx)
	x.early = &early{leave: leave, quit: make(chan struct{}), done: make(chan struct{})}
	go x.early.run(ctx, earlyWriter{r, w, http.NewResponseController(w)}, wait-x.watch.Elapsed())
	return ctx
}

func (e *early) run(ctx context.Context, w earlyWriter, wait time.Duration) {
	defer close(e.done)
	defer func() {
		if p := recover(); p != nil { // a defect of ours must not end the process
			w.relay.log.Error("panic in an early answer", "panic", p)
			e.fail(errEarly)
		}
	}()
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-e.quit:
			return
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !e.begun {
			e.begun = true
			w.relay.streamHeaders(w)
		}
		if err := w.comment(); err != nil {
			e.fail(err)
			return
		}
		t.Reset(w.relay.opt.KeepAlive)
	}
}

func (e *early) fail(err error) {
	e.err = err
	e.leave(err)
}

// failed is why the caller could not be written to, nil = nothing is known of that. Comments must have been stopped.
func (e *early) failed() error {
	if e == nil {
		return nil
	}
	return e.err
}

var errEarly = errors.New("the early answer failed")

// stop ends the comments and says whether headers went out. It may be called again; a nil early sent none.
func (e *early) stop() bool {
	if e == nil {
		return false
	}
	if !e.over {
		e.over = true
		close(e.quit)
	}
	<-e.done
	return e.begun
}

// end is stop for good: nothing of the request goes on.
func (e *early) end() {
	if e != nil {
		e.stop()
		e.leave(context.Canceled)
	}
}

// earlyWriter is the caller's side of an early answer.
type earlyWriter struct {
	relay *Relay
	http.ResponseWriter
	rc *http.ResponseController
}

func (w earlyWriter) comment() error {
	if w.relay.opt.WriteLimit > 0 {
		_ = w.rc.SetWriteDeadline(time.Now().Add(w.relay.opt.WriteLimit)) // not every writer has deadlines; those that lack them never block
		defer func() { _ = w.rc.SetWriteDeadline(time.Time{}) }()
	}
	if _, err := w.Write(comment); err != nil {
		return err
	}
	if err := w.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// streamHeaders begins a stream.
func (r *Relay) streamHeaders(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = eventStream
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
}

var (
	eventStream = []string{"text/event-stream"}
	jsonType    = []string{"application/json"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"} // nginx would hold the stream back
)
