package dialect

import (
	"strconv"
	"time"
	"unicode/utf8"

	"myip.co.kr/hearth"
)

const (
	maxListed = 100     // attempts, drops and requested models shown in an error
	maxText   = 4 << 10 // bytes of a message, or of an upstream's own text, shown in one
)

// docsURL is where an error is explained, on the gateway that answers: the heading of its type follows. It names no host,
// for the gateway does not know by which one its callers reach it.
const docsURL = "/docs/errors#"

// AppendError appends the body of an error answer.
func AppendError(dst []byte, e *hearth.Error) []byte {
	dst = append(dst, `{"error":`...)
	dst = appendErrorObject(dst, e)
	return append(dst, '}')
}

func appendErrorObject(dst []byte, e *hearth.Error) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.HTTPStatus()), 10)
	dst = appendText(dst, `,"message":`, shorten(e.Message))
	dst = appendText(dst, `,"type":`, string(e.Type))
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuoted(dst, e.Param)
	}
	dst = appendErrorMetadata(dst, e)
	if code := e.Type.Availability(); code != "" {
		dst = appendAvailability(dst, e, code)
	}
	return append(dst, '}')
}

// appendAvailability appends what OpenRouter tells of an error that speaks of models and endpoints. Its examples have
// error_type and http_status in the place of code; clients look for either.
func appendAvailability(dst []byte, e *hearth.Error, code string) []byte {
	dst = appendText(dst, `,"error_type":`, e.Type.OpenRouter())
	dst = appendInt(dst, `,"http_status":`, int64(e.HTTPStatus()))
	dst = appendText(dst, `,"availability":{"code":`, code)
	dst = append(dst, `,"retryable":`...)
	dst = strconv.AppendBool(dst, e.Type.Retryable())
	if e.RetryAfter > 0 {
		dst = appendInt(dst, `,"retry_after":`, int64((e.RetryAfter+time.Second-1)/time.Second))
	}
	dst = append(dst, `,"requested_models":[`...)
	for i, m := range e.Requested[:min(len(e.Requested), maxListed)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, m)
	}
	dst = appendText(dst, `],"docs_url":`, docsURL+string(e.Type))
	return append(dst, '}')
}

func appendErrorMetadata(dst []byte, e *hearth.Error) []byte {
	dst = appendText(dst, `,"metadata":{"error_type":`, e.Type.OpenRouter())
	if e.Provider != "" {
		dst = appendText(dst, `,"provider_name":`, e.Provider)
		dst = append(dst, `,"is_byok":false`...)
	}
	if e.ProviderCode != "" { // OpenRouter has both names, and sends one or the other
		dst = appendText(dst, `,"provider_code":`, shorten(e.ProviderCode))
		dst = appendText(dst, `,"provider_error_code":`, shorten(e.ProviderCode))
	}
	if e.Raw != "" {
		dst = appendText(dst, `,"raw":`, shorten(e.Raw))
	}
	if e.SlotStatus != "" {
		dst = appendText(dst, `,"slot_status":`, string(e.SlotStatus))
	}
	if len(e.Attempts) > 0 {
		dst = appendPrevious(dst, e.Attempts[:len(e.Attempts)-1])
		dst = append(dst, `,"attempts":[`...)
		for i := range e.Attempts[:min(len(e.Attempts), maxListed)] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAttempt(dst, &e.Attempts[i])
		}
		dst = append(dst, ']')
	}
	if len(e.Drops) > 0 {
		dst = append(dst, `,"dropped":[`...)
		for i := range e.Drops[:min(len(e.Drops), maxListed)] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendDrop(dst, &e.Drops[i])
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendPrevious appends the upstreams' errors that came before the last one, in the words of OpenRouter's clients;
// without any, nothing.
func appendPrevious(dst []byte, attempts []hearth.Attempt) []byte {
	n := 0
	for i := range attempts {
		a := &attempts[i]
		if a.Status == 0 || n == maxListed {
			continue
		}
		head := `,{"provider":`
		if n == 0 {
			head = `,"previous_errors":[{"provider":`
		}
		n++
		dst = appendText(dst, head, a.Provider)
		dst = appendInt(dst, `,"code":`, int64(a.Status))
		dst = appendInt(dst, `,"status":`, int64(a.Status))
		dst = append(dst, '}')
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// shorten cuts a text to what is shown of it.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	const dots = "…"
	end := maxText - len(dots)
	for end > maxText-len(dots)-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// appendAttempt appends one attempt. status is the upstream's HTTP code, or the word for why it was skipped.
func appendAttempt(dst []byte, a *hearth.Attempt) []byte {
	dst = appendText(dst, `{"provider":`, a.Provider)
	dst = appendText(dst, `,"model":`, a.Model)
	dst = appendText(dst, `,"endpoint":`, a.Endpoint)
	dst = append(dst, `,"status":`...)
	switch {
	case a.Status != 0:
		dst = strconv.AppendInt(dst, int64(a.Status), 10)
	case a.Skip != "":
		dst = appendQuoted(dst, string(a.Skip))
		dst = appendText(dst, `,"skip_reason":`, string(a.Skip))
	default:
		dst = append(dst, "null"...)
	}
	dst = appendInt(dst, `,"latency":`, a.Latency.Milliseconds())
	if a.Message != "" {
		dst = appendText(dst, `,"message":`, a.Message)
	}
	return append(dst, '}')
}

func appendDrop(dst []byte, d *hearth.Drop) []byte {
	dst = appendText(dst, `{"model":`, d.Model)
	if d.Provider != "" {
		dst = appendText(dst, `,"provider_slug":`, d.Provider)
	}
	if d.Endpoint != "" {
		dst = appendText(dst, `,"endpoint":`, d.Endpoint)
	}
	dst = appendText(dst, `,"stage":`, string(d.Stage))
	dst = appendText(dst, `,"reason":`, d.Reason)
	return append(dst, '}')
}

func appendText(dst []byte, head, s string) []byte {
	return appendQuoted(append(dst, head...), s)
}
