package relay

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/media"
)

// counts is llama-server: it counts a prompt as so many tokens, and answers.
func counts(tokens int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apply-template":
			_, _ = io.WriteString(w, `{"prompt":"<bos>a secret question"}`)
		case "/tokenize":
			_, _ = fmt.Fprintf(w, `{"tokens":[%s]}`, strings.TrimSuffix(strings.Repeat("7,", tokens), ","))
		default:
			answers(w, r)
		}
	}
}

func TestExactCount(t *testing.T) {
	node := func(h http.HandlerFunc, window int) part {
		return part{serve: h, local: true, slot: func(s *hearth.Slot) { s.Engine = "llama-server" }, edit: func(e *hearth.Endpoint) { e.Context = window }}
	}
	wakes := func(s *scene) func() { occupied(s)(); synctest.Wait(); return func() {} }
	for _, c := range []struct {
		name   string
		parts  []part
		before func(*scene) func()
		served bool
		calls  int64 // at the engine
	}{
		{"the engine's count decides: it fits", []part{node(counts(9), 40)}, wakes, true, 3},
		{"the engine's count decides: it does not", []part{node(counts(41), 40)}, wakes, false, 2},
		{"no engine is started to count", []part{node(counts(9), 40)}, nil, false, 0},
		{"none is waited for", []part{node(counts(9), 40)}, occupied, false, 0},
		{"one that fails to count leaves the estimate", []part{node(refuses(500, "{}"), 40)}, wakes, false, 1},
		{"nobody counts while there is another candidate", []part{node(counts(9), 40), good}, wakes, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stage(t, Options{}, c.parts...)
				undo := func() {}
				if c.before != nil {
					undo = c.before(s)
				}
				a := s.ask(t.Context(), chat(""))
				undo()
				if c.served != (a.err == nil) || !c.served && a.err.Type != hearth.ErrContextLength || s.peers[0].seen.Load() != c.calls {
					t.Errorf("%v after %d calls", a.err, s.peers[0].seen.Load())
				}
				if a.took != 0 {
					t.Errorf("it took %v", a.took)
				}
				if g := s.record(a.id); c.calls == 3 && (g == nil || !strings.Contains(strings.Join(g.Notes, ";"), "local-gpu/gpu-0 counted the prompt: 9 tokens")) {
					t.Errorf("record %+v", g)
				}
				synctest.Wait()
				s.calm()
			})
		})
	}
	t.Run("never for a caller who left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, node(counts(9), 40))
			wakes(s)
			ctx, leave := contextFor(t, 0)
			leave()
			s.ask(ctx, chat(""))
			if n := s.peers[0].seen.Load(); n != 0 {
				t.Errorf("the engine was asked %d times", n)
			}
			s.calm()
		})
	})
	t.Run("a caller who leaves while it counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t, Options{}, node(silent, 40))
			wakes(s)
			ctx, leave := contextFor(t, time.Second)
			defer leave()
			a := s.ask(ctx, chat(""))
			synctest.Wait()
			if left := s.peers[0].departures(); a.took > time.Second+prompt || len(left) != 1 || s.fleet.View(s.cat.Slots[0]).Inflight != 0 {
				t.Errorf("after %v; the engine was told at %v", a.took, left)
			}
		})
	})
}

// A cap that an engine would refuse is lowered to what its window leaves.
func TestLoweredCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, Options{}, part{serve: answers, local: true, slot: func(s *hearth.Slot) { s.Engine = "vllm" }, edit: func(e *hearth.Endpoint) { e.Context = 1000 }})
		a := s.ask(t.Context(), chat(`, "max_tokens": 5000`))
		g := s.record(a.id)
		want := 1000 - g.Estimate
		if body := s.peers[0].lastBody(); a.err != nil || !strings.Contains(strings.ReplaceAll(body, " ", ""), fmt.Sprintf(`"max_tokens":%d`, want)) {
			t.Errorf("%v, %s", a.err, body)
		}
		if !strings.Contains(strings.Join(g.Notes, ";"), "max_tokens lowered to") {
			t.Errorf("notes %q", g.Notes)
		}
	})
}

