package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// atOnce is up to how many bytes of a body are written before the answer is looked for: so much the systems on both sides
// hold, so that the writing ends although nobody reads over there. More is written beside the reading, for an upstream may
// answer before it has read all.
const atOnce = 32 << 10

// tcpLine is one connection to an upstream.
type tcpLine struct {
	conn     net.Conn
	raw      syscall.RawConn
	r        *bufio.Reader
	room     int64 // bytes of headers that may still come
	used     bool  // it has carried a request before the present one
	answered bool  // something came back for the present one
	since    time.Time
	hangUp   func()
	look     func(fd uintptr) bool // for quiet
	silent   bool                  // what look saw
}

func newLine(conn net.Conn) *tcpLine {
	l := &tcpLine{conn: conn}
	l.r = bufio.NewReader(l)
	l.hangUp = func() { _ = conn.Close() }
	if c, ok := conn.(syscall.Conn); ok {
		l.raw, _ = c.SyscallConn() // without it the line is not used again
	}
	l.look = func(fd uintptr) bool {
		l.silent = silent(fd)
		return true
	}
	return l
}

// Read reads for the headers of an answer and for its body.
func (l *tcpLine) Read(p []byte) (int, error) {
	if l.room <= 0 {
		return 0, io.ErrUnexpectedEOF // of headers that are too long
	}
	n, err := l.conn.Read(p[:min(int64(len(p)), l.room)])
	l.room -= int64(n)
	return n, err
}

// quiet says whether the line is open, and nothing has come over it since the last answer: what does come so is no answer
// to anything, and must not be taken for one to the next request.
func (l *tcpLine) quiet() bool {
	l.silent = false
	return l.raw != nil && l.raw.Read(l.look) == nil && l.silent
}

// cargo is a request as it is sent.
type cargo struct {
	head    *letterhead
	body    []byte
	done    func()
	readers atomic.Int32
}

func (c *cargo) leave() {
	if c.readers.Add(-1) == 0 && c.done != nil {
		c.done()
		c.body, c.done = nil, nil
	}
}

var cargoBuffers = sync.Pool{New: func() any { return new([]byte) }}

// write writes all of it.
func (c *cargo) write(to net.Conn) error {
	box := cargoBuffers.Get().(*[]byte)
	defer cargoBuffers.Put(box)
	b := append((*box)[:0], c.head.first...)
	b = strconv.AppendInt(b, int64(len(c.body)), 10)
	b = append(b, c.head.rest...)
	var err error
	if len(c.body) <= atOnce {
		b = append(b, c.body...)
		_, err = to.Write(b)
	} else {
		parts := net.Buffers{b, c.body}
		_, err = parts.WriteTo(to)
	}
	*box = b[:0]
	return err
}

// exchange sends a request and reads the headers of the answer. After an error the line is closed.
func (l *tcpLine) exchange(ctx context.Context, of *lines, c *cargo) (*http.Response, error) {
	b := &lineBody{ctx: ctx, line: l, of: of, stop: context.AfterFunc(ctx, l.hangUp)}
	var sending error
	if len(c.body) <= atOnce {
		sending = c.write(l.conn)
	} else {
		b.sent = make(chan struct{})
		c.readers.Add(1)
		go func() {
			defer close(b.sent)
			defer c.leave()
			_ = c.write(l.conn) // the reader notices too
		}()
	}
	resp, err := l.receive()
	if err != nil {
		b.drop()
		switch {
		case l.room <= 0:
			err = fmt.Errorf("response headers exceeded %d bytes", maxHeaders)
		case sending != nil:
			err = sending
		}
		return nil, fmt.Errorf("exchange with upstream: %w", err)
	}
	b.again = !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	if resp.Body == http.NoBody {
		b.finish()
	} else {
		b.body, resp.Body = resp.Body, b
	}
	return resp, nil
}

// receive reads the headers of the answer. Provisional ones are passed over.
func (l *tcpLine) receive() (*http.Response, error) {
	l.room = maxHeaders
	if _, err := l.r.Peek(1); err != nil {
		return nil, err
	}
	l.answered = true
	for {
		resp, err := http.ReadResponse(l.r, nil)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			l.room = math.MaxInt64
			return resp, nil
		}
	}
}

// lineBody is the body of an answer. At its end the line can be used again.
type lineBody struct {
	ctx   context.Context
	line  *tcpLine
	of    *lines
	body  io.ReadCloser
	stop  func() bool   // ends the wait for the context's end; false: it has ended, and the line is closed
	sent  chan struct{} // closed when all of the request was sent, or could not be; nil = it was before the answer
	again bool          // the upstream keeps the line open
	state atomic.Int32
}

// States of a lineBody.
const (
	bodyOpen = iota
	bodyEnded
	bodyClosed
)

func (b *lineBody) Read(p []byte) (int, error) {
	switch b.state.Load() {
	case bodyEnded:
		return 0, io.EOF
	case bodyClosed:
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // an io.Reader says its end with this very error
		b.finish()
	default:
		b.drop()
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
	}
	return n, err
}

// Close closes the line unless the end of the body was read. It may be called while somebody reads.
func (b *lineBody) Close() error {
	b.drop()
	return nil
}

// finish gives the line back at the end of the body.
func (b *lineBody) finish() {
	if !b.state.CompareAndSwap(bodyOpen, bodyEnded) {
		return
	}
	switch {
	case !b.stop() || !b.again || b.line.r.Buffered() > 0:
		b.line.hangUp()
	case b.sent == nil || isClosed(b.sent):
		b.of.keep(b.line)
	default:
		go b.linger()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sentSoon is how long after an answer the end of the sending is awaited: usually only its goroutine has had no turn yet.
const sentSoon = 50 * time.Millisecond

// linger gives a line back when the request was sent.
func (b *lineBody) linger() {
	t := time.NewTimer(sentSoon)
	defer t.Stop()
	select {
	case <-b.sent:
		b.of.keep(b.line)
	case <-t.C:
		b.line.hangUp()
	}
}

func (b *lineBody) drop() {
	if b.state.CompareAndSwap(bodyOpen, bodyClosed) {
		b.stop()
		b.line.hangUp()
	}
}
