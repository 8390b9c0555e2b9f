package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestKeysSet_PerMinute: a running gateway goes by new limits per minute of a key at once, and by what was used before.
func TestKeysSet_PerMinute(t *testing.T) {
	c := &counted{came: make(chan string, 10), next: make(chan struct{}, 10)}
	h, url := served(t, c)
	code, out, errs := h.hearth("keys", "create", "laptop", "--rpm", "100")
	if code != 0 || !strings.Contains(errs, "100 requests a minute") {
		t.Fatal(errs)
	}
	key := strings.TrimSpace(out)
	ask := func() (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"model":"google/gemma","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		c.next <- struct{}{}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.came:
		default:
			<-c.next // nobody was asked
		}
		return resp, string(b)
	}
	if resp, body := ask(); resp.StatusCode != 200 || resp.Header.Get("X-RateLimit-Limit-Requests") != "100" || resp.Header.Get("X-RateLimit-Remaining-Requests") != "99" {
		t.Fatalf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
	if out := h.must(t, "keys", "set", "laptop", "--rpm", "2"); !strings.HasSuffix(out, "2 requests a minute\n") {
		t.Errorf("%q", out)
	}
	if resp, body := ask(); resp.StatusCode != 200 { // the first counts
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body := ask()
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || after < 1 || after > 30 || resp.StatusCode != 429 || !strings.Contains(body, `"type":"rate_limited"`) || !strings.Contains(body, `"error_type":"rate_limit_exceeded"`) || resp.Header.Get("X-RateLimit-Limit-Requests") != "2" {
		t.Errorf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
	h.must(t, "keys", "set", "laptop", "--rpm", "0", "--tpm", "1")
	if resp, body := ask(); resp.StatusCode != 413 || resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(body, "1 in a whole minute") {
		t.Errorf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
	h.must(t, "keys", "set", "laptop", "--tpm", "0")
	if resp, body := ask(); resp.StatusCode != 200 || resp.Header.Get("X-RateLimit-Limit-Requests") != "" {
		t.Errorf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
}
