package app_test

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// statusGrep is what the documentation tells people to run: grep -o '"status":[^,]*'.
var statusGrep = regexp.MustCompile(`"status":[^,]*`)

func endpointsPath(model string) string { return "/api/v1/models/" + model + "/endpoints" }

// statuses are what the grep prints for a model.
func (w *world) statuses(model string) []string {
	w.t.Helper()
	r := w.call("GET", endpointsPath(model), "")
	if r.status != 200 {
		w.t.Fatalf("%s: %d %s", model, r.status, r.body)
	}
	return statusGrep.FindAllString(string(r.body), -1)
}

func status(n ...int) []string {
	var s []string
	for _, n := range n {
		s = append(s, `"status":`+strconv.Itoa(n))
	}
	return s
}

func TestServer_Catalog(t *testing.T) {
	public := []string{"/api/v1/models", "/v1/models", endpointsPath(gemma), "/api/v1/model/" + gemma, "/api/v1/providers"}
	t.Run("open to everybody", func(t *testing.T) {
		w := startWorld(t, "")
		for _, path := range public {
			if r := w.call("GET", path, ""); r.status != 200 {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
			if r := w.call("GET", path, "", "Authorization: Bearer wrong"); r.status != 200 {
				t.Errorf("%s with a wrong key, which is not needed: %d", path, r.status)
			}
		}
	})
	t.Run("with a key only", func(t *testing.T) {
		w := startWorld(t, "public_catalog: false")
		for _, path := range public {
			r := w.call("GET", path, "")
			if e := r.fault(t); r.status != 401 || e.Error.Type != "unauthorized" {
				t.Errorf("%s without a key: %d %s", path, r.status, r.body)
			}
			if r := w.call("GET", path, "", "Authorization: Bearer "+w.user); r.status != 200 {
				t.Errorf("%s with a key: %d %s", path, r.status, r.body)
			}
		}
		for _, path := range []string{"/health", "/ready"} {
			if r := w.call("GET", path, ""); r.status != 200 {
				t.Errorf("%s: %d", path, r.status)
			}
		}
	})
}

func TestServer_Models(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	doc := w.call("GET", "/api/v1/models", "").document(t)
	data := doc["data"].([]any)
	var ids []string
	for _, m := range data {
		m := m.(map[string]any)
		ids = append(ids, m["id"].(string))
		for _, key := range []string{"id", "canonical_slug", "name", "created", "description", "context_length", "architecture", "pricing", "top_provider",
			"per_request_limits", "default_parameters", "supported_parameters", "supported_voices", "links"} {
			if _, ok := m[key]; !ok {
				t.Errorf("%s has no key %s", m["id"], key)
			}
		}
		if _, ok := m["top_provider"].(map[string]any)["is_moderated"].(bool); !ok {
			t.Errorf("%s: top_provider.is_moderated is no boolean", m["id"])
		}
		for k, v := range m["pricing"].(map[string]any) {
			if s, ok := v.(string); !ok || strings.ContainsAny(s, "eE") && k != "currency" {
				t.Errorf("%s: pricing.%s = %v, want a plain decimal in a string", m["id"], k, v)
			}
		}
		details := m["links"].(map[string]any)["details"].(string)
		if r := w.call("GET", details, ""); r.status != 200 {
			t.Errorf("%s: links.details %s answers %d", m["id"], details, r.status)
		}
		one := w.call("GET", "/api/v1/model/"+m["id"].(string), "").document(t)["data"]
		if d := cmp.Diff(m, one); d != "" {
			t.Errorf("/model/%s differs from the list: %s", m["id"], d)
		}
	}
	if want := []string{gemma, exaone, broken, qwen}; !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(want))) {
		t.Errorf("models %v, want %v", ids, want)
	}
	if doc["total_count"] != float64(len(data)) || cmp.Diff(doc["links"], map[string]any{"next": nil}) != "" {
		t.Errorf("total_count %v, links %v", doc["total_count"], doc["links"])
	}
}

func TestServer_Endpoints(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	r := w.call("GET", endpointsPath(gemma), "")
	data := r.document(t)["data"].(map[string]any)
	if data["id"] != gemma || data["name"] != "Gemma 4 26B A4B" || data["description"] != "small <b>&</b> quick" {
		t.Errorf("model %v", data)
	}
	list := data["endpoints"].([]any)
	if len(list) != 3 {
		t.Fatalf("%d endpoints: %s", len(list), r.body)
	}
	if d := cmp.Diff(status(-2, 0, -10), statusGrep.FindAllString(string(r.body), -1)); d != "" {
		t.Errorf("what grep prints: %s", d)
	}
	for _, part := range strings.Split(string(r.body), `{"name":"`)[1:] {
		if strings.Count(part, `"status":`) != 1 && strings.Contains(part, `"tag":`) {
			t.Errorf("not exactly one status in %s", part)
		}
		if regexp.MustCompile(`"status":[^,{}]*\}`).MatchString(part) {
			t.Errorf("status is the last key of something in %s", part)
		}
	}
	want := []struct{ tag, provider, prompt, completion string }{
		{"local-gpu/gpu-1", "MyIP Local GPU", "0.00003", "0.00015"},
		{"acme", "Acme AI", "0.00008757", "0.00035028"}, // 0.06 USD × 1390 × 1.05 / 1M
		{"acme/fp8", "Acme AI", "0.000072975", "0.0002919"},
	}
	for i, e := range list {
		e, want := e.(map[string]any), want[i]
		p := e["pricing"].(map[string]any)
		got := struct{ tag, provider, prompt, completion string }{e["tag"].(string), e["provider_name"].(string), p["prompt"].(string), p["completion"].(string)}
		if got != want || p["currency"] != "KRW" || p["request"] != "0" {
			t.Errorf("endpoint %d: %+v in %v, want %+v", i, got, p["currency"], want)
		}
		for _, key := range []string{"name", "model_id", "model_name", "quantization", "context_length", "max_completion_tokens", "max_prompt_tokens", "uptime_last_5m",
			"uptime_last_30m", "uptime_last_1d", "latency_last_30m", "throughput_last_30m", "supports_implicit_caching", "supported_parameters"} {
			if _, ok := e[key]; !ok {
				t.Errorf("%s has no key %s", want.tag, key)
			}
		}
		if c := e["supports_tool_choice"].(map[string]any); len(c) != 4 || c["auto"] == nil || c["none"] == nil || c["required"] == nil || c["function"] == nil {
			t.Errorf("supports_tool_choice = %v", c)
		}
		if slot, ok := e["slot"].(map[string]any); ok != (i == 0) || ok && (slot["state"] != "asleep" || slot["node"] != "gpu-1" || slot["waiting"] != 0.0) {
			t.Errorf("%s: slot %v", want.tag, e["slot"])
		}
	}
	if free := w.call("GET", endpointsPath(broken), ""); !strings.Contains(string(free.body), `"prompt":"0.000000000001"`) {
		t.Errorf("a tiny price is not written out: %s", free.body)
	}
}

