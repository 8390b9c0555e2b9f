package upstream

import (
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

// judged is a Failure without its error, and with the text that a status always gets left out.
func judged(f Failure) Failure {
	f.Err = nil
	if f.Status != 0 {
		f.Message = ""
	}
	return f
}

func TestJudgeStatus(t *testing.T) {
	const (
		none  = hearth.BlameNobody
		blame = hearth.BlameEndpoint
		limit = hearth.BlameRateLimit
		acct  = hearth.BlameAccount
	)
	openAI := func(msg string) string { return fmt.Sprintf(`{"error":{"message":%q,"type":"x","code":null}}`, msg) }
	for _, c := range []struct {
		name   string
		status int
		body   string
		header http.Header
		local  bool
		want   Failure
	}{
		{"500", 500, openAI("boom"), nil, false, Failure{Blame: blame, Raw: "boom"}},
		{"502 of a proxy in HTML", 502, "<html><title>502 Bad Gateway</title></html>", nil, false, Failure{Blame: blame, Raw: "502 Bad Gateway"}},
		{"503", 503, openAI("overloaded"), nil, false, Failure{Blame: blame, Raw: "overloaded"}},
		{"503 with Retry-After", 503, "", http.Header{"Retry-After": {"7"}}, false, Failure{Blame: blame, Raw: "Service Unavailable"}},
		{"529 overloaded", 529, openAI("Overloaded"), nil, false, Failure{Blame: blame, Raw: "Overloaded"}},
		{"408", 408, "", nil, false, Failure{Blame: blame, Raw: "Request Timeout"}},
		{"404 model withdrawn", 404, openAI("no such model"), nil, false, Failure{Blame: blame, Raw: "no such model"}},
		{"405", 405, "", nil, false, Failure{Blame: blame, Raw: "Method Not Allowed"}},
		{"407 of the operator's proxy", 407, "", nil, false, Failure{Blame: blame, Raw: "Proxy Authentication Required"}},
		{"410", 410, "", nil, false, Failure{Blame: blame, Raw: "Gone"}},
		{"redirect", 307, "elsewhere", nil, false, Failure{Blame: blame}},
		{"not modified", 304, "", nil, false, Failure{Blame: blame}},
		{"switching protocols", 101, "", nil, false, Failure{Blame: blame}},

		{"429 with seconds", 429, openAI("slow down"), http.Header{"Retry-After": {"7"}}, false, Failure{Blame: limit, Raw: "slow down", RetryAfter: 7 * time.Second}},
		{"429 without", 429, "", nil, false, Failure{Blame: limit, Raw: "Too Many Requests"}},
		{"429 local", 429, "", nil, true, Failure{Blame: limit, Raw: "Too Many Requests"}},

		{"401 quotes the key", 401, openAI("Incorrect API key provided: 9f8e7d6c"), nil, false, Failure{Blame: acct}},
		{"401 of an engine", 401, openAI("Invalid API Key"), nil, true, Failure{Blame: blame}},
		{"402", 402, openAI("key 9f8e7d6c has no credits"), nil, false, Failure{Blame: blame}},
		{"402 wants fewer max_tokens", 402, openAI("This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 12"), nil, false,
			Failure{Blame: none, Raw: "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 12"}},
		{"403", 403, openAI("key 9f8e7d6c may not"), nil, false, Failure{Blame: blame}},
		{"403 that speaks of max_tokens", 403, openAI("fewer max_tokens"), nil, false, Failure{Blame: blame}},
		{"403 with moderation data", 403, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}`, nil, false,
			Failure{Blame: none, Raw: "flagged"}},

		{"400", 400, openAI("bad"), nil, false, Failure{Blame: none, Raw: "bad"}},
		{"400 context overflow of llama-server", 400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, nil, true,
			Failure{Blame: none, Raw: "the request exceeds the available context size. try increasing the context size or enable context shift"}},
		{"400 context overflow of vLLM", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, nil, true,
			Failure{Blame: none, Raw: "This model's maximum context length is 4096 tokens."}},
		{"400 of Ollama", 400, `{"error":"invalid message"}`, nil, true, Failure{Blame: none, Raw: "invalid message"}},
		{"413", 413, "", nil, false, Failure{Blame: none, Raw: "Request Entity Too Large"}},
		{"422", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, nil, false, Failure{Blame: none, Raw: `[{"loc":["body"],"msg":"field required"}]`}},
		{"409", 409, "", nil, false, Failure{Blame: none, Raw: "Conflict"}},
		{"451", 451, "", nil, false, Failure{Blame: none, Raw: "Unavailable For Legal Reasons"}},

		{"500 no image projector", 500, openAI("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), nil, true,
			Failure{Blame: none, Raw: "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"}},
		{"500 bad JSON", 500, openAI("[json.exception.parse_error.101] parse error at line 1"), nil, true, Failure{Blame: none, Raw: "[json.exception.parse_error.101] parse error at line 1"}},
		{"500 output parser", 500, openAI("Failed to parse input at pos 7"), nil, true, Failure{Blame: none, Raw: "Failed to parse input at pos 7"}},
		{"500 context", 500, openAI("Context size has been exceeded."), nil, true, Failure{Blame: none, Raw: "Context size has been exceeded."}},
		{"503 loading", 503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, nil, true, Failure{Blame: none, Loading: true, Raw: "Loading model"}},
		{"503 loading elsewhere", 503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, nil, false, Failure{Blame: blame, Raw: "Loading model"}},
		{"503 of an engine", 503, openAI("no slot"), nil, true, Failure{Blame: blame, Raw: "no slot"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judgeStatus(c.status, dialect.ReadError(c.status, []byte(c.body)), c.header, c.local, now)
			if !strings.Contains(got.Message, fmt.Sprint(c.status)) {
				t.Errorf("message %q does not name the status", got.Message)
			}
			c.want.Status = c.status
			if d := cmp.Diff(c.want, judged(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestJudgeInBand(t *testing.T) {
	for _, c := range []struct {
		name string
		data string
		want Failure
	}{
		{"code", `{"error":{"code":429,"message":"slow"}}`, Failure{Status: 429, Blame: hearth.BlameRateLimit, Raw: "slow"}},
		{"code of a request's fault", `{"error":{"code":400,"message":"bad"}}`, Failure{Status: 400, Raw: "bad"}},
		{"key refused", `{"error":{"code":401,"message":"key abc"}}`, Failure{Status: 401, Blame: hearth.BlameAccount}},
		{"word for a code", `{"error":{"code":"server_error","message":"x"}}`, Failure{Status: 502, Blame: hearth.BlameEndpoint, Raw: "x"}},
		{"code that is no status", `{"error":{"code":1302,"message":"x"}}`, Failure{Status: 502, Blame: hearth.BlameEndpoint, Raw: "x"}},
		{"text", `{"error":"x"}`, Failure{Status: 502, Blame: hearth.BlameEndpoint, Raw: "x"}},
		{"context gone mid-stream", `{"error":{"code":500,"message":"Context size has been exceeded."}}`, Failure{Status: 500, Raw: "Context size has been exceeded."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s dialect.Stamp
			_, chunk, err := s.AppendChunk(nil, []byte(c.data))
			if err != nil || chunk.Err == nil {
				t.Fatalf("AppendChunk = %+v, %v; want an in-band error", chunk, err)
			}
			if d := cmp.Diff(c.want, judged(judgeInBand(chunk.Err, false, now))); d != "" {
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
		message    string
	}{
		{"refused", dial(syscall.ECONNREFUSED), nil, false, "connection refused"},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, nil, false, "connection reset"},
		{"broken pipe", &net.OpError{Op: "write", Err: syscall.EPIPE}, nil, false, "connection reset"},
		{"connect timeout", &net.OpError{Op: "dial", Err: timeout{errors.New("i/o timeout")}}, nil, true, "connection timed out"},
		{"no route", dial(syscall.EHOSTUNREACH), nil, false, "the connection broke before an answer"},
		{"no such name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "secret.internal", IsNotFound: true}}, nil, false, "the provider's name does not resolve"},
		{"resolver silent", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, nil, true, "the provider's name does not resolve"},
		{"certificate", errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), nil, false, "TLS failure"},
		{"alert", &net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, nil, false, "TLS failure"},
		{"plain HTTP", errors.New("http: server gave HTTP response to HTTPS client"), nil, false, "TLS failure"},
		{"not local", fmt.Errorf("dial: %w", errNotLocal), nil, false, errNotLocal.Error()},
		{"EOF", io.EOF, nil, false, "the connection broke before an answer"},
		{"event too long", sse.ErrTooLong, nil, false, "the stream held an event of more than 32 MiB"},
		{"first byte", gone, errFirstByte, true, errFirstByte.Error()},
		{"answer", gone, errAnswer, true, errAnswer.Error()},
		{"idle", gone, errIdle, true, errIdle.Error()},
		{"total", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, errTotal, true, errTotal.Error()},
		{"closed", gone, gone, false, "the connection was closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Failure{Blame: hearth.BlameEndpoint, TimedOut: c.timedOut, Message: c.message, Err: c.err}
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
			f := Failure{Raw: c.raw}
			if f.hide([]string{"another-secret", key}); f.Raw != c.want {
				t.Errorf("Raw = %q, want %q", f.Raw, c.want)
			}
		})
	}
	if s := appendSecret(appendSecret(nil, "1"), key); len(s) != 1 || s[0] != key {
		t.Errorf("secrets = %q: a short header value stands in every text", s)
	}
}
