package relay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// body is the body of one request, in memory that the process's budget for bodies knows of.
type body struct {
	raw   []byte
	box   *[]byte // the kept buffer, nil when it was given back
	held  int64   // bytes of the budget
	relay *Relay
}

// free gives budget and buffer back; calls after the first do nothing. raw must not be looked at any more.
func (b *body) free() {
	if b.box == nil {
		return
	}
	b.relay.bodies.Add(-b.held)
	if cap(b.raw) <= maxPooledBody {
		*b.box = b.raw[:0]
		bodyBuffers.Put(b.box)
	}
	b.raw, b.box = nil, nil
}

// ReadBody reads the whole body within the request's and the process's budget. free gives budget and buffer back; calls
// after the first do nothing.
func (r *Relay) ReadBody(w http.ResponseWriter, req *http.Request) (raw []byte, free func(), err error) {
	b := new(body)
	if err := r.readBody(b, w, req); err != nil {
		return nil, nil, err
	}
	return b.raw, b.free, nil
}

func (r *Relay) readBody(b *body, w http.ResponseWriter, req *http.Request) (err error) {
	if req.ContentLength > r.opt.MaxBody {
		w.Header().Set("Connection", "close") // the body is not read
		return r.tooLarge()
	}
	b.relay, b.held = r, max(req.ContentLength, 0)
	if !r.hold(b.held) {
		return errBusyBodies()
	}
	inTime := slowBodies(w, req)
	b.box = bodyBuffers.Get().(*[]byte)
	if b.raw = *b.box; req.ContentLength >= 0 {
		b.raw = slices.Grow(b.raw[:0], int(req.ContentLength))[:req.ContentLength]
		_, err = io.ReadFull(req.Body, b.raw)
	} else {
		err = b.readChunked(req.Body)
	}
	if err == nil {
		inTime()
		return nil
	}
	b.free()
	w.Header().Set("Connection", "close") // the rest of the body is not read
	var he *hearth.Error
	switch {
	case errors.Is(err, errBodyLimit):
		return r.tooLarge()
	case errors.As(err, &he):
		return he
	}
	e := hearth.Invalid("", "the body could not be read to its end; check Content-Length")
	e.Err = err
	return e
}

// readChunked reads a body of unknown length, taking budget as it grows.
func (b *body) readChunked(from io.Reader) error {
	b.raw = b.raw[:0]
	for {
		if len(b.raw) == cap(b.raw) {
			b.raw = slices.Grow(b.raw, max(len(b.raw), 8<<10))
		}
		if more := int64(cap(b.raw)) - b.held; more > 0 {
			if !b.relay.hold(more) {
				return errBusyBodies()
			}
			b.held += more
		}
		n, err := from.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		if int64(len(b.raw)) > b.relay.opt.MaxBody {
			return errBodyLimit
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read body: %w", err)
		}
	}
}

// A body that needs more than one read must come at bodyPace at least, after a start of bodyStart: whoever sends more
// slowly holds a part of the budget for nothing.
const (
	bodyStart  = 30 * time.Second
	bodyPace   = 32 << 10 // bytes per second
	quickBody  = 4 << 10  // bytes; what comes with the headers needs no deadline
	slowestEnd = 40 * time.Minute
)

// slowBodies sets the deadline for the body of a request. inTime takes it back, for the connection lives on; without that
// it also ends the reading of what is left of a body that did not come.
func slowBodies(w http.ResponseWriter, req *http.Request) (inTime func()) {
	if req.ContentLength >= 0 && req.ContentLength <= quickBody {
		return func() {}
	}
	limit := slowestEnd
	if req.ContentLength > 0 {
		limit = min(limit, bodyStart+time.Duration(req.ContentLength/bodyPace)*time.Second)
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(limit)) != nil {
		return func() {} // a writer without deadlines has no connection to hold
	}
	return func() { _ = rc.SetReadDeadline(time.Time{}) }
}

// maxPooledBody is the largest body buffer that is kept for another request.
const maxPooledBody = 1 << 20

var bodyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// hold takes n bytes of the process's budget for bodies.
func (r *Relay) hold(n int64) bool {
	if r.bodies.Add(n) > r.opt.MaxBodyTotal {
		r.bodies.Add(-n)
		return false
	}
	return true
}

var errBodyLimit = errors.New("body over the limit")

func (r *Relay) tooLarge() *hearth.Error {
	return hearth.Errorf(hearth.ErrPayloadTooLarge, "the body is larger than %d bytes; the operator can raise request.max_body", r.opt.MaxBody)
}

func errBusyBodies() *hearth.Error {
	e := hearth.Errorf(hearth.ErrOverloaded, "the gateway holds as many request bodies as its memory budget allows; retry in a second")
	e.RetryAfter = time.Second
	return e
}
