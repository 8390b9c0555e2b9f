package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// pages is an engine that answers each path with a page, on connections that are pipes, so that time is virtual.
type pages struct {
	mu    sync.Mutex
	pages map[string]string // "GET /path" is answered with 200 and this; "503 body" with that status
	asked []string
	srv   *http.Server
	conns chan net.Conn
}

func servePages(t *testing.T, answers map[string]string) *pages {
	p := &pages{pages: answers, conns: make(chan net.Conn)}
	p.srv = &http.Server{Handler: p}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.srv.Serve(&pipes{p.conns, make(chan struct{}), sync.Once{}})
	}()
	t.Cleanup(func() { p.srv.Close(); <-done })
	return p
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.URL.RequestURI())
	page, ok := p.pages[r.URL.Path]
	var status int
	if n, _ := fmt.Sscanf(page, "%3d ", &status); n == 1 {
		w.WriteHeader(status)
		page = page[4:]
	} else if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, page)
}

func (p *pages) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pages) times(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if a == path {
			n++
		}
	}
	return n
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr {
	return &net.TCPAddr{}
}

// observe asks an engine with these pages once.
func observe(t *testing.T, s *hearth.Slot, answers map[string]string) (r slot.Report, asked []string, err error) {
	t.Helper()
	if s.Model == nil {
		s.Model = &hearth.Model{ID: "acme/tiny"}
	}
	if answers["/health"] == "" {
		answers["/health"] = "200 "
	}
	synctest.Test(t, func(t *testing.T) {
		p := servePages(t, answers)
		o := newObserver(s, p.dial)
		r, err = o.look(t.Context(), "http://engine", "")
		o.close()
		asked = p.asked
	})
	return r, asked, err
}

