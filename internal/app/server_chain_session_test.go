package app_test

import (
	"testing"
	"time"
)

// TestServer_ChainOfASession: an explanation knows the conversation that a header names, as its request would be known, and
// what was learned of endpoints meanwhile.
func TestServer_ChainOfASession(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", "routing: {by: price}", "routing: {kappa: 1}")
	named := []string{"Authorization: Bearer " + w.user, "X-Session-Id: mine"}
	if r := w.call("POST", "/api/v1/chat/completions", ask(qwen, `,"max_tokens":1,"provider":{"only":["beta"]}`), named...); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	beta := func(headers ...string) map[string]any {
		for _, c := range w.call("POST", "/api/v1/chain", ask(qwen, ""), headers...).document(t)["data"].(map[string]any)["candidates"].([]any) {
			if c := c.(map[string]any); c["provider_slug"] == "beta" {
				return c["routing"].(map[string]any)
			}
		}
		t.Fatal("beta is not in the chain")
		return nil
	}
	mine, other := beta(named...)["cached_tokens"].(float64), beta(named[0])["cached_tokens"].(float64)
	if mine <= other {
		t.Errorf("%v tokens are expected in the cache of the conversation, %v in that of another", mine, other)
	}
	tick, end := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for beta(named...)["new"] != false {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("what was learned of an endpoint is never looked at")
		}
	}
}
