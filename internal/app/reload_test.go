package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"myip.co.kr/hearth/internal/config"
)

// edited is the world's configuration with edits: of each two the second takes the place of the first.
func (w *world) edited(edits ...string) (*config.Config, error) {
	return config.Parse(filepath.Join(filepath.Dir(w.cfg.DataDir), "hearth.yaml"), []byte(strings.NewReplacer(edits...).Replace(w.text)), nil, nil)
}

// reload makes the configuration with edits hold.
func (w *world) reload(edits ...string) []config.Change {
	w.t.Helper()
	cfg, err := w.edited(edits...)
	if err != nil {
		w.t.Fatal(err)
	}
	changes, err := w.app.Reload(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return changes
}

const qwenAcme = `      - {model: qwen/qwen3-235b, context: 131072, price: {prompt: 0.20, completion: 0.60}}`

// reloads are edits between two of which a reload goes back and forth: none of them takes a model away.
var harmless = [][]string{
	{},
	{"price: {prompt: 30, completion: 150}", "price: {prompt: 40, completion: 200}"},
	{qwenAcme, ""}, // there is beta
	{"concurrency: 2", "concurrency: 1"},
	{`"4096","--first-token"`, `"4097","--first-token"`}, // the engines' start line
	{"slug: beta", "slug: gamma"},
	{"default_model:", "max_attempts: 5\npublic_catalog: false\nlisten: \":1\"\ndefault_model:"},
	{"wait: 20s", "wait: 30s"},
	{"name: gemma,", "name: other,"},
	{"acme-secret", "acme-secret", "name: Acme AI", "name: Acme"},
}

// TestReload_UnderLoad: no request fails for a reload, and every stream comes to its end.
func TestReload_UnderLoad(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	w.chat(ask(gemma, "")) // the engine is there
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var served [4]atomic.Int64
	for i := range served {
		body := ask([]string{gemma, qwen}[i%2], []string{"", `,"stream":true`}[i/2])
		load.Go(func() {
			for ctx.Err() == nil {
				r := w.chat(body)
				if r.status != 200 || strings.Contains(body, "stream") && !strings.HasSuffix(string(r.body), "data: [DONE]\n\n") || strings.Contains(string(r.body), `"error"`) {
					t.Errorf("status %d: %s", r.status, r.body)
					return
				}
				served[i].Add(1)
			}
		})
	}
	least := func(n int64) bool {
		for i := range served {
			if served[i].Load() < n && !t.Failed() {
				return false
			}
		}
		return true
	}
	for i := range len(harmless) + 1 { // and back to the first
		w.reload(harmless[i%len(harmless)]...)
		n := served[0].Load()
		eventually(t, "a request is served after the reload", func() bool { return served[0].Load() > n || t.Failed() })
	}
	eventually(t, "all kinds of requests were served", func() bool { return least(10) })
	stop()
	load.Wait()
}

// A model that is taken away while an answer streams: the stream ends as it would have, under the price it began with.
func TestReload_RemovedModel(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", `"--tokens-per-second","0"`, `"--tokens-per-second","40"`)
	w.acme.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/control", strings.NewReader(`{"tokens_per_second":40}`)))
	for _, c := range []struct{ name, model string }{
		{"at a provider", qwen},
		{"in a slot", gemma},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.streaming(ask(c.model, `,"stream":true,"max_tokens":60`))
			defer s.Body.Close()
			r := bufio.NewReader(s.Body)
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			w.reload("model: "+c.model+",", "model: other/model,", "id: "+c.model+",", "id: other/model,", "default_model: "+c.model, "default_model: other/model",
				": "+c.model+"}", ": other/model}", ": "+c.model+", openai", ": other/model, openai")
			if f := w.chat(ask(c.model, "")); f.status != 404 {
				t.Errorf("a request that comes later gets %d: %s", f.status, f.body)
			}
			if r.Buffered() > 4<<10 {
				t.Error("the stream is over already")
			}
			rest, err := io.ReadAll(r)
			if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || strings.Contains(string(rest), `"error"`) {
				t.Errorf("%v: the stream ended with %q", err, rest[max(0, len(rest)-300):])
			}
			g := string(w.generation(s.Header.Get("X-Generation-Id"), w.user).body)
			if !strings.Contains(g, `"model":"`+c.model+`"`) || !strings.Contains(g, `"finish_reason":"`) || strings.Contains(g, `"usage":0,`) {
				t.Errorf("record %s", g)
			}
			w.reload()
			if again := w.chat(ask(c.model, "")); again.status != 200 {
				t.Errorf("it does not come back: %d %s", again.status, again.body)
			}
		})
	}
}

// A slot that gets another name, or another place: who waits in its queue waits for the new one.
func TestReload_MovedSlot(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", `"--tokens-per-second","0"`, `"--tokens-per-second","40"`)
	eventually(t, "the engine is there", func() bool { return w.chat(ask(gemma, `,"max_tokens":1`)).status == 200 })
	var asked sync.WaitGroup
	replies := make([]reply, 6)
	for i := range replies {
		asked.Go(func() { replies[i] = w.chat(ask(gemma, `,"max_tokens":40,"provider":{"only":["local-gpu"]}`)) })
	}
	eventually(t, "some wait", func() bool {
		return strings.Contains(string(w.call("GET", "/api/v1/models/"+gemma+"/endpoints", "").body), `"waiting":4`)
	})
	w.reload("name: gemma,", "name: other,", "price: {prompt: 30, completion: 150}", "price: {prompt: 60, completion: 300}")
	asked.Wait()
	dear := 0
	for _, r := range replies {
		g := string(w.generation(r.header.Get("X-Generation-Id"), w.user).body)
		if r.status != 200 {
			t.Errorf("status %d: %s\n%s", r.status, r.body, g)
		}
		if strings.Contains(g, "the slot is not configured any more") && strings.Contains(g, `"list_price_completion":"300"`) {
			dear++
		}
	}
	if dear != 4 {
		t.Errorf("%d of those who waited were served by the new slot at its price", dear)
	}
	if r := w.chat(ask(gemma, `,"provider":{"only":["local-gpu"]}`)); r.status != 200 {
		t.Errorf("afterwards: status %d: %s", r.status, r.body)
	}
}

