package relay

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
)

const tooLong = `{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`

// failing are the ways in which candidates of the table fail.
var failing = map[string]part{
	"broken":      {serve: refuses(500, `{"error":{"message":"boom"}}`)},
	"unavailable": {serve: refuses(503, `{"error":{"message":"no capacity"}}`)},
	"limited 7 s": {serve: refuses(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7")},
	"limited 3 s": {serve: refuses(429, `{"error":{"message":"slow down"}}`, "Retry-After", "3")},
	"limited 2 h": {serve: refuses(429, `{"error":{"message":"slow down"}}`, "Retry-After", "7200")},
	"silent":      {serve: silent},
	"rejects 400": {serve: refuses(400, `{"error":{"message":"top_p is out of range","param":"top_p"}}`)},
	"rejects 422": {serve: refuses(422, `{"error":{"message":"no such tool"}}`)},
	"rejects 413": {serve: refuses(413, `{"error":{"message":"too many bytes"}}`)},
	"moderates":   {serve: refuses(403, `{"error":{"message":"flagged","code":403,"metadata":{"reasons":["violence"],"flagged_input":"x"}}}`)},
	"no account":  {serve: refuses(401, `{"error":{"message":"bad key sk-1234567890"}}`)},
	"too long":    {serve: refuses(400, tooLong)},
	"asleep":      {serve: answers, local: true, load: time.Hour},
	"failed":      {serve: answers, local: true, broken: true},
	"too much":    {serve: huge},
}

// huge is a good answer that is larger than all answers of a scene may be together.
func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(strings.Replace(whole, "ab", strings.Repeat("ab", 2<<20), 1)))
}

func TestWholeChain(t *testing.T) {
	for _, c := range []struct {
		chain  string // ways of failing, with commas between them
		status int
		kind   hearth.ErrorType
		retry  [2]time.Duration // at least, at most
		says   string           // in the message
		raw    string
	}{
		{"broken", 502, hearth.ErrProvider, [2]time.Duration{}, "no provider answered; the last one, P0: ", "boom"},
		{"broken, unavailable", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "no capacity"},
		{"no account, no account", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", ""},

		{"limited 7 s, limited 3 s", 429, hearth.ErrRateLimited, [2]time.Duration{3 * time.Second, 3 * time.Second}, "rate limited", "slow down"},
		{"limited 2 h", 429, hearth.ErrRateLimited, [2]time.Duration{health.MaxRetryAfter, health.MaxRetryAfter}, "rate limited", "slow down"},
		{"limited 7 s, broken", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "boom"},
		{"broken, limited 7 s", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "slow down"},

		{"rejects 400", 400, hearth.ErrInvalidRequest, [2]time.Duration{}, "top_p is out of range", "top_p is out of range"},
		{"rejects 400, rejects 422", 422, hearth.ErrInvalidRequest, [2]time.Duration{}, "no such tool", "no such tool"},
		{"rejects 413", 413, hearth.ErrPayloadTooLarge, [2]time.Duration{}, "too many bytes", "too many bytes"},
		{"rejects 400, moderates", 403, hearth.ErrInvalidRequest, [2]time.Duration{}, "rejected", "flagged"},
		{"rejects 400, broken", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "boom"},
		{"broken, rejects 400", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "top_p"},
		{"limited 3 s, rejects 400", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "top_p"},

		{"too long, too long", 400, hearth.ErrContextLength, [2]time.Duration{}, "maximum context length is 8192", "maximum context length"},
		{"too long, rejects 422", 422, hearth.ErrInvalidRequest, [2]time.Duration{}, "no such tool", "no such tool"},
		{"rejects 422, too long", 400, hearth.ErrInvalidRequest, [2]time.Duration{}, "maximum context length", "maximum context length"},
		{"too long, broken", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "boom"},

		{"silent, silent", 504, hearth.ErrTimeout, [2]time.Duration{}, "timed out", ""},
		{"silent, broken", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "boom"},
		{"broken, silent", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", ""},

		{"broken, asleep", 503, hearth.ErrModelLoading, [2]time.Duration{time.Second, time.Minute}, "is not ready", ""},
		{"limited 3 s, asleep", 503, hearth.ErrModelLoading, [2]time.Duration{time.Second, time.Minute}, "is not ready", ""},
		{"rejects 400, failed", 503, hearth.ErrModelLoading, [2]time.Duration{time.Second, time.Minute}, "engine exited with code 1", ""},
		{"asleep, broken", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "boom"},
		{"asleep, limited 3 s", 502, hearth.ErrProvider, [2]time.Duration{}, "the last one, P1: ", "slow down"},

		{"too much", 503, hearth.ErrOverloaded, [2]time.Duration{time.Second, time.Second}, "no memory", ""},
		{"too much, broken", 503, hearth.ErrOverloaded, [2]time.Duration{time.Second, time.Second}, "no memory", "boom"},
	} {
		t.Run(c.chain, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var parts []part
				for name := range strings.SplitSeq(c.chain, ", ") {
					parts = append(parts, failing[name])
				}
				s := stage(t, Options{}, parts...)
				a := s.ask(t.Context(), chat(""))
				if a.err == nil || a.err.Type != c.kind || a.err.HTTPStatus() != c.status || a.status != 0 {
					t.Fatalf("%v %d", a.err, a.status)
				}
				if r := a.err.RetryAfter; r < c.retry[0] || r > c.retry[1] {
					t.Errorf("Retry-After %v", r)
				}
				if !strings.Contains(a.err.Message, c.says) || !strings.Contains(a.err.Raw, c.raw) || c.raw == "" && a.err.Raw != "" {
					t.Errorf("message %q, raw %q", a.err.Message, a.err.Raw)
				}
				if a.err.Provider != s.cat.Endpoints[len(parts)-1].Provider.Name || len(a.err.Requested) != 1 || a.err.Requested[0] != model {
					t.Errorf("provider %q of %v", a.err.Provider, a.err.Requested)
				}
				if own := strings.HasSuffix(c.chain, "too long"); (a.err.ProviderCode == "context_length_exceeded") != own {
					t.Errorf("the provider's word is %q", a.err.ProviderCode)
				}
				checkFailed(t, s, a, len(parts))
			})
		})
	}
}

