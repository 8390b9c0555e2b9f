package node

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// An engine that is gone before it could do anything about a request is told apart from one that may have died of it, and
// both from one that lives. The news of its end are waited for while the request has nothing better to do.
func TestInfer_Unsent(t *testing.T) {
	const (
		ms = time.Millisecond
		s  = time.Second
	)
	for _, c := range []struct {
		name     string
		works    time.Duration // until the connection breaks; -1 = nobody listens
		seen     time.Duration // when the end is noticed after that; 0 = never
		immortal bool          // ends of the engine are not noticed
		hasNext  bool
		redialed bool // of kept: it listens, and breaks the next connection at once
		kept     bool // the request comes over a connection that had another one, and nobody listens behind it
		budget   time.Duration
		status   int // 0 = a slot word
		unsent   bool
		took     time.Duration
	}{
		{name: "nobody listens", works: -1, seen: 2500 * ms, budget: 30 * s, unsent: true, took: 2500 * ms},
		{name: "nobody listens, and there is another candidate", works: -1, seen: 2500 * ms, budget: 30 * s, hasNext: true, status: 502, took: s},
		{name: "nobody listens, another candidate, it is seen soon", works: -1, seen: 500 * ms, budget: 30 * s, hasNext: true, unsent: true, took: 500 * ms},
		{name: "nobody listens, and no wait is wanted", works: -1, seen: 2500 * ms, status: 502, took: s},
		{name: "nobody listens, and a short wait is wanted", works: -1, seen: 2500 * ms, budget: 2 * s, status: 502, took: 2 * s},
		{name: "nobody listens, and it lives", works: -1, budget: 30 * s, status: 502, took: 3 * s},
		{name: "its end will not be noticed", works: -1, immortal: true, budget: 30 * s, status: 502},
		{name: "it breaks at once", seen: 50 * ms, budget: 30 * s, unsent: true, took: 50 * ms},
		{name: "it breaks soon", works: lastGasp - 1, seen: 50 * ms, budget: 30 * s, unsent: true, took: lastGasp - 1 + 50*ms},
		{name: "it breaks at once, on a kept connection", kept: true, seen: 50 * ms, budget: 30 * s, unsent: true, took: 50 * ms},
		{name: "it has worked on the request, on a kept connection", kept: true, works: lastGasp, seen: 50 * ms, budget: 30 * s, took: lastGasp + 50*ms},
		{name: "it has worked on the request, and breaks the next connection at once", kept: true, redialed: true, works: lastGasp, seen: 50 * ms, budget: 30 * s, took: lastGasp + 50*ms},
		{name: "it has worked on the request", works: lastGasp, seen: 50 * ms, budget: 30 * s, took: lastGasp + 50*ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w *world
			ends := func() {
				if c.seen > 0 {
					time.AfterFunc(c.seen, func() { _ = w.gpus.list[0].Stop(w.t.Context(), 0) })
				}
			}
			engine := func(http.ResponseWriter, *http.Request) {
				n := w.asked.Load()
				if c.kept && n == 1 {
					return
				}
				w.engines.down.Store(c.kept && !c.redialed)
				if !c.redialed || n == 2 {
					wait(c.works)
				}
				ends()
				panic(http.ErrAbortHandler)
			}
			bubble(t, setup{engine: engine, immortal: c.immortal}, func(t *testing.T, here *world) {
				w = here
				if err := w.fleet.Order(t.Context(), slot.Order{Slot: "a", Verb: slot.Wake}); err != nil {
					t.Fatal(err)
				}
				wait(s)
				if c.works < 0 {
					w.engines.down.Store(true)
					ends()
				}
				if c.kept {
					if status, _, err := w.chat(w.a); err != nil || status != 200 {
						t.Fatal(status, err)
					}
				}
				l, err := w.lease(w.a, func(a *slot.Ask) { a.Budget, a.HasNext = c.budget, c.hasNext })
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				resp, err := w.post(t.Context(), l, chat, strings.NewReader("{}"))
				took, status := time.Since(began), 0
				if err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				refused := word(err) == hearth.SkipFailed && strings.Contains(err.Error(), ended)
				if status != c.status || refused != (c.status == 0) || errors.Is(err, slot.ErrUnsent) != c.unsent || took != c.took {
					t.Errorf("%d, %v after %v", status, err, took)
				}
				if refused && l.Waited() < c.seen.Truncate(ms) { // the wait for the news is part of the wait for the slot
					t.Errorf("waited %v", l.Waited())
				}
			})
		})
	}
}
