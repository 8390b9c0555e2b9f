package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// installed is the engine on the real llama.cpp libraries, see test/engine.
var installed = sync.OnceValue(func() (e struct {
	lib, server, generator string
	lacking                string // why there is none
	err                    error
}) {
	cmd := exec.Command("../engine/install")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		e.lacking = strings.TrimSpace(said.String())
	case err != nil:
		e.err = fmt.Errorf("install the engine: %w\n%s", err, said.String())
	}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "LLAMA_LIB":
			e.lib = value
		case "ENGINE_BIN":
			e.server = value
		case "GGUF_BIN":
			e.generator = value
		}
	}
	return e
})

// realWorld is two models on one exclusive node, in real engines, and one external provider for Gemma.
type realWorld struct {
	gemma, exaone         []string // further arguments of the model generator
	gemmaArgs, exaoneArgs []string // further arguments of the engines
	gemmaMore             string   // further keys of Gemma's slot
	places                int      // of Gemma's engine, 0 = 2
}

// window of one sequence of the engines, in tokens.
const window = 1024

// startReal makes the models and runs a gateway on them. Without the libraries the test is skipped.
func startReal(t *testing.T, w realWorld) *gateway {
	t.Helper()
	e := installed()
	if e.err != nil {
		t.Fatal(e.err)
	}
	if e.lacking != "" {
		t.Skip(e.lacking)
	}
	models := t.TempDir()
	places := cmp.Or(w.places, 2)
	line := func(name string, places int, generator, more []string) string {
		file := filepath.Join(models, name+".gguf")
		if out, err := exec.Command(e.generator, append([]string{"-o", file, "-name", name}, generator...)...).CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", name, err, out)
		}
		b, err := json.Marshal(append([]string{e.server, "--lib", e.lib, "--model", file, "--alias", "${model}", "--host", "127.0.0.1", "--port", "${port}",
			"--api-key", "${api_key}", "--ctx-size", strconv.Itoa(places * window), "--parallel", strconv.Itoa(places), "--metrics"}, more...))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const slot = `engine: llama-server, wait: 20s, expected_load: 3s, stop_grace: 1s, price: {prompt: 30, completion: 150}`
	if !strings.Contains(w.gemmaMore, "context:") {
		w.gemmaMore += fmt.Sprintf(", context: %d", window)
	}
	return launch(t, func(acme string) string {
		return fmt.Sprintf(`currency: KRW
exchange_rates: {USD: 1390}
data_dir: data
local: {name: MyIP Local GPU}
default_model: %[1]s
nodes:
  - name: gpu-1
    turn: 300ms
    min_resident: 0s
    slots:
      - {name: gemma, model: %[1]s, command: %[3]s, concurrency: %[9]d, %[5]s%[6]s}
      - {name: exaone, model: %[2]s, command: %[4]s, context: %[7]d, concurrency: 2, %[5]s}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://%[8]s/v1
    models: [{model: %[1]s, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
shutdown: {lame_duck: 0s, grace: 5s}
`, gemma, exaone, line("tiny-gemma", places, w.gemma, w.gemmaArgs), line("tiny-exaone", 2, w.exaone, w.exaoneArgs), slot, w.gemmaMore, window, acme, places)
	})
}

const onlyLocal = `, "provider": {"only": ["local-gpu"]}`

// runningEngine is an engine as its command line says.
type runningEngine struct {
	t         *testing.T
	base, key string
}

