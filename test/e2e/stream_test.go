package e2e

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// stream is an answer that is read event by event.
type stream struct {
	resp *http.Response
	r    *bufio.Reader
}

func (g *gateway) stream(body string) *stream {
	g.t.Helper()
	resp := g.open("POST", "/chat/completions", body)
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		g.t.Fatalf("stream: %d %s", resp.StatusCode, b)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return &stream{resp, bufio.NewReader(resp.Body)}
}

// next is the data of the next event, "" at the end of a body that ended cleanly.
func (s *stream) next(t testing.TB) string {
	t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			return data
		}
		if err == io.EOF {
			return ""
		}
		if err != nil {
			t.Fatalf("the connection was cut: %v", err)
		}
	}
}

// rest reads to the end and returns the last two events.
func (s *stream) rest(t testing.TB) (last, done string, n int) {
	t.Helper()
	for {
		ev := s.next(t)
		if ev == "" {
			return last, done, n
		}
		last, done, n = done, ev, n+1
	}
}
