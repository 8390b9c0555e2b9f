package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// memEngine is an engine in memory that is ready two seconds after its start.
type memEngine struct {
	born time.Time
	gone chan struct{}
	once sync.Once

	mu    sync.Mutex
	wrote []string
}

func (e *memEngine) Start(context.Context, *hearth.Slot) (slot.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.born, e.gone, e.once = time.Now(), make(chan struct{}), sync.Once{}
	e.wrote = []string{"loading", "with the key top-secret-1 of Bearer hidden-456"}
	return e, nil
}

// say has the engine write lines.
func (e *memEngine) say(lines ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote = append(e.wrote, lines...)
}

func (e *memEngine) URL() string             { return "http://engine" }
func (e *memEngine) APIKey() hearth.Secret   { return "" }
func (e *memEngine) Died() <-chan struct{}   { return e.gone }
func (e *memEngine) Exited() <-chan struct{} { return e.gone }
func (e *memEngine) ExitError() error        { return errors.New("it ended with top-secret-1") }
func (e *memEngine) Leave() error            { return nil }

func (e *memEngine) LogTail() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.wrote...)
}

func (e *memEngine) Probe(context.Context) (slot.Report, error) {
	return slot.Report{Ready: time.Since(e.born) >= 2*time.Second, Facts: hearth.SlotFacts{Window: 8192, Parallel: 3, Model: "b.gguf"}}, nil
}

func (e *memEngine) Stop(context.Context, time.Duration) error {
	<-time.After(100 * time.Millisecond) // of the bubble's time
	e.once.Do(func() { close(e.gone) })
	return nil
}

// yard is a server with two slots on one node, whose connections are the operator's.
type yard struct {
	*Server
	t      *testing.T
	engine *memEngine
	ending chan struct{}
}

func newYard(t *testing.T) *yard {
	t.Helper()
	node := &hearth.Node{Name: "gpu-1", Exclusive: true, Turn: 10 * time.Second}
	c := &hearth.Catalog{Nodes: []*hearth.Node{node}}
	for i, name := range []string{"gemma", "qwen"} {
		c.Slots = append(c.Slots, &hearth.Slot{
			Index: i, Name: name, Node: node, Model: &hearth.Model{ID: "a/" + name}, Driver: "exec", Engine: "llama-server", Queue: 64,
			Wait: time.Minute, StartTimeout: time.Minute, DrainMax: time.Minute, APIKey: "top-secret-1", ExpectedLoad: 5 * time.Second,
			Env: map[string]hearth.Secret{"HF_TOKEN": "Bearer hidden-456", "HOME": "loading", "SHORT_KEY": "with"},
		})
	}
	e := &memEngine{}
	f, err := slot.NewFleet(c, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return e, nil }})
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, engine: e, ending: make(chan struct{})}
	y.Server = New(Options{}, Parts{Catalog: c, Fleet: f, Log: slog.New(slog.DiscardHandler), Ending: y.ending})
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return y
}

// operator sends a request as the operator, in the background of the bubble if it does not end at once.
func (y *yard) operator(ctx context.Context, method, path, body string) (w *httptest.ResponseRecorder, ended chan struct{}) {
	w, ended = httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		y.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(Trusted(ctx)))
	}()
	synctest.Wait()
	return w, ended
}

// do sends a request that is answered at once and reads the answer into v.
func (y *yard) do(method, path, body string, status int, v any) {
	y.t.Helper()
	w, ended := y.operator(y.t.Context(), method, path, body)
	<-ended
	if w.Code != status {
		y.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			y.t.Fatalf("%s %s: %s: %v", method, path, w.Body, err)
		}
	}
}

func bubble(t *testing.T, name string, f func(t *testing.T, y *yard)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, newYard(t)) }) })
}

func pass(d time.Duration) { <-time.After(d); synctest.Wait() }

func num[T any](v T) *T { return &v }

