package relay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/slot"
)

// What the walk tells the memory of health, and what it gives back on its way.

func TestHealthIsTold(t *testing.T) {
	t.Run("the provider's Retry-After", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.fault(t, w.primary, engine.Control{Fault: engine.F429, RetryAfter: 60})
		w.post(t, chat(""))
		if h := w.relay.health.View()[0]; h.Skip != hearth.SkipRateLimited || time.Until(h.Until) < 50*time.Second {
			t.Errorf("%s until %s", h.Skip, h.Until)
		}
	})
	t.Run("a probe that answers, before its answer has ended", func(t *testing.T) {
		w := newWorld(t, setup{})
		w.cool(0)
		w.fault(t, w.primary, engine.Control{Fault: engine.None, TokensPerSecond: 5})
		body, leave := w.begin(t, chat(`, "stream": true`))
		defer leave()
		if _, err := io.ReadFull(body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if h := w.relay.health.View()[0]; h.Skip != "" {
			t.Errorf("still %s while it answers", h.Skip)
		}
	})
}

func TestStreamGivesItsBodyBack(t *testing.T) {
	w := newWorld(t, setup{})
	w.fault(t, w.primary, engine.Control{Fault: engine.None, TokensPerSecond: 5})
	body, leave := w.begin(t, chat(`, "stream": true`))
	defer leave()
	if _, err := io.ReadFull(body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if n := w.relay.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of the budget are held while the answer streams", n)
	}
}

func TestReservedSpaceComesBack(t *testing.T) {
	w := newWorld(t, setup{journalBytes: 1 << 20})
	for i := range 150 { // their reservations together would fill the journal
		if a := w.post(t, chat("")); a.status != 200 {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
}

func TestEngineLoadingAfterItsProbe(t *testing.T) {
	url := serve(t, listing(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(rw, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)
	}))
	w := newWorld(t, setup{slots: []*hearth.Slot{{Name: "gpu", Node: &hearth.Node{Name: "gpu-1", Exclusive: true}, Driver: "always", URL: url,
		Probe: "/health", Concurrency: 1, Queue: 1, Wait: 5 * time.Second, StartTimeout: time.Minute}}})
	g := w.record(t, w.post(t, chat("")))
	if a := g.Attempts[0]; a.Skip != hearth.SkipLoading || a.Status != 0 || a.Blame != hearth.BlameNobody || g.Provider != "Primary" {
		t.Errorf("%+v, then %s", a, g.Provider)
	}
}

func TestEveryProviderRejects(t *testing.T) {
	for status, want := range map[int]int{400: 400, 413: 413, 422: 422, 500: 400} {
		e := chainError([]hearth.Attempt{{Status: status, Blame: hearth.BlameNobody}}, &tally{})
		kind := hearth.ErrInvalidRequest
		if status == 413 {
			kind = hearth.ErrPayloadTooLarge
		}
		if e.Type != kind || e.HTTPStatus() != want {
			t.Errorf("an upstream's %d: %s %d", status, e.Type, e.HTTPStatus())
		}
	}
}

func TestPlaceInABusySlotIsNotAwaitedForLong(t *testing.T) {
	url := serve(t, engine.New(engine.Config{Model: model}))
	gpu := &hearth.Slot{Name: "gpu", Node: &hearth.Node{Name: "gpu-1", Exclusive: true}, Driver: "always", URL: url, Probe: "/health",
		Concurrency: 1, Queue: 8, Wait: 10 * time.Second, QueueWait: 50 * time.Millisecond, StartTimeout: time.Minute}
	w := newWorld(t, setup{slots: []*hearth.Slot{gpu}})
	lease, err := w.relay.fleet.Acquire(t.Context(), slot.Ask{Slot: gpu, Budget: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	g := w.record(t, w.post(t, chat("")))
	if a := g.Attempts[0]; g.Provider != "Primary" || a.Skip != hearth.SkipBusy || a.SlotWait > 5*time.Second {
		t.Errorf("%+v, then %s", a, g.Provider)
	}
}

func TestCallerWhoLeftBeforeAnAnswerIsA499(t *testing.T) {
	w := newWorld(t, setup{})
	w.fault(t, w.primary, engine.Control{Fault: engine.Hang})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		until(t, "the provider is asked", func() bool { return w.primary.Seen().Inflight > 0 })
		cancel()
	}()
	rec := httptest.NewRecorder()
	id := w.relay.Name(rec)
	if err := w.relay.Chat(rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(chat(""))), id, w.key); err != nil {
		t.Error(err)
	}
	g, err := w.ledger.Generation(t.Context(), id)
	if err != nil || g.HTTP != 499 || !g.Cancelled || g.Bill.Cost != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

// cool puts an endpoint into a cooldown that has just ended.
func (w *world) cool(endpoint int) {
	before := time.Now().Add(-health.Cooldown - time.Second)
	for range health.Threshold {
		p, _ := w.relay.health.Take(endpoint, before)
		p.Done(health.Failure, 0, before)
	}
}

// begin sends a request whose answer the test reads; leave goes away.
func (w *world) begin(t *testing.T, body string) (answer io.Reader, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Body, func() { cancel(); resp.Body.Close() }
}
