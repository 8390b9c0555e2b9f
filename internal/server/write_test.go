package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// allTypes are the error types with whether a retry helps: the table that callers are told.
var allTypes = map[hearth.ErrorType]bool{
	hearth.ErrInvalidRequest: false, hearth.ErrContextLength: false, hearth.ErrUnsupported: false, hearth.ErrUnauthorized: false,
	hearth.ErrInsufficientCredits: false, hearth.ErrNotAllowed: false, hearth.ErrModelNotFound: false, hearth.ErrNoEndpoints: false,
	hearth.ErrNotFound: false, hearth.ErrNotRecorded: false, hearth.ErrPayloadTooLarge: false,
	hearth.ErrRateLimited: true, hearth.ErrProvider: true, hearth.ErrModelLoading: true, hearth.ErrCoolingDown: true,
	hearth.ErrOverloaded: true, hearth.ErrTimeout: true, hearth.ErrInternal: true,
}

// answerTo is what a caller gets when a handler returns err.
func answerTo(err error, header ...string) *httptest.ResponseRecorder {
	s := &Server{Parts: Parts{Log: slog.New(slog.DiscardHandler)}, opt: Options{CORSOrigins: []string{"*"}}, mux: http.NewServeMux()}
	s.mux.HandleFunc("/", s.wrap(func(http.ResponseWriter, *http.Request) error { return err }))
	r := httptest.NewRequest(http.MethodPost, "/x", http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestErrors_EveryType(t *testing.T) {
	for typ, retry := range allTypes {
		t.Run(string(typ), func(t *testing.T) {
			w := answerTo(hearth.Errorf(typ, "what and \"why\""), "Origin", "https://app.example")
			var doc struct {
				Error struct {
					Code     int            `json:"code"`
					Message  string         `json:"message"`
					Type     string         `json:"type"`
					Param    any            `json:"param"`
					Metadata map[string]any `json:"metadata"`
				} `json:"error"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &doc, json.RejectUnknownMembers(false)); err != nil {
				t.Fatalf("%s: %v", w.Body, err)
			}
			e := doc.Error
			if w.Code != typ.Status() || e.Code != w.Code || e.Type != string(typ) || e.Message != "what and \"why\"" || e.Param != nil || e.Metadata["error_type"] != typ.OpenRouter() {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if !strings.Contains(w.Body.String(), `"param":null`) {
				t.Errorf("param is not there: %s", w.Body)
			}
			if got := w.Header().Get("X-Should-Retry"); (got == "false") == retry || got != "" && got != "false" {
				t.Errorf("X-Should-Retry %q, retry helps: %v", got, retry)
			}
			if w.Code == 429 || w.Code == 503 {
				n, err := strconv.Atoi(w.Header().Get("Retry-After"))
				if err != nil || n < 1 || n > 60 {
					t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
				}
				if !strings.Contains(w.Body.String(), fmt.Sprintf(`"retry_after":%d`, n)) {
					t.Errorf("the body tells another wait than the header's %d: %s", n, w.Body)
				}
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Access-Control-Expose-Headers") != "*" {
				t.Errorf("a page cannot read the error: %v", w.Header())
			}
			if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
				t.Errorf("headers %v", w.Header())
			}
		})
	}
}

func TestErrors_RetryAfter(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   hearth.ErrorType
		state int
		after time.Duration
		want  string
	}{
		{"whole seconds are kept", hearth.ErrModelLoading, 0, 30 * time.Second, "30"},
		{"parts of a second are rounded up", hearth.ErrRateLimited, 0, 1200 * time.Millisecond, "2"},
		{"a millisecond is a second", hearth.ErrCoolingDown, 0, time.Millisecond, "1"},
		{"a long wait is told as it is", hearth.ErrRateLimited, 0, 10 * time.Minute, "600"},
		{"a wait that nobody knows", hearth.ErrOverloaded, 0, 0, "5"},
		{"one in the past", hearth.ErrModelLoading, 0, -time.Second, "5"},
		{"an upstream's 429 that is passed on", hearth.ErrProvider, 429, 0, "5"},
		{"an upstream's 503 that is passed on", hearth.ErrProvider, 503, 7 * time.Second, "7"},
		{"no wait helps", hearth.ErrInvalidRequest, 0, 0, ""},
		{"a 502 without one", hearth.ErrProvider, 0, 0, ""},
		{"a 502 with one", hearth.ErrProvider, 0, 3 * time.Second, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &hearth.Error{Type: c.typ, Status: c.state, RetryAfter: c.after, Message: "m"}
			w := answerTo(e)
			if got := w.Header().Get("Retry-After"); got != c.want {
				t.Errorf("Retry-After %q, want %q", got, c.want)
			}
			if e.RetryAfter != c.after {
				t.Error("the error itself was changed")
			}
		})
	}
}

func TestErrors_ShouldRetry(t *testing.T) {
	for _, c := range []struct {
		typ    hearth.ErrorType
		status int
		want   string
	}{
		{hearth.ErrProvider, 400, "false"}, {hearth.ErrProvider, 404, "false"}, {hearth.ErrProvider, 413, "false"}, {hearth.ErrProvider, 422, "false"},
		{hearth.ErrProvider, 429, ""}, {hearth.ErrProvider, 408, ""}, {hearth.ErrProvider, 500, ""}, {hearth.ErrProvider, 502, ""},
		{hearth.ErrInvalidRequest, 405, "false"}, {hearth.ErrInvalidRequest, 429, ""}, {hearth.ErrUnsupported, 500, "false"},
	} {
		w := answerTo(&hearth.Error{Type: c.typ, Status: c.status, Message: "m"})
		if got := w.Header().Get("X-Should-Retry"); got != c.want || w.Code != c.status {
			t.Errorf("%s with status %d: %d, X-Should-Retry %q, want %q", c.typ, c.status, w.Code, got, c.want)
		}
	}
}

func TestErrors_TellNothing(t *testing.T) {
	for _, err := range []error{
		io.ErrUnexpectedEOF,
		fmt.Errorf("dial tcp 10.0.0.7:8000: connection refused"),
		&hearth.Error{Type: hearth.ErrOverloaded, Message: "later", Err: fmt.Errorf("dial tcp 10.0.0.7:8000: connection refused")},
	} {
		w := answerTo(err)
		if body := w.Body.String(); w.Code < 500 || strings.Contains(body, "10.0.0.7") || strings.Contains(body, "EOF") {
			t.Errorf("%v: %d %s", err, w.Code, body)
		}
	}
}

func TestCORS_Preflight(t *testing.T) {
	reached := false
	s := &Server{Parts: Parts{Log: slog.New(slog.DiscardHandler)}, opt: Options{CORSOrigins: []string{"https://app.example"}}, mux: http.NewServeMux()}
	s.mux.HandleFunc("/", s.wrap(func(http.ResponseWriter, *http.Request) error {
		reached = true
		panic("no key was sent")
	}))
	ask := func(method, origin string, more ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/api/v1/chat/completions", http.NoBody)
		r.Header.Set("Origin", origin)
		for i := 0; i+1 < len(more); i += 2 {
			r.Header.Set(more[i], more[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	t.Run("answered without a key", func(t *testing.T) {
		w := ask(http.MethodOptions, "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-my-own")
		names := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers"))
		for _, name := range []string{"authorization", "content-type", "http-referer", "x-title", "x-session-id", "x-my-own"} {
			if !strings.Contains(names, name) {
				t.Errorf("a page may not send %s: %s", name, names)
			}
		}
		if w.Code != 204 || w.Body.Len() != 0 || reached || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" {
			t.Errorf("%d %v, handler reached: %v", w.Code, w.Header(), reached)
		}
	})
	t.Run("a page of another origin is let in nowhere", func(t *testing.T) {
		w := ask(http.MethodOptions, "https://evil.example", "Access-Control-Request-Method", "POST")
		if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Access-Control-Allow-Headers") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	})
	t.Run("an error after a panic can be read too", func(t *testing.T) {
		w := ask(http.MethodPost, "https://app.example")
		if w.Code != 500 || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(w.Header().Get("Vary"), "Origin") {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	})
	t.Run("header names without end are not given back", func(t *testing.T) {
		w := ask(http.MethodOptions, "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", strings.Repeat("x-a,", 2000))
		if n := len(w.Header().Get("Access-Control-Allow-Headers")); n == 0 || n > 4<<10 {
			t.Errorf("%d bytes of header names", n)
		}
	})
}