// checkFailed checks the record of a chain that failed as a whole, and the body of its error.
func checkFailed(t *testing.T, s *scene, a asked, attempts int) {
	t.Helper()
	g := s.record(a.id)
	if g == nil || g.HTTP != a.err.HTTPStatus() || g.Error != string(a.err.Type) || len(g.Attempts) != attempts || g.Bill.Cost != 0 || g.Provider != "" {
		t.Fatalf("record %+v", g)
	}
	body := object(t, string(AppendError(nil, a.err)))
	for i, p := range g.Attempts {
		var status any = string(p.Skip)
		if p.Status != 0 {
			status = float64(p.Status)
		} else if p.Skip == "" {
			status = nil
		}
		if got := at(body, "error", "metadata", "attempts", i, "status"); got != status {
			t.Errorf("attempt %d in the body has status %v, want %v", i, got, status)
		}
		if p.Status == 0 && p.Skip == "" && !p.TimedOut {
			t.Errorf("attempt %d has no status: %+v", i, p)
		}
		if strings.Contains(p.Message, "sk-1234567890") {
			t.Errorf("a key in %q", p.Message)
		}
	}
	if slot := g.Attempts[attempts-1].Skip; slot.Slot() && at(body, "error", "metadata", "slot_status") != string(slot) {
		t.Errorf("metadata %v", at(body, "error", "metadata"))
	}
	synctest.Wait()
	s.calm()
}

// What became of a candidate between the building of the chain and its turn.
func TestWholeChain_Meanwhile(t *testing.T) {
	slow := after(3*time.Second, refuses(500, `{"error":{"message":"boom"}}`))
	limited := after(3*time.Second, refuses(429, `{"error":{"message":"slow down"}}`, "Retry-After", "9"))
	cool := func(s *scene, i int) {
		for range health.Threshold {
			p, _ := s.health.Take(i, time.Now())
			p.Done(health.Failure, 0, time.Now())
		}
	}
	limit := func(s *scene, i int) {
		p, _ := s.health.Take(i, time.Now())
		p.Done(health.RateLimited, 5*time.Second, time.Now())
	}
	for _, c := range []struct {
		name  string
		first http.HandlerFunc
		turn  func(*scene, int)
		kind  hearth.ErrorType
		skip  hearth.SkipReason
		retry time.Duration
	}{
		{"cooled, after one that broke", slow, cool, hearth.ErrProvider, hearth.SkipCooldown, 0},
		{"cooled, after one that was limited", limited, cool, hearth.ErrRateLimited, hearth.SkipCooldown, 9 * time.Second},
		{"limited, after one that was limited", limited, limit, hearth.ErrRateLimited, hearth.SkipRateLimited, 3 * time.Second},
		{"limited, after one that broke", slow, limit, hearth.ErrProvider, hearth.SkipRateLimited, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, part{serve: c.first}, part{serve: answers})
				time.AfterFunc(time.Second, func() { c.turn(s, 1) })
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if a.err == nil || a.err.Type != c.kind || a.err.RetryAfter != c.retry || g.Attempts[1].Skip != c.skip || g.Attempts[1].Status != 0 {
					t.Errorf("%v after %v, %+v", a.err, a.err.RetryAfter, g.Attempts)
				}
				if s.peers[1].seen.Load() != 0 {
					t.Error("it was asked")
				}
			})
		})
	}
	t.Run("all of them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, part{serve: answers, local: true, load: 2 * time.Second}, part{serve: answers})
			time.AfterFunc(time.Second, func() { cool(s, 0); cool(s, 1) })
			a := s.ask(t.Context(), chat(""))
			if a.err == nil || a.err.Type != hearth.ErrCoolingDown || a.err.RetryAfter > 59*time.Second || a.err.RetryAfter <= 58*time.Second {
				t.Errorf("%v, %v", a.err, a.err.RetryAfter)
			}
			checkFailed(t, s, a, 2)
		})
	})
}

// Callers who were refused in one second do not come back in one second; who is told of less than a minute is not told
// of more.
func TestSpread(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second, 10 * time.Second, 55 * time.Second, time.Minute, 10 * time.Minute} {
		base, least, most := max(d, time.Second), time.Duration(1<<62), time.Duration(0)
		for range 2000 {
			s := spread(d)
			least, most = min(least, s), max(most, s)
		}
		limit := base * 6 / 5
		if base <= time.Minute {
			limit = min(limit, time.Minute)
		}
		if least < base || most > limit || most-least < (limit-base)/2 {
			t.Errorf("%v becomes %v to %v, want %v to %v", d, least, most, base, limit)
		}
	}
}
