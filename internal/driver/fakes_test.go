package driver

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"myip.co.kr/hearth"
)

// fake is a server that has one model and behaves as one kind of engine does, on a real socket.
type fake struct {
	t    *testing.T
	http *httptest.Server
	kind string // a preset, "" = a home-made agent

	mu       sync.Mutex
	model    string
	load     time.Duration // how long loading takes
	fails    bool          // loading fails
	key      string        // it wants, "" = none
	state    string        // "unloaded", "loading" or "loaded"
	turn     int           // counts orders: one ends what the one before has begun
	copies   int           // LM Studio: instances in memory
	busy     int           // vLLM, SGLang: requests of others that it works on
	seed     int           // SGLang: another one at each start
	old      bool          // SGLang: it knows /server_info by its former name only
	info     string        // SGLang: what /server_info says instead, "" = the usual
	asked    []string      // requests other than GET, and their bodies
	injuries []string      // what no client may do to it
}

// startFake starts a server of a kind that has not loaded its model.
func startFake(t *testing.T, kind string) *fake {
	f := &fake{t: t, kind: kind, model: "acme/tiny", state: "unloaded"}
	mux := http.NewServeMux()
	mux.HandleFunc("/slots", f.never("/slots was asked"))
	mux.HandleFunc("/tokenize", f.never("/tokenize was asked"))
	mux.HandleFunc("POST /v1/chat/completions", f.chat)
	mux.HandleFunc("GET /v1/models", f.list)
	mux.HandleFunc("GET /health", f.health)
	switch kind {
	case vllm:
		f.serveVLLM(mux)
	case sglang:
		f.serveSGLang(mux)
	case ollama:
		f.serveOllama(mux)
	case llamaServer:
		f.serveRouter(mux)
	case lmStudio:
		f.serveStudio(mux)
	case tabbyAPI:
		f.serveTabby(mux)
	default:
		f.serveAgent(mux)
	}
	f.http = httptest.NewServer(f.guard(mux))
	t.Cleanup(func() {
		f.http.Close()
		for _, what := range f.injuries {
			t.Errorf("%s: %s", kind, what)
		}
	})
	return f
}

// guard wants the key, and takes note of what is ordered.
func (f *fake) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		key := f.key
		f.mu.Unlock()
		if key != "" && r.Header.Get("Authorization") != "Bearer "+key && r.URL.Path != "/health" {
			http.Error(w, `{"error":{"message":"Invalid API Key"}}`, http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			f.mu.Lock()
			f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
			f.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
}

func (f *fake) never(what string) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { f.injure(what) }
}

func (f *fake) injure(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injuries = append(f.injuries, what)
}

