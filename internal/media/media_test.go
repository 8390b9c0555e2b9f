package media

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestFetch_Request(t *testing.T) {
	var got http.Header
	s := newSite(t, false, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		if r.Method != http.MethodGet || r.URL.RequestURI() != "/a%20b?x=1&y=%2F" {
			t.Errorf("asked %s %s", r.Method, r.URL.RequestURI())
		}
		serve("Image/PNG; charset=utf-8", png)(w, r)
	})
	f := New(Options{Permit: permit(s), Agent: "hearth/1"})
	for range 2 {
		if got := fetch(t, f, s.URL+"/a%20b?x=1&y=%2F#part"); got != dataURL("image/png", png) {
			t.Errorf("got %q", got)
		}
	}
	want := http.Header{"User-Agent": {"hearth/1"}, "Accept": {"image/*, audio/*, video/*"}, "Connection": {"close"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

func TestFetch_Sizes(t *testing.T) {
	const limit = 5000
	body := func(n int) string { return png + strings.Repeat("x", n-len(png)) }
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string // "" = refused
		says    string
	}{
		"one byte more than is looked at": {serve("image/png", body(sniffed+1)), body(sniffed + 1), ""},
		"as much as is looked at":         {serve("image/png", body(sniffed)), body(sniffed), ""},
		"the limit":                       {serve("image/png", body(limit)), body(limit), ""},
		"a byte more":                     {serve("image/png", body(limit+1)), "", "more than 5000 bytes"},
		"in pieces": {func(w http.ResponseWriter, _ *http.Request) {
			for piece := range strings.SplitSeq(body(limit), "xxxx") {
				fmt.Fprint(w, piece+"xxxx")
				w.(http.Flusher).Flush()
			}
		}, "", "more than"},
		"in pieces that are few enough": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			for _, piece := range []string{png[:3], png[3:], "x"} {
				fmt.Fprint(w, piece)
				w.(http.Flusher).Flush()
			}
		}, png + "x", ""},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			for _, err := fmt.Fprint(w, png); err == nil; _, err = fmt.Fprint(w, strings.Repeat("x", 1<<16)) {
			}
		}, "", "more than"},
		"nothing": {serve("image/png", ""), "", "sent nothing"},
		"less than promised": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			fmt.Fprint(w, body(3000))
		}, "", "broke off"},
		"far less than promised": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, png)
		}, "", "broke off"},
		"far more promised": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9000000000000000000")
			fmt.Fprint(w, png)
		}, "", "more than"},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1000))
			}
			serve("image/png", png)(w, nil)
		}, "", unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false, tc.handler)
			f := New(Options{Permit: permit(s), MaxBytes: limit, Timeout: 5 * time.Second})
			if tc.want == "" {
				refused(t, f, s.URL+"/secret", tc.says)
			} else if got := fetch(t, f, s.URL); got != dataURL("image/png", tc.want) {
				t.Errorf("got %d bytes", len(got))
			}
			if n := f.held.Load(); n != 0 {
				t.Errorf("%d bytes are still counted", n)
			}
		})
	}
}

func TestFetch_Answers(t *testing.T) {
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			w.WriteHeader(n)
			_, _ = w.Write([]byte(png))
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"not found":    {status(404), "status 404"},
		"partial":      {status(206), "status 206"},
		"not modified": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "status 304"},
		"error":        {status(500), "status 500"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "image/png")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			fmt.Fprint(z, png)
			z.Close()
			_, _ = w.Write(b.Bytes())
		}, "compressed"},
		"a page":              {serve("text/html", "<html>secret</html>"), "no image, sound or film"},
		"a page as an image":  {serve("image/png", "<html>secret</html>"), "no image, sound or film"},
		"a login page, early": {serve("", "{\"secret\":1}"), "no image, sound or film"},
		"no HTTP at all": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			fmt.Fprint(c, "SSH-2.0-victim\r\n")
			c.Close()
		}, unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false, tc.handler)
			refused(t, New(Options{Permit: permit(s), Timeout: 5 * time.Second}), s.URL+"/secret", tc.says)
		})
	}
}

