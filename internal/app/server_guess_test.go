package app_test

import (
	"strconv"
	"testing"
)

// Guessing keys is slowed down for who guesses, and for nobody else at the same address.
func TestServer_GuessingKeys(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	statuses := map[int]int{}
	for i := range 30 {
		r := w.call("POST", "/api/v1/chat/completions", ask(qwen, ""), "Authorization: Bearer sk-myip-guess-"+strconv.Itoa(i))
		statuses[r.status]++
		e := r.fault(t)
		if r.status != 429 {
			continue
		}
		after, err := strconv.Atoi(r.header.Get("Retry-After"))
		if err != nil || after < 1 || after > 60 || e.Error.Type != "rate_limited" {
			t.Errorf("Retry-After %q: %s", r.header.Get("Retry-After"), r.body)
		}
	}
	if statuses[401] != 20 || statuses[429] != 10 {
		t.Errorf("statuses %v, want 20 times 401 and then 429", statuses)
	}
	if r := w.chat(ask(qwen, "")); r.status != 200 {
		t.Errorf("the right key: %d %s", r.status, r.body)
	}
}
