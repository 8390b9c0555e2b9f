package relay

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
)

// A provider on a real socket hangs, and then recovers; what a probe finds is what requests then meet.
func TestProbe_RealSockets(t *testing.T) {
	var hangs atomic.Bool
	hangs.Store(true)
	const usage = `data: {"id":"u","choices":[{"index":0,"delta":{"content":"o"},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}` + "\n\ndata: [DONE]\n\n"
	w := newWorld(t, setup{
		limits: hearth.Limits{Connect: 5 * time.Second, FirstByte: 200 * time.Millisecond, Answer: 5 * time.Second, Idle: 5 * time.Second},
		upstream: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else nobody notices that it was given up
			if hangs.Load() {
				<-r.Context().Done()
				return
			}
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = rw.Write([]byte(usage))
		}),
	})
	r, e := w.relay, w.relay.catalog.Endpoints[0]
	past := func() { // three failures, a minute ago
		r.health = health.NewTracker(r.catalog)
		ago := time.Now().Add(-health.Cooldown - time.Second)
		for range health.Threshold {
			p, _ := r.health.Take(e.Index, ago)
			p.Done(health.Failure, 0, ago)
		}
	}
	past()
	p, ok := r.Probe(t.Context(), e)
	if !ok || p.Outcome != health.Failure || p.Word() != "failed" || p.Took < 200*time.Millisecond {
		t.Fatalf("while it hangs: %v %+v", ok, p)
	}
	if _, ok := r.Probe(t.Context(), e); ok {
		t.Fatal("it was asked within its cooldown")
	}
	past()
	hangs.Store(false)
	p, ok = r.Probe(t.Context(), e)
	if !ok || p.Outcome != health.Success || p.Usage.PromptTokens != 9 || p.Cost != 11e6 { // 9 and 1 tokens at 1 and 2 dollars a million, of 1000 won
		t.Fatalf("when it has recovered: %v %+v", ok, p)
	}
	a := w.post(t, `{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if a.header.Get("X-MyIP-Provider") != "Primary" || !strings.Contains(a.body, `"o"`) {
		t.Errorf("then served by %q: %s", a.header.Get("X-MyIP-Provider"), a.body)
	}
}

// What an upstream says of a probe is judged as what it says of a request.
func TestProbe_Verdicts(t *testing.T) {
	answer := http.HandlerFunc(nil)
	w := newWorld(t, setup{upstream: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { answer(rw, r) })})
	r, e := w.relay, w.relay.catalog.Endpoints[0]
	for _, tc := range []struct {
		name  string
		serve http.HandlerFunc
		want  string
		out   hearth.SkipReason // what stands against it then
	}{
		{"it refuses the request, which is its right", refuses(400, `{"error":{"message":"no max_tokens of 1"}}`), "no_verdict", ""},
		{"a stream that breaks off", speaks(0, word("a")), "failed", ""},
		{"it is busy", refuses(429, `{}`, "Retry-After", "1"), "rate_limited", hearth.SkipRateLimited},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer = tc.serve
			p, ok := r.Probe(t.Context(), e)
			if !ok || p.Word() != tc.want || p.Endpoint != e {
				t.Errorf("%v %+v", ok, p)
			}
			if got := r.health.View()[e.Index].Skip; got != tc.out {
				t.Errorf("it is %q", got)
			}
		})
	}
}
