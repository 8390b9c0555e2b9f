package upstream

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// What a verdict keeps of what the upstream said.
func TestVerdictKeeps(t *testing.T) {
	for _, c := range []struct {
		name  string
		judge judging
		want  Failure
	}{
		{"the text", answered(500, said("boom")), Failure{Status: 500, Raw: "boom", Blame: hearth.BlameEndpoint}},
		{"the title of a page", answered(502, "<html><title>502 Bad Gateway</title></html>"), Failure{Status: 502, Raw: "502 Bad Gateway", Blame: hearth.BlameEndpoint}},
		{"the field", answered(400, `{"error":{"message":"no","param":"tools[0]"}}`), Failure{Status: 400, Raw: "no", Param: "tools[0]"}},
		{"the words of a moderation", answered(403, `{"error":{"message":"flagged","metadata":{"reasons":[]}}}`), Failure{Status: 403, Raw: "flagged"}},
		{"a list of reasons as it came", answered(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`), Failure{Status: 422, Raw: `[{"loc":["body"],"msg":"field required"}]`}},
		{"a status of its own in the stream", inside(`{"error":{"code":429,"message":"slow"}}`), Failure{Status: 429, Raw: "slow", Blame: hearth.BlameRateLimit}},
		{"the status of a word in the stream", inside(coding("server_error")), Failure{Code: "server_error", Status: 500, Raw: "m", Blame: hearth.BlameEndpoint}},
		{"502 for what has no status", inside(`{"error":{"code":1302,"message":"x"}}`), Failure{Status: 502, Raw: "x", Blame: hearth.BlameEndpoint}},
		{"a number before a word", inside(`{"error":{"code":503,"type":"rate_limit_error","message":"x"}}`), Failure{Status: 503, Raw: "x", Blame: hearth.BlameEndpoint}},
		{"nothing of a redirect", answered(307, "elsewhere"), Failure{Status: 307, Blame: hearth.BlameEndpoint}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.judge(t)
			got.Message = ""
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if f := judgeInBand(&dialect.UpstreamError{Code: 200, Message: "x"}, false, now); f.Status != 502 {
		t.Errorf("an error of status %d, want 502", f.Status)
	}
}

type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestJudgeSend(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	gone := context.Canceled
	for _, c := range []struct {
		name       string
		err, cause error
		timedOut   bool
		how        string
		message    string
	}{
		{"refused", dial(syscall.ECONNREFUSED), nil, false, "unsent", "connection refused"},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, nil, false, "broke", "connection reset"},
		{"broken pipe", &net.OpError{Op: "write", Err: syscall.EPIPE}, nil, false, "broke", "connection reset"},
		{"connect timeout", &net.OpError{Op: "dial", Err: timeout{errors.New("i/o timeout")}}, nil, true, "unsent", "connection timed out"},
		{"no route", dial(syscall.EHOSTUNREACH), nil, false, "unsent", "the connection broke before an answer"},
		{"no such name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "secret.internal", IsNotFound: true}}, nil, false, "unsent", "the provider's name does not resolve"},
		{"resolver silent", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, nil, true, "unsent", "the provider's name does not resolve"},
		{"certificate", errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), nil, false, "broke", "TLS failure"},
		{"alert", &net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, nil, false, "broke", "TLS failure"},
		{"plain HTTP", errors.New("http: server gave HTTP response to HTTPS client"), nil, false, "broke", "TLS failure"},
		{"not local", fmt.Errorf("dial: %w", errNotLocal), nil, false, "said", errNotLocal.Error()},
		{"EOF", io.EOF, nil, false, "broke", "the connection broke before an answer"},
		{"headers too long", errors.New("net/http: server response headers exceeded 262144 bytes; aborted"), nil, false, "said", "provider sent headers of more than 256 KiB"},
		{"no HTTP", errors.New(`malformed HTTP response "SSH-2.0"`), nil, false, "said", "provider does not speak HTTP"},
		{"no gzip", fmt.Errorf("read: %w", gzip.ErrHeader), nil, false, "said", "the answer is not the gzip that it is called"},
		{"event too long", sse.ErrTooLong, nil, false, "said", "the stream held an event of more than 32 MiB"},
		{"first byte", gone, errFirstByte, true, "broke", errFirstByte.Error()},
		{"answer", gone, errAnswer, true, "broke", errAnswer.Error()},
		{"idle", gone, errIdle, true, "broke", errIdle.Error()},
		{"total", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, errTotal, true, "broke", errTotal.Error()},
		{"closed", gone, gone, false, "broke", "the connection was closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Failure{Blame: hearth.BlameEndpoint, TimedOut: c.timedOut, Message: c.message, Err: c.err}
			want.Broke, want.Unsent = c.how != "said", c.how == "unsent"
			if d := cmp.Diff(want, judgeSend(c.err, c.cause), cmpopts.EquateErrors()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	h := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		h    http.Header
		want time.Duration
	}{
		{"nothing", nil, 0},
		{"seconds", h("Retry-After", "12"), 12 * time.Second},
		{"part of a second", h("Retry-After", "0.25"), 250 * time.Millisecond},
		{"duration", h("Retry-After", "1m30s"), 90 * time.Second},
		{"date", h("Retry-After", "Sun, 01 Mar 2026 12:01:30 GMT"), 90 * time.Second},
		{"date of the old kind", h("Retry-After", "Sunday, 01-Mar-26 12:00:05 GMT"), 5 * time.Second},
		{"date that is over", h("Retry-After", "Sun, 01 Mar 2026 11:00:00 GMT"), 0},
		{"date of another age", h("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), day},
		{"zero", h("Retry-After", "0"), 0},
		{"negative", h("Retry-After", "-5"), 0},
		{"more than a day", h("Retry-After", "999999"), day},
		{"absurd", h("Retry-After", "1e300"), day},
		{"past float64", h("Retry-After", "1e999"), day},
		{"below float64", h("Retry-After", "-1e999"), 0},
		{"many digits", h("Retry-After", strings.Repeat("9", 400)), day},
		{"infinite", h("Retry-After", "Inf"), day},
		{"not a number", h("Retry-After", "NaN"), 0},
		{"negative duration", h("Retry-After", "-3s"), 0},
		{"longest duration", h("Retry-After", "2562047h47m16s"), day},
		{"words", h("Retry-After", "soon"), 0},
		{"milliseconds first", h("Retry-After", "2", "Retry-After-Ms", "1250"), 1250 * time.Millisecond},
		{"words, then a reset", h("Retry-After", "soon", "X-Ratelimit-Reset-Requests", "6m0s"), 6 * time.Minute},
		{"the longer of two resets", h("X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Reset-Tokens", "9s"), 9 * time.Second},
		{"the reset of what is used up", h("X-Ratelimit-Reset-Requests", "20ms", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Tokens", "9s", "X-Ratelimit-Remaining-Tokens", "100"), 20 * time.Millisecond},
		{"reset in seconds", h("X-Ratelimit-Reset", "30"), 30 * time.Second},
		{"reset as a moment in seconds", h("X-Ratelimit-Reset", fmt.Sprint(now.Add(time.Minute).Unix())), time.Minute},
		{"reset as a moment in milliseconds", h("X-Ratelimit-Reset", fmt.Sprint(now.Add(1500*time.Millisecond).UnixMilli())), 1500 * time.Millisecond},
		{"a moment as Anthropic writes it", h("Anthropic-Ratelimit-Requests-Reset", "2026-03-01T12:00:09Z"), 9 * time.Second},
		{"what is used up, as Anthropic has it", h("Anthropic-Ratelimit-Requests-Reset", "2026-03-01T12:00:09Z", "Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2026-03-01T13:00:00Z", "Anthropic-Ratelimit-Tokens-Remaining", "100"), 9 * time.Second},
		{"the longer of two that are used up", h("X-Ratelimit-Reset-Requests", "20ms", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Tokens", "9s", "X-Ratelimit-Remaining-Tokens", "0"), 9 * time.Second},
		{"a limit of the day that is not used up", h("X-Ratelimit-Reset-Requests-Day", "33011", "X-Ratelimit-Remaining-Requests-Day", "99", "X-Ratelimit-Reset-Tokens-Minute", "11.5"), 11500 * time.Millisecond},
		{"reset of the standard", h("Ratelimit-Reset", "30"), 30 * time.Second},
		{"reset that is over", h("X-Ratelimit-Reset", fmt.Sprint(now.Add(-time.Minute).Unix())), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := retryAfter(c.h, now); got != c.want {
				t.Errorf("retryAfter = %v, want %v", got, c.want)
			}
		})
	}
}

func TestHide(t *testing.T) {
	const key = "9f8e7d6c-5b4a"
	for _, c := range []struct{ name, raw, want string }{
		{"harmless", "model 9f8e is gone", "model 9f8e is gone"},
		{"quoted", "key '" + key + "' is bad", ""},
		{"cut at the end", "key is 9f8e7d6c-5…", ""},
		{"ends in the beginning", "key is 9f8e7d6c", ""},
		{"too little to matter", "key is 9f8e7", "key is 9f8e7"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Failure{Raw: c.raw, Param: "messages"}
			if f.hide([]string{"another-secret", key}); f.Raw != c.want || f.Param != "messages" {
				t.Errorf("Raw = %q, want %q; Param = %q", f.Raw, c.want, f.Param)
			}
		})
	}
	f := Failure{Param: "header " + key[:10], Code: "code " + key[:10]}
	if f.hide([]string{key}); f.Param != "" || f.Code != "" {
		t.Errorf("Param = %q, Code = %q", f.Param, f.Code)
	}
	if s := appendSecret(appendSecret(nil, "1"), key); len(s) != 1 || s[0] != key {
		t.Errorf("secrets = %q: a short header value stands in every text", s)
	}
}
