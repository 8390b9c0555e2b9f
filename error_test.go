package hearth_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// The table of the API: our word, the status, OpenRouter's words, and whether a retry helps.
func TestErrorWords(t *testing.T) {
	for _, row := range []struct {
		kind         hearth.ErrorType
		status       int
		openRouter   string
		availability string
		retry        bool
	}{
		{"invalid_request", 400, "invalid_request", "", false},
		{"context_length_exceeded", 400, "context_length_exceeded", "constraint_filtered", false},
		{"unsupported", 400, "invalid_request", "constraint_filtered", false},
		{"unauthorized", 401, "authentication", "", false},
		{"insufficient_credits", 402, "payment_required", "", false},
		{"not_allowed", 403, "permission_denied", "", false},
		{"model_not_found", 404, "not_found", "model_not_found", false},
		{"no_endpoints_found", 404, "not_found", "no_endpoints", false},
		{"payload_too_large", 413, "payload_too_large", "", false},
		{"rate_limited", 429, "rate_limit_exceeded", "capacity_exhausted", true},
		{"provider_error", 502, "provider_unavailable", "temporarily_unavailable", true},
		{"model_loading", 503, "provider_overloaded", "temporarily_unavailable", true},
		{"endpoints_cooling_down", 503, "provider_overloaded", "temporarily_unavailable", true},
		{"overloaded", 503, "provider_overloaded", "temporarily_unavailable", true},
		{"timeout", 504, "timeout", "temporarily_unavailable", true},
		{"internal", 500, "server", "", true},
	} {
		k := row.kind
		if k.Status() != row.status || k.OpenRouter() != row.openRouter || k.Availability() != row.availability || k.Retryable() != row.retry {
			t.Errorf("%s: %d %s %q %v", k, k.Status(), k.OpenRouter(), k.Availability(), k.Retryable())
		}
	}
}

func TestError(t *testing.T) {
	cause := errors.New("disk full")
	e := hearth.Invalid("messages[2].role", "must be a text, not %s", "a number")
	e.Err = cause
	if !errors.Is(e, cause) || e.HTTPStatus() != 400 || !strings.Contains(e.Error(), "messages[2].role") {
		t.Errorf("%v", e)
	}
	if e.Status = 422; e.HTTPStatus() != 422 {
		t.Errorf("status %d", e.HTTPStatus())
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	s := hearth.Secret("sk-very-secret")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s)
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s), fmt.Sprintf("%+v", struct{ K hearth.Secret }{s}), log.String(), string(text)} {
		if strings.Contains(shown, "very-secret") {
			t.Errorf("shown: %s", shown)
		}
	}
	if s.Reveal() != "sk-very-secret" || hearth.Secret("").String() != "" {
		t.Error("the secret itself is lost")
	}
}
