package upstream

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// The buffer of a body comes back exactly once, and never while net/http may still read it.
func TestBodyComesBack(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 8<<20) // more than any socket buffer holds
	for name, handler := range map[string]http.HandlerFunc{
		"read to its end":             func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"answered before it was read": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"cut off":                     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(handler)
			defer srv.Close()
			u, err := url.Parse(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			var returned atomic.Int32
			done := make(chan struct{}, 8)
			body := bytes.Clone(big)
			back := func() {
				returned.Add(1)
				clear(body) // a reader that is still there is a data race, and the race detector says so
				done <- struct{}{}
			}
			rt := &http.Transport{}
			defer rt.CloseIdleConnections()
			resp, err := (&target{url: u, header: http.Header{}, rt: rt}).send(t.Context(), body, back)
			if err == nil {
				resp.Body.Close()
			}
			select {
			case <-done:
			case <-time.After(30 * time.Second):
				t.Fatal("the body never came back")
			}
			rt.CloseIdleConnections()
			if n := returned.Load(); n != 1 {
				t.Errorf("it came back %d times", n)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		returned := 0
		u := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		_, err := (&target{url: u, header: http.Header{}, rt: &http.Transport{}}).send(t.Context(), big, func() { returned++ })
		if err == nil || returned != 1 {
			t.Errorf("error %v, came back %d times", err, returned)
		}
	})
}

// HTTP/2 closes the body of a request that is given up in one goroutine while another reads it: what comes back must be
// out of every reader's hands.
func TestBodyComesBack_NothingIsReadAfterwards(t *testing.T) {
	returned := 0
	r := &readers{b: []byte("prompt"), done: func() { returned++ }}
	r.count.Store(1)
	first, _ := r.body()  // sent
	second, _ := r.body() // and sent again
	r.leave()
	for _, b := range []io.ReadCloser{first, second} {
		if returned != 0 {
			t.Error("it came back while a reader was left")
		}
		_, _ = b.Close(), b.Close()
		if n, err := b.Read(make([]byte, 8)); n != 0 || err == nil {
			t.Errorf("read %d bytes after the close, %v", n, err)
		}
	}
	if returned != 1 {
		t.Errorf("it came back %d times", returned)
	}
}
