package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// named asks for both slots under an id.
func named(w *world, id string) func(*slot.Ask) {
	return func(a *slot.Ask) {
		a.Generation, a.Also = id, []*hearth.Slot{w.b}
		if a.Slot == w.b {
			a.Also = nil
		}
	}
}

func (w *world) inflight(slot int) int {
	w.t.Helper()
	synctest.Wait()
	return w.fleet.View(w.cat.Slots[slot]).Inflight
}

// A request that waits over there for several slots is told of the one that is ready first, and the place in it is kept.
func TestAlso_Waits(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, w *world)
	}{
		{"it comes and is served at once", func(t *testing.T, w *world) {
			l, err := w.lease(w.b, named(w, "gen-1"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := w.post(t.Context(), l, chat, strings.NewReader("{}"))
			if err != nil || resp.StatusCode != http.StatusOK || l.Waited() != 0 {
				t.Fatalf("%v, waited %s", err, l.Waited())
			}
			if w.asked.Load() != 1 {
				t.Errorf("%d requests reached the engine", w.asked.Load())
			}
			resp.Body.Close()
			if n := w.inflight(1); n != 0 {
				t.Errorf("%d in flight behind the answer", n)
			}
		}},
		{"it stays away", func(t *testing.T, w *world) {
			wait(parkTime - time.Second)
			if n := w.inflight(1); n != 1 {
				t.Errorf("%d in flight before the time is over", n)
			}
			wait(time.Second)
			if n := w.inflight(1); n != 0 {
				t.Errorf("%d in flight after it", n)
			}
		}},
		{"it wants something else", func(t *testing.T, w *world) {
			if _, _, err := w.chat(w.a, func(a *slot.Ask) { a.Budget = 0 }); word(err) != hearth.SkipBusy {
				t.Errorf("slot a: %v", err)
			}
			if n := w.inflight(1); n != 0 {
				t.Errorf("%d in flight", n)
			}
		}},
		{"it asks for both once more", func(t *testing.T, w *world) {
			for range 3 {
				if _, _, err := w.chat(w.a, named(w, "gen-1")); word(err) != hearth.SkipBusy {
					t.Errorf("slot a: %v", err)
				}
			}
			if n := w.inflight(1); n != 1 {
				t.Errorf("%d in flight", n)
			}
		}},
		{"another request gets no place of it", func(t *testing.T, w *world) {
			if _, _, err := w.chat(w.b, named(w, "gen-2"), func(a *slot.Ask) { a.Budget = time.Second }); word(err) != hearth.SkipBusy {
				t.Errorf("slot b: %v", err)
			}
			if _, _, err := w.chat(w.b, named(w, "gen-2"), func(a *slot.Ask) { a.Budget = 2 * time.Second }); err != nil {
				t.Errorf("slot b when the time is over: %v", err)
			}
		}},
		{"the engine is to go", func(t *testing.T, w *world) {
			if err := w.fleet.Order(t.Context(), slot.Order{Slot: "b", Verb: slot.Drain}); err != nil {
				t.Fatal(err)
			}
			wait(time.Second)
			if n := w.inflight(1); n != 0 {
				t.Errorf("%d in flight after the time to drain", n)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{load: 30 * time.Second, change: func(s *hearth.Slot) { s.Concurrency, s.DrainMax = 1, time.Second }}, func(t *testing.T, w *world) {
				if err := w.fleet.Order(t.Context(), slot.Order{Slot: "b", Verb: slot.Wake}); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, _, err := w.chat(w.a, named(w, "gen-1"), func(a *slot.Ask) { a.Budget = time.Hour })
				if took := time.Since(began); word(err) != hearth.SkipBusy || !strings.Contains(err.Error(), "ready first") || took < 30*time.Second || took > 31*time.Second {
					t.Errorf("%v after %s", err, took)
				}
				if n := w.inflight(1); n != 1 {
					t.Errorf("the place is not kept: %d in flight", n)
				}
				c.then(t, w)
				wait(parkTime + time.Second)
				if len(w.server.parked) != 0 {
					t.Errorf("still kept: %v", w.server.parked)
				}
			})
		})
	}
}

// Of two requests with one id only one has a place.
func TestPark_TwoOfOneID(t *testing.T) {
	bubble(t, setup{change: func(s *hearth.Slot) { s.Concurrency = 2 }}, func(t *testing.T, w *world) {
		var leases []*slot.Lease
		for range 2 {
			l, err := w.fleet.Acquire(t.Context(), slot.Ask{Slot: w.cat.Slots[1], Budget: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
			w.server.park("gen-1", l)
		}
		if n := w.inflight(1); n != 1 {
			t.Errorf("%d in flight", n)
		}
		wait(parkTime - 1) // the timer of the first is not that of the second
		if l := w.server.claim("gen-1"); l != leases[1] {
			t.Errorf("got %v", l)
		}
		if l := w.server.claim("gen-1"); l != nil {
			t.Errorf("got it twice")
		}
		wait(time.Minute)
		if n := w.inflight(1); n != 1 {
			t.Errorf("%d in flight: what was given is not kept any more", n)
		}
		leases[1].Release()
	})
}

func TestServer_Ask(t *testing.T) {
	at := func(i int) *hearth.Slot { return &hearth.Slot{Name: fmt.Sprint(i), Node: &hearth.Node{}} }
	c := &hearth.Catalog{Slots: []*hearth.Slot{{Name: "elsewhere", Node: &hearth.Node{Remote: &hearth.Remote{}}}}}
	var all []string
	for i := range 2 * maxAlso {
		c.Slots = append(c.Slots, at(i))
		all = append(all, fmt.Sprint(i))
	}
	s := NewServer(ServerOptions{Catalog: c, Fleet: &slot.Fleet{}, Engines: &http.Transport{}})
	for _, k := range []struct {
		also, id string
		want     int
	}{
		{"", "g", 0}, {"1", "g", 1}, {"1,2", "g", 2}, {"1,nobody,2", "g", 2}, {"elsewhere", "g", 0}, {",,", "g", 0}, {"1,2", "", 0},
		{strings.Join(all, ","), "g", maxAlso}, {strings.Repeat("1,", 1000), "g", maxAlso},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set(headAlso, k.also)
		r.Header.Set(headGeneration, k.id)
		if a := s.ask(r, at(0)); len(a.Also) != k.want {
			t.Errorf("%.40q of %q: %d slots", k.also, k.id, len(a.Also))
		}
	}
}
