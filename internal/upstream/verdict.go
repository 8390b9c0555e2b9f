package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

// All knowledge of what an upstream's failure means is in this file, and all of it is pure.

// Why an attempt was stopped by our own clock.
var (
	errFirstByte = errors.New("no first token within the limit")
	errAnswer    = errors.New("no complete answer within the limit")
	errIdle      = errors.New("the stream stalled")
	errTotal     = errors.New("the attempt took longer than its limit")
	errEnough    = errors.New("nothing more is needed") // no failure: ends the wait for an error's text, or for a connection's end
)

// isLimit says whether a context ended because the attempt took too long.
func isLimit(cause error) bool {
	return errors.Is(cause, errFirstByte) || errors.Is(cause, errAnswer) || errors.Is(cause, errIdle) || errors.Is(cause, errTotal)
}

// ErrShutdown is the cause with which the gateway ends the contexts of requests that outlast the grace of a shutdown.
var ErrShutdown = errors.New("the gateway is shutting down")

// Failure is what an attempt that brought no answer means for the walk.
type Failure struct {
	Status     int // HTTP status of the upstream, 0 if there was none
	Blame      hearth.Blame
	Message    string // for the record and the caller: no secrets, no internal addresses
	Raw        string // the upstream's own message
	RetryAfter time.Duration
	TimedOut   bool
	Loading    bool   // a local engine says that it is still loading its model
	Context    bool   // the prompt, or the prompt with the output asked for, does not fit the endpoint's window
	Param      string // the field of the request at fault, in the upstream's words; "" = not said
	Overloaded bool   // the gateway itself had no memory left for the answer
	Err        error
}

// judgeStatus says what an answer with a status other than 2xx means.
func judgeStatus(status int, ue *dialect.UpstreamError, h http.Header, local bool, now time.Time) Failure {
	f := Failure{Status: status, Raw: ue.Message, Message: fmt.Sprintf("provider answered %d %s", status, http.StatusText(status))}
	switch {
	case status == http.StatusTooManyRequests:
		f.Blame, f.RetryAfter = hearth.BlameRateLimit, retryAfter(h, now)
	case status == http.StatusUnauthorized:
		f.Blame, f.Raw = hearth.BlameAccount, "" // the text may quote our key
		if local {
			f.Blame = hearth.BlameEndpoint
		}
	case status == http.StatusPaymentRequired || status == http.StatusForbidden:
		f.Blame = hearth.BlameEndpoint
		if ue.Moderation || status == http.StatusPaymentRequired && asksForFewerTokens(ue.Message) {
			f.Blame = hearth.BlameNobody
		} else {
			f.Raw = ""
		}
	case status == http.StatusServiceUnavailable && local && strings.Contains(strings.ToLower(ue.Message), "loading"):
		f.Blame, f.Loading = hearth.BlameNobody, true
	case status < 400: // a redirect: following it would send the prompt where the operator did not say
		f.Blame, f.Raw = hearth.BlameEndpoint, ""
	case status >= 500:
		f.Blame = hearth.BlameEndpoint
		if requestsOwnFault(ue.Message) {
			f.Blame = hearth.BlameNobody
		}
	case blamed4xx[status]:
		f.Blame = hearth.BlameEndpoint
	}
	return f
}

// blamed4xx are the 4xx that speak of the provider and not of the request.
var blamed4xx = map[int]bool{
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusProxyAuthRequired: true,
	http.StatusRequestTimeout: true, http.StatusGone: true,
	http.StatusMisdirectedRequest: true, http.StatusFailedDependency: true, http.StatusUpgradeRequired: true,
}

func asksForFewerTokens(msg string) bool {
	return strings.Contains(strings.ToLower(msg), "fewer max_tokens")
}

// ownFaults are the wordings in which engines report a fault of the request as a 5xx (llama-server).
var ownFaults = []string{
	"image input is not supported", "mmproj", "audio input is not supported", "parse error", "failed to parse",
	"unable to generate parser", "exceeds the available context size", "context size", "failed to tokenize",
}

func requestsOwnFault(msg string) bool {
	msg = strings.ToLower(msg)
	for _, w := range ownFaults {
		if strings.Contains(msg, w) {
			return true
		}
	}
	return false
}

// judgeInBand says what an error that came inside a 200 means.
func judgeInBand(ue *dialect.UpstreamError, local bool, now time.Time) Failure {
	status := ue.Code
	if status < 400 || status > 599 {
		status = http.StatusBadGateway
	}
	f := judgeStatus(status, ue, nil, local, now)
	f.Message = "provider answered with an error"
	return f
}

// leastSecret is the length from which a key or header value is treated as a secret.
const leastSecret = 8

// hide drops the upstream's text if it quotes a secret, or ends in the beginning of one that was cut off.
func (f *Failure) hide(secrets []string) {
	for _, s := range secrets {
		if strings.Contains(f.Raw, s) {
			f.Raw = ""
		}
		end := strings.TrimSuffix(f.Raw, "…")
		for n := min(len(s)-1, len(end)); n >= leastSecret; n-- {
			if strings.HasSuffix(end, s[:n]) {
				f.Raw = ""
				break
			}
		}
	}
}

