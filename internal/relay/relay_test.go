package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

func TestAnswer(t *testing.T) {
	t.Run("a whole answer names who made it and what it costs", func(t *testing.T) {
		w := newWorld(t, setup{})
		a := w.post(t, chat(""))
		g := w.record(t, a)
		if a.status != 200 {
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
		o := object(t, a.body)
		got := []any{o["id"], o["model"], o["provider"], o["object"], a.header.Get("X-Myip-Provider"), a.header.Get("X-Myip-Model"), a.header.Get("X-Myip-Generation-Id")}
		if d := cmp.Diff([]any{g.ID, model, "Primary", "chat.completion", "Primary", model, g.ID}, got); d != "" {
			t.Error(d)
		}
		// 1 USD per 1M prompt tokens and 2 per 1M completion tokens at 1,000 KRW.
		want := hearth.Nano(g.Usage.PromptTokens*1_000_000 + g.Usage.CompletionTokens*2_000_000)
		if g.Bill.Cost != want || g.Usage.CompletionTokens == 0 {
			t.Errorf("cost %s for %+v, want %s", g.Bill.Cost, g.Usage, want)
		}
		if cost := fmt.Sprint(at(o, "usage", "cost")); cost != g.Bill.Cost.String() {
			t.Errorf("usage.cost %s, recorded %s", cost, g.Bill.Cost)
		}
	})
	t.Run("a stream ends with the finish reason again, usage and cost, and DONE", func(t *testing.T) {
		w := newWorld(t, setup{})
		a := w.post(t, chat(`, "stream": true`))
		ev := a.events()
		if n := len(ev); n < 4 || ev[n-1] != "[DONE]" {
			t.Fatalf("events %q", ev)
		}
		last := object(t, ev[len(ev)-2])
		g := w.record(t, a)
		got := []any{at(last, "choices", 0, "finish_reason"), at(last, "choices", 0, "native_finish_reason"), fmt.Sprint(at(last, "usage", "cost")), g.FinishReason}
		if d := cmp.Diff([]any{"stop", "stop", g.Bill.Cost.String(), "stop"}, got); d != "" {
			t.Error(d)
		}
		if at(last, "usage", "completion_tokens") != float64(g.Usage.CompletionTokens) || g.Usage.CompletionTokens == 0 {
			t.Errorf("usage %v, recorded %+v", last["usage"], g.Usage)
		}
		for _, e := range ev[:len(ev)-1] {
			o := object(t, e)
			if o["id"] != g.ID || o["model"] != model || o["provider"] != "Primary" || at(o, "choices", 0) == nil {
				t.Fatalf("chunk %s", e)
			}
		}
	})
	t.Run("what goes upstream is the caller's body with the model spliced and our keys dropped", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.post(t, `{"models": ["`+model+`"], "temperature": 0.70, "messages": [{"role":"user","content":"x"}], "zebra": {"b":1e0,"a":[ ]}, "route": "fallback", "user": "kim"}`)
		got := string(w.primary.LastBody())
		for _, want := range []string{`"temperature": 0.70`, `"zebra": {"b":1e0,"a":[ ]}`, `"model":"gemma-it"`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %s", got, want)
			}
		}
		for _, never := range []string{"models", "route", "kim"} {
			if strings.Contains(got, never) {
				t.Errorf("%s was forwarded: %s", never, got)
			}
		}
	})
	t.Run("images are charged by the piece", func(t *testing.T) {
		w := newWorld(t, setup{})
		g := w.record(t, w.post(t, `{"messages": [{"role": "user", "content": [{"type": "text", "text": "what is it?"},
			{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}`))
		// two images at 0.001 USD, and the tokens, at 1,000 KRW
		want := hearth.Nano(2_000_000_000 + g.Usage.PromptTokens*1_000_000 + g.Usage.CompletionTokens*2_000_000)
		if g.Images != 2 || g.Bill.Cost != want {
			t.Errorf("%d images, cost %s, want %s", g.Images, g.Bill.Cost, want)
		}
	})
	t.Run("the record holds no prompt", func(t *testing.T) {
		w := newWorld(t, setup{})
		a := w.post(t, chat(""))
		if s := fmt.Sprintf("%+v", *w.record(t, a)); strings.Contains(s, "secret question") {
			t.Errorf("prompt in %s", s)
		}
	})
	t.Run("a limit of patience that is no number is noted", func(t *testing.T) {
		w := newWorld(t, setup{})
		if a := w.post(t, chat(""), "X-MyIP-Max-Wait", "soon"); a.status != 200 || !strings.Contains(a.header.Get("X-Myip-Note"), "X-MyIP-Max-Wait ignored") {
			t.Errorf("%d, note %q", a.status, a.header.Get("X-Myip-Note"))
		}
	})
	t.Run("an unknown model in a list is noted", func(t *testing.T) {
		w := newWorld(t, setup{})
		a := w.post(t, `{"models": ["no/such", "`+model+`"], "messages": [{"role":"user","content":"x"}]}`)
		if note := a.header.Get("X-Myip-Note"); a.status != 200 || !strings.Contains(note, "no/such") {
			t.Errorf("%d, note %q", a.status, note)
		}
	})
}

