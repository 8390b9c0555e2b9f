package dialect

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// UpstreamError is what an upstream said had gone wrong. Its texts are bounded, of one line, and without keys and
// internal addresses.
type UpstreamError struct {
	Code       int    // HTTP status the error speaks of: the body's own if it has one, else that of the answer
	Type       string // the upstream's word for the kind of error
	Reason     string // the upstream's error code where it is a word: "context_length_exceeded"
	Param      string // the field at fault
	Message    string // never empty
	Raw        string // what the upstream's own upstream said, if it passes that on
	Moderation bool   // the request was refused for what it says
}

const (
	maxMessageBytes = 1000
	maxErrorBody    = 256 << 10 // what is looked at of an error's body
)

// Error makes the answer usable as a Go error.
func (e *UpstreamError) Error() string {
	return "upstream error " + strconv.Itoa(e.Code) + ": " + e.Message
}

// ReadError reads the body of an answer that is not 2xx, in any of the forms upstreams use, plain text and HTML
// included. It never fails.
func ReadError(status int, body []byte) *UpstreamError {
	body = bytes.TrimSpace(bytes.TrimPrefix(body[:min(len(body), maxErrorBody)], []byte("\xef\xbb\xbf")))
	e := &UpstreamError{}
	s := scan{b: body}
	switch {
	case s.kind() == '[': // Google answers with a list of one
		s.open()
		if s.elem() && s.kind() == '{' {
			e.object(&s)
		}
	case s.kind() == '{':
		e.object(&s)
	}
	if e.Message == "" && e.Raw == "" && (s.bad || s.i == 0) {
		e.Message = clean(plainText(body), maxMessageBytes)
	}
	return e.settle(status)
}

// inBand reads an error object that came inside of a 2xx answer.
func inBand(v []byte) *UpstreamError {
	e := &UpstreamError{}
	s := scan{b: v}
	e.value(&s)
	return e.settle(http.StatusBadGateway)
}

// statusWords are the statuses that vendors' words for an error stand for, in lower case.
var statusWords = map[string]int{
	"invalid_request_error": 400, "invalid_request": 400, "badrequesterror": 400, "bad_request": 400, "invalid_argument": 400,
	"validation_error": 400, "context_length_exceeded": 400, "exceed_context_size_error": 400, "failed_precondition": 400,
	"authentication": 401, "authentication_error": 401, "authenticationerror": 401, "invalid_api_key": 401, "unauthenticated": 401, "unauthorized": 401,
	"payment_required": 402, "billing_error": 402, "insufficient_balance": 402, "insufficient_credits": 402,
	"permission_error": 403, "permission_denied": 403, "permissiondeniederror": 403, "forbidden": 403,
	"not_found_error": 404, "notfounderror": 404, "not_found": 404, "model_not_found": 404,
	"timeout": 504, "timeout_error": 504, "deadline_exceeded": 504,
	"request_too_large": 413, "payload_too_large": 413,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "ratelimiterror": 429, "resource_exhausted": 429,
	"too_many_requests": 429, "insufficient_quota": 429, "tokens_exceeded": 429, "rate_limited": 429,
	"server_error": 500, "internal_server_error": 500, "internalservererror": 500, "internal": 500, "api_error": 500,
	"overloaded_error": 503, "overloaded": 503, "provider_overloaded": 503, "engine_overloaded": 503, "service_unavailable": 503,
	"serviceunavailableerror": 503, "unavailable": 503, "unavailable_error": 503, "server_overloaded": 503,
}

// settle fills in what the upstream left out. Inside a 2xx, where status says nothing, its words say what has happened.
func (e *UpstreamError) settle(status int) *UpstreamError {
	if e.Code < 400 || e.Code > 599 {
		e.Code = status
		if status == http.StatusBadGateway {
			e.Code = cmp.Or(statusWords[strings.ToLower(e.Reason)], statusWords[strings.ToLower(e.Type)], status)
		}
	}
	if e.Message == "" {
		e.Message = e.Raw
	}
	if e.Message == "" {
		e.Message = e.Reason
	}
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	if e.Message == "" {
		e.Message = "the upstream gave no reason"
	}
	return e
}

// object reads an object which either is the error or holds it.
func (e *UpstreamError) object(s *scan) {
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(name(key)) {
		case "error":
			e.value(s)
		case "message", "detail", "msg", "error_msg", "error_message":
			if e.Message == "" {
				e.Message = s.words()
			} else {
				s.value()
			}
		case "type":
			e.Type = s.line()
		case "code", "status":
			e.code(s)
		case "error_type":
			if t := s.line(); e.Type == "" {
				e.Type = t
			}
		case "param":
			e.Param = s.line()
		case "metadata":
			e.metadata(s)
		default:
			s.value()
		}
	}
}

// value reads an error given as an object or as a text.
func (e *UpstreamError) value(s *scan) {
	if s.kind() != '{' {
		e.Message = s.words()
		return
	}
	e.object(s)
}

// code reads the number of an error, or its word.
func (e *UpstreamError) code(s *scan) {
	v := s.value()
	if s.bad {
		return
	}
	digits := v
	if v[0] == '"' {
		digits = unquote(v)
	}
	if n, err := strconv.Atoi(string(digits)); err == nil {
		if n >= 400 && n <= 599 {
			e.Code = n
		}
		return
	}
	if v[0] == '"' && e.Reason == "" {
		e.Reason = clean(string(unquote(v)), 128)
	}
}

func (e *UpstreamError) metadata(s *scan) {
	if s.kind() != '{' {
		s.value()
		return
	}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(name(key)) {
		case "raw":
			e.Raw = s.words()
		case "reasons", "flagged_input":
			s.value()
			e.Moderation = true
		case "error_type":
			if t := s.line(); e.Type == "" {
				e.Type = t
			}
		case "provider_code", "provider_error_code":
			if t := s.line(); e.Reason == "" {
				e.Reason = t
			}
		default:
			s.value()
		}
	}
}

// words reads a message: a text, or the raw JSON of what stands in its place.
func (s *scan) words() string {
	v := s.value()
	switch {
	case s.bad, isNull(v):
		return ""
	case v[0] == '"':
		return clean(string(unquote(v)), maxMessageBytes)
	}
	return clean(string(v), maxMessageBytes)
}

// line reads a short text; anything else is "".
func (s *scan) line() string {
	v := s.value()
	if s.bad || v[0] != '"' {
		return ""
	}
	return clean(string(unquote(v)), 128)
}

// plainText is the gist of a body that is no JSON: the title of a page of HTML, else all of it.
func plainText(body []byte) string {
	body = body[:min(len(body), 16<<10)]
	lower := bytes.ToLower(body)
	if i := bytes.Index(lower, []byte("<title>")); i >= 0 && len(lower) == len(body) {
		rest := body[i+len("<title>"):]
		if j := bytes.IndexByte(rest, '<'); j >= 0 {
			rest = rest[:j]
		}
		return string(rest)
	}
	if !bytes.HasPrefix(body, []byte("<")) {
		return string(body)
	}
	var b strings.Builder
	tag := false
	for _, c := range body {
		switch {
		case c == '<':
			tag = true
			b.WriteByte(' ')
		case c == '>':
			tag = false
		case !tag:
			b.WriteByte(c)
		}
	}
	return b.String()
}
