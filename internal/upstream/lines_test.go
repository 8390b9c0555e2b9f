package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// numbering is an upstream that numbers its connections. answer is what it sends to the nth request of one; "" = it hangs up.
type numbering struct {
	url      *url.URL
	listener net.Listener
	conns    atomic.Int32
	sent     chan struct{} // after each answer
}

func numbered(t *testing.T, answer func(conn, n int) string) *numbering {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &numbering{listener: l, url: &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/x"}, sent: make(chan struct{}, 100)}
	var wg sync.WaitGroup
	serve := func(c net.Conn, conn int) {
		defer c.Close()
		r := bufio.NewReader(c)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			a := answer(conn, n)
			if _, err := io.WriteString(c, a); err != nil || a == "" {
				return
			}
			s.sent <- struct{}{}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c, int(s.conns.Add(1))) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return s
}

func (s *numbering) lines(t *testing.T) *lines {
	t.Helper()
	ls := newLines(s.url, &http.Transport{DialContext: (&net.Dialer{}).DialContext})
	t.Cleanup(ls.closeIdle)
	return ls
}

// ask sends a request and reads the answer.
func (s *numbering) ask(ctx context.Context, ls *lines, body string) (string, error) {
	h := headOf(s.url, http.Header{})
	resp, err := ls.send(ctx, &h, []byte(body), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func saying(text string) string {
	return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(conn, n int) string
		want   string // of three requests
		conns  int32
	}{
		{"one line carries all", func(int, int) string { return saying("a") }, "a a a", 1},
		{"an interim answer is none", func(int, int) string { return "HTTP/1.1 103 Early Hints\r\n\r\n" + saying("a") }, "a a a", 1},
		{"no body", func(int, int) string { return "HTTP/1.1 204 No Content\r\n\r\n" }, "  ", 1},
		{"the upstream says that it closes", func(int, int) string {
			return strings.Replace(saying("a"), "\r\n", "\r\nConnection: close\r\n", 1)
		}, "a a a", 3},
		{"the upstream hangs up on a kept line", func(_, n int) string {
			if n == 2 {
				return ""
			}
			return saying("a")
		}, "a a a", 3},
		{"what nobody asked for is no answer", func(int, int) string { return saying("a") + saying("b") }, "a a a", 3},
		{"nor is what comes after it", func(int, int) string { return saying("a") + "\r\n" }, "a a a", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := numbered(t, c.answer)
			ls := s.lines(t)
			var got []string
			for range 3 {
				text, err := s.ask(t.Context(), ls, "{}")
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, text)
				<-s.sent
			}
			if text := strings.Join(got, " "); text != c.want || s.conns.Load() != c.conns {
				t.Errorf("%q over %d connections, want %q over %d", text, s.conns.Load(), c.want, c.conns)
			}
		})
	}
}