// TestDiscovery is what is read from the answers of each kind of engine, as they were measured.
func TestDiscovery(t *testing.T) {
	const llamaList = `{"models":[{"name":"x"}],"object":"list","data":[{"id":"acme/tiny","aliases":["t1"],"object":"model","owned_by":"llamacpp","meta":{"n_vocab":384,"n_ctx":4096,"n_ctx_train":8192}}]}`
	for _, c := range []struct {
		name  string
		slot  hearth.Slot
		pages map[string]string
		ready bool
		facts hearth.SlotFacts
		why   string // a part of it, or of the error
		asks  string // what was asked, in turn
	}{
		{name: "llama-server", slot: hearth.Slot{Driver: Exec, Engine: llamaServer}, ready: true, asks: "/health /v1/models /props",
			pages: map[string]string{"/v1/models": llamaList, "/props": `{"total_slots":4,"default_generation_settings":{"n_ctx":2048},"model_alias":"acme/tiny","is_sleeping":true}`},
			facts: hearth.SlotFacts{Window: 2048, Parallel: 4, Model: "acme/tiny"}},
		{name: "llama-server without /props", slot: hearth.Slot{Driver: Always}, ready: true, asks: "/health /v1/models /props",
			pages: map[string]string{"/v1/models": llamaList}, facts: hearth.SlotFacts{Window: 4096, Model: "acme/tiny"}},
		{name: "an alias", slot: hearth.Slot{Driver: Always, UpstreamModel: "T1"}, ready: true,
			pages: map[string]string{"/v1/models": llamaList}, facts: hearth.SlotFacts{Window: 4096, Model: "acme/tiny"}},
		{name: "a file's name is taken from our own llama-server", slot: hearth.Slot{Driver: Exec, Engine: llamaServer}, ready: true,
			pages: map[string]string{"/v1/models": `{"data":[{"id":"/srv/tiny.gguf","meta":{"n_ctx":512}}]}`},
			facts: hearth.SlotFacts{Window: 512, Model: "/srv/tiny.gguf", Warning: "it calls its model /srv/tiny.gguf"}},
		{name: "not if the operator said another", slot: hearth.Slot{Driver: Exec, Engine: llamaServer, UpstreamModel: "tiny"},
			pages: map[string]string{"/v1/models": `{"data":[{"id":"/srv/tiny.gguf"}]}`}, why: "it lists other models: /srv/tiny.gguf"},
		{name: "nor from somebody else's", slot: hearth.Slot{Driver: Always}, pages: map[string]string{"/v1/models": `{"data":[{"id":"/srv/tiny.gguf"}]}`},
			why: "the engine has another model: it lists other models: /srv/tiny.gguf"},
		{name: "nor one of two", slot: hearth.Slot{Driver: Exec}, pages: map[string]string{"/v1/models": `{"data":[{"id":"a"},{"id":"b"}]}`}, why: "a, b"},
		{name: "the slug alone", slot: hearth.Slot{Driver: Always}, ready: true, pages: map[string]string{"/v1/models": `{"data":[{"id":"TINY"}]}`},
			facts: hearth.SlotFacts{Model: "TINY"}},
		{name: "vllm", slot: hearth.Slot{Driver: Exec, Engine: vllm}, ready: true, asks: "/health /v1/models",
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny","owned_by":"vllm","max_model_len":8192}]}`}, facts: hearth.SlotFacts{Window: 8192, Model: "acme/tiny"}},
		{name: "vllm minds the name", slot: hearth.Slot{Driver: Exec, Engine: vllm}, pages: map[string]string{"/v1/models": `{"data":[{"id":"Acme/Tiny"}]}`}, why: "other models: Acme/Tiny"},
		{name: "vllm, which was not said", slot: hearth.Slot{Driver: Exec}, pages: map[string]string{"/v1/models": `{"data":[{"id":"tiny","owned_by":"vllm"}]}`}, why: "other models: tiny"},
		{name: "sglang", slot: hearth.Slot{Driver: Always, Engine: sglang}, ready: true,
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny","owned_by":"sglang","max_model_len":1024}]}`}, facts: hearth.SlotFacts{Window: 1024, Model: "acme/tiny"}},
		{name: "ollama, loaded", slot: hearth.Slot{Driver: Always, Engine: ollama, UpstreamModel: "gemma3:27b", Probe: "/api/version"}, ready: true, asks: "/api/version /v1/models /api/ps",
			pages: map[string]string{"/api/version": "{}", "/v1/models": `{"data":[{"id":"gemma3:27b","owned_by":"library"}]}`, "/api/ps": `{"models":[{"name":"gemma3:27b","model":"gemma3:27b","context_length":2048}]}`},
			facts: hearth.SlotFacts{Window: 2048, Model: "gemma3:27b"}},
		{name: "ollama, not loaded", slot: hearth.Slot{Driver: Always, UpstreamModel: "Gemma3"}, ready: true, asks: "/health /v1/models /v1/models /api/ps",
			pages: map[string]string{"/health": "404 ", "/v1/models": `{"data":[{"id":"gemma3:latest","owned_by":"library"}]}`, "/api/ps": `{"models":[{"name":"qwen:latest","context_length":9}]}`},
			facts: hearth.SlotFacts{Model: "gemma3:latest"}},
		{name: "ollama, loaded by order", slot: hearth.Slot{Driver: HTTP, Preset: ollama, Engine: ollama, UpstreamModel: "gemma3"},
			pages: map[string]string{"/v1/models": `{"data":[{"id":"gemma3:latest"}]}`, "/api/ps": `{"models":[]}`}, why: "it has not loaded the model"},
		{name: "a router", slot: hearth.Slot{Driver: HTTP, Preset: llamaServer, Engine: llamaServer}, ready: true, asks: "/health /v1/models /props?autoload=false&model=acme%2Ftiny",
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny","status":{"value":"sleeping"}}]}`, "/props": `{"total_slots":1,"default_generation_settings":{"n_ctx":256}}`},
			facts: hearth.SlotFacts{Window: 256, Parallel: 1, Model: "acme/tiny"}},
		{name: "a router that loads", slot: hearth.Slot{Driver: HTTP, Preset: llamaServer, Engine: llamaServer}, asks: "/health /v1/models",
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny","status":{"value":"loading"}}]}`}, why: "not loaded"},
		{name: "lm studio, two instances", slot: hearth.Slot{Driver: Always, Engine: lmStudio}, ready: true, asks: "/health /api/v1/models",
			pages: map[string]string{"/api/v1/models": `{"models":[{"key":"acme/tiny","max_context_length":131072,"loaded_instances":[{"id":"acme/tiny","config":{"context_length":8192}},{"id":"acme/tiny:2","config":{"context_length":4096}}]}]}`},
			facts: hearth.SlotFacts{Window: 4096, Model: "acme/tiny"}},
		{name: "an old lm studio", slot: hearth.Slot{Driver: Always, Engine: lmStudio}, ready: true, asks: "/health /api/v1/models /v1/models",
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny"}]}`}, facts: hearth.SlotFacts{Model: "acme/tiny"}},
		{name: "tabbyapi with an issue", slot: hearth.Slot{Driver: Always, Engine: tabbyAPI}, ready: true, asks: "/health /v1/model",
			pages: map[string]string{"/health": "503 {}", "/v1/model": `{"id":"acme/tiny","parameters":{"max_seq_len":32768,"max_batch_size":8}}`}, facts: hearth.SlotFacts{Window: 32768, Parallel: 8, Model: "acme/tiny"}},
		{name: "tabbyapi without a model", slot: hearth.Slot{Driver: Always, Engine: tabbyAPI}, pages: map[string]string{"/v1/model": `503 {"detail":"No models are currently loaded."}`}, why: "it has no model loaded"},
		{name: "loading", slot: hearth.Slot{Driver: Exec}, pages: map[string]string{"/health": `503 {"error":{"message":"Loading model"}}`}, why: "status 503", asks: "/health"},
		{name: "our own without a list", slot: hearth.Slot{Driver: Exec}, ready: true, pages: map[string]string{}, facts: hearth.SlotFacts{Warning: "it does not say which model it has"}},
		{name: "somebody else's without a list", slot: hearth.Slot{Driver: Always}, pages: map[string]string{}, why: "it does not list its models"},
		{name: "contradictions", slot: hearth.Slot{Driver: Exec, Engine: sglang, Context: 8192, Concurrency: 4}, ready: true,
			pages: map[string]string{"/v1/models": llamaList, "/props": `{"total_slots":2}`},
			facts: hearth.SlotFacts{Window: 4096, Model: "acme/tiny", Warning: "it looks like llama-server, not sglang (engine)"}},
		{name: "more at once than there is", slot: hearth.Slot{Driver: Exec, Engine: llamaServer, Context: 4096, Concurrency: 4}, ready: true,
			pages: map[string]string{"/v1/models": llamaList, "/props": `{"total_slots":2}`},
			facts: hearth.SlotFacts{Window: 4096, Parallel: 2, Model: "acme/tiny"}},
		{name: "a window that is not said contradicts nothing", slot: hearth.Slot{Driver: Exec, Context: 8192, Concurrency: 4}, ready: true,
			pages: map[string]string{"/v1/models": `{"data":[{"id":"acme/tiny"}]}`}, facts: hearth.SlotFacts{Model: "acme/tiny"}},
		{name: "another key", slot: hearth.Slot{Driver: Exec}, pages: map[string]string{"/v1/models": "401 {}"}, why: "refuses the probe with status 401"},
		{name: "a list that is a page", slot: hearth.Slot{Driver: Always}, pages: map[string]string{"/v1/models": "<html>"}, why: "it does not list its models"},
		{name: "strange values", slot: hearth.Slot{Driver: Exec}, ready: true, facts: hearth.SlotFacts{Model: "acme/tiny"}, pages: map[string]string{
			"/v1/models": `{"data":[7,{"id":5},{"id":"acme/tiny","max_model_len":-1,"meta":{"n_ctx":"many"},"aliases":{"a":1},"owned_by":["x"]},{"id":"acme/tiny","meta":3}],"data2":1e999}`}},
		{name: "numbers out of bounds", slot: hearth.Slot{Driver: Exec, Engine: llamaServer}, ready: true, facts: hearth.SlotFacts{Model: "acme/tiny"}, pages: map[string]string{
			"/v1/models": `{"data":[{"id":"acme/tiny","meta":{"n_ctx":1e30}}]}`, "/props": `{"total_slots":99999999999,"default_generation_settings":{"n_ctx":0}}`}},
		{name: "names that steer a terminal", slot: hearth.Slot{Driver: Exec}, pages: map[string]string{"/v1/models": `{"data":[{"id":"\u001b[2Jx"},{"id":"` + strings.Repeat("y", 500) + `"}]}`}, why: "other models: [2Jx, yyyy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, asked, err := observe(t, &c.slot, c.pages)
			why := r.Why
			if err != nil {
				why = err.Error()
			}
			if r.Ready != c.ready || r.Facts != c.facts || !strings.Contains(why, c.why) || c.why == "" && why != "" {
				t.Errorf("it says %+v, %v", r, err)
			}
			if got := strings.Join(asked, " "); c.asks != "" && got != c.asks {
				t.Errorf("asked %s, want %s", got, c.asks)
			}
			if len(why) > 600 || strings.ContainsRune(why, 0x1b) {
				t.Errorf("%q", why)
			}
		})
	}
}

// TestObserverPace: an engine that is not ready is asked often whether it is, and seldom what it has.
func TestObserverPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := servePages(t, map[string]string{"/health": "200 ", "/v1/models": `{"data":[{"id":"other/a"},{"id":"other/b"}]}`})
		o := newObserver(&hearth.Slot{Driver: Exec, Model: &hearth.Model{ID: "acme/tiny"}}, p.dial)
		defer o.close()
		begin := time.Now()
		for {
			r, err := o.look(t.Context(), "http://engine", "")
			if r.Ready {
				t.Fatal("ready")
			}
			if err != nil {
				break
			}
			<-time.After(25 * time.Millisecond)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("given up after %v", took)
		}
		if asked, lists := p.times("/health"), p.times("/v1/models"); asked < 390 || lists > 21 {
			t.Errorf("asked %d times, for the list %d times", asked, lists)
		}
	})
}

