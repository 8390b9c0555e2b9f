package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if !e.Type.Retryable() || e.Status == http.StatusMethodNotAllowed {
		h.Set("X-Should-Retry", "false")
	}
	if e.HTTPStatus() == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := relay.AppendError(nil, e)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.HTTPStatus())
	if _, err := w.Write(body); err != nil {
		s.Log.Debug("caller left before the error", "err", err)
	}
}

// writeJSON writes v as compact JSON.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a caller that left needs no answer
	return nil
}

// corsHeaders are the request headers that a page may send.
const corsHeaders = "authorization, content-type, http-referer, x-title, x-session-id, x-api-key, x-openrouter-title, " +
	"x-openrouter-categories, x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, " +
	"x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, user-agent"

// cors allows the origin if it is configured; true = the request was a preflight and is answered.
func (s *Server) cors(w http.ResponseWriter, r *http.Request, origin string) bool {
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	h := w.Header()
	switch {
	case slices.Contains(s.opt.CORSOrigins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	case slices.ContainsFunc(s.opt.CORSOrigins, func(o string) bool { return strings.EqualFold(o, origin) }):
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
	default:
		if preflight {
			w.WriteHeader(http.StatusNoContent)
		}
		return preflight
	}
	h.Set("Access-Control-Expose-Headers", "*")
	if preflight {
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
	}
	return preflight
}
