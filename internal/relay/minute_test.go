package relay

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/upstream"
)

// estimated is the estimate for the prompt of chat.
const estimated = 57

// tokensLeft is what the limit per minute of the scene's key leaves now.
func (s *scene) tokensLeft() int64 {
	probe := *s.key
	probe.RequestsPerMinute = 0
	u, left, err := s.relay.minutes.Admit(&probe, 0, time.Now())
	if err != nil {
		s.t.Error(err)
	}
	u.Settle(0, time.Now())
	return left.Tokens.Left
}

// What is held of a limit per minute comes back once, whatever becomes of the request: what was reported stays used, or the
// estimate where something worked at a prompt without a report.
func TestMinute_Settled(t *testing.T) {
	gone := func(after time.Duration, cause error) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, leave := context.WithCancelCause(ctx)
			time.AfterFunc(after, func() { leave(cause) })
			return ctx
		}
	}
	for _, c := range []struct {
		name  string
		parts []part
		body  string
		leave func(context.Context) context.Context
		edit  func(*caller)
		want  string // the error
		used  int64
	}{
		{name: "an answer", parts: []part{good}, used: 5},
		{name: "a stream", parts: []part{{serve: speaks(0, word("a"), lastWord)}}, body: stream, used: 5},
		{name: "an answer without a report", parts: []part{{serve: func(w http.ResponseWriter, _ *http.Request) {
			refuses(200, strings.Replace(whole, `"usage":`, `"other":`, 1))(w, nil)
		}}}, used: estimated},
		{name: "the second answers", parts: []part{boom, good}, used: 5},
		{name: "every candidate fails", parts: []part{boom, boom}, want: "provider_error"},
		{name: "no candidate", parts: []part{good}, body: `, "provider": {"only": ["p9"]}`, want: "no_endpoints_found"},
		{name: "a stream breaks off", parts: []part{cut}, body: stream, used: estimated},
		{name: "the caller leaves before the answer", parts: []part{mute}, leave: gone(time.Second, context.Canceled), used: estimated},
		{name: "the caller leaves a stream", parts: []part{talks}, body: stream, leave: gone(1500*time.Millisecond, context.Canceled), used: estimated},
		{name: "the caller leaves before anybody has it", parts: []part{never}, leave: gone(time.Second, context.Canceled)},
		{name: "the gateway leaves", parts: []part{never}, leave: gone(time.Second, upstream.ErrShutdown), want: "overloaded"},
		{name: "a panic", parts: []part{{serve: speaks(0, word("a"), lastWord)}}, body: stream, edit: func(k *caller) {
			k.write = func(int, []byte) error { panic("a defect") }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.parts...)
				s.key.TokensPerMinute = 60 // one runs out in a second
				ctx, edit := t.Context(), func(*caller) {}
				if c.leave != nil {
					ctx = c.leave(ctx)
				}
				if c.edit != nil {
					edit = c.edit
				}
				a := s.ask(ctx, chat(c.body), edit)
				got := ""
				if a.err != nil {
					got = string(a.err.Type)
				}
				if got != c.want {
					t.Errorf("%v, want %q", a.err, c.want)
				}
				want := 60 - int64(math.Ceil(max(float64(c.used)-time.Since(s.start).Seconds(), 0)))
				if left := s.tokensLeft(); left != want || s.relay.minutes.Pending() != 0 {
					t.Errorf("%d are left after %v, want %d; %d pending", left, time.Since(s.start), want, s.relay.minutes.Pending())
				}
				for name, value := range map[string]string{"X-RateLimit-Limit-Tokens": "60", "X-RateLimit-Remaining-Tokens": "3", "X-RateLimit-Reset-Tokens": "57s", "X-RateLimit-Limit-Requests": ""} {
					if got := strings.Join(a.header[name], " "); got != value {
						t.Errorf("%s: %q, want %q", name, got, value)
					}
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
}

// A request that cannot have its record uses no tokens.
func TestMinute_NoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, good)
		s.key.TokensPerMinute = 60
		n := s.spareRecords()
		for range n {
			s.must(s.journal.Reserve())
		}
		a := s.ask(t.Context(), chat(""))
		for range n {
			s.journal.Unreserve()
		}
		if a.err == nil || a.err.Type != hearth.ErrOverloaded || s.tokensLeft() != 60 || s.relay.minutes.Pending() != 0 {
			t.Errorf("%v, %d left", a.err, s.tokensLeft())
		}
	})
}

