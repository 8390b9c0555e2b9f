package relay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes, so that time can be virtual.
type pipes struct {
	calls chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// overPipe serves h to one connection and hands its other end to use.
func overPipe(t *testing.T, h http.HandlerFunc, use func(net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: h}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		near, far := net.Pipe()
		l.calls <- far
		use(near)
		near.Close()
		srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// A body that stops half-way costs its caller the connection, not only the request: what is left of it would be waited
// for without end.
func TestSlowBodyEndsTheConnection(t *testing.T) {
	r := New(Options{MaxBody: 1 << 20, MaxBodyTotal: 1 << 20}, Parts{})
	handler := func(w http.ResponseWriter, req *http.Request) {
		_, free, err := r.ReadBody(w, req)
		if err != nil {
			writeError(w, err)
			return
		}
		free()
	}
	for _, length := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		t.Run(length, func(t *testing.T) {
			overPipe(t, handler, func(c net.Conn) {
				start := time.Now()
				_ = c.SetDeadline(start.Add(2 * time.Hour))
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n5\r\nslow", length)
				b, err := io.ReadAll(bufio.NewReader(c))
				if err != nil || !strings.Contains(string(b), " 400 ") || !strings.Contains(string(b), "Connection: close") {
					t.Errorf("after %s: %v\n%s", time.Since(start), err, b)
				}
			})
			if n := r.bodies.Load(); n != 0 {
				t.Errorf("%d bytes are still held", n)
			}
		})
	}
}

// A caller who does not take a whole answer is left after the write limit.
func TestWholeAnswerIsNotHeldForACallerWhoTakesNothing(t *testing.T) {
	r := New(Options{WriteLimit: 30 * time.Second}, Parts{})
	start, took := time.Time{}, time.Duration(0)
	var left chan error
	overPipe(t, func(w http.ResponseWriter, _ *http.Request) {
		start = time.Now()
		err := r.writeWhole(w, make([]byte, 3*writePiece))
		took = time.Since(start)
		left <- err
	}, func(c net.Conn) {
		left = make(chan error, 1) // within the bubble
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := io.ReadFull(c, make([]byte, writePiece)); err != nil {
			t.Error(err)
		}
		<-time.After(20 * time.Second) // slow, but not yet gone
		if _, err := io.ReadFull(c, make([]byte, writePiece)); err != nil {
			t.Error(err)
		}
		select {
		case err := <-left:
			if err == nil || took != 50*time.Second {
				t.Errorf("left after %s with %v", took, err)
			}
		case <-time.After(time.Hour):
			t.Error("the answer is still held after an hour")
		}
	})
}
