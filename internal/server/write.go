package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/relay"
)

// writeError is the one place that turns an error into an answer.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var e *hearth.Error
	if !errors.As(err, &e) {
		s.Log.Error("request failed", "path", r.URL.Path, "err", err)
		e = hearth.Errorf(hearth.ErrInternal, "the gateway made a mistake; it has been logged")
	} else if e.Err != nil {
		s.Log.Warn("request refused", "path", r.URL.Path, "type", e.Type, "err", e.Err)
	}
	s.Metrics.failed(e)
	status, h := e.HTTPStatus(), w.Header()
	busy := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if busy && e.RetryAfter <= 0 { // clients without a number make up their own, some of them 0
		c := *e
		c.RetryAfter, e = defaultRetry, &c
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(e.RetryAfter)))
	}
	if !worthRetry(e.Type, status) {
		h.Set("X-Should-Retry", "false")
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	send(w, status, relay.AppendError(nil, e))
}

// defaultRetry is what a caller who comes too early is told when nothing better is known.
const defaultRetry = 5 * time.Second

// worthRetry says whether the same request may succeed later. An upstream's rejection that is passed on under its own
// status may not.
func worthRetry(t hearth.ErrorType, status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	}
	return t.Retryable() && status >= http.StatusInternalServerError
}

// wholeSeconds rounds a duration up: who comes back sooner comes too soon.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// writeJSON writes v as compact JSON.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	send(w, status, b)
	return nil
}

// sendLimit is how long a caller may take to take a list or an error.
const sendLimit = 30 * time.Second

// send writes a JSON body.
func send(w http.ResponseWriter, status int, body []byte) {
	// Not every writer has deadlines; those that lack them never block.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendLimit))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that left needs no answer
}

// corsHeaders are the request headers that a page may send in any case; what a preflight names is allowed besides, for
// a key is no cookie: only a page that knows it can send it.
const corsHeaders = "authorization, content-type, http-referer, x-title, x-session-id, x-api-key, x-openrouter-title, " +
	"x-openrouter-categories, x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, " +
	"x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, user-agent"

// maxAsked bounds the header names of a preflight that are allowed back.
const maxAsked = 2 << 10

// cors lets the pages of the configured origins read the answer; true = the request was a preflight and is answered.
// origin is "" for a request that no page sent.
func (s *Server) cors(w http.ResponseWriter, r *http.Request, origin string) (answered bool) {
	preflight := origin != "" && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	h := w.Header()
	allowed := "*"
	if !slices.Contains(s.opt.CORSOrigins, "*") {
		allowed = ""
		if len(s.opt.CORSOrigins) > 0 {
			h.Add("Vary", "Origin")
		}
		if slices.ContainsFunc(s.opt.CORSOrigins, func(o string) bool { return strings.EqualFold(o, origin) }) {
			allowed = origin
		}
	}
	if origin != "" && allowed != "" {
		h.Set("Access-Control-Allow-Origin", allowed)
		h.Set("Access-Control-Expose-Headers", "*")
	}
	if !preflight {
		return false
	}
	if allowed != "" {
		names := corsHeaders
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= maxAsked {
			names += ", " + asked
			h.Add("Vary", "Access-Control-Request-Headers")
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", names)
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