// The tokens are settled before the caller knows that the answer is complete: whoever sends the next request then has them.
func TestMinute_SettledBeforeTheEnd(t *testing.T) {
	for name, c := range map[string]struct{ extra, last string }{"an answer": {"", `"usage"`}, "a stream": {stream, "[DONE]"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{serve: answers})
				if c.extra != "" {
					s.peers[0].plays(speaks(0, word("a"), lastWord))
				}
				s.key.TokensPerMinute = 60
				seen := false
				a := s.ask(t.Context(), chat(c.extra), func(k *caller) {
					k.write = func(_ int, b []byte) error {
						if bytes.Contains(b, []byte(c.last)) {
							seen = true
							if s.tokensLeft() != 55 {
								t.Errorf("%d are left when the last bytes leave", s.tokensLeft())
							}
						}
						return nil
					}
				})
				if a.err != nil || !seen {
					t.Errorf("%v, seen %v", a.err, seen)
				}
			})
		})
	}
}

func TestMinute_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, good)
		ask := func(want string, header map[string]string) asked {
			t.Helper()
			a := s.ask(t.Context(), chat(""))
			got := "served"
			if a.err != nil {
				got = string(a.err.Type)
			}
			if got != want {
				t.Errorf("%v, want %s", a.err, want)
			}
			for name, value := range header {
				if got := strings.Join(a.header[name], " "); got != value {
					t.Errorf("%s: %q, want %q", name, got, value)
				}
			}
			return a
		}
		ask("served", map[string]string{"X-RateLimit-Limit-Requests": "", "X-RateLimit-Limit-Tokens": ""})
		s.key.RequestsPerMinute = 2
		ask("served", map[string]string{"X-RateLimit-Limit-Requests": "2", "X-RateLimit-Remaining-Requests": "1", "X-RateLimit-Reset-Requests": "30s"})
		ask("served", map[string]string{"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1m0s"})
		s.follow("KRW", Options{}, good)
		s.relay = s.relay.next // a reload gives nothing back
		for range 1000 {
			a := ask("rate_limited", map[string]string{"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1m0s"})
			if a.err == nil || a.err.RetryAfter != 30*time.Second || s.record(a.id) != nil {
				t.Fatalf("%v, recorded %v", a.err, s.record(a.id))
			}
		}
		if n := s.peers[0].seen.Load(); n != 3 {
			t.Errorf("the provider saw %d requests", n)
		}
		<-time.After(30 * time.Second)
		ask("served", nil)
		ask("rate_limited", nil)
		s.key.RequestsPerMinute = 0
		s.key.TokensPerMinute = 50
		if a := ask("payload_too_large", nil); a.err == nil || a.err.RetryAfter != 0 || !strings.Contains(a.err.Message, "57 tokens") {
			t.Errorf("%v", a.err)
		}
		s.calm()
	})
}

// A thousand at once use no more than the minute has.
func TestMinute_Parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stageFor(t, 64<<20, Options{}, part{serve: after(time.Second, answers)})
		s.key.TokensPerMinute = 10*(estimated+20) + 76
		ended, served := make(chan asked), 0
		for range 1000 {
			go func() { ended <- s.ask(t.Context(), chat(`, "max_tokens": 20`)) }()
		}
		for range 1000 {
			switch a := <-ended; {
			case a.err == nil:
				served++
			case a.err.Type != hearth.ErrRateLimited || a.err.RetryAfter <= 0:
				t.Errorf("%v after %v", a.err, a.err.RetryAfter)
			}
		}
		if served != 10 || s.peers[0].seen.Load() != 10 {
			t.Errorf("%d were served, %d sent", served, s.peers[0].seen.Load())
		}
		if left := s.tokensLeft(); left != s.key.TokensPerMinute-50+14 { // as many run out in the second that answers take
			t.Errorf("%d of %d are left", left, s.key.TokensPerMinute)
		}
		s.calm()
	})
}

func TestMayUse(t *testing.T) {
	for _, c := range []struct {
		request hearth.Request
		want    int64
	}{
		{hearth.Request{Estimate: 57}, 57},
		{hearth.Request{Estimate: 57, Choices: 9}, 57},
		{hearth.Request{Estimate: 57, MaxTokens: 20}, 77},
		{hearth.Request{Estimate: 57, MaxTokens: 20, Choices: 3}, 117},
		{hearth.Request{Estimate: math.MaxInt, MaxTokens: math.MaxInt, Choices: math.MaxInt}, 1<<40 + 1<<60},
	} {
		if got := mayUse(&dialect.Chat{Request: c.request}); got != c.want {
			t.Errorf("%+v: %d, want %d", c.request, got, c.want)
		}
	}
}

func TestReset(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 1: "1ms", 120 * time.Millisecond: "120ms", time.Second + 1: "1.001s", 6 * time.Minute: "6m0s"} {
		if got := reset(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
