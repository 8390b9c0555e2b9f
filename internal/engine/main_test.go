package engine

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
)

// processMode in the environment makes this test binary an engine process.
const processMode = "HEARTH_TEST_ENGINE"

func TestMain(m *testing.M) {
	if os.Getenv(processMode) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	// The race detector has each process wait for a second before it ends, the engines too.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// server is anything of this package that serves on a socket.
type server interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// serveOn serves s on a socket until the test ends and returns its address.
func serveOn(t *testing.T, s server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// client asks one server, with a connection for each request.
type client struct {
	t    *testing.T
	base string
	key  string
}

func (c client) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return h.Do(req)
}

// get asks and wants a whole answer; JSON is read into v if v is not nil.
func (c client) get(method, path, body string, v any) (int, string) {
	c.t.Helper()
	res, err := c.do(c.t.Context(), method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			c.t.Fatalf("%s %s answers %s: %v", method, path, b, err)
		}
	}
	return res.StatusCode, string(b)
}

// answer is what the tests look at in an answer or a chunk.
type answer struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Model    string `json:"model"`
	Provider string `json:"provider"`
	Choices  []struct {
		Delta   said   `json:"delta"`
		Message said   `json:"message"`
		Finish  string `json:"finish_reason"`
	} `json:"choices"`
	Usage   *usage   `json:"usage"`
	Timings *timings `json:"timings"`
	Error   *failure `json:"error"`
}

type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// stream is a whole answer that was sent in chunks.
type stream struct {
	text, finish string
	chunks       []answer
	done         bool
	err          error // of the reading, nil = a clean end
}

func readStream(t *testing.T, r io.Reader) stream {
	t.Helper()
	var s stream
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok && len(lines.Bytes()) > 0:
			t.Errorf("line %q", lines.Text())
		case string(data) == "[DONE]":
			s.done = true
		case ok:
			var a answer
			if err := json.Unmarshal(data, &a); err != nil {
				t.Fatalf("chunk %s: %v", data, err)
			}
			s.chunks = append(s.chunks, a)
			for _, c := range a.Choices {
				s.text += c.Delta.Content
				s.finish += c.Finish
			}
		}
	}
	s.err = lines.Err()
	return s
}

func (c client) stream(path, body string) (*http.Response, stream) {
	c.t.Helper()
	res, err := c.do(c.t.Context(), http.MethodPost, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	return res, readStream(c.t, res.Body)
}

// eventually looks every few milliseconds whether something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}
