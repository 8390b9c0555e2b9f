package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// halves is an upstream without a network: a body in two reads, and what its end is.
type halves struct {
	first, second string
	end           error
	closed        int // how often the body was
}

func (h *halves) Close() error { h.closed++; return nil }

func (h *halves) RoundTrip(*http.Request) (*http.Response, error) {
	body := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(h.first), strings.NewReader(h.second), failing{h.end}), h}
	return &http.Response{StatusCode: 200, Header: eventStream, ContentLength: -1, Body: body}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A stream that is cut at any byte is a clean success only behind its last word, and what the caller got is always a
// beginning of the answer.
func TestCutAtEveryByte(t *testing.T) {
	body := role + word("하나 ") + ": comment\n\n" + word("둘") + word(" 셋") + finish + usage + done
	lastWord := strings.Index(body, finish) + len(finish)
	client, e := endpoint(t, "http://upstream")
	h := &halves{}
	client.targets[0].rt = h
	for _, c := range []struct {
		name string
		end  error
		from int // the shortest beginning that is complete
	}{
		{"orderly end", io.EOF, lastWord - len("\n\n")},
		{"broken connection", io.ErrUnexpectedEOF, lastWord},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := range len(body) + 1 {
				*h = halves{first: body[:n/2], second: body[n/2 : n], end: c.end}
				r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
				if h.closed != 1 {
					t.Fatalf("%d of %d bytes: the body was closed %d times", n, len(body), h.closed)
				}
				if (r.end == "served") != (n >= c.from) {
					t.Errorf("%d of %d bytes: %v", n, len(body), r)
				}
				if !strings.HasPrefix("하나 둘 셋", r.text) || r.end == "served" && r.text != "하나 둘 셋" {
					t.Errorf("%d of %d bytes: the caller got %q", n, len(body), r.text)
				}
				if r.end == "next" && n > strings.Index(body, word("둘")) {
					t.Errorf("%d of %d bytes: %v, although the answer had begun", n, len(body), r)
				}
			}
		})
	}
}

// Whatever an upstream sends, the caller gets whole events of valid JSON, or nothing and another candidate.
func FuzzStream(f *testing.F) {
	for _, body := range []string{role + word("one") + finish + usage + done, oops, word("a") + oops, "\xef\xbb\xbfdata:null\r\r: x\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ud800\"}}]}\n\n", "event: error\ndata: x\n\n"} {
		f.Add(body, true)
	}
	client, e := endpoint(f, "http://upstream")
	f.Fuzz(func(t *testing.T, body string, clean bool) {
		h := &halves{first: body[:len(body)/2], second: body[len(body)/2:], end: io.ErrUnexpectedEOF}
		if clean {
			h.end = io.EOF
		}
		c := &Client{opt: Options{KeepAlive: time.Hour}, answers: client.answers, start: client.start, largest: maxAnswerBody, dry: maxDry, targets: []target{client.targets[0]}}
		c.targets[0].rt = h
		call := &Call{Endpoint: e, Stream: true, Stamp: &dialect.Stamp{ID: "gen-1", Model: "m/m", Provider: "Acme"}}
		o, failure, err := c.Open(context.Background(), call)
		switch {
		case err != nil || (o == nil) == (failure == nil):
			t.Fatalf("Open = %v, %v, %v", o, failure, err)
		case failure != nil:
			if failure.Message == "" {
				t.Fatalf("a failure that says nothing: %+v", failure)
			}
			return
		}
		w := httptest.NewRecorder()
		end := o.Stream.Copy(w, time.Minute)
		if end.Verdict == hearth.Gone || (end.Verdict == hearth.Broken) != (end.Failure != nil) {
			t.Fatalf("Copy = %+v", end)
		}
		out := w.Body.Bytes()
		if len(out) == 0 || !bytes.HasSuffix(out, []byte("\n\n")) {
			t.Fatalf("written: %q", out)
		}
		for _, ev := range bytes.Split(bytes.TrimSuffix(out, []byte("\n\n")), []byte("\n\n")) {
			data, ok := bytes.CutPrefix(ev, dataPrefix)
			if v := jsontext.Value(data); !ok || bytes.ContainsAny(data, "\r\n") || !v.IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) {
				t.Fatalf("event %q", ev)
			}
		}
	})
}

func TestHTTP2(t *testing.T) {
	gone, headers := make(chan struct{}, 1), make(chan http.Header, 10)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		headers <- r.Header
		if r.ProtoMajor != 2 {
			t.Errorf("spoke %s", r.Proto)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role+word("one"))
		_ = http.NewResponseController(w).Flush()
		switch r.URL.Path {
		case "/whole/chat/completions":
			_, _ = io.WriteString(w, finish+usage+done)
		case "/half/chat/completions":
		case "/reset/chat/completions":
			panic(http.ErrAbortHandler)
		case "/hangs/chat/completions":
			<-r.Context().Done()
			gone <- struct{}{}
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	at := func(path string) (*Client, *hearth.Endpoint) {
		client, e := endpoint(t, srv.URL+path)
		client.clients[e.Provider].TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		client.clients[e.Provider].TLSClientConfig.NextProtos = nil
		return client, e
	}
	for path, want := range map[string]string{
		"/whole": "served one", "/half": "broken one: the stream ended without a finish reason", "/reset": "broken one: the stream was cut off",
	} {
		t.Run(path, func(t *testing.T) {
			client, e := at(path)
			if r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true}); r.String() != want {
				t.Errorf("got %v, want %s", r, want)
			}
			if h := <-headers; h.Get("X-Idempotency-Key") != "" || len(h["X-Idempotency-Key"]) != 0 {
				t.Errorf("headers = %v", h)
			}
		})
	}
	t.Run("caller leaves", func(t *testing.T) {
		client, e := at("/hangs")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call := &Call{Endpoint: e, Stream: true, Stamp: &dialect.Stamp{ID: "gen-1"}}
		o, f, err := client.Open(ctx, call)
		if err != nil || f != nil {
			t.Fatal(f, err)
		}
		cancel()
		if end := o.Stream.Copy(httptest.NewRecorder(), time.Minute); end.Verdict != hearth.Gone {
			t.Errorf("got %+v", end)
		}
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Error("the upstream was not told")
		}
	})
}

// One client serves many requests at once: nothing that they share is written to.
func TestManyAtOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role+word(fmt.Sprintf("%x", len(b)))+finish+usage+done)
	}))
	defer srv.Close()
	client, e := endpoint(t, srv.URL)
	local, le := engineAt(t, srv.URL)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 20 {
				c, call := client, &Call{Endpoint: e, Stream: true}
				if i%2 == 1 {
					c, call = local, &Call{Endpoint: le, EngineURL: srv.URL, EngineKey: hearth.Secret(fmt.Sprintf("key-of-engine-%d", i%4)), Stream: true}
				}
				if r := attempt(t.Context(), c, call); r.String() != "served d" || !r.stream.Usage.Reported {
					t.Errorf("got %v", r)
				}
			}
		})
	}
	wg.Wait()
}