func (g *gateway) engine(t *testing.T) runningEngine {
	t.Helper()
	pids := g.engines()
	if len(pids) != 1 {
		t.Fatalf("engines %v", pids)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(string(b), "\x00")
	after := func(flag string) string {
		i := slices.Index(args, flag)
		if i < 0 || i+1 >= len(args) {
			t.Fatalf("no %s in %q", flag, args)
		}
		return args[i+1]
	}
	return runningEngine{t, "http://127.0.0.1:" + after("--port"), after("--api-key")}
}

func (e runningEngine) call(method, path, body, key string) (int, string) {
	e.t.Helper()
	req, err := http.NewRequest(method, e.base+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric is one of the engine's own figures.
func (e runningEngine) metric(name string) int {
	e.t.Helper()
	_, text := e.call("GET", "/metrics", "", e.key)
	_, rest, _ := strings.Cut(text, "llamacpp:"+name+" ")
	word, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(word)
	if err != nil {
		e.t.Fatalf("%s in %s", name, text)
	}
	return n
}

func TestRealColdStartAndSwap(t *testing.T) {
	t.Parallel()
	g := startReal(t, realWorld{})
	t.Run("a cold start answers from model A", func(t *testing.T) {
		if s := g.status(gemma); s != -2 || len(g.engines()) != 0 {
			t.Fatalf("status %d, engines %v before the first request", s, g.engines())
		}
		r := g.chat(ask(gemma, ""))
		g.served(r, local, gemma)
		if !strings.Contains(r.body, "I am tiny-gemma, a scripted model") || g.status(gemma) != 0 || g.acme.Seen().Requests != 0 {
			t.Errorf("status %d, outside %d: %s", g.status(gemma), g.acme.Seen().Requests, r.body)
		}
		// 22 tokens of <|im_start|>user⏎hi<|im_end|>⏎<|im_start|>assistant⏎, and 17 words with the end
		if !strings.Contains(r.body, `"prompt_tokens":22`) || !strings.Contains(r.body, `"completion_tokens":17`) || strings.Contains(r.body, "timings") {
			t.Errorf("usage in %s", r.body)
		}
		// 22 × 30 + 17 × 150 per million
		if rec := g.call("GET", "/generation?id="+r.header.Get("X-Generation-Id"), ""); !strings.Contains(rec.body, `"total_cost":0.00321,`) {
			t.Errorf("record %s", rec.body)
		}
	})
	t.Run("nobody else can use the engine", func(t *testing.T) {
		if status, text := g.engine(t).call("POST", "/v1/chat/completions", ask(gemma, ""), "other"); status != 401 {
			t.Errorf("%d %s", status, text)
		}
	})
	t.Run("a request for B swaps, and B answers", func(t *testing.T) {
		first := g.engines()
		r := g.chat(ask(exaone, ""))
		g.served(r, local, exaone)
		if !strings.Contains(r.body, "I am tiny-exaone") || g.status(exaone) != 0 || g.status(gemma) != -3 {
			t.Errorf("status %d and %d: %s", g.status(exaone), g.status(gemma), r.body)
		}
		if now := g.engines(); len(now) != 1 || now[0] == first[0] || !gone(first[0]) {
			t.Errorf("engines %v, before %v", now, first)
		}
	})
}

func TestRealSwapCutsNothing(t *testing.T) {
	t.Parallel()
	swapCutsNothing(t, startReal(t, realWorld{gemmaArgs: []string{"--token-delay", "50ms"}}), 18)
}

func TestRealOverflow(t *testing.T) {
	t.Parallel()
	long := func(n int) string {
		return strings.Replace(ask(gemma, ""), `"hi"`, `"`+strings.Repeat("x y ", n)+`"`, 1)
	}
	t.Run("a prompt that cannot fit goes outside without waking the slot", func(t *testing.T) {
		g := startReal(t, realWorld{})
		r := g.chat(long(4 * window))
		g.served(r, "Acme AI", gemma)
		if s := g.status(gemma); s != -2 || len(g.engines()) != 0 {
			t.Errorf("status %d, engines %v", s, g.engines())
		}
	})
	t.Run("what only the engine finds too long goes outside, and nobody is blamed", func(t *testing.T) {
		g := startReal(t, realWorld{gemmaMore: ", context: 32768"})
		for range 4 {
			r := g.chat(long(window / 2))
			g.served(r, "Acme AI", gemma)
			if rec := g.call("GET", "/generation?id="+r.header.Get("X-Generation-Id"), ""); !strings.Contains(rec.body, `[{"status":400,`) || !strings.Contains(rec.body, "exceeds the available context size (1024 tokens)") {
				t.Errorf("record %s", rec.body)
			}
		}
		g.served(g.chat(ask(gemma, "")), local, gemma)
	})
}

func TestRealEngineKilled(t *testing.T) {
	t.Parallel()
	g := startReal(t, realWorld{gemmaArgs: []string{"--token-delay", "50ms"}, places: 4})
	g.served(g.chat(ask(gemma, "")), local, gemma)
	killsCutInBand(t, g)
}

func TestRealBrokenModel(t *testing.T) {
	t.Parallel()
	g := startReal(t, realWorld{})
	file, whole := g.breakModel(t, "tiny-gemma")
	r := g.chat(ask(gemma, onlyLocal))
	for _, want := range []string{`"type":"model_loading"`, `"slot_status":"slot_failed"`, "exited with code 1"} {
		if r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, want) {
			t.Errorf("no %s in %d %v %s", want, r.status, r.header, r.body)
		}
	}
	if strings.Contains(r.body, file) || strings.Contains(r.body, "corrupted") {
		t.Errorf("the engine's words are for the operator: %s", r.body)
	}
	g.until("the log has the engine's last words", func() bool { return strings.Contains(g.log.String(), "model is corrupted or incomplete") })
	if g.acme.Seen().Requests != 0 {
		t.Error("the prompt left the house")
	}
	g.served(g.chat(ask(gemma, "")), "Acme AI", gemma)
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	g.until("the mended model is tried again", func() bool { return g.chat(ask(gemma, onlyLocal)).status == 200 })
}

// breakModel cuts a model's file in half and returns its path and what was in it.
func (g *gateway) breakModel(t *testing.T, name string) (string, []byte) {
	t.Helper()
	conf, err := os.ReadFile(g.path("hearth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(conf), "/"+name+".gguf")
	if !ok {
		t.Fatalf("no %s in %s", name, conf)
	}
	file := before[strings.LastIndex(before, `"`)+1:] + "/" + name + ".gguf"
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	return file, whole
}

// TestRealRetryIsWarm is about an estimate of time, so nothing else runs beside it.
func TestRealRetryIsWarm(t *testing.T) {
	g := startReal(t, realWorld{gemmaArgs: []string{"--load-delay", "500ms"}})
	r := g.chat(ask(gemma, onlyLocal), "X-MyIP-Max-Wait", "0.1")
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != 503 || err != nil || after < 1 || after > 10 || !strings.Contains(r.body, `"type":"model_loading"`) {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	<-time.After(time.Duration(after) * time.Second) // the promise is about this time
	g.served(g.chat(ask(gemma, onlyLocal), "X-MyIP-Max-Wait", "0.1"), local, gemma)
}

func TestRealToolsAndReasoning(t *testing.T) {
	t.Parallel()
	g := startReal(t, realWorld{gemma: []string{"-think", "The user wants the weather.", "-tool", "get_weather", "-arguments", `{"city": "Seoul"}`}})
	tools := `, "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]`
	r := g.chat(ask(gemma, tools))
	g.served(r, local, gemma)
	for _, want := range []string{`"finish_reason":"tool_calls"`, `"name":"get_weather"`, `"arguments":"{\"city\": \"Seoul\"}"`, `"text":"The user wants the weather."`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
}

func TestRealThousandAbortedStreams(t *testing.T) {
	t.Parallel()
	const streams, atOnce = 1000, 16
	g := startReal(t, realWorld{gemma: []string{"-loop"}})
	g.served(g.chat(ask(gemma, `, "max_tokens": 1`)), local, gemma)
	e := g.engine(t)
	body := ask(gemma, onlyLocal+`, "stream": true`)
	todo := make(chan struct{})
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range todo {
				resp := g.open("POST", "/chat/completions", body)
				if resp.StatusCode != 200 {
					t.Errorf("status %d", resp.StatusCode)
				}
				if _, err := resp.Body.Read(make([]byte, 64)); err != nil {
					t.Error(err)
				}
				resp.Body.Close()
			}
		})
	}
	for range streams {
		todo <- struct{}{}
	}
	close(todo)
	wg.Wait()
	g.until("the engine is idle", func() bool { return e.metric("requests_processing")+e.metric("requests_deferred") == 0 })
	g.until("no place is taken", func() bool {
		return strings.Contains(g.call("GET", "/models/"+gemma+"/endpoints", "").body, `"inflight":0`)
	})
	if n := e.metric("requests_cancelled_total"); n < streams/2 {
		t.Errorf("%d of %d streams reached the engine and were left", n, streams)
	}
	g.served(g.chat(ask(gemma, onlyLocal+`, "max_tokens": 1`)), local, gemma)
}
