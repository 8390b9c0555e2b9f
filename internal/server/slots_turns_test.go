package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/slot"
)

// turns is what the page of metrics says of the turns of a slot.
func (y *yard) turns(name string) map[string]string {
	y.t.Helper()
	y.Health = health.NewTracker(y.Catalog)
	m := NewMetrics("v1", func() *Server { return y.Server }, slog.New(slog.DiscardHandler))
	got := map[string]string{}
	for line := range strings.Lines(m.text()) {
		metric, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.Contains(metric, `slot="`+name+`"`) {
			continue
		}
		figure, labels, _ := strings.Cut(metric, "{")
		switch figure {
		case "hearth_slot_votes", "hearth_slot_turn_seconds":
			got[figure] = value
		case "hearth_slot_next_turn", "hearth_slot_learned_seconds", "hearth_slot_requests_waiting":
			for _, l := range []string{"why", "kind", "figure", "class"} {
				if _, rest, ok := strings.Cut(labels, l+`="`); ok {
					word, _, _ := strings.Cut(rest, `"`)
					figure += " " + word
				}
			}
			got[figure] = value
		}
	}
	return got
}

// TestSlots_Turns: the operator sees who waits, whose turn is limited, who is next, and why.
func TestSlots_Turns(t *testing.T) {
	t.Parallel()
	bubble(t, "a turn change", func(t *testing.T, y *yard) {
		gemma, qwen := y.Catalog.Slots[0], y.Catalog.Slots[1]
		lease, err := y.Fleet.Acquire(t.Context(), slot.Ask{Slot: gemma, Budget: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		came, left := context.WithCancel(t.Context())
		answered := make(chan error, 3)
		for _, class := range []hearth.Class{hearth.Interactive, hearth.Batch, hearth.Batch} {
			go func() {
				_, err := y.Fleet.Acquire(came, slot.Ask{Slot: qwen, Class: class, Budget: 50 * time.Second})
				answered <- err
			}()
		}
		synctest.Wait()
		asked := time.Now().UTC()
		pass(3 * time.Second)
		var got struct {
			Data []slotJSON `json:"data"`
		}
		y.do("GET", "/api/v1/slots", "", 200, &got)
		type standing struct {
			Waiting, Batch, Votes int
			Next                  bool
			Why                   string
		}
		a, b := got.Data[0], got.Data[1]
		if a.TurnSince == nil || !a.TurnSince.Equal(asked.Truncate(time.Millisecond)) || b.TurnSince != nil {
			t.Errorf("turns since %v and %v, want %v and none", a.TurnSince, b.TurnSince, asked)
		}
		want := []standing{{}, {Waiting: 3, Batch: 2, Next: true, Why: "its oldest request runs out of time first"}}
		if d := cmp.Diff(want, []standing{{a.Waiting, a.Batch, a.Votes, a.Next, a.NextWhy}, {b.Waiting, b.Batch, b.Votes, b.Next, b.NextWhy}}); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		turn := map[string]string{
			"hearth_slot_requests_waiting interactive": "1", "hearth_slot_requests_waiting batch": "2", "hearth_slot_votes": "0", "hearth_slot_turn_seconds": "0",
			"hearth_slot_next_turn deadline": "1", "hearth_slot_next_turn votes": "0", "hearth_slot_next_turn wanted": "0", "hearth_slot_next_turn other": "0",
		}
		if d := cmp.Diff(turn, y.turns("qwen")); d != "" {
			t.Errorf("metrics of who waits (-want +got):\n%s", d)
		}
		if m := y.turns("gemma"); m["hearth_slot_turn_seconds"] != "3" || m["hearth_slot_next_turn deadline"] != "0" || m["hearth_slot_learned_seconds load p95"] == "" {
			t.Errorf("metrics of the resident: %v", m)
		}
		left()
		for range 3 {
			if err := <-answered; !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		}
		synctest.Wait()
		if m := y.turns("qwen"); m["hearth_slot_next_turn deadline"] != "0" || m["hearth_slot_requests_waiting interactive"] != "0" || m["hearth_slot_requests_waiting batch"] != "0" {
			t.Errorf("nobody waits: %v", m)
		}
		lease.Release()
	})
	bubble(t, "votes", func(t *testing.T, y *yard) {
		gemma, qwen := y.Catalog.Slots[0], y.Catalog.Slots[1]
		y.do("POST", "/api/v1/slots/qwen/wake", "", 200, nil)
		pass(3 * time.Second) // its load has been seen now: 2 s
		lease, err := y.Fleet.Acquire(t.Context(), slot.Ask{Slot: gemma, Budget: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var no *slot.Refusal
		for range 2 {
			if _, err := y.Fleet.Acquire(t.Context(), slot.Ask{Slot: qwen, Budget: time.Second, HasNext: true}); !errors.As(err, &no) {
				t.Fatalf("a hopeless wait: %v", err)
			}
		}
		synctest.Wait()
		var got slotAnswer
		y.do("GET", "/api/v1/slots/qwen", "", 200, &got)
		if m := y.turns("qwen"); got.Data.Votes != 2 || m["hearth_slot_votes"] != "2" {
			t.Errorf("%d votes in JSON, %s in metrics, want 2", got.Data.Votes, m["hearth_slot_votes"])
		}
		lease.Release()
	})
	bubble(t, "a start for votes says so", func(t *testing.T, y *yard) {
		y.do("POST", "/api/v1/slots/qwen/wake", "", 200, nil)
		pass(3 * time.Second) // its load has been seen now: 2 s
		y.do("POST", "/api/v1/slots/qwen/sleep", "", 200, nil)
		pass(3 * time.Second)
		events := y.Fleet.Watch(t.Context())
		var no *slot.Refusal
		if _, err := y.Fleet.Acquire(t.Context(), slot.Ask{Slot: y.Catalog.Slots[1], Budget: time.Second, HasNext: true}); !errors.As(err, &no) {
			t.Fatalf("a hopeless wait: %v", err)
		}
		if e := <-events; e.To != hearth.SlotStarting || e.Why != slot.NextByVotes {
			t.Errorf("%s → %s: %s", e.From, e.To, e.Why)
		}
	})
}

// TestMetrics_Turns: what another machine writes is no label, and of one that is silent nothing is said.
func TestMetrics_Turns(t *testing.T) {
	for why, want := range map[string]string{
		slot.NextByDeadline: "deadline", slot.NextByVotes: "votes", slot.NextByWish: "wanted", "": "other", "x\"\n": "other",
	} {
		if got := nextWord(why); got != want {
			t.Errorf("%q: %s, want %s", why, got, want)
		}
	}
	collectTurns(nil, &hearth.Slot{}, hearth.SlotView{Unknown: true, Votes: 3}, time.Now()) // would block if it said anything
}