// judgeSend says what an error of sending or reading means. cause is the context's cause, if it was ended.
func judgeSend(err, cause error) Failure {
	f := Failure{Blame: hearth.BlameEndpoint, Err: err}
	var dns *net.DNSError
	var ne net.Error
	switch text := err.Error(); {
	case isLimit(cause):
		f.TimedOut, f.Message = true, cause.Error()
	case errors.Is(err, errNotLocal):
		f.Message = errNotLocal.Error()
	case errors.Is(err, sse.ErrTooLong):
		f.Message = "the stream held an event of more than 32 MiB"
	case errors.Is(err, errTooLarge):
		f.Message = errTooLarge.Error()
	case errors.Is(err, errMemory):
		f.Blame, f.Overloaded, f.Message = hearth.BlameNobody, true, errMemory.Error()
	case garbled(err):
		f.Message = "the answer is not the gzip that it is called"
	case errors.As(err, &dns):
		f.TimedOut, f.Message = dns.IsTimeout, "the provider's name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Message = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Message = "connection reset"
	case errors.As(err, &ne) && ne.Timeout():
		f.TimedOut, f.Message = true, "connection timed out"
	case strings.Contains(text, "tls: "), strings.Contains(text, "x509: "), strings.Contains(text, "to HTTPS client"):
		f.Message = "TLS failure"
	case errors.Is(err, context.Canceled):
		f.Message = "the connection was closed"
	case strings.Contains(text, "headers exceeded"), strings.Contains(text, "header list larger"):
		f.Message = "provider sent headers of more than 256 KiB"
	case strings.Contains(text, "malformed HTTP"):
		f.Message = "provider does not speak HTTP"
	default:
		f.Message = "the connection broke before an answer"
	}
	return f
}

// judgeRead is judgeSend for an answer that has begun; broke is what a broken connection means by then.
func judgeRead(err, cause error, broke string) Failure {
	f := judgeSend(err, cause)
	if !f.TimedOut && !f.Overloaded && !garbled(err) && !errors.Is(err, errTooLarge) && !errors.Is(err, sse.ErrTooLong) {
		f.Message = broke
	}
	return f
}

// maxRetryAfter bounds what an upstream can make us believe.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After (seconds or a date, RFC 9110 §10.2.3), OpenAI's retry-after-ms, else the common
// rate-limit reset headers. 0 = nothing usable.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := after(h.Get("Retry-After-Ms"), time.Millisecond, now); ok {
		return d
	}
	if d, ok := after(h.Get("Retry-After"), time.Second, now); ok {
		return d
	}
	var most time.Duration
	for _, k := range [...]string{"Requests", "Tokens"} {
		d, ok := after(h.Get("X-Ratelimit-Reset-"+k), time.Second, now)
		if ok && h.Get("X-Ratelimit-Remaining-"+k) == "0" {
			return d
		}
		most = max(most, d)
	}
	if most > 0 {
		return most
	}
	d, _ := after(h.Get("X-Ratelimit-Reset"), time.Second, now)
	return d
}

// after reads a wait: a number of units, a duration ("1s", "6m0s"), a date, or a moment in Unix seconds or
// milliseconds. Waits are bounded by maxRetryAfter; one that is over, negative or no number is not usable.
func after(v string, unit time.Duration, now time.Time) (d time.Duration, ok bool) {
	const unixSeconds, unixMillis = 1e9, 1e12 // less than these is no present moment: 2001
	n, err := strconv.ParseFloat(v, 64)
	switch {
	case v == "":
		return 0, false
	case err == nil && !(n > 0), n < 0:
		return 0, false
	case err == nil && n >= unixMillis && n < 100*unixMillis:
		d = time.UnixMilli(int64(n)).Sub(now)
	case err == nil && n >= unixSeconds && n < 100*unixSeconds:
		d = time.Unix(int64(n), 0).Sub(now)
	case err == nil || errors.Is(err, strconv.ErrRange):
		if !(n < float64(maxRetryAfter/unit)) {
			n = float64(maxRetryAfter / unit)
		}
		d = time.Duration(n * float64(unit))
	default:
		if d, err = time.ParseDuration(v); err != nil {
			at, err := http.ParseTime(v)
			if err != nil {
				return 0, false
			}
			d = at.Sub(now)
		}
	}
	return min(max(d, 0), maxRetryAfter), d > 0
}

// refusesStreamOptions says whether an upstream rejects stream_options as such.
func refusesStreamOptions(status int, e *dialect.UpstreamError) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	for _, text := range [...]string{e.Param, e.Message, e.Raw} {
		if strings.Contains(text, "stream_options") || strings.Contains(text, "include_usage") {
			return true
		}
	}
	return false
}