func (f *fake) is() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// loads loads the model, and gives up when gone is closed.
func (f *fake) loads(gone <-chan struct{}) bool {
	f.mu.Lock()
	load := f.load
	f.state = "loading"
	f.turn++
	turn := f.turn
	f.mu.Unlock()
	abort := false
	select {
	case <-time.After(load):
	case <-gone:
		abort = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turn != turn {
		return false
	}
	if abort || f.fails {
		f.state = "unloaded"
		return false
	}
	f.state = "loaded"
	f.copies++
	return true
}

func (f *fake) health(w http.ResponseWriter, _ *http.Request) {
	switch f.kind {
	case ollama:
		http.NotFound(w, nil)
	case lmStudio:
		fmt.Fprint(w, `{"error":"Unexpected endpoint or method. (GET /health)"}`)
	case tabbyAPI: // it never forgets an issue
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"unhealthy","issues":[{"description":"once"}]}`)
	case "":
		if f.is() != "loaded" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

func (f *fake) list(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry := map[string]any{"id": f.model, "object": "model"}
	switch f.kind {
	case vllm, sglang:
		entry["owned_by"], entry["max_model_len"] = f.kind, 4096
	case ollama:
		entry["owned_by"] = "library"
	case llamaServer:
		entry["owned_by"] = "llamacpp"
		entry["status"] = map[string]any{"value": f.state, "failed": f.fails && f.state == "unloaded"}
	}
	other := map[string]any{"id": "acme/other", "object": "model", "status": map[string]any{"value": "unloaded"}}
	answer(w, map[string]any{"object": "list", "data": []any{other, entry}})
}

func (f *fake) chat(w http.ResponseWriter, _ *http.Request) {
	if f.is() != "loaded" {
		f.injure("a request without a model in memory")
		http.Error(w, "CUDA error: an illegal memory access was encountered", http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": "I am " + f.model}}}})
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	answer(w, map[string]any{"error": map[string]any{"message": message, "code": status}})
}

func (f *fake) serveVLLM(mux *http.ServeMux) {
	mux.HandleFunc("GET /is_sleeping", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]bool{"is_sleeping": f.is() != "loaded"})
	})
	mux.HandleFunc("POST /wake_up", func(w http.ResponseWriter, _ *http.Request) {
		if !f.loads(nil) { // it goes on without its client
			refuse(w, http.StatusInternalServerError, "Call to wake_up method failed: CUDA Error: out of memory")
		}
	})
	mux.HandleFunc("POST /sleep", func(_ http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.busy > 0 {
			f.injuries = append(f.injuries, "it was put to sleep at work")
		}
		if r.URL.Query().Get("level") != "1" {
			f.injuries = append(f.injuries, "it was put to sleep at another level than 1")
		}
		f.state = "unloaded"
	})
	mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer(w, map[string]int{"server_load": f.busy})
	})
}

func (f *fake) serveOllama(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, _ *http.Request) {
		models := []any{}
		if f.is() == "loaded" { // nothing is listed while it loads
			models = append(models, map[string]any{"name": f.model + ":latest", "model": f.model + ":latest", "context_length": 4096})
		}
		answer(w, map[string]any{"models": models})
	})
	mux.HandleFunc("POST /api/generate", func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Model  string `json:"model"`
			Keep   int    `json:"keep_alive"`
			Prompt string `json:"prompt"`
		}
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &ask); err != nil || ask.Prompt != "" {
			f.injure("a strange request: " + string(b))
		}
		if !sameName(ask.Model, f.model) {
			w.WriteHeader(http.StatusNotFound)
			answer(w, map[string]string{"error": "model '" + ask.Model + "' not found"})
			return
		}
		reason := "load"
		if ask.Keep == 0 {
			reason = "unload"
			f.set(func() {
				if f.state == "loaded" {
					f.state = "unloaded"
				}
			})
		} else if !f.loads(r.Context().Done()) {
			w.WriteHeader(http.StatusInternalServerError)
			answer(w, map[string]string{"error": "llama runner process has terminated"})
			return
		}
		answer(w, map[string]any{"done": true, "done_reason": reason})
	})
}

func (f *fake) serveRouter(mux *http.ServeMux) {
	mux.HandleFunc("GET /props", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("autoload") != "false" || q.Get("model") == "" {
			f.injure("/props that may load a model")
		}
		answer(w, map[string]any{"total_slots": 2, "default_generation_settings": map[string]int{"n_ctx": 4096}})
	})
	mux.HandleFunc("POST /models/load", func(w http.ResponseWriter, _ *http.Request) {
		if f.is() != "unloaded" {
			refuse(w, http.StatusBadRequest, "model is already running")
			return
		}
		f.set(func() { f.state = "loading" })
		go f.loads(nil)
		answer(w, map[string]bool{"success": true})
	})
	mux.HandleFunc("POST /models/unload", func(w http.ResponseWriter, _ *http.Request) {
		if f.is() == "unloaded" {
			refuse(w, http.StatusBadRequest, "model is not running")
			return
		}
		go func() { // it takes its time
			<-time.After(30 * time.Millisecond)
			f.set(func() { f.state, f.turn = "unloaded", f.turn+1 })
		}()
		answer(w, map[string]bool{"success": true})
	})
}

func (f *fake) serveStudio(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		instances := []any{}
		for i := range f.copies {
			id := f.model
			if i > 0 {
				id = fmt.Sprintf("%s:%d", f.model, i+1)
			}
			instances = append(instances, map[string]any{"id": id, "config": map[string]int{"context_length": 4096, "parallel": 2}})
		}
		answer(w, map[string]any{"models": []any{map[string]any{"type": "llm", "key": f.model, "loaded_instances": instances, "max_context_length": 131072}}})
	})
	mux.HandleFunc("POST /api/v1/models/load", func(w http.ResponseWriter, _ *http.Request) {
		if f.is() == "loaded" {
			f.injure("a second instance was loaded")
		}
		if !f.loads(nil) {
			refuse(w, http.StatusInternalServerError, "Failed to load model")
			return
		}
		answer(w, map[string]any{"instance_id": f.model, "status": "loaded", "load_time_seconds": 0.1})
	})
	mux.HandleFunc("POST /api/v1/models/unload", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(b), `"instance_id"`) {
			f.injure("it was asked to unload " + string(b))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.copies = max(0, f.copies-1); f.copies == 0 {
			f.state = "unloaded"
		}
		answer(w, map[string]string{"instance_id": f.model})
	})
}

func (f *fake) serveTabby(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/model", func(w http.ResponseWriter, _ *http.Request) {
		if f.is() != "loaded" {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer(w, map[string]string{"detail": "No models are currently loaded."})
			return
		}
		answer(w, map[string]any{"id": f.model, "object": "model", "parameters": map[string]int{"max_seq_len": 4096, "max_batch_size": 2}})
	})
	mux.HandleFunc("POST /v1/model/load", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"module\":1,\"modules\":2,\"status\":\"processing\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		if !f.loads(nil) { // it goes on without its client
			fmt.Fprint(w, "data: {\"error\":{\"message\":\"Insufficient VRAM\"}}\n\n")
			return
		}
		fmt.Fprint(w, "data: {\"module\":2,\"modules\":2,\"status\":\"finished\"}\n\n")
	})
	mux.HandleFunc("POST /v1/model/unload", func(http.ResponseWriter, *http.Request) { f.set(func() { f.state = "unloaded" }) })
}

// serveAgent is a home-made server that takes orders at once.
func (f *fake) serveAgent(mux *http.ServeMux) {
	mux.HandleFunc("PUT /load/{model...}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Agent") != "secret" {
			f.injure("an order without its header")
		}
		f.set(func() { f.state = "loading" })
		go f.loads(nil)
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("DELETE /load", func(http.ResponseWriter, *http.Request) {
		f.set(func() { f.state, f.turn = "unloaded", f.turn+1 })
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"models": []any{map[string]any{"up": f.is() != "unloaded"}}})
	})
}

// slot is a slot whose engine is the server.
func (f *fake) slot() *hearth.Slot {
	s := &hearth.Slot{Name: "s", Driver: HTTP, Preset: f.kind, Engine: f.kind, URL: f.http.URL + "/", Node: &hearth.Node{Name: "n", Exclusive: true},
		Model: &hearth.Model{ID: "acme/tiny"}}
	if f.kind == "" {
		s.Actions = hearth.Actions{
			Start:  &hearth.Action{Method: "PUT", URL: "/load/${model}", Headers: map[string]hearth.Secret{"X-Agent": "secret"}, Body: `{"model":"${model}"}`, Status: []int{202}},
			Stop:   &hearth.Action{Method: "DELETE", URL: f.http.URL + "/load"},
			Status: &hearth.Action{URL: "/state", Match: "models.0.up=true"},
		}
	}
	return s
}
