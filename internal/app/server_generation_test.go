package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

// generationKeys are all keys of OpenRouter's generation object.
var generationKeys = strings.Fields(`id upstream_id request_id session_id response_cache_source_id created_at model router provider_name
	provider_responses preset_id api_type app_id origin http_referer user_agent external_user workspace_id data_region is_byok streamed
	cancelled finish_reason native_finish_reason service_tier latency generation_time moderation_latency tokens_prompt tokens_completion
	native_tokens_prompt native_tokens_completion native_tokens_reasoning native_tokens_cached native_tokens_completion_images
	num_media_prompt num_media_completion num_input_audio_prompt num_search_results num_fetches web_search_engine usage total_cost
	cache_discount upstream_inference_cost`)

// control switches what a provider does.
func (w *world) control(t *testing.T, p *engine.Provider, body string) {
	t.Helper()
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/control", strings.NewReader(body)))
	if rec.Code != http.StatusOK {
		t.Fatalf("control %s: %d %s", body, rec.Code, rec.Body)
	}
}

// record is the data of a record.
func (r reply) record(t *testing.T) map[string]any {
	t.Helper()
	if r.status != 200 {
		t.Fatalf("record: %d %s", r.status, r.body)
	}
	return r.document(t)["data"].(map[string]any)
}

// responses are the provider_responses of a record as "endpoint status skip_reason".
func responses(record map[string]any) []string {
	list := []string{}
	for _, p := range record["provider_responses"].([]any) {
		p := p.(map[string]any)
		list = append(list, fmt.Sprintf("%v %v %v", p["endpoint_id"], p["status"], p["skip_reason"]))
	}
	return list
}

