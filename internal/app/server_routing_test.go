package app_test

import (
	"bytes"
	"math"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
)

// chainOf is the chain of a request for qwen, by provider.
func (w *world) chainOf(t *testing.T) (order []string, share, inflight map[string]float64) {
	t.Helper()
	r := w.call(http.MethodPost, "/api/v1/chain", `{"model":"`+qwen+`","messages":[{"role":"user","content":"hello"}]}`, "Authorization: Bearer "+w.user)
	var doc struct {
		Data struct {
			Candidates []struct {
				Slug    string   `json:"provider_slug"`
				Share   *float64 `json:"share"`
				Reason  string   `json:"reason"`
				Routing *struct {
					Price    float64 `json:"price"`
					Total    float64 `json:"total"`
					InFlight float64 `json:"in_flight"`
				} `json:"routing"`
			} `json:"candidates"`
		} `json:"data"`
	}
	if err := json.Unmarshal(r.body, &doc, json.RejectUnknownMembers(false)); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	share, inflight = map[string]float64{}, map[string]float64{}
	for _, c := range doc.Data.Candidates {
		order = append(order, c.Slug)
		if c.Share == nil || c.Routing == nil {
			continue
		}
		share[c.Slug], inflight[c.Slug] = *c.Share, c.Routing.InFlight
		if c.Routing.Price <= 0 || c.Routing.Total < c.Routing.Price {
			t.Errorf("%s: terms %+v", c.Slug, *c.Routing)
		}
	}
	return order, share, inflight
}

// TestServer_RoutingCost: endpoints that tie on priority share by what a good answer costs, and what becomes of requests is
// learned. By price the cheapest is first.
func TestServer_RoutingCost(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	if order, share, _ := w.chainOf(t); len(order) != 2 || order[0] != "acme" || len(share) != 0 {
		t.Errorf("by price: %v %v", order, share)
	}
	w.reload("routing: {by: price}", "routing: {kappa: 1}")
	_, share, _ := w.chainOf(t)
	if len(share) != 2 || math.Abs(share["acme"]+share["beta"]-1) > 1e-9 || share["acme"] < share["beta"] {
		t.Errorf("shares of two endpoints that nothing is known of: %v", share)
	}
	ask := `{"model":"` + qwen + `","messages":[{"role":"user","content":"hello"}],"max_tokens":3}`
	w.control(t, w.acme, `{"fault":"429","retry_after":60}`)
	served := map[string]int{}
	for range 12 {
		r := w.chat(ask)
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		served[r.header.Get("X-MyIP-Provider")]++
	}
	if served["Beta Cloud"] != 12 {
		t.Errorf("served by %v while acme is limited", served)
	}
	w.counted(t)
	order, _, inflight := w.chainOf(t)
	if len(order) == 0 || order[0] != "beta" || inflight["beta"] != 0 || inflight["acme"] != 0 {
		t.Errorf("afterwards %v, in flight %v", order, inflight)
	}
	if page := w.call(http.MethodGet, "/metrics", "", "Authorization: Bearer "+w.admin).body; bytes.Contains(page, []byte(`outcome="error"`)) {
		t.Error("a try ended without a word")
	}
}