const pixel = "\x89PNG\r\n\x1a\n"

func TestMedia(t *testing.T) {
	var asked atomic.Int64
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/gone" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, pixel+strings.Repeat("x", len(r.URL.Path)*1000))
	}))
	picture := func(paths ...string) string {
		var parts []string
		for _, p := range paths {
			parts = append(parts, fmt.Sprintf(`{"type":"image_url","image_url":{"url":"%s%s"}}`, web, p))
		}
		return `{"messages":[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]`
	}
	for name, c := range map[string]struct {
		body     string
		broken   bool // the engine
		off      bool // no downloads
		provider string
		fetched  int64 // at most: the first that cannot be had ends it
		err      hearth.ErrorType
	}{
		"an engine of the house gets data":        {picture("/a", "/b") + "}", false, false, "MyIP Local GPU", 2, ""},
		"the same address once":                   {picture("/a", "/a") + "}", false, false, "MyIP Local GPU", 1, ""},
		"a provider gets the addresses":           {picture("/a") + `,"provider":{"ignore":["local-gpu"]}}`, false, false, "Primary", 0, ""},
		"the next candidate, after a failure":     {picture("/a") + "}", true, false, "Primary", 1, ""},
		"what cannot be had is for others to get": {picture("/a", "/gone") + "}", false, false, "Primary", 2, ""},
		"too much for one request":                {picture("/"+strings.Repeat("a", 600), "/"+strings.Repeat("b", 600)) + "}", false, false, "Primary", 2, ""},
		"refused":                                 {picture("/a") + "}", false, true, "Primary", 0, ""},
		"the house or nobody":                     {picture("/gone") + `,"provider":{"only":["local-gpu"]}}`, false, false, "", 1, hearth.ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			var engineGot, providerGot atomic.Pointer[string]
			keep := func(to *atomic.Pointer[string], h http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						b, _ := io.ReadAll(r.Body)
						s := string(b)
						to.Store(&s)
						h(w, r)
					}
				}
			}
			behaves := http.HandlerFunc(answers)
			if c.broken {
				behaves = refuses(500, "{}")
			}
			url := serve(t, listing(keep(&engineGot, behaves)))
			w := newWorld(t, setup{upstream: keep(&providerGot, answers), slots: []*hearth.Slot{{Name: "gpu", Node: &hearth.Node{Name: "gpu-1", Exclusive: true}, Driver: "always",
				URL: url, Probe: "/health", Concurrency: 1, Queue: 1, Wait: 5 * time.Second, StartTimeout: time.Minute}}})
			if !c.off {
				w.relay.media = media.New(media.Options{Permit: func(netip.AddrPort) bool { return true }})
			}
			a := w.post(t, c.body)
			g := w.record(t, a)
			if g.Provider != c.provider || g.Error != string(c.err) || asked.Load() > c.fetched || asked.Load() < min(c.fetched, 1) {
				t.Errorf("%d %s\nafter %d downloads, attempts %+v", a.status, a.body, asked.Load(), g.Attempts)
			}
			if got := engineGot.Load(); got != nil && (strings.Contains(*got, web) || !strings.Contains(*got, "data:image/png;base64,")) {
				t.Errorf("the engine got %.300s", *got)
			}
			if got := providerGot.Load(); got != nil && !strings.Contains(*got, web) {
				t.Errorf("the provider got %.300s", *got)
			}
			if c.err != "" && at(object(t, a.body), "error", "param") != "messages" {
				t.Errorf("told %s", a.body)
			}
			if n := w.relay.bodies.Load(); n != 0 {
				t.Errorf("%d bytes are still held", n)
			}
		})
	}
}
