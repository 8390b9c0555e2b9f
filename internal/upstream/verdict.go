package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

// All knowledge of what an upstream's failure means is in this file, its words are in wordings.go, its headers in
// retryafter.go, and all of it is pure.

// Why an attempt was stopped by our own clock.
var (
	errFirstByte = errors.New("no first token within the limit")
	errAnswer    = errors.New("no complete answer within the limit")
	errIdle      = errors.New("the stream stalled")
	errTotal     = errors.New("the attempt took longer than its limit")
	errDry       = errors.New("the stream brought nothing but filler")
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
	Code       string // the upstream's own word for the error; "" = none
	Overloaded bool   // the gateway itself had no memory left for the answer
	Broke      bool   // the connection failed, or ended too early: it is nothing that the upstream said
	Unsent     bool   // of these: there was no connection, so nothing was sent
	Stopped    bool   // the lease of the engine was cut
	Err        error
}

// judgeStatus says what an answer with a status other than 2xx means. What an upstream says in words can only excuse an
// endpoint, never accuse it: callers can make upstreams repeat their own words.
func judgeStatus(status int, ue *dialect.UpstreamError, h http.Header, local bool, now time.Time) Failure {
	f := Failure{Status: status, Raw: ue.Message, Param: ue.Param, Code: ue.Reason, Message: fmt.Sprintf("provider answered %d %s", status, http.StatusText(status))}
	switch {
	case status == http.StatusTooManyRequests:
		f.Blame, f.RetryAfter = hearth.BlameRateLimit, retryAfter(h, now)
	case status == http.StatusUnauthorized && !local:
		f.Blame = hearth.BlameAccount
	case status == http.StatusUnauthorized:
		f.Blame = hearth.BlameEndpoint
	case status == http.StatusPaymentRequired:
		f.Blame = blameUnless(mentions(ue, fewerTokens))
	case status == http.StatusForbidden:
		f.Blame = blameUnless(ue.Moderation || coded(ue, moderated))
	case status < 400: // a redirect: following it would send the prompt where the operator did not say
		f.Blame = hearth.BlameEndpoint
	case status == http.StatusServiceUnavailable && local && mentions(ue, notUp):
		f.Loading = true
	case overflows(ue):
		f.Context = true
	case status >= 500:
		f.Blame = blameUnless(mentions(ue, ownFaults))
	case blamed4xx[status] || coded(ue, withdrawn):
		f.Blame = blameUnless(mentions(ue, unsupported))
	}
	if f.Blame != hearth.BlameNobody && tells(status) {
		f.Raw, f.Param, f.Code = "", "", ""
	}
	return f
}

// tells says whether the text of an answer with that status may quote our key, or name where a redirect leads.
func tells(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	return status < 400
}

func blameUnless(excused bool) hearth.Blame {
	if excused {
		return hearth.BlameNobody
	}
	return hearth.BlameEndpoint
}

// blamed4xx are the 4xx that speak of the provider and not of the request.
var blamed4xx = map[int]bool{
	http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusProxyAuthRequired: true,
	http.StatusRequestTimeout: true, http.StatusGone: true,
	http.StatusMisdirectedRequest: true, http.StatusFailedDependency: true, http.StatusUpgradeRequired: true,
}

// overflows says whether the prompt, or the prompt with the output asked for, does not fit the window.
func overflows(ue *dialect.UpstreamError) bool {
	return coded(ue, overflowCodes) || mentions(ue, overflowWords)
}

// coded says whether the upstream's word for the kind of error is one of these.
func coded(ue *dialect.UpstreamError, words map[string]bool) bool {
	return words[strings.ToLower(ue.Reason)] || words[strings.ToLower(ue.Type)]
}

// mentions says whether the upstream's text has one of these in it.
func mentions(ue *dialect.UpstreamError, words []string) bool {
	text := strings.ToLower(ue.Message)
	if ue.Raw != "" && ue.Raw != ue.Message {
		text += "\n" + strings.ToLower(ue.Raw)
	}
	for _, w := range words {
		if strings.Contains(text, w) {
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
	if coded(ue, moderated) {
		status = http.StatusForbidden
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
		if strings.Contains(f.Param, s[:leastSecret]) {
			f.Param = ""
		}
		if strings.Contains(f.Code, s[:leastSecret]) {
			f.Code = ""
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
	switch {
	case errors.Is(cause, errStopped):
		f.Blame, f.Stopped, f.Message = hearth.BlameNobody, true, errStopped.Error()
	case isLimit(cause):
		f.TimedOut, f.Broke, f.Message = true, true, cause.Error()
	case errors.Is(err, errMemory), errors.Is(err, errBody):
		f.Blame, f.Overloaded, f.Message = hearth.BlameNobody, true, err.Error()
	default:
		if f.Message = unfit(err); f.Message == "" {
			f.connection(err)
		}
	}
	return f
}

// unfit says what is wrong with what the upstream sent, or with where it is; "" = that is not what failed.
func unfit(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, errNotLocal):
		return errNotLocal.Error()
	case errors.Is(err, sse.ErrTooLong):
		return "the stream held an event of more than 32 MiB"
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error()
	case errors.Is(err, errDry):
		return errDry.Error()
	case garbled(err):
		return "the answer is not the gzip that it is called"
	case strings.Contains(text, "headers exceeded"), strings.Contains(text, "header list larger"):
		return "provider sent headers of more than 256 KiB"
	case strings.Contains(text, "malformed HTTP"):
		return "provider does not speak HTTP"
	}
	return ""
}

// connection notes what became of the connection.
func (f *Failure) connection(err error) {
	f.Broke, f.Message = true, "the connection broke before an answer"
	var dns *net.DNSError
	var ne net.Error
	var op *net.OpError
	f.Unsent = errors.As(err, &op) && op.Op == "dial"
	switch text := err.Error(); {
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
	}
}

// judgeRead is judgeSend for an answer that has begun; broke is what a broken connection means by then.
func judgeRead(err, cause error, broke string) Failure {
	f := judgeSend(err, cause)
	bounded := errors.Is(err, errTooLarge) || errors.Is(err, sse.ErrTooLong) || errors.Is(err, errDry)
	if !f.TimedOut && !f.Overloaded && !f.Stopped && !garbled(err) && !bounded {
		f.Message = broke
	}
	return f
}

// refusesStreamOptions says whether an upstream rejects stream_options as such, or to count on the way.
func refusesStreamOptions(status int, e *dialect.UpstreamError) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	for _, text := range [...]string{e.Param, e.Message, e.Raw} {
		for _, key := range [...]string{"stream_options", "include_usage", "continuous_usage_stats", "timings_per_token"} {
			if strings.Contains(text, key) {
				return true
			}
		}
	}
	return false
}
