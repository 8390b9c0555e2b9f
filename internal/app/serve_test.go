package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// onePipe is a listener with one connection, a pipe, so that time can be virtual.
type onePipe chan net.Conn

func (p onePipe) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p onePipe) Close() error   { close(p); return nil }
func (p onePipe) Addr() net.Addr { return &net.TCPAddr{} }

// The rest of a request that is refused before its body was read is not waited for without end, and a handler that takes
// its time with a request that was read is not disturbed.
func TestHTTPServer_BodiesThatDoNotCome(t *testing.T) {
	exchange := func(h http.HandlerFunc, request string) (answer string, took time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			l := make(onePipe, 1)
			srv := httpServer(t.Context(), h, slog.New(slog.DiscardHandler))
			ended := make(chan error, 1)
			go func() { ended <- srv.Serve(l) }()
			near, far := net.Pipe()
			l <- far
			start := time.Now()
			_ = near.SetDeadline(start.Add(time.Hour))
			fmt.Fprint(near, request)
			var b []byte
			b, err = io.ReadAll(near)
			answer, took = string(b), time.Since(start)
			near.Close()
			srv.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		return answer, took, err
	}
	t.Run("refused unread", func(t *testing.T) {
		_, took, err := exchange(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			"POST / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 60000\r\n\r\nslow")
		if err != nil || took > 3*time.Minute {
			t.Errorf("held for %s, %v", took, err)
		}
	})
	t.Run("answered late", func(t *testing.T) {
		answer, took, err := exchange(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
				t.Error("the request was ended:", context.Cause(r.Context()))
			case <-time.After(10 * time.Minute):
			}
			w.Header().Set("Connection", "close")
		}, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nslow")
		if err != nil || took != 10*time.Minute || len(answer) == 0 {
			t.Errorf("%q after %s, %v", answer, took, err)
		}
	})
}

// A caller that reads slowly is seen to read: what it must take before the next write succeeds is little enough that
// 40 KB a second keep a stream alive twice over.
func TestHTTPServer_SlowReadersAreSeen(t *testing.T) {
	const least = 40_000 // bytes per second
	var written atomic.Int64
	h := func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 4<<10)
		for {
			n, err := w.Write(piece)
			if written.Add(int64(n)); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httpServer(t.Context(), http.HandlerFunc(h), slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	defer func() { srv.Close(); <-ended }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	if _, err := io.CopyN(io.Discard, c, 32<<20); err != nil { // a quick reader, to which the kernels give large buffers
		t.Fatal(err)
	}
	for round := range 5 {
		full, taken := settled(&written), int64(0)
		for written.Load() == full {
			if _, err := io.CopyN(io.Discard, c, 4<<10); err != nil {
				t.Fatal(err)
			}
			taken += 4 << 10
			settled(&written)
		}
		t.Logf("round %d: %d KiB are under way; the next write succeeds when %d KiB were taken", round, (full>>10)-32<<10, taken>>10)
		if limit := int64(least * writeLimit.Seconds() / 2); taken > limit {
			t.Fatalf("%d bytes must be taken before one can be written, want %d at most", taken, limit)
		}
	}
}

// settled waits until a count has not changed for a while, and returns it.
func settled(n *atomic.Int64) int64 {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	last := int64(-1)
	for same := 0; same < 5; {
		<-tick.C
		if now := n.Load(); now != last {
			last, same = now, 0
		} else {
			same++
		}
	}
	return last
}
