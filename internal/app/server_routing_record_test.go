package app_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// TestServer_RoutingRecord: the record of a request tells how its tiers were ordered, in the words of an explanation; and
// an explanation draws as a request of a given id does.
func TestServer_RoutingRecord(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	// Equal prices and seconds that are worth nearly nothing: both have a share, whoever is faster.
	w.reload("routing: {by: price}", "routing: {kappa: 0.001}", "prompt: 0.25, completion: 0.80", "prompt: 0.20, completion: 0.60")
	r := w.chat(ask(qwen, ""))
	g := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)
	tiers := g["routing"].([]any)
	if len(tiers) != 1 {
		t.Fatalf("routing: %v", tiers)
	}
	tier := tiers[0].(map[string]any)
	if tier["model"] != qwen || tier["endpoint"] != g["endpoint_id"] || tier["kappa"] != 0.001 || tier["reason"] == "" || tier["share"].(float64) <= 0 {
		t.Errorf("tier %v", tier)
	}
	sum := 0.0
	for _, c := range tier["candidates"].([]any) {
		c := c.(map[string]any)
		sum += c["share"].(float64)
		terms := c["routing"].(map[string]any)
		total := terms["price"].(float64) + terms["wait"].(float64) + terms["decode"].(float64) + terms["failed_tries"].(float64) + terms["quality"].(float64) + terms["later_turns"].(float64)
		if terms["price"].(float64) <= 0 || math.Abs(total-terms["total"].(float64)) > total/500 || terms["state"] != "closed" {
			t.Errorf("terms %v", c)
		}
	}
	if n := len(tier["candidates"].([]any)); n != 2 || math.Abs(sum-1) > .001 {
		t.Errorf("%d candidates with a share of %v", n, sum)
	}
	explained := func(query string) reply {
		return w.call(http.MethodPost, "/api/v1/chain"+query, ask(qwen, ""), "Authorization: Bearer "+w.user)
	}
	drawn := func(id string) any {
		return explained("?generation=" + id).document(t)["data"].(map[string]any)["candidates"].([]any)[0].(map[string]any)["provider_slug"]
	}
	first := map[any]int{}
	for range 60 { // all at one endpoint, so that the other keeps what is typical of the first
		id := w.chat(ask(qwen, `,"max_tokens":1,"provider":{"only":["acme"]}`)).header.Get("X-Generation-Id")
		slug := drawn(id)
		first[slug]++
		same := drawn(id) == slug
		for n := 0; n < 2 && !same; n++ { // the router may have learned something in between: twice in a row it has not
			same = drawn(id) == drawn(id)
		}
		if !same {
			t.Errorf("%s is drawn in two ways", id)
		}
	}
	if first["acme"] == 0 || first["beta"] == 0 || first["acme"]+first["beta"] != 60 {
		t.Errorf("first places of 60 draws: %v", first)
	}
	id := r.header.Get("X-Generation-Id")
	for _, c := range []struct {
		query, key, want string
		status           int
	}{
		{"?generation=" + strings.Repeat("x", 300), w.user, "at most 256 characters", http.StatusBadRequest},
		{"?generation=", w.user, "generation is empty", http.StatusBadRequest},
		{"?generation=%00gen", w.user, "is no generation id", http.StatusBadRequest},
		{"?generation=" + id + "&generation=" + id, w.user, "generation is there 2 times", http.StatusBadRequest},
		{"?generation=zzz", w.user, `no record of a generation \"zzz\" under this key`, http.StatusNotFound},
		{"?generation=" + id, w.key(t, hearth.Key{Name: "another"}), "no record of a generation", http.StatusNotFound},
		{"?generation=" + id, w.admin, `"candidates":[`, http.StatusOK},
	} {
		r := w.call(http.MethodPost, "/api/v1/chain"+c.query, ask(qwen, ""), "Authorization: Bearer "+c.key)
		if r.status != c.status || !strings.Contains(string(r.body), c.want) || r.status == http.StatusBadRequest && !strings.Contains(string(r.body), `"generation"`) {
			t.Errorf("%s: %d %s", c.query, r.status, r.body)
		}
	}
	w.reload("routing: {kappa: 0.001}", "routing: {by: price}")
	r = w.chat(ask(qwen, ""))
	if g := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t); len(g["routing"].([]any)) != 0 {
		t.Errorf("by price: %v", g["routing"])
	}
}
