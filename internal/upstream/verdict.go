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
)

// All knowledge of what an upstream's failure means is in this file, and all of it is pure.

// Why an attempt was stopped by our own clock.
var (
	errFirstByte = errors.New("no first token within the limit")
	errAnswer    = errors.New("no complete answer within the limit")
	errIdle      = errors.New("the stream stalled")
	errTotal     = errors.New("the attempt took longer than its limit")
	errEnough    = errors.New("the answer is complete") // not a failure: ends the wait for the connection's end
)

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
	Loading    bool // a local engine says that it is still loading its model
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
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusRequestTimeout: true, http.StatusGone: true,
	http.StatusMisdirectedRequest: true, http.StatusFailedDependency: true, http.StatusUpgradeRequired: true,
}

// Rejected says whether the status means that the provider refused this request for what it is.
func Rejected(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
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
	f.Message = "provider answered with an error event"
	return f
}

// judgeSend says what an error of sending or reading means. cause is the context's cause, if it was ended.
func judgeSend(err, cause error) Failure {
	f := Failure{Blame: hearth.BlameEndpoint, Err: err}
	var dns *net.DNSError
	var ne net.Error
	switch {
	case errors.Is(cause, errFirstByte), errors.Is(cause, errAnswer), errors.Is(cause, errIdle), errors.Is(cause, errTotal):
		f.TimedOut, f.Message = true, cause.Error()
	case errors.As(err, &dns):
		f.Message = "the provider's name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Message = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Message = "connection reset"
	case errors.As(err, &ne) && ne.Timeout():
		f.TimedOut, f.Message = true, "connection timed out"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		f.Message = "TLS failure"
	case errors.Is(err, context.Canceled):
		f.Message = "the connection was closed"
	default:
		f.Message = "the connection broke before an answer"
	}
	return f
}

// maxRetryAfter bounds what an upstream can make us believe.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After (seconds or a date, RFC 9110 §10.2.3), else the common rate-limit reset headers in
// seconds or as a duration ("1s", "6m0s"). 0 = nothing usable.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < maxRetryAfter.Seconds() {
			return time.Duration(s * float64(time.Second))
		}
		if at, err := http.ParseTime(v); err == nil {
			return min(max(at.Sub(now), 0), maxRetryAfter)
		}
	}
	for _, k := range [...]string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens"} {
		if d, err := time.ParseDuration(h.Get(k)); err == nil && d > 0 {
			return min(d, maxRetryAfter)
		}
	}
	return 0
}