func TestServer_Generation(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	r := w.chat(ask(qwen, ""), "HTTP-Referer: https://app.example/x", "X-Title: 내 앱", "User-Agent: curl/8")
	id := r.header.Get("X-Generation-Id")
	g := w.generation(id, w.user).record(t)
	for _, key := range generationKeys {
		if _, ok := g[key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
	want := map[string]any{
		"id": id, "model": qwen, "provider_name": "Acme AI", "api_type": "completions", "streamed": false, "cancelled": false, "is_byok": false,
		"http_referer": "https://app.example/x", "title": "내 앱", "user_agent": "curl/8", "finish_reason": "stop", "currency": "KRW",
		"endpoint_id": "acme:" + qwen, "http_status": 200.0, "error_type": nil, "data_region": "global", "usage_source": "upstream", "unbilled_events": 0.0,
		"requested_models": []any{qwen}, "dropped": []any{}, "notes": []any{},
	}
	for k, v := range want {
		if d := cmp.Diff(v, g[k]); d != "" {
			t.Errorf("%s: %s", k, d)
		}
	}
	usage := r.document(t)["usage"].(map[string]any)
	if g["usage"] != usage["cost"] || g["total_cost"] != usage["cost"] || g["usage"] == 0.0 {
		t.Errorf("the record says %v and %v, the answer %v", g["usage"], g["total_cost"], usage["cost"])
	}
	if g["native_tokens_prompt"] != usage["prompt_tokens"] || g["native_tokens_completion"] != usage["completion_tokens"] {
		t.Errorf("tokens %v and %v, the answer says %v", g["native_tokens_prompt"], g["native_tokens_completion"], usage)
	}
	if d := cmp.Diff([]string{"acme:" + qwen + " 200 <nil>"}, responses(g)); d != "" {
		t.Error(d)
	}
	p := g["provider_responses"].([]any)[0].(map[string]any)
	if p["id"] != g["upstream_id"] || p["id"] == nil || p["model_permaslug"] != qwen || p["provider_name"] != "Acme AI" {
		t.Errorf("provider_responses[0] = %v, upstream_id %v", p, g["upstream_id"])
	}
}

func TestServer_GenerationAccess(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	other, _, err := w.app.Accounts.Create(t.Context(), hearth.Key{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	id := w.chat(ask(qwen, `,"stream":true`)).header.Get("X-MyIP-Generation-Id")
	if g := w.generation(id, w.user).record(t); g["streamed"] != true {
		t.Errorf("streamed = %v", g["streamed"])
	}
	if g := w.generation(id, w.admin).record(t); g["id"] != id {
		t.Errorf("the admin sees %v", g["id"])
	}
	foreign, missing := w.generation(id, other), w.generation("gen-01JD8Q2K7M4X9N0000000000AA", other)
	for _, r := range []reply{foreign, missing} {
		if e := r.fault(t); r.status != 404 || e.Error.Type != "not_recorded" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if strings.ReplaceAll(string(foreign.body), id, "") != strings.ReplaceAll(string(missing.body), "gen-01JD8Q2K7M4X9N0000000000AA", "") {
		t.Errorf("the answers tell which id is somebody else's: %s and %s", foreign.body, missing.body)
	}
	for _, query := range []string{"", "?id=", "?ID=" + id, "?id"} {
		r := w.call("GET", "/api/v1/generation"+query, "", "Authorization: Bearer "+w.user)
		if e := r.fault(t); r.status != 400 || e.Error.Param != "id" || !strings.Contains(e.Error.Message, "X-Generation-Id") {
			t.Errorf("%q: %d %s", query, r.status, r.body)
		}
	}
	for _, bad := range []string{"%00", "%ff%fe", "'%20OR%201=1--", strings.Repeat("a", 10_000), "../../etc/passwd", "한글"} {
		r := w.call("GET", "/api/v1/generation?id="+bad, "", "Authorization: Bearer "+w.admin)
		if e := r.fault(t); r.status != 404 || e.Error.Type != "not_recorded" || len(r.body) > 1000 {
			t.Errorf("%.30s: %d %.200s", bad, r.status, r.body)
		}
	}
}

func TestServer_GenerationResponses(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	local, acme := "local-gpu/gpu-1:"+gemma, "acme:"+gemma
	long := `{"model":"` + gemma + `","messages":[{"role":"user","content":"` + strings.Repeat("긴 문장입니다. ", 3000) + `"}]`
	words := func(id string, more ...string) []string {
		return responses(w.generation(id, w.user, more...).record(t))
	}

	t.Run("dropped for its window", func(t *testing.T) {
		r := w.chat(long + "}")
		if r.status != 200 || r.header.Get("X-MyIP-Provider") != "Acme AI" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		id := r.header.Get("X-Generation-Id")
		if d := cmp.Diff([]string{local + " context_length context_length", acme + " 200 <nil>"}, words(id)); d != "" {
			t.Error(d)
		}
		numeric := []string{local + " <nil> context_length", acme + " 200 <nil>"}
		for _, agent := range []string{"speakeasy-sdk/typescript 0.1.11 2.600.2 1.0.0 @openrouter/sdk", "OpenRouter/1.0"} {
			if d := cmp.Diff(numeric, words(id, "User-Agent: "+agent)); d != "" {
				t.Errorf("%s: %s", agent, d)
			}
		}
		if d := cmp.Diff(numeric, words(id+"&status=numeric")); d != "" {
			t.Errorf("status=numeric: %s", d)
		}
	})
	t.Run("excluded by the caller", func(t *testing.T) {
		r := w.chat(ask(gemma, `,"provider":{"ignore":["local-gpu"]}`))
		g := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)
		if d := cmp.Diff([]string{acme + " 200 <nil>"}, responses(g)); d != "" {
			t.Error(d)
		}
		var dropped []string
		for _, d := range g["dropped"].([]any) {
			d := d.(map[string]any)
			dropped = append(dropped, fmt.Sprint(d["endpoint"], " ", d["stage"]))
		}
		if d := cmp.Diff([]string{local + " conditions", "acme/fp8:" + gemma + " conditions"}, dropped); d != "" {
			t.Error(d)
		}
	})
	t.Run("tried and failed before the winner", func(t *testing.T) {
		w.control(t, w.acme, `{"fault":"503","count":1}`)
		r := w.chat(ask(qwen, `,"stream":true`))
		want := []string{"acme:" + qwen + " 503 <nil>", "beta:" + qwen + " 200 <nil>"}
		if d := cmp.Diff(want, words(r.header.Get("X-Generation-Id"))); d != "" {
			t.Error(d)
		}
	})
	t.Run("nobody answered", func(t *testing.T) {
		r := w.chat(ask(broken, ""))
		g := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)
		if d := cmp.Diff([]string{"local-gpu/gpu-2:" + broken + " slot_failed slot_failed"}, responses(g)); d != "" {
			t.Error(d)
		}
		if g["provider_name"] != nil || g["model"] != nil || g["usage"] != 0.0 || g["error_type"] != "model_loading" || g["http_status"] != 503.0 {
			t.Errorf("record %v", g)
		}
	})
	t.Run("an empty chain", func(t *testing.T) {
		r := w.chat(long + `,"provider":{"only":["local-gpu"]}}`)
		if e := r.fault(t); r.status != 400 || e.Error.Type != "context_length_exceeded" {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := w.generation(r.header.Get("X-Generation-Id"), w.user); r.fault(t).Error.Type != "not_recorded" {
			t.Errorf("a 400 has a record: %s", r.body)
		}
		r = w.chat(ask(gemma, `,"provider":{"only":["beta"]}`))
		if e := r.fault(t); r.status != 404 || e.Error.Type != "no_endpoints_found" {
			t.Errorf("%d %s", r.status, r.body)
		}
		g := w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)
		if g["http_status"] != 404.0 || len(responses(g)) != 0 || len(g["dropped"].([]any)) != 3 {
			t.Errorf("record of a 404: %v", g)
		}
	})
}

func TestServer_Chain(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	body := `{"models":["` + gemma + `","` + exaone + `","no/such"],"messages":[{"role":"user","content":"hi"}]}`
	r := w.call("POST", "/api/v1/chain", body, "Authorization: Bearer "+w.user)
	data := r.document(t)["data"].(map[string]any)
	var chain []string
	for _, c := range data["candidates"].([]any) {
		c := c.(map[string]any)
		chain = append(chain, fmt.Sprintf("%v %v %v %v", c["provider_slug"], c["model"], c["priority"], c["local"]))
		if _, ok := c["slot"]; ok != (c["local"] == true) {
			t.Errorf("slot of %v: %v", c["endpoint"], c["slot"])
		}
		if c["reason"] == "" || c["cost"].(map[string]any)["currency"] != "KRW" {
			t.Errorf("candidate %v", c)
		}
	}
	if d := cmp.Diff([]string{"local-gpu " + gemma + " 0 true", "acme " + gemma + " 50 false", "local-gpu " + exaone + " 0 true"}, chain); d != "" {
		t.Error(d)
	}
	if n := data["estimate_tokens"].(float64); n < 1 || n > 1000 {
		t.Errorf("estimate %v", n)
	}
	if !slices.ContainsFunc(data["notes"].([]any), func(n any) bool { return strings.Contains(n.(string), "no/such") }) {
		t.Errorf("notes %v", data["notes"])
	}
	if n := w.acme.Seen().Requests; n != 0 || !slices.Equal(w.statuses(exaone), status(-2)) {
		t.Errorf("somebody was called: %d requests, %v", n, w.statuses(exaone))
	}
}
