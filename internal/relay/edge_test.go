package relay

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
)

// until asks again and again until ok, for what other goroutines and processes do in their own time.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func TestCallerLeaves(t *testing.T) {
	leave := func(t *testing.T, w *world, body string, afterBytes bool) string {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
		if !afterBytes {
			go func() {
				until(t, "the provider is asked", func() bool { return w.primary.Seen().Inflight > 0 })
				cancel()
			}()
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
				t.Fatal("an answer came")
			}
			return ""
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("X-Generation-Id")
	}
	t.Run("mid-stream: the provider is told, nobody is blamed, the record says so", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.fault(t, w.primary, engine.Control{Fault: engine.None, TokensPerSecond: 5})
		id := leave(t, w, chat(`, "stream": true`), true)
		until(t, "the provider sees it", func() bool { s := w.primary.Seen(); return s.Cancelled == 1 && s.Inflight == 0 })
		until(t, "the record is written", func() bool {
			g, err := w.ledger.Generation(context.Background(), id)
			return err == nil && g.Cancelled && g.FinishReason == "" && g.Bill.Cost == 0 && g.HTTP == 200 && g.Attempts[0].Blame == hearth.BlameNobody
		})
		if w.backup.Seen().Requests != 0 {
			t.Error("the backup was asked for a caller who had left")
		}
	})
	t.Run("before the first token", func(t *testing.T) {
		for _, body := range []string{chat(`, "stream": true`), chat("")} {
			w := newWorld(t, setup{})
			w.fault(t, w.primary, engine.Control{Fault: engine.Hang})
			leave(t, w, body, false)
			until(t, "the provider sees it", func() bool { return w.primary.Seen().Inflight == 0 })
			if w.backup.Seen().Requests != 0 {
				t.Error("the backup was asked for a caller who had left")
			}
		}
	})
}

func TestRecordsAreNeverSkipped(t *testing.T) {
	t.Run("no space for a record: refused before anybody is asked", func(t *testing.T) {
		w := newWorld(t, setup{})
		for {
			if err := w.ledger.Reserve(); err != nil {
				break
			}
		}
		a := w.post(t, chat(""))
		if e := object(t, a.body); a.status != 503 || at(e, "error", "type") != "overloaded" || w.primary.Seen().Requests != 0 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	for name, body := range map[string]string{"whole answer": chat(""), "stream": chat(`, "stream": true`)} {
		t.Run("the record cannot be written: the answer is withheld, "+name, func(t *testing.T) {
			var w *world
			provider := engine.NewProvider(engine.ProviderConfig{Name: "Primary"})
			w = newWorld(t, setup{upstream: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				_ = w.journal.Close()
				provider.ServeHTTP(rw, r)
			})})
			a := w.post(t, body)
			if !strings.Contains(a.body, `"overloaded"`) || strings.Contains(a.body, `"cost"`) || strings.Contains(a.body, `"finish_reason":"stop","native_finish_reason":"stop"}],"usage"`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	t.Run("a panic is recorded and told", func(t *testing.T) {
		w := newWorld(t, setup{})
		rec := &panicWriter{httptest.NewRecorder()}
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(chat("")))
		id := w.relay.Name(rec)
		err := w.relay.Chat(rec, req, id, w.key)
		if e, ok := err.(*hearth.Error); !ok || e.Type != hearth.ErrInternal {
			t.Errorf("got %v", err)
		}
		if _, err := w.ledger.Generation(context.Background(), id); err != nil {
			t.Errorf("no record: %v", err)
		}
	})
}

type panicWriter struct{ *httptest.ResponseRecorder }

func (p *panicWriter) Write([]byte) (int, error) { panic("a defect") }

func TestSlotWaits(t *testing.T) {
	loading := func(name string) *hearth.Slot { // an engine that says 503 "Loading model" for an hour
		url := serve(t, engine.New(engine.Config{Model: model, Load: time.Hour}))
		return &hearth.Slot{Name: name, Node: &hearth.Node{Name: name, Exclusive: true}, Driver: "always", URL: url, Probe: "/health",
			Concurrency: 1, Queue: 8, Wait: 200 * time.Millisecond, ExpectedLoad: 5 * time.Second, StartTimeout: time.Minute}
	}
	t.Run("a slot that does not come up is skipped with its word, the chain goes on", func(t *testing.T) {
		w := newWorld(t, setup{slots: []*hearth.Slot{loading("gpu-1")}})
		a := w.post(t, chat(""))
		g := w.record(t, a)
		if a.status != 200 || g.Provider != "Primary" || g.Attempts[0].Skip != hearth.SkipLoading || g.Attempts[0].Status != 0 {
			t.Errorf("%d %+v", a.status, g.Attempts)
		}
	})
	t.Run("local or nothing: 503 model_loading with Retry-After and the slot's word", func(t *testing.T) {
		w := newWorld(t, setup{slots: []*hearth.Slot{loading("gpu-1")}})
		start := time.Now()
		a := w.post(t, chat(`, "provider": {"only": ["local-gpu"]}`), "X-MyIP-Max-Wait", "0.05")
		e := object(t, a.body)
		if a.status != 503 || at(e, "error", "type") != "model_loading" || at(e, "error", "metadata", "slot_status") != "slot_loading" {
			t.Errorf("%d %s", a.status, a.body)
		}
		if took := time.Since(start); took < 50*time.Millisecond {
			t.Errorf("gave up after %s, before the caller's own limit", took)
		}
		if n := w.primary.Seen().Requests + w.backup.Seen().Requests; n != 0 {
			t.Errorf("%d requests left the house", n)
		}
	})
}

func TestBodyBudget(t *testing.T) {
	w := newWorld(t, setup{bodyTotal: 300})
	big := chat(`, "padding": "` + strings.Repeat("x", 400) + `"`)
	if a := w.post(t, big); a.status != 503 || !strings.Contains(a.body, "overloaded") {
		t.Errorf("known length: %d %s", a.status, a.body)
	}
	req, _ := http.NewRequest(http.MethodPost, w.url, io.MultiReader(strings.NewReader(strings.Repeat(" ", 9000)+big))) // chunked
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("chunked: %d", resp.StatusCode)
	}
	if a := w.post(t, chat("")); a.status != 200 {
		t.Errorf("the budget did not come back: %d %s", a.status, a.body)
	}
	if n := w.relay.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

func TestCallersPatience(t *testing.T) {
	r := New(Options{HeaderPrefix: "X-MyIP"}, Parts{})
	for name, tc := range map[string]struct {
		header, value string
		want          time.Duration
		bad           bool
	}{
		"nothing said":             {"X-Other", "1", 90 * time.Second, false},
		"our header":               {"X-MyIP-Max-Wait", "1.5", 1500 * time.Millisecond, false},
		"longer than the slot":     {"X-MyIP-Max-Wait", "900", 90 * time.Second, false},
		"the SDK's timeout":        {"X-Stainless-Timeout", "10", 8 * time.Second, false},
		"an SDK in a great hurry":  {"X-Stainless-Timeout", "1", 0, false},
		"not a number":             {"X-MyIP-Max-Wait", "soon", 0, true},
		"not a number that is one": {"X-MyIP-Max-Wait", "NaN", 0, true},
		"negative":                 {"X-MyIP-Max-Wait", "-1", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			h.Set(tc.header, tc.value)
			if got, ok := r.callersPatience(h, 90*time.Second); ok == tc.bad || ok && got != tc.want {
				t.Errorf("got %s, ok %v; want %s", got, ok, tc.want)
			}
		})
	}
}