// TestObserverLater: an engine whose model comes later is ready then, and one that loses its model is not any more.
func TestObserverLater(t *testing.T) {
	list := func(name string) string { return `{"data":[{"id":"` + name + `"},{"id":"x"}]}` }
	synctest.Test(t, func(t *testing.T) {
		p := servePages(t, map[string]string{"/health": "200 ", "/v1/models": list("other")})
		o := newObserver(&hearth.Slot{Driver: Exec, Model: &hearth.Model{ID: "acme/tiny"}}, p.dial)
		defer o.close()
		look := func() (slot.Report, error) {
			<-time.After(600 * time.Millisecond)
			return o.look(t.Context(), "http://engine", "")
		}
		if r, err := look(); r.Ready || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
		p.mu.Lock()
		p.pages["/v1/models"] = list("acme/tiny")
		p.mu.Unlock()
		if r, err := look(); !r.Ready || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
		p.mu.Lock()
		p.pages["/health"] = "503 "
		p.mu.Unlock()
		if r, err := look(); r.Ready || err != nil || r.Why != "it answers with status 503" {
			t.Errorf("an engine that was ready: %+v, %v", r, err)
		}
		p.mu.Lock()
		p.pages["/health"], p.pages["/v1/models"] = "200 ", list("other")
		p.mu.Unlock()
		if r, err := look(); r.Ready || err == nil {
			t.Errorf("with another model: %+v, %v", r, err)
		}
	})
}

