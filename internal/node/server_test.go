package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// raw sends a request past the client, as anybody can.
func (w *world) raw(method, path string, header ...string) (status int, h http.Header, body string) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	return rec.Code, rec.Header(), rec.Body.String()
}

func TestServer_Token(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		for _, path := range []string{"/v1/slots/a" + chat, "/v1/slots/a/wake", "/v1/slots/none/log", "/v1/views", "/", "/nowhere"} {
			for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer x", "Bearer " + token + "x", "Bearer " + token[1:], "bearer " + token, "Basic " + token, token} {
				status, h, body := w.raw("POST", path, "Authorization", auth)
				if status != http.StatusUnauthorized || h.Get("Www-Authenticate") == "" || body != `{"error":{"code":401,"message":"the token is missing or wrong"}}` {
					t.Errorf("%s with %q: %d %s", path, auth, status, body)
				}
			}
		}
		if w.asked.Load() != 0 || w.gpus.starts() != 0 {
			t.Error("somebody without the token reached an engine")
		}
		w.server.o.Token, w.server.token = "", [32]byte{}
		if status, _, _ := w.raw("GET", "/v1/slots/a/log", "Authorization", "Bearer "); status != http.StatusUnauthorized {
			t.Errorf("a server without a token lets everybody in: %d", status)
		}
	})
}

func TestServer_HostileGateway(t *testing.T) {
	var paths atomic.Int64
	engine := func(w http.ResponseWriter, r *http.Request) {
		if !routes[r.URL.Path] || r.URL.RawQuery != "" {
			paths.Add(1)
		}
		fmt.Fprint(w, "ok")
	}
	bubble(t, setup{engine: engine}, func(t *testing.T, w *world) {
		for _, path := range []string{
			"/v1/slots/a/v1/models", "/v1/slots/a/props", "/v1/slots/a/metrics", "/v1/slots/a/slots", "/v1/slots/a/sleep/../v1/models",
			"/v1/slots/a/v1/chat/completions/../../props", "/v1/slots/a/v1/chat/completions/", "/v1/slots/a//v1/chat/completions",
			"/v1/slots/a/%2e%2e/props", "/v1/slots/a", "/v1/slots/", "/v1/slots//v1/chat/completions", "/v1/slots/%61%2Fb/v1/chat/completions",
			"/v1/slots/A/v1/chat/completions", "/v1/slots/none/v1/chat/completions", "/v1/slots/..%2f/v1/chat/completions",
			"/v1/slots/a%00/v1/chat/completions", "/v1/slots/a/restart", "/v1/slots/a/", "/v2/slots/a" + chat, "/api/v1/slots",
		} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				if status, _, body := w.raw(method, path); status != http.StatusNotFound {
					t.Errorf("%s %s: %d %s", method, path, status, body)
				}
			}
		}
		for path, method := range map[string]string{"/v1/slots/a" + chat: "GET", "/v1/slots/a/wake": "GET", "/v1/slots/a/log": "POST", "/v1/views": "POST"} {
			if status, h, _ := w.raw(method, path); status != http.StatusMethodNotAllowed || h.Get("Allow") == "" {
				t.Errorf("%s %s: %d", method, path, status)
			}
		}
		if w.asked.Load() != 0 || w.gpus.starts() != 0 {
			t.Error("an engine was reached")
		}
		for route := range routes {
			if status, _, body := w.raw("POST", "/v1/slots/a"+route+"?x=../../props", headBudget, "60000"); status != 200 {
				t.Errorf("%s: %d %s", route, status, body)
			}
		}
		if paths.Load() != 0 {
			t.Error("an engine was asked for what gateways may not ask")
		}
	})
}

