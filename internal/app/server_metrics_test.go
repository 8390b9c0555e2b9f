package app_test

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
)

// series are the lines of a metrics page whose name and labels begin so.
func (w *world) series(t *testing.T, prefix string) map[string]string {
	t.Helper()
	r := w.call(http.MethodGet, "/metrics", "", "Authorization: Bearer "+w.admin)
	if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s %s", r.status, r.header, r.body)
	}
	found := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(r.body)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, prefix) {
			found[strings.TrimPrefix(name+"}", prefix)] = value
		} else if name, value, _ := strings.Cut(lines.Text(), " "); name == prefix {
			found[""] = value
		}
	}
	return found
}

// counted waits until every request that was answered is counted, which comes after its last byte.
func (w *world) counted(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(time.Millisecond); w.series(t, "hearth_requests_in_flight")[""] != "0"; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("requests stay in flight")
		}
	}
}

// TestServer_Metrics: what was asked, tried, charged and refused is counted, over a reload too, and nothing of what callers
// wrote stands there.
func TestServer_Metrics(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	if r := w.call("GET", "/metrics", ""); r.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", r.status)
	}
	if r := w.call("GET", "/metrics", "", "Authorization: Bearer "+w.user); r.status != http.StatusForbidden {
		t.Errorf("with a user's key: %d", r.status)
	}
	ask := func(model string, status int) {
		t.Helper()
		if r := w.chat(`{"model":"` + model + `","messages":[{"role":"user","content":"a secret prompt"}],"max_tokens":5}`); r.status != status {
			t.Fatalf("%s: %d %s", model, r.status, r.body)
		}
	}
	ask(gemma, 200)
	ask(gemma, 200)
	w.control(t, w.acme, `{"fault":"500","count":1}`)
	ask(qwen, 200)
	ask("no-such-secret", http.StatusNotFound)
	w.reload("default_model: "+gemma, "default_model: "+qwen)
	ask(gemma, 200)

	w.counted(t)
	requests := w.series(t, "hearth_requests_total")
	if requests[`{code="200",model="`+gemma+`",provider="local-gpu"}`] != "3" || requests[`{code="200",model="`+qwen+`",provider="beta"}`] != "1" {
		t.Errorf("requests: %v", requests)
	}
	attempts := w.series(t, "hearth_attempts_total")
	if attempts[`{endpoint="acme:`+qwen+`",model="`+qwen+`",outcome="500",provider="acme"}`] != "1" ||
		attempts[`{endpoint="beta:`+qwen+`",model="`+qwen+`",outcome="served",provider="beta"}`] != "1" {
		t.Errorf("attempts: %v", attempts)
	}
	if n := w.series(t, "hearth_tokens_total")[`{kind="completion",model="`+gemma+`",provider="local-gpu"}`]; n != "15" {
		t.Errorf("%q tokens", n)
	}
	if n := w.series(t, "hearth_request_duration_seconds_count")[`{model="`+gemma+`",provider="local-gpu"}`]; n != "3" {
		t.Errorf("%q durations", n)
	}
	if n := w.series(t, "hearth_cost_total")[`{currency="KRW",model="`+gemma+`",provider="local-gpu"}`]; n == "" || n == "0" {
		t.Errorf("cost %q", n)
	}
	slots := w.series(t, "hearth_slot_state")
	if slots[`{model="`+gemma+`",node="gpu-1",slot="gemma",state="ready"}`] != "1" || slots[`{model="`+exaone+`",node="gpu-1",slot="exaone",state="asleep"}`] != "1" {
		t.Errorf("slots: %v", slots)
	}
	if n := w.series(t, "hearth_slot_served_total")[`{model="`+gemma+`",node="gpu-1",slot="gemma"}`]; n != "3" {
		t.Errorf("%q served by the slot", n)
	}
	if n := w.series(t, "hearth_errors_total")[`{code="401",type="unauthorized"}`]; n != "1" {
		t.Errorf("%q unauthorized", n)
	}
	if page := w.call(http.MethodGet, "/metrics", "", "Authorization: Bearer "+w.admin).body; bytes.Contains(page, []byte("secret")) {
		t.Errorf("a caller's words: %s", page)
	}
}

func TestServer_MetricsPublic(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "public_metrics: true")
	if r := w.call("GET", "/metrics", ""); r.status != http.StatusOK || !bytes.Contains(r.body, []byte("hearth_build_info{")) {
		t.Errorf("%d %s", r.status, r.body)
	}
}
