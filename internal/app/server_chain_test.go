package app_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

var update = flag.Bool("update", false, "rewrite golden files")

// passing are the parts of an explained chain that hang on the clock or on the estimator.
var passing = regexp.MustCompile(`(estimated? (?:at|is) |could cost up to |(?:back|retry) in |"(?:load_rest_seconds|estimate_tokens|prompt_tokens|expected|retry_after|p50|p75|p90|p99)": )[0-9.msh]+`)

// explained holds the chain of a request to the letter of testdata/chain/NAME.json.
func (w *world) explained(t *testing.T, name, key, body string) {
	t.Helper()
	r := w.call("POST", "/api/v1/chain", body, "Authorization: Bearer "+key)
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	v := jsontext.Value(r.body)
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		t.Fatal(err)
	}
	got := passing.ReplaceAllString(string(v), "${1}N") + "\n"
	file := filepath.Join("testdata", "chain", strings.ReplaceAll(name, " ", "-")+".json")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// key makes a key with a policy.
func (w *world) key(t *testing.T, policy hearth.Key) string {
	t.Helper()
	plain, _, err := w.app.Accounts.Create(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func askAll(more string, models ...string) string {
	list, err := json.Marshal(models)
	if err != nil {
		panic(err)
	}
	return `{"models":` + string(list) + `,"messages":[{"role":"user","content":"hi"}]` + more + `}`
}

func TestServer_ChainOfAKey(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for _, c := range []struct {
		name   string
		policy hearth.Key
		body   string
	}{
		{"a key that may do everything", hearth.Key{Name: "all"}, askAll("", gemma, exaone)},
		{"a key for the house only", hearth.Key{Name: "house", LocalOnly: true}, askAll("", gemma, qwen)},
		{"a key for the house only and a model that is not there", hearth.Key{Name: "house 2", LocalOnly: true}, ask(qwen, "")},
		{"a key for other models", hearth.Key{Name: "narrow", Models: []string{exaone}}, ask(gemma, "")},
		{"a key for some of the models", hearth.Key{Name: "narrow 2", Models: []string{exaone}}, askAll("", gemma, exaone)},
		{"a key for one provider", hearth.Key{Name: "beta", Providers: []string{"beta"}}, ask(qwen, "")},
		{"a key that has spent its limit", hearth.Key{Name: "poor", Limit: 1}, ask(qwen, "")},
	} {
		t.Run(c.name, func(t *testing.T) { w.explained(t, c.name, w.key(t, c.policy), c.body) })
	}
	if n := w.acme.Seen().Requests + w.beta.Seen().Requests; n != 0 {
		t.Errorf("%d providers were called", n)
	}
}

func TestServer_ChainResidentFirst(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	w.explained(t, "nobody is resident", w.user, askAll("", exaone, gemma))
	if r := w.chat(ask(gemma, "")); r.header.Get("X-MyIP-Provider") != "MyIP Local GPU" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	w.explained(t, "resident first", w.user, askAll("", exaone, gemma))
	w.explained(t, "never across an external one", w.user, askAll("", qwen, exaone, gemma))
	w.explained(t, "not under order", w.user, askAll(`,"provider":{"order":["acme"]}`, exaone, gemma))
}

func TestServer_ChainAfterFailures(t *testing.T) {
	// cool sends three requests to a provider that fails.
	cool := func(t *testing.T, w *world, slug string, p *engine.Provider) {
		t.Helper()
		for range 3 {
			w.control(t, p, `{"fault":"500","count":1}`)
			w.chat(ask(qwen, `,"provider":{"only":["`+slug+`"]}`))
		}
	}
	t.Run("in cooldown", func(t *testing.T) {
		w := startWorld(t, "")
		cool(t, w, "acme", w.acme)
		w.explained(t, "one in cooldown", w.user, ask(qwen, ""))
		cool(t, w, "beta", w.beta)
		w.explained(t, "all in cooldown", w.user, ask(qwen, ""))
	})
	t.Run("rate limited", func(t *testing.T) {
		w := startWorld(t, "")
		for _, p := range []*engine.Provider{w.acme, w.beta} {
			w.control(t, p, `{"fault":"429","count":1}`)
		}
		if r := w.chat(ask(qwen, "")); r.status != 429 || r.header.Get("Retry-After") == "" {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		w.explained(t, "all rate limited", w.user, ask(qwen, ""))
	})
	t.Run("as a last resort", func(t *testing.T) {
		w := startWorld(t, "cooldown: {last_resort: true}")
		cool(t, w, "acme", w.acme)
		w.explained(t, "last resort", w.user, askAll("", qwen, exaone))
	})
	t.Run("a slot that cannot start", func(t *testing.T) {
		w := startWorld(t, "")
		w.chat(ask(broken, ""))
		w.explained(t, "a slot that failed", w.user, ask(broken, ""))
	})
}

// TestServer_Measured checks that what requests show is what the lists and the chain tell, and sort by.
func TestServer_Measured(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for _, slug := range []string{"acme", "beta", "beta"} {
		r := w.chat(ask(qwen, `,"stream":true,"provider":{"only":["`+slug+`"]}`))
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	w.control(t, w.beta, `{"fault":"500","count":1}`)
	w.chat(ask(qwen, `,"provider":{"only":["beta"]}`))
	w.control(t, w.beta, `{"fault":"429","count":1}`)
	w.chat(ask(qwen, `,"provider":{"only":["beta"]}`))
	list := w.call("GET", endpointsPath(qwen), "").document(t)["data"].(map[string]any)["endpoints"].([]any)
	for i, uptime := range []float64{100, 66.667} {
		e := list[i].(map[string]any)
		if e["uptime_last_5m"] != uptime || e["uptime_last_30m"] != uptime || e["uptime_last_1d"] != uptime {
			t.Errorf("%s: uptime %v, want %v", e["tag"], e["uptime_last_1d"], uptime)
		}
		rates := fmt.Sprint(e["attempts_last_30m"], e["error_rate_last_30m"], e["rate_429_last_30m"])
		if want := []string{"1 0 0", "4 0.25 0.25"}[i]; rates != want {
			t.Errorf("%s: attempts and rates %s, want %s", e["tag"], rates, want)
		}
		for _, key := range []string{"latency_last_30m", "throughput_last_30m"} {
			p, ok := e[key].(map[string]any)
			if !ok || p["p50"].(float64) <= 0 || p["p99"].(float64) <= 0 {
				t.Errorf("%s: %s is %v", e["tag"], key, e[key])
			}
		}
	}
	if v := w.call("GET", endpointsPath(exaone), "").document(t)["data"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)["uptime_last_1d"]; v != nil {
		t.Errorf("nobody asked for %s, yet its uptime is %v", exaone, v)
	}

	r := w.call("POST", "/api/v1/chain", ask(qwen+":nitro", ""), "Authorization: Bearer "+w.user)
	var speeds []float64
	for _, c := range r.document(t)["data"].(map[string]any)["candidates"].([]any) {
		c := c.(map[string]any)
		s, ok := c["speed"].(map[string]any)
		if !ok || c["reason"] != "suffix :nitro" {
			t.Fatalf("candidate %v", c)
		}
		speeds = append(speeds, s["throughput"].(map[string]any)["p50"].(float64))
	}
	// beta is out for its rate limit
	if len(speeds) != 1 || speeds[0] <= 0 {
		t.Errorf("throughput of the candidates: %v in %s", speeds, r.body)
	}
}