// streaming sends a request and returns its answer, unread.
func (w *world) streaming(body string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.base+"/api/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.user)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		w.t.Fatalf("%v, %+v", err, resp)
	}
	return resp
}

// A file that cannot be used changes nothing, and everybody hears of it.
func TestReload_BadFile(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	before := w.app.Catalog()
	notices := func() string {
		return string(w.call("GET", "/api/v1/slots", "", "Authorization: Bearer "+w.admin).body)
	}
	if n := notices(); !strings.Contains(n, `"notices":[]`) && !strings.Contains(n, `"notices":null`) {
		t.Errorf("notices before: %s", n)
	}
	for _, edits := range [][]string{
		{"margin: 5%", "margin: lots\nlisten: nowhere", "slug: beta", "slug: acme"},
		{"currency: KRW", "currency: KRW\ncurrency: USD"},
	} {
		if err := w.app.ReloadFrom(func() (*config.Config, error) { return w.edited(edits...) }); err == nil {
			t.Fatal("no error")
		}
		if w.app.Catalog() != before || w.chat(ask(qwen, "")).status != 200 {
			t.Error("something changed")
		}
	}
	for _, problem := range []string{"margin: ", "listen: ", "providers[1].slug: ", "currency: stands twice"} {
		if strings.Count(w.log.String(), "configuration refused") != 5 || !strings.Contains(w.log.String(), problem) {
			t.Errorf("the log says nothing of %q:\n%s", problem, w.log)
		}
	}
	if n := notices(); !strings.Contains(n, "the configuration was refused at ") || !strings.Contains(n, "currency") {
		t.Errorf("notices: %s", n)
	}
	if err := w.app.ReloadFrom(func() (*config.Config, error) { return w.edited("margin: 5%", "margin: 7%\nkey_prefix: sk-x-") }); err != nil {
		t.Fatal(err)
	}
	if n := notices(); strings.Contains(n, "refused") || !strings.Contains(n, `"needs a restart: key_prefix changed"`) {
		t.Errorf("notices after a good one: %s", n)
	}
	if l := w.log.String(); !strings.Contains(l, `changes="margin changed"`) || !strings.Contains(l, `needs_restart="key_prefix changed"`) {
		t.Errorf("the log does not say what changed:\n%s", l)
	}
}

// What can be changed is, although something else needs a restart.
func TestReload_Restart(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for range 2 { // it is said again each time
		changes := w.reload("currency: KRW", "listen: \":1\"\ncurrency: KRW", "name: Beta Cloud", "name: Beta")
		if got := config.Summary(changes, true); got != "listen changed" {
			t.Errorf("needs a restart: %q", got)
		}
		if l := string(w.call("GET", "/api/v1/providers", "").body); !strings.Contains(l, `"Beta"`) {
			t.Errorf("providers: %s", l)
		}
	}
	if changes := w.reload(); config.Summary(changes, true) != "" || config.Summary(changes, false) != "providers.beta.name changed" {
		t.Errorf("the way back: %v", changes)
	}
	if changes := w.reload(); len(changes) != 0 {
		t.Errorf("nothing differs, yet %v", changes)
	}
}

// Two reloads at once: one of them holds in the end, as a whole.
func TestReload_TwoAtOnce(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "")
	for i := range 10 {
		var both sync.WaitGroup
		for _, name := range []string{"red", "blue"} {
			cfg, err := w.edited("name: Beta Cloud", "name: "+name, "default_model:", fmt.Sprintf("headers_prefix: X-%s%d\ndefault_model:", name, i), "wait: 10s", "wait: 9s")
			if err != nil {
				t.Fatal(err)
			}
			both.Go(func() {
				if _, err := w.app.Reload(cfg); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		r := w.chat(ask(qwen, `,"provider":{"only":["beta"]}`))
		name := string(w.call("GET", "/api/v1/providers", "").body)
		for _, c := range []string{"red", "blue"} {
			if got := r.header[fmt.Sprintf("X-%s%d-Provider", strings.ToUpper(c[:1])+c[1:], i)]; len(got) == 1 != strings.Contains(name, `"`+c+`"`) {
				t.Errorf("header %v, providers %s", r.header, name)
			}
		}
	}
}

// While the gateway shuts down nothing is changed any more, and what is not ready stays so.
func TestReload_Shutdown(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "", "lame_duck: 0s, grace: 5s", "lame_duck: 300ms, grace: 5s")
	s := w.streaming(ask(gemma, `,"stream":true,"max_tokens":20`))
	defer s.Body.Close()
	w.app.Server.Drain()
	w.reload("wait: 10s", "wait: 9s")
	if r := w.call("GET", "/ready", ""); r.status != 503 {
		t.Errorf("/ready is %d after a reload in the lame duck", r.status)
	}
	w.end()
	cfg, err := w.edited()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.app.Reload(cfg); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("%v", err)
	}
}
