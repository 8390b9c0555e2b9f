package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
	"myip.co.kr/hearth/internal/sse"
)

// pictures are those of one stream in a time; whole says that it has ended in good order.
func (w *world) pictures(over time.Duration) (list []picture, whole bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), over)
	defer cancel()
	resp, err := w.client.get(ctx, viewsPath)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	events := sse.NewReader(resp.Body, maxPicture)
	defer events.Close()
	for {
		ev, err := events.Next()
		if err != nil {
			return list, errors.Is(err, io.EOF)
		}
		p, err := readPicture(ev.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, p)
	}
}

// A stream ends after some minutes, and says so in its last picture.
func TestViews_Rotate(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		list, whole := w.pictures(2 * viewsLast)
		last := list[len(list)-1]
		if !whole || !last.Last || ms(last.At) < viewsLast || ms(last.At) > viewsLast+2*viewPace {
			t.Errorf("whole: %v, %d pictures, the last %+v", whole, len(list), last)
		}
		if i := slices.IndexFunc(list, func(p picture) bool { return p.Last }); i != len(list)-1 {
			t.Errorf("picture %d of %d is called the last", i, len(list))
		}
	})
}

// What passes by itself is no news, however fast it passes.
func TestViews_Pace(t *testing.T) {
	for name, order := range map[string]slot.Order{
		"asleep": {}, "loading": {Slot: "a", Verb: slot.Wake}, "paused": {Node: "gpu", Verb: slot.Pause, For: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{load: time.Minute}, func(t *testing.T, w *world) {
				if order.Verb != "" {
					if err := w.fleet.Order(t.Context(), order); err != nil {
						t.Fatal(err)
					}
				}
				wait(time.Second)
				list, _ := w.pictures(10*time.Second + viewLook/2)
				if len(list) != int(10*time.Second/viewPace)+1 {
					t.Errorf("%d pictures in ten seconds", len(list))
				}
				if p := list[0].Slots[0]; (p.Paused > 0) != (name == "paused") || (p.LoadRest > 0 && p.State == "starting") != (name == "loading") {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}

// What changes is told within the time between two looks, whether there is an event of it or not.
func TestViews_News(t *testing.T) {
	bubble(t, setup{load: time.Minute}, func(t *testing.T, w *world) {
		for i, o := range []slot.Order{
			{Node: "gpu", Verb: slot.Pause, For: time.Hour}, {Node: "gpu", Verb: slot.Resume}, {Slot: "b", Verb: slot.Disable}, {Slot: "b", Verb: slot.Enable},
		} {
			wait(viewPace + viewLook/2)
			if err := w.fleet.Order(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			wait(viewLook)
			synctest.Wait()
			a, b := w.client.View("a"), w.client.View("b")
			if a.Paused.IsZero() == (i == 0) || b.Disabled != (i == 2) {
				t.Errorf("%s is not known: %+v, %+v", o.Verb, a, b)
			}
		}
	})
}

func TestViews_OwnSlots(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := *w.cat
		c.Slots = append(slices.Clone(c.Slots), &hearth.Slot{Name: "third", Node: &hearth.Node{Name: "far", Remote: &hearth.Remote{}}, Model: &hearth.Model{ID: "x/c"}})
		w.server.Reload(&c)
		list, _ := w.pictures(time.Second)
		for _, p := range list {
			if len(p.Slots) != 2 || p.Slots[0].Name != "a" || p.Slots[1].Name != "b" {
				t.Errorf("%+v", p.Slots)
			}
		}
	})
}

func TestViewing_Note(t *testing.T) {
	var v viewing
	for i := range 3 * maxSteps {
		v.note(&slot.Event{Slot: fmt.Sprint(i)})
	}
	if len(v.steps) != maxSteps || v.steps[0].Slot != fmt.Sprint(2*maxSteps) || v.steps[maxSteps-1].Slot != fmt.Sprint(3*maxSteps-1) {
		t.Errorf("%d steps, from %s", len(v.steps), v.steps[0].Slot)
	}
}

// A gateway that asks for views and takes none of them is left.
func TestViews_NotTaken(t *testing.T) {
	bubble(t, setup{stall: 5 * time.Second}, func(t *testing.T, w *world) {
		tr := transport(w.wire.dial, nil)
		defer tr.CloseIdleConnections()
		tr.HTTP2.MaxReceiveBufferPerStream = 4 << 10
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://machine"+viewsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		wait(time.Minute)
		began := time.Now()
		if n, err := io.Copy(io.Discard, resp.Body); err == nil || time.Since(began) > time.Second {
			t.Errorf("%d bytes and %v after %s", n, err, time.Since(began))
		}
	})
}
