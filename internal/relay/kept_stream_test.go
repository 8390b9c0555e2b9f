package relay

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// A stream that has begun keeps neither the body of its request nor the copy that went upstream.
func TestStreamKeepsNoBody(t *testing.T) {
	const size, streams = 2 << 20, 8
	talking := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte(word("a")))
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}
	w := newWorld(t, setup{maxBody: 8 << 20, limits: hearth.Limits{FirstByte: time.Minute, Idle: time.Hour}, upstream: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			talking(rw, r)
		}
	})})
	heap := func() int64 {
		var m runtime.MemStats
		for range 3 { // pools are emptied in two steps
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range streams {
		head, tail := chat(stream+`, "padding": "`), `"}`
		head = strings.TrimSuffix(head, "}")
		body := io.MultiReader(strings.NewReader(head), io.LimitReader(endless{}, size), strings.NewReader(tail)) // the test keeps none either
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(head) + size + len(tail))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode, err)
		}
	}
	until(t, "the memory of the bodies is free", func() bool { return heap()-before < streams*size/8 })
}

// endless is a text without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
