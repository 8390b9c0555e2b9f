package node

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// A vote has a machine start a slot for which nobody waits: at once while no load was measured, else when it pays.
func TestVote(t *testing.T) {
	bubble(t, setup{load: 10 * time.Second}, func(t *testing.T, w *world) {
		vote := func(s *hearth.Slot) error {
			l, err := w.lease(s, func(a *slot.Ask) { a.Vote, a.Budget, a.HasNext = true, 20*time.Millisecond, true })
			if l != nil || err == nil {
				t.Fatal("a vote has a lease")
			}
			return err
		}
		counted := func(s *hearth.Slot) {
			t.Helper()
			began := time.Now()
			if no := new(slot.Refusal); !errors.As(vote(s), &no) || no.Word != hearth.SkipLoading || time.Since(began) > time.Second {
				t.Errorf("a vote ends with %+v after %v", no, time.Since(began))
			}
		}
		counted(w.a)
		wait(time.Second)
		if v := w.client.View("a"); v.State != hearth.SlotStarting || v.Waiting != 0 {
			t.Errorf("the slot is %v, %d wait", v.State, v.Waiting)
		}
		wait(10 * time.Second)
		if v := w.client.View("a"); v.State != hearth.SlotReady || v.Inflight != 0 {
			t.Errorf("the slot is %v, %d in it", v.State, v.Inflight)
		}
		counted(w.a) // it is up: the place that it gets is given back
		synctest.Wait()
		if v := w.fleet.View(w.cat.Slots[0]); v.Inflight != 0 || w.asked.Load() != 0 {
			t.Errorf("%d in the engine, which was asked %d times", v.Inflight, w.asked.Load())
		}
		if err := w.client.Order(t.Context(), slot.Order{Slot: "a", Verb: slot.Sleep}); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		for range 5 {
			counted(w.a)
		}
		wait(time.Second)
		if v := w.client.View("a"); v.State != hearth.SlotStarting && v.Votes == 0 {
			t.Errorf("the slot is %v, with %d votes", v.State, v.Votes)
		}
		w.crash()
		wait(stale + time.Second)
		if no := new(slot.Refusal); !errors.As(vote(w.a), &no) || no.Word != hearth.SkipFailed {
			t.Errorf("a vote at a machine that is gone ends with %+v", no)
		}
		w.wire.down.Store(false)
	})
}

// What a machine does not serve gets no votes, and nobody waits by a vote.
func TestVote_Refused(t *testing.T) {
	bubble(t, setup{load: time.Hour}, func(t *testing.T, w *world) {
		const path = slotsPath + "a" + voteRoute
		for _, c := range []struct {
			method, path string
			header       []string
			status       int
		}{
			{http.MethodPost, path, []string{"Authorization", ""}, http.StatusUnauthorized},
			{http.MethodGet, path, nil, http.StatusMethodNotAllowed},
			{http.MethodPost, slotsPath + "z" + voteRoute, nil, http.StatusNotFound},
			{http.MethodPost, path, []string{headModel, "x/other"}, http.StatusConflict},
		} {
			if status, _, body := w.raw(c.method, c.path, c.header...); status != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
			}
		}
		if n := w.gpus.starts(); n != 0 {
			t.Errorf("%d engines were started", n)
		}
		began := time.Now()
		if status, _, body := w.raw(http.MethodPost, path, headBudget, "3600000", headAlso, "b", headGeneration, "g"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		if took := time.Since(began); took > 2*longestVote || w.gpus.starts() != 1 {
			t.Errorf("the vote took %v and began %d loads", took, w.gpus.starts())
		}
	})
}
