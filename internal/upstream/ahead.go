package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// stall is how long a caller may take for one write before the engine is read ahead of them.
	stall = 20 * time.Millisecond
	// piece is how much of what was read ahead, in bytes, the caller must take within the write limit.
	piece = 16 << 10

	streamBuffer = 1 << 20 // bytes that are read ahead of one caller
)

// Lease is the right to have a request in an engine.
type Lease interface {
	// OnCut has f called, in a goroutine of its own, when the request must leave the engine at once, unless stop is
	// called before.
	OnCut(f func()) (stop func() bool)
	// OnGone is OnCut for the end of the engine itself.
	OnGone(f func()) (stop func() bool)
	// Release is called when the engine is done with the request while its caller has not taken all of the answer.
	Release()
}

// errStopped is the cause with which a cut lease ends its request.
var errStopped = errors.New("the engine is being stopped")

// ahead lets an engine go on whose caller is slow: a GPU is not held by a bad line. As long as no write takes longer than
// stall, one goroutine reads and writes by turns. The first that does is the end of that: for the rest of the stream
// another goroutine reads, into memory, and the first only writes.
type ahead struct {
	lease Lease
	most  int         // bytes that may be held for the caller
	share share       // of the memory of all answers
	timer *time.Timer // runs while a write is under way; when it has fired, the reading has been taken over
	armed bool        // it runs, or has fired and what it began is not over

	once sync.Once
	more chan struct{} // holds a token when pieces were added since the last look
	room chan struct{} // holds a token when a piece was written since the last look
	over chan struct{} // closed when the engine is done; what is read ahead may still be unwritten

	mu       sync.Mutex
	pieces   [][]byte // in their order; what is added goes to the last while there is room in it
	held     int      // bytes that the caller has not taken, the piece that is being written included
	panicked any      // what the reading ended in, set before over is closed
}

// watch is called before each write.
func (a *ahead) watch(s *Stream) {
	if a == nil {
		return
	}
	if a.armed = true; a.timer == nil {
		a.timer = time.AfterFunc(stall, s.readOn)
	} else {
		a.timer.Reset(stall)
	}
}

// begun is called after each write, and says whether the reading was taken over meanwhile.
func (a *ahead) begun() bool {
	if a == nil {
		return false
	}
	a.armed = !a.timer.Stop()
	return a.armed
}

// join waits for the other goroutine, if there is one: a write that panicked has left it alone.
func (s *Stream) join() {
	a := s.ahead
	if a == nil || !a.armed || a.timer.Stop() {
		return
	}
	a.once.Do(a.open)
	s.w.cancel(context.Canceled)
	<-a.over
}

func (a *ahead) open() {
	a.more, a.room, a.over = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
}

// readOn is the timer's: it reads the stream to its end, and then gives the engine back.
func (s *Stream) readOn() {
	a := s.ahead
	a.once.Do(a.open)
	defer close(a.over)
	defer a.lease.Release()
	defer func() {
		if a.panicked = recover(); a.panicked != nil { // to be told where it can be handled
			s.w.cancel(context.Canceled)
		}
	}()
	s.buf = nil // the present one is being written
	for !s.over {
		if !s.due() {
			s.advance()
		} else if a.add(s.w.ctx, s.buf) {
			s.buf = s.buf[:0]
		} else {
			s.broken(s.w.ctx.Err())
		}
	}
	if len(s.buf) > 0 { // in memory already: the engine waits for no room, and the end of the request takes nothing away
		a.put(s.buf)
		s.buf = nil
	}
	s.awaitEOF()
	s.free()
}

// follow writes what is read ahead, after a write that ended with err, until nothing more comes.
func (s *Stream) follow(k *sink, err error) error {
	a := s.ahead
	a.once.Do(a.open)
	for err == nil {
		p, ok := a.take()
		if !ok {
			break
		}
		err = k.write(p)
		a.wrote(p)
	}
	if err != nil {
		s.w.cancel(err)
	}
	<-a.over
	a.armed = false // and nothing more will be written
	if a.panicked != nil {
		panic(a.panicked)
	}
	return err
}

// add holds b for the caller. It waits for room, and returns false if ctx ends before there is any.
func (a *ahead) add(ctx context.Context, b []byte) bool {
	for !a.fits(b) {
		select {
		case <-a.room:
		case <-ctx.Done():
			return false
		}
	}
	signal(a.more)
	return true
}

// fits adds b if there is room for it. What is larger than all the room is let in alone.
func (a *ahead) fits(b []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.held + len(b); a.held > 0 && (held > a.most || !a.share.upTo(held)) {
		return false
	}
	a.append(b)
	return true
}

// put adds b, whether there is room for it or not.
func (a *ahead) put(b []byte) {
	a.mu.Lock()
	a.append(b)
	a.mu.Unlock()
	signal(a.more)
}

// append adds b to the pieces. The caller holds mu.
func (a *ahead) append(b []byte) {
	a.held += len(b)
	for len(b) > 0 {
		last := len(a.pieces) - 1
		if last < 0 || len(a.pieces[last]) == cap(a.pieces[last]) {
			a.pieces = append(a.pieces, make([]byte, 0, piece))
			last++
		}
		p := a.pieces[last]
		n := min(len(b), cap(p)-len(p))
		a.pieces[last], b = append(p, b[:n]...), b[n:]
	}
}

// take waits for the next piece. It is not ok when there will be none.
func (a *ahead) take() (p []byte, ok bool) {
	for over := false; ; {
		a.mu.Lock()
		if len(a.pieces) > 0 {
			p, a.pieces = a.pieces[0], a.pieces[1:]
		}
		a.mu.Unlock()
		if p != nil || over {
			return p, p != nil
		}
		select {
		case <-a.more:
		case <-a.over:
			over = true
		}
	}
}

// wrote is called when a piece was written.
func (a *ahead) wrote(p []byte) {
	a.mu.Lock()
	a.held -= len(p)
	a.mu.Unlock()
	signal(a.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