// stall answers with a beginning and then nothing until the caller leaves.
func stall(entered chan<- struct{}, release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		fmt.Fprint(w, png+strings.Repeat("x", sniffed))
		w.(http.Flusher).Flush()
		entered <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}

func TestFetch_Time(t *testing.T) {
	entered := make(chan struct{}, 1)
	s := newSite(t, false, stall(entered, nil))
	t.Run("a body that stops", func(t *testing.T) {
		began := time.Now()
		refused(t, New(Options{Permit: permit(s), Timeout: 100 * time.Millisecond}), s.URL, "did not arrive within 100ms")
		if d := time.Since(began); d < 100*time.Millisecond || d > 3*time.Second {
			t.Errorf("after %s", d)
		}
		<-entered
	})
	t.Run("an answer that does not come", func(t *testing.T) {
		mute := newSite(t, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		refused(t, New(Options{Permit: permit(mute), Timeout: 100 * time.Millisecond}), mute.URL, "within the time there is")
	})
	t.Run("the caller leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		go func() { <-entered; cancel(left) }()
		if _, err := New(Options{Permit: permit(s)}).Fetch(ctx, s.URL); !errors.Is(err, left) {
			t.Errorf("%v, want the cause of the context", err)
		}
	})
}

// overloaded wants the error for too much at once.
func overloaded(t *testing.T, err error) {
	t.Helper()
	var e *hearth.Error
	if !errors.As(err, &e) || e.Type != hearth.ErrOverloaded || e.Param != "messages" || e.RetryAfter <= 0 {
		t.Errorf("%v, want overloaded", err)
	}
}

func TestFetch_AtOnce(t *testing.T) {
	entered, release := make(chan struct{}, maxAtOnce), make(chan struct{})
	s := newSite(t, false, stall(entered, release))
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn) // before the site is closed, which waits for its callers
	f := New(Options{Permit: permit(s), Timeout: 20 * time.Second})
	var wg sync.WaitGroup
	for range maxAtOnce {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), s.URL); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxAtOnce {
		<-entered
	}
	hurried := New(Options{Permit: permit(s), Timeout: 50 * time.Millisecond})
	hurried.turns = f.turns
	_, err := hurried.Fetch(t.Context(), s.URL)
	overloaded(t, err)
	if n := s.conns.Load(); n != maxAtOnce {
		t.Errorf("%d connections, want %d", n, maxAtOnce)
	}
	goOn()
	fetch(t, f, s.URL) // who waited gets a turn
	wg.Wait()
	if n := f.held.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestFetch_Memory(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	slow := newSite(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3000") // counted when it is promised
		w.(http.Flusher).Flush()
		entered <- struct{}{}
		<-release
		fmt.Fprint(w, png+strings.Repeat("x", 3000-len(png)))
	})
	promised := newSite(t, false, serve("image/png", png+strings.Repeat("x", 1100-len(png))))
	pieces := newSite(t, false, func(w http.ResponseWriter, _ *http.Request) {
		for _, piece := range []string{png, strings.Repeat("x", 600), strings.Repeat("x", 500)} {
			fmt.Fprint(w, piece)
			w.(http.Flusher).Flush()
		}
	})
	small := newSite(t, false, serve("image/png", png))
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn)
	f := New(Options{Permit: permit(slow, promised, pieces, small), MaxTotal: 4000, Timeout: 20 * time.Second})
	done := make(chan error, 1)
	go func() {
		_, err := f.Fetch(context.Background(), slow.URL)
		done <- err
	}()
	<-entered
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.held.Load() != 3000 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d bytes are counted, want what was promised", f.held.Load())
		}
	}
	for _, s := range []*site{promised, pieces} {
		_, err := f.Fetch(t.Context(), s.URL)
		overloaded(t, err)
	}
	fetch(t, f, small.URL)
	goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
	fetch(t, f, promised.URL)
	fetch(t, f, pieces.URL)
	if n := f.held.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}