// orderWriter asks, at the moment of each write, whether the record is there already.
type orderWriter struct {
	http.ResponseWriter
	world    *world
	last     string // the write that must come after the record holds this
	recorded bool
	seen     bool
}

func (o *orderWriter) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *orderWriter) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.last) {
		_, err := o.world.ledger.Generation(context.Background(), o.Header().Get("X-Generation-Id"))
		o.seen, o.recorded = true, err == nil
	}
	return o.ResponseWriter.Write(b)
}

func TestRecordBeforeLastBytes(t *testing.T) {
	for name, tc := range map[string]struct{ body, last string }{
		"stream":                  {chat(`, "stream": true`), "[DONE]"},
		"stream, the usage chunk": {chat(`, "stream": true`), `"cost"`},
		"whole answer":            {chat(""), "chat.completion"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{})
			rec := &orderWriter{ResponseWriter: httptest.NewRecorder(), world: w, last: tc.last}
			req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.body))
			if err := w.relay.Chat(rec, req, w.relay.Name(rec), w.key); err != nil {
				t.Fatal(err)
			}
			if !rec.seen || !rec.recorded {
				t.Errorf("last bytes seen %v, record there before them %v", rec.seen, rec.recorded)
			}
		})
	}
}

func TestFallback(t *testing.T) {
	for _, fault := range []engine.Fault{engine.F429, engine.F500, engine.F503, engine.F401, engine.F400, engine.Refuse, engine.Empty, engine.Garbage} {
		for _, stream := range []string{"", `, "stream": true`} {
			t.Run(string(fault)+stream, func(t *testing.T) {
				w := newWorld(t, setup{})
				w.fault(t, w.primary, engine.Control{Fault: fault})
				a := w.post(t, chat(stream))
				if a.status != 200 || a.header.Get("X-Myip-Provider") != "Backup" || strings.Contains(a.body, `"error"`) {
					t.Fatalf("%d %v %s", a.status, a.header, a.body)
				}
				g := w.record(t, a)
				if len(g.Attempts) != 2 || g.Attempts[0].Verdict != hearth.TryNext || g.Attempts[1].Verdict != hearth.Served || g.Provider != "Backup" {
					t.Errorf("attempts %+v", g.Attempts)
				}
			})
		}
	}
	t.Run("headers, then silence before the first token", func(t *testing.T) {
		w := newWorld(t, setup{limits: hearth.Limits{FirstByte: 100 * time.Millisecond, Answer: 100 * time.Millisecond}})
		w.fault(t, w.primary, engine.Control{Fault: engine.Hang})
		a := w.post(t, chat(`, "stream": true`))
		if g := w.record(t, a); a.status != 200 || len(g.Attempts) != 2 || !g.Attempts[0].TimedOut {
			t.Errorf("%d %+v", a.status, g.Attempts)
		}
	})
	t.Run("three failures in a row and the primary is not tried any more", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.fault(t, w.primary, engine.Control{Fault: engine.F500})
		for range 5 {
			w.post(t, chat(""))
		}
		if n := w.primary.Seen().Requests; n != 3 {
			t.Errorf("%d requests reached the failing primary, want 3", n)
		}
	})
}

