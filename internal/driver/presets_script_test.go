package driver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// scripted are the orders for a server of a kind that answers as pages say.
func scripted(t *testing.T, kind string, pages map[string]http.HandlerFunc) orders {
	t.Helper()
	mux := http.NewServeMux()
	for path, h := range pages {
		mux.HandleFunc(path, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	d, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	o, err := d.http(&hearth.Slot{Name: "s", Driver: HTTP, Preset: kind, URL: srv.URL, Model: &hearth.Model{ID: "acme/tiny"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }
}

// TestUnreadableStatus: what says nothing is neither running nor stopped.
func TestUnreadableStatus(t *testing.T) {
	for kind, path := range map[string]string{vllm: "GET /is_sleeping", ollama: "GET /api/ps", sglang: "GET /server_info"} {
		for _, text := range []string{"", "{", "[]", "{}"} {
			if kind != vllm && text == "{}" {
				continue // it says enough: no model, and no seed
			}
			o := scripted(t, kind, map[string]http.HandlerFunc{path: says(text), "GET /v1/models": says("{}")})
			if r, ok := o.(*releaser); ok {
				if err := replaceFile(r.file, []byte("17")); err != nil {
					t.Fatal(err)
				}
			}
			if state, err := o.status(t.Context()); state != unsure || err == nil {
				t.Errorf("%s says %q: state %d, %v", kind, text, state, err)
			}
			if err := o.stop(t.Context(), 0, nil); err == nil && kind != ollama {
				t.Errorf("%s says %q, and is said to be stopped", kind, text)
			}
		}
	}
}

// TestSleeperTakesItsTime: a stop returns when the server says that it sleeps.
func TestSleeperTakesItsTime(t *testing.T) {
	var ordered, asked atomic.Int32
	o := scripted(t, vllm, map[string]http.HandlerFunc{
		"POST /sleep": func(http.ResponseWriter, *http.Request) { ordered.Add(1) },
		"GET /is_sleeping": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"is_sleeping":%v}`, ordered.Load() > 0 && asked.Add(1) > 2)
		},
	})
	if err := o.stop(t.Context(), 0, nil); err != nil || ordered.Load() != 1 || asked.Load() != 3 {
		t.Errorf("%v, %d orders, asked %d times", err, ordered.Load(), asked.Load())
	}
}

// TestOllamaUnloadsUntilItIsGone: a model that was still being loaded when it was unloaded is unloaded once more, and after
// a load that was given up it must stay away for a while.
func TestOllamaUnloadsUntilItIsGone(t *testing.T) {
	t.Parallel()
	var orders atomic.Int32
	o := scripted(t, ollama, map[string]http.HandlerFunc{
		"POST /api/generate": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of who asks is not seen
			if orders.Add(1) == 1 {            // the load, until nobody waits for it
				<-r.Context().Done()
			}
			_, _ = fmt.Fprint(w, `{"done":true}`)
		},
		"GET /api/ps": func(w http.ResponseWriter, _ *http.Request) {
			if orders.Load() == 2 { // the first order to unload came too early
				_, _ = fmt.Fprint(w, `{"models":[{"name":"acme/tiny:latest","model":"acme/tiny:latest"}]}`)
				return
			}
			_, _ = fmt.Fprint(w, `{"models":[]}`)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- o.start(ctx) }()
	eventually(t, "it loads", func() bool { return orders.Load() == 1 })
	cancel()
	if err := <-started; err == nil {
		t.Error("the load was not given up")
	}
	begin := time.Now()
	if err := o.stop(t.Context(), 0, nil); err != nil || orders.Load() != 3 {
		t.Errorf("%v, %d orders", err, orders.Load())
	}
	if took := time.Since(begin); took < loadSettle {
		t.Errorf("it is believed to be gone after %v", took)
	}
}

// TestStudioWithoutTheModel: what a server does not have does not run in it.
func TestStudioWithoutTheModel(t *testing.T) {
	o := scripted(t, lmStudio, map[string]http.HandlerFunc{"GET /api/v1/models": says(`{"models":[{"key":"other","loaded_instances":[{"id":"other"}]}]}`)})
	if state, err := o.status(t.Context()); state != runsNot || err != nil {
		t.Errorf("state %d, %v", state, err)
	}
	if err := o.start(t.Context()); err == nil || !strings.Contains(err.Error(), `no model "acme/tiny"`) {
		t.Error(err)
	}
}

// TestUnloadsWhatIsGone: an order to unload that comes too late is carried out.
func TestUnloadsWhatIsGone(t *testing.T) {
	for kind, c := range map[string]struct {
		list, loaded, gone string // the page that lists the model, while it is there and then
		unload             string
		status             int
		answer             string
	}{
		llamaServer: {"GET /v1/models", `{"data":[{"id":"acme/tiny","status":{"value":"loaded"}}]}`, `{"data":[{"id":"acme/tiny","status":{"value":"unloaded"}}]}`,
			"POST /models/unload", http.StatusBadRequest, `{"error":{"message":"model is not running"}}`},
		lmStudio: {"GET /api/v1/models", `{"models":[{"key":"acme/tiny","loaded_instances":[{"id":"acme/tiny"}]}]}`, `{"models":[{"key":"acme/tiny","loaded_instances":[]}]}`,
			"POST /api/v1/models/unload", http.StatusNotFound, `{"error":"no such instance"}`},
		tabbyAPI: {"GET /v1/model", `{"id":"acme/tiny"}`, `{"id":"acme/other"}`,
			"POST /v1/model/unload", http.StatusBadRequest, `{"detail":"No model is loaded"}`},
	} {
		t.Run(kind, func(t *testing.T) {
			var ordered atomic.Int32
			o := scripted(t, kind, map[string]http.HandlerFunc{
				c.list: func(w http.ResponseWriter, _ *http.Request) {
					if ordered.Load() == 0 {
						_, _ = fmt.Fprint(w, c.loaded)
						return
					}
					_, _ = fmt.Fprint(w, c.gone)
				},
				c.unload: func(w http.ResponseWriter, _ *http.Request) {
					ordered.Add(1)
					w.WriteHeader(c.status)
					_, _ = fmt.Fprint(w, c.answer)
				},
			})
			if err := o.stop(t.Context(), 0, nil); err != nil || ordered.Load() != 1 {
				t.Errorf("%v, %d orders", err, ordered.Load())
			}
		})
	}
}