func TestServer_Headers(t *testing.T) {
	bubble(t, setup{load: 10 * time.Minute, change: func(s *hearth.Slot) { s.StartTimeout = time.Hour }}, func(t *testing.T, w *world) {
		for budget, want := range map[string]time.Duration{
			"99999999999999999999": 90 * time.Second, "9223372036854775807": 90 * time.Second, "1500": 1500 * time.Millisecond,
			"-5": 0, "": 0, "soon": 0, "1e9": 0,
		} {
			began := time.Now()
			status, h, body := w.raw("POST", "/v1/slots/a"+chat, headBudget, budget, headKey, strings.Repeat("k\xff", 1000))
			if took := time.Since(began); status != 503 || h.Get(headStatus) != "slot_loading" || h.Get("Retry-After") == "" || took < want || took > want+time.Second {
				t.Errorf("budget %q: waited %s, %d %v %s", budget, took, status, h, body)
			}
		}
		status, h, _ := w.raw("POST", "/v1/slots/a"+chat, headBudget, "1000", headModel, "x/b")
		if status != 503 || h.Get(headStatus) != "slot_failed" {
			t.Errorf("another model: %d %v", status, h)
		}
	})
}

func TestServer_Orders(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		order := func(o slot.Order) {
			t.Helper()
			if err := w.client.Order(ctx, o); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
			synctest.Wait()
		}
		order(slot.Order{Slot: "a", Verb: slot.Wake})
		wait(time.Second)
		synctest.Wait()
		if v := w.client.View("a"); v.State != hearth.SlotReady {
			t.Errorf("woken: %+v", v)
		}
		if lines, err := w.client.LogTail("a"); err != nil || len(lines) != 2 || lines[0] != "loading" {
			t.Errorf("log %q, %v", lines, err)
		}
		order(slot.Order{Slot: "a", Verb: slot.Disable})
		if v := w.client.View("a"); !v.Disabled || v.Status() != -10 {
			t.Errorf("disabled: %+v", v)
		}
		order(slot.Order{Slot: "a", Verb: slot.Enable})
		order(slot.Order{Node: "gpu-2", Verb: slot.Pause, For: 2 * time.Hour})
		if v := w.client.View("b"); time.Until(v.Paused) != 2*time.Hour {
			t.Errorf("paused: %+v", v)
		}
		if err := w.client.Order(ctx, slot.Order{Slot: "a", Verb: slot.Wake}); err == nil || !strings.Contains(err.Error(), "paused") {
			t.Errorf("an order that cannot be carried out: %v", err)
		}
		wait(time.Hour)
		synctest.Wait()
		if v := w.client.View("b"); time.Until(v.Paused).Round(time.Second) != time.Hour {
			t.Errorf("paused an hour later: %s", time.Until(v.Paused))
		}
		order(slot.Order{Node: "gpu-2", Verb: slot.Resume})
		if v := w.client.View("b"); !v.Paused.IsZero() {
			t.Errorf("resumed: %+v", v)
		}
		if err := w.client.Order(ctx, slot.Order{Slot: "none", Verb: slot.Wake}); err != slot.ErrNoSlot {
			t.Errorf("%v", err)
		}
		for _, bad := range []string{"forever", "-1h"} {
			if status, _, body := w.raw("POST", "/v1/slots/a/pause?for="+bad); status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, status, body)
			}
		}
		w.crash()
		if err := w.client.Order(ctx, slot.Order{Slot: "a", Verb: slot.Wake}); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("nobody is there: %v", err)
		}
		if _, err := w.client.LogTail("a"); err == nil {
			t.Error("a log of nobody")
		}
	})
}

// A slot that the machine does not have holds up no order to its nodes.
func TestServer_OrdersBesideUnknown(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		none := *w.a
		none.Name = "0"
		w.client.Reload(w.a.Node, []*hearth.Slot{&none, w.a, w.b})
		for range 5 {
			for verb, paused := range map[slot.Verb]bool{slot.Pause: true, slot.Resume: false} {
				if err := w.client.Order(t.Context(), slot.Order{Node: "gpu-2", Verb: verb, For: time.Hour}); err != nil {
					t.Errorf("%s: %v", verb, err)
				}
				synctest.Wait()
				if v := w.client.View("b"); v.Paused.IsZero() == paused {
					t.Errorf("%s: %+v", verb, v)
				}
			}
		}
		w.client.Reload(w.a.Node, []*hearth.Slot{&none})
		if err := w.client.Order(t.Context(), slot.Order{Node: "gpu-2", Verb: slot.Pause}); err != slot.ErrNoSlot {
			t.Errorf("none of the slots is there: %v", err)
		}
	})
}

