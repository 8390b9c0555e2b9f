package app_test

import (
	"net/http"
	"testing"
)

// The record says whose request it was: OpenRouter's external_user.
func TestServer_ExternalUser(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for extra, want := range map[string]any{`,"user":"kim"`: "kim", ``: nil} {
		r := w.chat(ask(qwen, extra))
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if got := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)["external_user"]; got != want {
			t.Errorf("with %s: %v, want %v", extra, got, want)
		}
	}
}