func TestSlots_Shown(t *testing.T) {
	bubble(t, "one that never ran, and one that does", func(t *testing.T, y *yard) {
		begun := time.Now().UTC()
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(3 * time.Second)
		var got struct {
			Data    []slotJSON `json:"data"`
			Notices []string   `json:"notices"`
		}
		y.do("GET", "/v1/slots", "", 200, &got)
		if len(got.Data) != 2 || got.Notices == nil {
			t.Fatalf("%+v", got)
		}
		g := got.Data[0]
		load := time.Duration(g.History[0].Seconds * float64(time.Second))
		if load < 2*time.Second || load > 2300*time.Millisecond || !g.Since.Equal(begun.Add(load)) {
			t.Errorf("ready after %s, since %v", load, g.Since)
		}
		want := slotJSON{
			Slot: "gemma", Node: "gpu-1", Model: "a/gemma", Driver: "exec", Engine: "llama-server", State: "ready", Since: g.Since, Concurrency: 3, Queue: 64,
			Learned: learnedJSON{Load: num(load.Seconds()), Loads: 1, Times: timesJSON{Load: figuresJSON{num(load.Seconds()), num(load.Seconds()), num(load.Seconds()), 1}}},
			Facts:   factsJSON{Window: num(8192), Parallel: num(3), Model: num("b.gguf")},
			History: []startJSON{{begun, load.Seconds(), "ready", "the engine is ready"}},
		}
		if d := cmp.Diff(want, g); d != "" {
			t.Errorf("gemma (-want +got):\n%s", d)
		}
		want = slotJSON{
			Slot: "qwen", Node: "gpu-1", Model: "a/qwen", Driver: "exec", Engine: "llama-server", State: "asleep", Status: -3, Since: &begun,
			Concurrency: 1, Queue: 64, LoadRest: 5, WaitRest: 5, OtherBusy: true, History: []startJSON{},
		}
		if d := cmp.Diff(want, got.Data[1]); d != "" {
			t.Errorf("qwen (-want +got):\n%s", d)
		}
	})
	bubble(t, "alone with its log, without its secrets", func(t *testing.T, y *yard) {
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(3 * time.Second)
		var got slotAnswer
		y.do("GET", "/api/v1/slots/gemma", "", 200, &got)
		if d := cmp.Diff([]string{"loading", "with the key [redacted] of [redacted]"}, got.Data.Log); d != "" {
			t.Error(d)
		}
		y.engine.once.Do(func() { close(y.engine.gone) })
		pass(500 * time.Millisecond)
		y.do("GET", "/api/v1/slots/gemma", "", 200, &got)
		const why = "it ended with [redacted]: loading | with the key [redacted] of [redacted]"
		if got.Data.State != "asleep" || got.Data.Status != -2 || got.Data.LastError != why || len(got.Data.Log) != 2 {
			t.Errorf("%+v", got.Data)
		}
	})
	bubble(t, "one that the configuration has no more, until its engine is gone", func(t *testing.T, y *yard) {
		y.do("POST", "/api/v1/slots/gemma/wake", "", 200, nil)
		pass(3 * time.Second)
		lease, err := y.Fleet.Acquire(t.Context(), slot.Ask{Slot: y.Catalog.Slots[0], Budget: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		left := *y.Catalog.Slots[1]
		left.Index = 0
		next := &hearth.Catalog{Nodes: y.Catalog.Nodes, Slots: []*hearth.Slot{&left}}
		if err := y.Fleet.Reload(next); err != nil {
			t.Fatal(err)
		}
		y.Catalog = next
		show := func(path string) (list []string) {
			var got struct {
				Data []slotJSON `json:"data"`
			}
			y.do("GET", path, "", 200, &got)
			for _, j := range got.Data {
				list = append(list, fmt.Sprintf("%s %s removed %v drained %v %d", j.Slot, j.State, j.Removed, j.Drained, j.Status))
			}
			return list
		}
		if d := cmp.Diff([]string{"qwen asleep removed false drained false -3", "gemma draining removed true drained false -10"}, show("/api/v1/slots")); d != "" {
			t.Error(d)
		}
		lease.Release()
		pass(time.Second)
		if d := cmp.Diff([]string{"qwen asleep removed false drained false -2"}, show("/api/v1/slots")); d != "" {
			t.Error(d)
		}
	})
	bubble(t, "what there is to know of the gateway", func(t *testing.T, y *yard) {
		y.Notices = func() []string { return []string{"the configuration is bad"} }
		var got struct {
			Notices []string `json:"notices"`
		}
		y.do("GET", "/api/v1/slots", "", 200, &got)
		if d := cmp.Diff([]string{"the configuration is bad"}, got.Notices); d != "" {
			t.Error(d)
		}
	})
}

func TestSlots_HostileNames(t *testing.T) {
	bubble(t, "are no slots and stand in no answer as they are", func(t *testing.T, y *yard) {
		for _, name := range []string{"nobody", "%1b%5b31m", "..%2f..%2fetc", "%00", "gemma%20", "%ff%fe", strings.Repeat("x", 5000), "%2e%2e", "Gemma"} {
			for _, route := range []string{"GET /slots/%s", "GET /slots/%s/log", "POST /slots/%s/wake", "POST /slots/%s/disable", "POST /nodes/%s/pause"} {
				method, path, _ := strings.Cut(strings.ReplaceAll(route, "%s", name), " ")
				w, ended := y.operator(t.Context(), method, "/api/v1"+path, "")
				<-ended
				var e struct {
					Error struct {
						Message string `json:"message"`
					} `json:"error"`
				}
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusNotFound || len(e.Error.Message) > 300 {
					t.Errorf("%.60s: %d %.200s %v", route, w.Code, w.Body, err)
				}
				if strings.ContainsAny(e.Error.Message, "\x1b\x00\ufffd") || !strings.HasSuffix(e.Error.Message, "there are gemma, qwen") && !strings.HasSuffix(e.Error.Message, "there are gpu-1") {
					t.Errorf("%.60s: %q", route, e.Error.Message)
				}
			}
		}
	})
	bubble(t, "a long list of names is cut", func(t *testing.T, y *yard) {
		if got := thereAre(strings.Split(strings.Repeat("s ", 30)+"s", " ")); strings.Count(got, "s,") != 20 || !strings.HasSuffix(got, ", …") {
			t.Error(got)
		}
		if got := thereAre(nil); got != "none is configured" {
			t.Error(got)
		}
	})
}
