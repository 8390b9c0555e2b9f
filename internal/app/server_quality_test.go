package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestServer_Quality: the operator flags an endpoint, and a benchmark does; requests keep off it while another has room;
// reloads and a look at the chain know it.
func TestServer_Quality(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", "routing: {by: price}", "routing: {kappa: 1}")
	admin := "Authorization: Bearer " + w.admin
	served := func() map[string]int {
		n := map[string]int{}
		for range 25 {
			n[w.chat(ask(qwen, `"max_tokens":3`)).header.Get("X-MyIP-Provider")]++
		}
		return n
	}
	put := func(body string) reply { return w.call(http.MethodPut, "/api/v1/quality", body, admin) }
	const id = "acme:" + qwen

	if r := w.call(http.MethodGet, "/api/v1/quality", "", "Authorization: Bearer "+w.user); r.status != http.StatusForbidden {
		t.Errorf("a user's key: %d", r.status)
	}
	r := put(`{"endpoint":"` + id + `","flagged":true,"reason":"garbles Korean"}`)
	if r.status != http.StatusOK || !strings.Contains(string(r.body), `"by":"operator","reason":"garbles Korean"`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	look := func(what, want string) {
		t.Helper()
		for _, at := range [][3]string{{http.MethodGet, "/api/v1/models/" + qwen + "/endpoints", ""}, {http.MethodPost, "/api/v1/chain", ask(qwen, "")}} {
			if r := w.call(at[0], at[1], at[2], admin); want != "" && !strings.Contains(string(r.body), want) || want == "" && strings.Contains(string(r.body), `"flagged":"`) {
				t.Errorf("%s: %s says %s", what, at[1], r.body)
			}
		}
	}
	look("flagged", `"flagged":"garbles Korean"`)
	eventually(t, "requests keep off it", func() bool { return served()["Acme AI"] <= 4 })
	w.reload("routing: {kappa: 1}", "routing: {kappa: 0.9}")
	look("after a reload", `"flagged":"garbles Korean"`)
	if n := served(); n["Acme AI"] > 8 {
		t.Errorf("after a reload served by %v", n)
	}
	if r := put(`{"endpoint":"` + id + `","flagged":false}`); string(r.body) != `{"data":[]}`+"\n" && strings.TrimSpace(string(r.body)) != `{"data":[]}` {
		t.Errorf("cleared: %s", r.body)
	}
	look("cleared", "")

	bench := func(body, query string) string {
		return string(w.call(http.MethodPost, "/api/v1/quality/benchmark"+query, body, admin).body)
	}
	const head, rest = "model,provider,score,sigma\n", qwen + ",beta,0.7,0.01\n" + qwen + ",x,0.7,0.01\n"
	if got := bench(head+qwen+",acme,0.5,0.01\n"+rest, "?dry=true"); !strings.Contains(got, `"flagged":["`+id+`"]`) {
		t.Errorf("dry: %s", got)
	}
	look("dry", "")
	bench(head+qwen+",acme,0.5,0.01\n"+rest, "")
	look("by a benchmark", `"flagged":"benchmark: 0.5, where 0.7 is usual for the model and 0.01 is one sigma"`)
	if got := bench(head+qwen+",acme,0.69,0.01\n"+rest, ""); !strings.Contains(got, `"cleared":["`+id+`"]`) {
		t.Errorf("back within two sigma: %s", got)
	}
	look("back within two sigma", "")

	for _, bad := range []string{
		`{"endpoint":"` + id + `","flagged":true}`, `{"endpoint":"` + id + `","flagged":false,"reason":"x"}`, `{"endpoint":"` + id + `"}`, `{}`, `x`,
		`{"endpoint":"nobody:x/y","flagged":true,"reason":"x"}`, `{"endpoint":"` + id + `","flagged":true,"reason":"a\nb"}`, `{"endpoint":"` + id + `","flagged":true,"reason":"` + strings.Repeat("x", 201) + `"}`,
	} {
		if r := put(bad); r.status/100 != 4 {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
	if r := put(`{"endpoint":"` + id + `","flagged":true,"reason":""}`); !strings.Contains(string(r.body), "reason is empty; say why the endpoint is flagged") {
		t.Errorf("a flag without a reason: %s", r.body)
	}
	if got := bench("model\n", ""); !strings.Contains(got, "line 1: the head must name") {
		t.Errorf("a bad benchmark: %s", got)
	}
}