func TestServer_EndpointNames(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	plain := w.call("GET", endpointsPath(gemma), "").body
	for _, name := range []string{"openai/gpt-4o", "gpt-4o-mini", url.PathEscape(gemma)} {
		if r := w.call("GET", endpointsPath(name), ""); r.status != 200 || string(r.body) != string(plain) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for _, name := range []string{"google/gemma-4-26b-a4", gemma + ":free", "no%20such/model%00", "x", "%2Fx", strings.Repeat("a", 3000) + "/b"} {
		r := w.call("GET", endpointsPath(name), "")
		if e := r.fault(t); r.status != 404 || e.Error.Type != "model_not_found" || len(r.body) > 1000 {
			t.Errorf("%.50s: %d %s", name, r.status, r.body)
		}
	}
	if r := w.call("GET", endpointsPath("google/gemma-4-26b-a4"), ""); !strings.Contains(string(r.body), gemma) {
		t.Errorf("a typing error gets no suggestion: %s", r.body)
	}
}

func TestServer_EndpointStatus(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	want := func(model string, n ...int) {
		t.Helper()
		var got []string
		eventually(t, model+" shows "+strings.Join(status(n...), " "), func() bool {
			got = w.statuses(model)
			return slices.Equal(got, status(n...))
		})
	}
	want(gemma, -2, 0, -10)
	want(exaone, -2)
	r := w.chat(ask(gemma, `,"provider":{"only":["local-gpu"]}`), "X-MyIP-Max-Wait: 0.02")
	if e := r.fault(t); r.status != 503 || e.Error.Type != "model_loading" || e.Error.Metadata.SlotStatus != "slot_loading" || r.header.Get("Retry-After") == "" {
		t.Fatalf("no patience: %d %v %s", r.status, r.header, r.body)
	}
	want(gemma, 0, 0, -10) // the load went on
	want(exaone, -3)
	answered := make(chan reply, 1)
	go func() { answered <- w.chat(ask(exaone, "")) }()
	want(exaone, -1) // 700 ms of loading
	if !strings.Contains(string(w.call("GET", endpointsPath(exaone), "").body), `"load_rest_seconds":`) {
		t.Error("no prediction beside the status")
	}
	if r := <-answered; r.status != 200 || r.header.Get("X-MyIP-Model") != exaone {
		t.Errorf("%d %s", r.status, r.body)
	}
	want(exaone, 0)
	if d := cmp.Diff(status(-3, 0, -10), w.statuses(gemma)); d != "" {
		t.Errorf("behind another model: %s", d)
	}
	if e := w.chat(ask(broken, "")).fault(t); e.Error.Metadata.SlotStatus != "slot_failed" {
		t.Errorf("a slot that cannot start: %+v", e)
	}
	want(broken, -5)

	for range 3 {
		w.control(t, w.acme, `{"fault":"500"}`)
		w.chat(ask(gemma, `,"provider":{"only":["acme"]}`))
	}
	want(gemma, -3, -5, -10)
}

func TestServer_Providers(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	data := w.call("GET", "/v1/providers", "").document(t)["data"].([]any)
	var got []string
	for _, p := range data {
		p := p.(map[string]any)
		got = append(got, p["slug"].(string)+" "+p["name"].(string))
		if _, ok := p["privacy_policy_url"]; !ok {
			t.Errorf("%s has no privacy_policy_url", p["slug"])
		}
		if p["slug"] == "acme" && p["privacy_policy_url"] != "https://acme.example/privacy" || p["slug"] == "beta" && p["privacy_policy_url"] != nil {
			t.Errorf("%s: privacy_policy_url = %v", p["slug"], p["privacy_policy_url"])
		}
	}
	if d := cmp.Diff([]string{"local-gpu MyIP Local GPU", "acme Acme AI", "beta Beta Cloud"}, got); d != "" {
		t.Error(d)
	}
	if b := string(w.call("GET", "/v1/providers", "").body); strings.Contains(b, "secret") || strings.Contains(b, "127.0.0.1") {
		t.Errorf("the list tells what only the operator may know: %s", b)
	}
}
