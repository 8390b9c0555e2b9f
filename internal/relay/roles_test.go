package relay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// caller is who gets the answer. It notes when what came, and whether two ever wrote at once.
type caller struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	start    time.Time
	busy     atomic.Bool
	met      bool
	heard    []sound
	deadline time.Time
	write    func(n int, b []byte) error // in place of taking the n-th write, from 1; nil error = take it
	writes   int
	sentTo   http.Header // the headers as they were when the status went out
}

type sound struct {
	at   time.Duration
	text string
}

func (s *scene) caller() *caller { return &caller{header: make(http.Header), start: time.Now()} }

func (c *caller) use() func() {
	if c.busy.Swap(true) {
		c.met = true
	}
	return func() { c.busy.Store(false) }
}

func (c *caller) Header() http.Header { return c.header }

func (c *caller) WriteHeader(status int) {
	defer c.use()()
	c.begin(status)
}

func (c *caller) begin(status int) {
	if c.status == 0 {
		c.status, c.sentTo = status, c.header.Clone()
	}
}

func (c *caller) Write(b []byte) (int, error) {
	defer c.use()()
	c.begin(http.StatusOK)
	c.writes++
	if c.write != nil {
		if err := c.write(c.writes, b); err != nil {
			return 0, err
		}
	}
	c.heard = append(c.heard, sound{time.Since(c.start), string(b)})
	return c.body.Write(b)
}

func (c *caller) FlushError() error {
	defer c.use()()
	return nil
}

func (c *caller) SetWriteDeadline(t time.Time) error {
	defer c.use()()
	c.deadline = t
	return nil
}

// comments are when comments came.
func (c *caller) comments() (at []time.Duration) {
	for _, h := range c.heard {
		if strings.HasPrefix(h.text, ":") {
			at = append(at, h.at)
		}
	}
	return at
}

func (c *caller) answer() answer {
	return answer{status: c.status, header: c.sentTo, body: c.body.String()}
}

// The ways in which upstreams of a scene behave.

func after(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			h(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// silent never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func refuses(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func word(text string) string {
	return fmt.Sprintf("data: {\"id\":\"up-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
}

const (
	lastWord = "data: {\"id\":\"up-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\ndata: [DONE]\n\n"
	whole    = `{"id":"up-1","object":"chat.completion","created":1,"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// speaks streams pieces with pauses between them.
func speaks(pause time.Duration, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, p := range pieces {
			if i > 0 {
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// answers gives a whole answer.
func answers(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, whole)
}
