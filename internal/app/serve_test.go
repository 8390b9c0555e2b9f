package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
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