// A machine that ends finishes what it has begun, says to all that nothing new is taken, and then is gone.
func TestServer_Drain(t *testing.T) {
	var beat chan struct{} // made in the bubble, whose time stands still for others
	engine := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "one ")
		_ = http.NewResponseController(w).Flush()
		<-beat
		fmt.Fprint(w, "two")
	}
	bubble(t, setup{engine: engine}, func(t *testing.T, w *world) {
		beat = make(chan struct{})
		l, err := w.lease(w.a)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		drained := make(chan struct{})
		go func() { w.server.Drain(t.Context()); close(drained) }()
		wait(viewLook)
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown || v.Status() != -10 {
			t.Errorf("%+v", v)
		}
		if _, err := w.lease(w.a); word(err) != hearth.SkipFailed || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("%v", err)
		}
		if status, h, _ := w.raw("POST", "/v1/slots/a"+chat, headBudget, "5000"); status != 503 || h.Get(headStatus) == "" {
			t.Errorf("who asks all the same: %d %v", status, h)
		}
		select {
		case <-drained:
			t.Fatal("drained while an engine has a request")
		default:
		}
		close(beat)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "one two" {
			t.Errorf("%q %v", b, err)
		}
		<-drained
	})
	t.Run("but not for ever", func(t *testing.T) {
		var left atomic.Int64
		bubble(t, setup{engine: block(&left)}, func(t *testing.T, w *world) {
			l, _ := w.lease(w.a)
			resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			w.server.Drain(ctx)
			if _, err := io.ReadAll(resp.Body); err == nil || time.Since(began) != 10*time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
			synctest.Wait()
			if left.Load() != 1 {
				t.Error("the engine works on")
			}
		})
	})
	t.Run("nothing is there", func(t *testing.T) {
		bubble(t, setup{}, func(t *testing.T, w *world) { w.server.Drain(t.Context()) })
	})
}

// An operator's stop that is at the end of its patience ends what is in flight.
func TestServer_Cut(t *testing.T) {
	var left atomic.Int64
	bubble(t, setup{engine: block(&left), change: func(s *hearth.Slot) { s.DrainMax = 20 * time.Second }}, func(t *testing.T, w *world) {
		l, _ := w.lease(w.a)
		resp, err := w.post(t.Context(), l, chat, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := w.client.Order(t.Context(), slot.Order{Slot: "a", Verb: slot.Drain}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.ReadAll(resp.Body); word(err) != hearth.SkipFailed || time.Since(began) != 20*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown || left.Load() != 1 {
			t.Errorf("%+v, left by %d", v, left.Load())
		}
	})
}

// A reload on the machine is seen by gateways.
func TestServer_Reload(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		n := w.cat.Nodes[0]
		moved := *w.cat.Slots[1]
		moved.Index, moved.Model = 0, &hearth.Model{ID: "x/new"}
		next := &hearth.Catalog{Nodes: w.cat.Nodes, Slots: []*hearth.Slot{&moved}}
		moved.Node = n
		if err := w.fleet.Reload(next); err != nil {
			t.Fatal(err)
		}
		w.server.Reload(next)
		wait(viewLook)
		synctest.Wait()
		if v := w.client.View("a"); v.State != hearth.SlotFailed || !strings.Contains(v.LastError, "no slot a") {
			t.Errorf("a removed slot: %+v", v)
		}
		if v := w.client.View("b"); v.State != hearth.SlotFailed || !strings.Contains(v.LastError, "another model") {
			t.Errorf("a slot whose model changed: %+v", v)
		}
		if status, _, _ := w.raw("POST", "/v1/slots/a"+chat); status != http.StatusNotFound {
			t.Errorf("%d", status)
		}
	})
}