// TestLostWay: an engine that was ready and cannot be reached in time may be well; one that was never, or that refuses, is
// not there.
func TestLostWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := servePages(t, map[string]string{"/health": "200 ", "/v1/models": `{"data":[{"id":"acme/tiny"}]}`})
		lost := error(nil)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if lost != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: lost}
			}
			return p.dial(ctx, network, address)
		}
		e, err := alwaysDriver{dial}.Start(t.Context(), &hearth.Slot{Driver: Always, URL: "http://engine", Model: &hearth.Model{ID: "acme/tiny"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Stop(t.Context(), 0) }()
		away := func() { e.(*elsewhere).look.probe.transport.CloseIdleConnections(); synctest.Wait() }
		lost = os.ErrDeadlineExceeded
		if r, err := e.Probe(t.Context()); err == nil {
			t.Errorf("never reached: %+v", r)
		}
		lost = nil
		if r, err := e.Probe(t.Context()); err != nil || !r.Ready {
			t.Errorf("%+v, %v", r, err)
		}
		lost = os.ErrDeadlineExceeded
		away()
		if r, err := e.Probe(t.Context()); err != nil || r.Ready || r.Why == "" {
			t.Errorf("out of reach: %+v, %v", r, err)
		}
		lost = syscall.ECONNREFUSED
		if r, err := e.Probe(t.Context()); err == nil {
			t.Errorf("refused: %+v", r)
		}
	})
}

// TestHostileAnswers: whatever stands behind the address, a probe ends soon and takes little memory.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	endless := func(piece string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
			}
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"endless":         endless(strings.Repeat(" ", 4096)),
		"an endless list": endless(`{"data":[{"id":"a"},`),
		"deep": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(`{"data":[`, 100_000))
		},
		"deep and whole": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":`+strings.Repeat(`[`, 500_000)+strings.Repeat(`]`, 500_000)+`}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stolen" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/stolen", http.StatusTemporaryRedirect)
		},
		"nothing at all": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a broken body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		},
		"hung up": func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		},
		"long headers": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := servePages(t, nil)
				p.srv.Handler = h
				o := newObserver(&hearth.Slot{Driver: Always, Model: &hearth.Model{ID: "acme/tiny"}}, p.dial)
				defer o.close()
				e := &elsewhere{url: "http://engine", look: o}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				if r, _ := e.Probe(ctx); r.Ready {
					t.Errorf("ready: %+v", r)
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