func TestLines_Ends(t *testing.T) {
	s := numbered(t, func(int, int) string { return "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf" })
	h := headOf(s.url, http.Header{})
	t.Run("with its context, whose cause is the error", func(t *testing.T) {
		ls := s.lines(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := ls.send(ctx, &h, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("over")
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		if b, err := io.ReadAll(resp.Body); string(b) != "half" || !errors.Is(err, why) {
			t.Errorf("read %q, %v", b, err)
		}
		if len(ls.idle) != 0 {
			t.Error("the line is kept")
		}
		if _, err := ls.send(ctx, &h, nil, nil); !errors.Is(err, why) {
			t.Errorf("a request under it: %v", err)
		}
	})
	t.Run("with the close of a body, while it is read", func(t *testing.T) {
		ls := s.lines(t)
		resp, err := ls.send(t.Context(), &h, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Millisecond, func() { resp.Body.Close() })
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("no error")
		}
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) || len(ls.idle) != 0 {
			t.Errorf("read after the close: %v, %d lines are kept", err, len(ls.idle))
		}
	})
	t.Run("an idle one when its time is up, or all are closed", func(t *testing.T) {
		s := numbered(t, func(int, int) string { return saying("a") })
		ls := s.lines(t)
		idle := func() int {
			ls.mu.Lock()
			defer ls.mu.Unlock()
			return len(ls.idle)
		}
		if _, err := s.ask(t.Context(), ls, "{}"); err != nil || idle() != 1 {
			t.Fatal(err, idle())
		}
		if ls.sweep(); idle() != 1 {
			t.Error("closed before its time")
		}
		ls.mu.Lock()
		ls.idle[0].since = ls.idle[0].since.Add(-idleTime)
		ls.mu.Unlock()
		if ls.sweep(); idle() != 0 || ls.sweeping {
			t.Error("kept after its time")
		}
		resp, err := ls.send(t.Context(), &h, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ls.closeIdle()
		if _, err := io.ReadAll(resp.Body); err != nil || idle() != 0 {
			t.Errorf("%v; %d lines are kept that were in use when all were closed", err, idle())
		}
	})
}

// A request on a kept line that breaks is sent again, unless the upstream may have worked on it; and it is not said that it was
// not sent because nobody listens any more.
func TestLines_Breaks(t *testing.T) {
	for _, c := range []struct {
		name   string
		works  time.Duration // until it hangs up on a kept line
		gone   bool          // and nobody listens then
		came   int32         // how often the request came
		unsent bool          // it is said that it was not sent
		fails  bool
	}{
		{"at once", 0, false, 2, false, false},
		{"a moment later", lastGasp, false, 2, false, false},
		{"later", lateNews, false, 1, false, true},
		{"at once, and nobody listens", 0, true, 1, true, true},
		{"a moment later, and nobody listens", lastGasp, true, 1, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s *numbering
			var came atomic.Int32
			s = numbered(t, func(conn, n int) string {
				if n == 1 && conn == 1 {
					return saying("a")
				}
				if came.Add(1); conn > 1 {
					return saying("b")
				}
				if c.gone {
					s.listener.Close()
				}
				<-time.After(c.works)
				return ""
			})
			ls := s.lines(t)
			if _, err := s.ask(t.Context(), ls, "{}"); err != nil {
				t.Fatal(err)
			}
			_, err := s.ask(t.Context(), ls, "{}")
			if (err != nil) != c.fails || came.Load() != c.came {
				t.Fatalf("%v; it came %d times", err, came.Load())
			}
			if err != nil {
				if f := judgeSend(err, nil); !f.Broke || f.Unsent != c.unsent {
					t.Errorf("%v: %+v", err, f)
				}
			}
		})
	}
}

// Many requests with bodies of both kinds, some of which are given up, get their own answers.
func TestLines_Many(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // all of it: when it writes, a server throws away what it has not read
		_, _ = w.Write(b)
	})}
	go func() { _ = echo.Serve(l) }()
	defer echo.Close()
	s := &numbering{url: &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/x"}}
	ls := s.lines(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 60 {
				body := strings.Repeat(string(rune('a'+i)), 1+n*(atOnce/30))
				ctx, cancel := context.WithCancel(t.Context())
				if n%7 == 3 {
					time.AfterFunc(time.Duration(n)*10*time.Microsecond, cancel)
				}
				got, err := s.ask(ctx, ls, body)
				if err == nil && got != body || err != nil && ctx.Err() == nil {
					t.Errorf("%d bytes of %d, %v", len(got), len(body), err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestNewLines(t *testing.T) {
	plain := &http.Transport{}
	proxied := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"})}
	for _, c := range []struct {
		url     string
		t       *http.Transport
		address string // "" = none
	}{
		{"http://acme.example/v1", plain, "acme.example:80"},
		{"http://127.0.0.1:8080/v1", plain, "127.0.0.1:8080"},
		{"http://[::1]/v1", plain, "[::1]:80"},
		{"http://[fe80::1%25lo]/v1", plain, ""},
		{"http://bücher.example/v1", plain, ""},
		{"https://acme.example/v1", plain, ""},
		{"http://acme.example/v1", proxied, ""},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if ls := newLines(u, c.t); (ls == nil) != (c.address == "") || ls != nil && ls.address != c.address {
			t.Errorf("%s: %+v", c.url, ls)
		}
	}
}