func TestBegunIsNeverRestarted(t *testing.T) {
	t.Run("a stream cut half-way ends in an error event, not in another provider", func(t *testing.T) {
		for _, fault := range []engine.Fault{engine.Cut, engine.ErrorEvent} {
			w := newWorld(t, setup{})
			w.fault(t, w.primary, engine.Control{Fault: fault, After: 8})
			a := w.post(t, chat(`, "stream": true`))
			ev := a.events()
			if a.status != 200 || len(ev) < 8 || ev[len(ev)-1] != "[DONE]" {
				t.Fatalf("%d %q", a.status, ev)
			}
			last := object(t, ev[len(ev)-2])
			if at(last, "choices", 0, "finish_reason") != "error" || at(last, "error", "code") != float64(502) {
				t.Errorf("%s: last chunk %s", fault, ev[len(ev)-2])
			}
			if n := w.backup.Seen().Requests; n != 0 {
				t.Errorf("%s: the backup was asked", fault)
			}
			if g := w.record(t, a); g.Error != "provider_error" || g.FinishReason != "error" || g.Bill.Cost != 0 {
				t.Errorf("%s: record %+v", fault, g)
			}
		}
	})
	t.Run("a whole answer cut after its headers is a 502", func(t *testing.T) {
		w := newWorld(t, setup{upstream: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Length", "1000")
			_, _ = rw.Write([]byte(`{"choices":[{"message":`))
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		})})
		a := w.post(t, chat(""))
		if e := object(t, a.body); a.status != 502 || at(e, "error", "type") != "provider_error" || w.backup.Seen().Requests != 0 {
			t.Errorf("%d %s, backup asked %d times", a.status, a.body, w.backup.Seen().Requests)
		}
	})
}

func TestWholeChainFails(t *testing.T) {
	for name, tc := range map[string]struct {
		primary, backup engine.Control
		limits          hearth.Limits
		status          int
		kind            string
	}{
		"all broken":             {primary: engine.Control{Fault: engine.F500}, backup: engine.Control{Fault: engine.Refuse}, status: 502, kind: "provider_error"},
		"all rate limited":       {primary: engine.Control{Fault: engine.F429, RetryAfter: 7}, backup: engine.Control{Fault: engine.F429, RetryAfter: 3}, status: 429, kind: "rate_limited"},
		"all reject it":          {primary: engine.Control{Fault: engine.F400}, backup: engine.Control{Fault: engine.F400}, status: 400, kind: "invalid_request"},
		"all time out":           {primary: engine.Control{Fault: engine.Hang}, backup: engine.Control{Fault: engine.Hang}, limits: hearth.Limits{Answer: 50 * time.Millisecond}, status: 504, kind: "timeout"},
		"one rejects, one fails": {primary: engine.Control{Fault: engine.F400}, backup: engine.Control{Fault: engine.F500}, status: 502, kind: "provider_error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{limits: tc.limits})
			w.fault(t, w.primary, tc.primary)
			w.fault(t, w.backup, tc.backup)
			a := w.post(t, chat(""))
			e := object(t, a.body)
			if a.status != tc.status || at(e, "error", "type") != tc.kind || at(e, "error", "metadata", "attempts", 1) == nil {
				t.Errorf("%d %s", a.status, a.body)
			}
			g := w.record(t, a)
			if g.Bill.Cost != 0 || g.HTTP != tc.status || g.Error != tc.kind || len(g.Attempts) != 2 {
				t.Errorf("record %+v", g)
			}
		})
	}
	t.Run("a Retry-After is not told for longer than the endpoint is left alone", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.fault(t, w.primary, engine.Control{Fault: engine.F429, RetryAfter: 7200})
		w.fault(t, w.backup, engine.Control{Fault: engine.F429, RetryAfter: 3600})
		a := w.post(t, chat(""))
		if at(object(t, a.body), "error", "availability", "retry_after") != float64(600) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("others are probing every endpoint", func(t *testing.T) {
		w := newWorld(t, setup{})
		for i := range 2 {
			w.cool(i)
			if _, ok := w.relay.health.Take(i, time.Now()); !ok {
				t.Fatal("no probe")
			}
		}
		a := w.post(t, chat(""))
		if e := object(t, a.body); a.status != 503 || at(e, "error", "type") != "endpoints_cooling_down" || at(e, "error", "availability", "retry_after") != float64(1) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("the last upstream's own words are told", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.fault(t, w.primary, engine.Control{Fault: engine.F400})
		w.fault(t, w.backup, engine.Control{Fault: engine.F400})
		e := object(t, w.post(t, chat("")).body)
		if raw, _ := at(e, "error", "metadata", "raw").(string); raw == "" || at(e, "error", "metadata", "provider_name") != "Backup" {
			t.Errorf("metadata %v", at(e, "error", "metadata"))
		}
	})
	t.Run("the smallest Retry-After of all", func(t *testing.T) {
		e := chainError([]hearth.Attempt{
			{Blame: hearth.BlameRateLimit, Status: 429, RetryAfter: 7 * time.Second},
			{Blame: hearth.BlameRateLimit, Status: 429, RetryAfter: 3 * time.Second},
		}, &tally{})
		if e.RetryAfter != 3*time.Second {
			t.Errorf("got %s", e.RetryAfter)
		}
	})
}
