package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// machine is another machine that owns a slot.
type machine struct {
	slot.Node
	view   hearth.SlotView
	asked  int
	answer error
}

func (m *machine) View(string) hearth.SlotView { return m.view }
func (m *machine) Watch(func(slot.Event))      {}
func (m *machine) RefuseWaiters()              {}
func (m *machine) Close(context.Context) error { return nil }
func (m *machine) LogTail(string) ([]string, error) {
	if m.asked++; m.answer != nil {
		return nil, m.answer
	}
	return []string{"there"}, nil
}

func (m *machine) Starts(string) ([]slot.Start, error) {
	if m.asked++; m.answer != nil {
		return nil, m.answer
	}
	return []slot.Start{{At: time.Now(), Took: time.Second, Outcome: slot.StartReady}}, nil
}

// TestSlots_Remote: another machine is asked where one slot is shown, and not if it would not answer; what is known here is
// shown all the same.
func TestSlots_Remote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &hearth.Node{Name: "gpu-9", Remote: &hearth.Remote{URL: "http://gpu-9"}}
		c := &hearth.Catalog{Nodes: []*hearth.Node{node}, Slots: []*hearth.Slot{{Name: "far", Node: node}}}
		m := &machine{}
		f, err := slot.NewFleet(c, slot.Options{Remote: func(*hearth.Node, []*hearth.Slot) (slot.Node, error) { return m, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close(t.Context())
		y := &yard{t: t, Server: NewOperator(Parts{Catalog: c, Fleet: f, Log: slog.New(slog.DiscardHandler)})}
		for _, step := range []struct {
			name         string
			view         hearth.SlotView
			answer       error
			path         string
			asked        int
			state        string
			history, log int
		}{
			{"alone", hearth.SlotView{State: hearth.SlotReady}, nil, "/api/v1/slots/far", 2, "ready", 1, 1},
			{"of a machine that does not answer now", hearth.SlotView{State: hearth.SlotReady}, errors.New("late"), "/api/v1/slots/far", 2, "ready", 0, 0},
			{"of a machine that is lost", hearth.SlotView{Unknown: true, State: hearth.SlotReady}, nil, "/api/v1/slots/far", 0, "unknown", 0, 0},
			{"in the list", hearth.SlotView{State: hearth.SlotReady}, nil, "/api/v1/slots", 0, "ready", 0, 0},
		} {
			m.view, m.answer, m.asked = step.view, step.answer, 0
			var one slotAnswer
			if step.path == "/api/v1/slots" {
				var all struct {
					Data []slotJSON `json:"data"`
				}
				y.do("GET", step.path, "", 200, &all)
				one.Data = all.Data[0]
			} else {
				y.do("GET", step.path, "", 200, &one)
			}
			if got := one.Data; got.State != step.state || m.asked != step.asked || len(got.History) != step.history || len(got.Log) != step.log || !got.Remote {
				t.Errorf("%s: asked %d times, %+v", step.name, m.asked, got)
			}
		}
		if m.answer = slot.ErrNoSlot; true {
			m.view.Unknown = false
			y.do("GET", "/api/v1/slots/far", "", 404, nil)
			y.do("GET", "/api/v1/slots/far/log", "", 404, nil)
		}
		m.answer = errors.New("dial tcp 10.0.0.9: refused")
		y.do("GET", "/api/v1/slots/far/log", "", 502, nil)
		y.do("GET", "/api/v1/models", "", 404, nil)
	})
}
