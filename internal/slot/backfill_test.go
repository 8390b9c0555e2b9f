package slot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// filled is a slot of two places that has seen three requests of 2 s and one of 20 s, and drains since its second request
// of now 10 s came for the sake of another.
func filled(t *testing.T) *sim {
	t.Helper()
	var slots []*hearth.Slot
	for range 2 {
		slots = append(slots, &hearth.Slot{Concurrency: 2, Queue: 9, Wait: time.Hour, QueueWait: time.Hour, DrainMax: time.Minute, StartTimeout: time.Minute})
	}
	s := newSim(t, hearth.Node{Exclusive: true, Turn: 10 * time.Second}, slots...)
	for _, line := range []string{
		"ask a 1 1h", "ready a", "pass 2s", "release 1", "ask a 2 1h", "pass 2s", "release 2", "ask a 3 1h", "pass 2s", "release 3",
		"ask a 4 1h", "pass 20s", "release 4", "ask a 5 1h", "ask b 6 1h", "pass 10s",
	} {
		s.run(line)
	}
	if got := s.st.slots[0].state; got != hearth.SlotDraining {
		t.Fatalf("the slot is %v", got)
	}
	s.log = nil
	return s
}

func TestBackfill(t *testing.T) {
	for _, tt := range []struct {
		name string
		play []string
		want []string
	}{
		{"who is likely to be done before the drain is let in", []string{"ask a 7 1h", "pass 2s", "release 7"}, []string{"36s grant 7"}},
		{"one after the other in the free place", []string{"ask a 7 1h", "ask a 8 1h", "pass 2s", "release 7"}, []string{"36s grant 7", "38s grant 8"}},
		{"up to the last moment", []string{"pass 8s", "ask a 7 1h"}, []string{"44s grant 7"}},
		{"not later", []string{"pass 8001ms", "ask a 7 1h"}, nil},
		{"whom that lets in does not make the drain longer", []string{"pass 8s", "ask a 7 1h", "release 5", "ask a 8 1h"}, []string{"44s grant 7"}},
		{"not once nobody knows when it ends", []string{"pass 11s", "ask a 7 1h"}, nil},
		{"not if an operator wants it gone", []string{"ask a 7 1h", "drain a", "release 7"}, []string{"36s grant 7"}},
		{"nobody is let in who was sent to sleep", []string{"sleep a", "ask a 7 1h"}, nil},
		{"the swap comes when all are done", []string{"ask a 7 1h", "pass 1s", "release 5", "pass 1s", "release 7", "ended a"}, []string{"36s grant 7", "38s stop a", "38s start b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := filled(t)
			for _, line := range tt.play {
				s.run(line)
			}
			if diff := cmp.Diff(tt.want, s.log); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestViewOfTurns(t *testing.T) {
	s := filled(t)
	a, b := s.st.view(s.st.slots[0], s.now), s.st.view(s.st.slots[1], s.now)
	if a.Next || !b.Next || b.NextWhy == "" {
		t.Errorf("next: %v, %v (%s)", a.Next, b.Next, b.NextWhy)
	}
	s.run("cancel 6")
	s.run("release 5")
	s.run("ask a 7 1h")
	if v := s.st.view(s.st.slots[0], s.now); !v.Turn.IsZero() {
		t.Errorf("nobody waits, the turn is limited since %v", v.Turn)
	}
	s.run("pass 3s")
	s.run("ask b 8 1h")
	if v := s.st.view(s.st.slots[0], s.now); !v.Turn.Equal(s.now) {
		t.Errorf("the turn is limited since %v, it is %v", v.Turn, s.now)
	}
}

// TestNextTurn is about whose turn comes next.
func TestNextTurn(t *testing.T) {
	at := func(deadline, load time.Duration, lost int) *place {
		p := &place{Slot: &hearth.Slot{Wait: 100 * time.Second}, on: 1, first: &request{deadline: t0.Add(deadline)}}
		p.loading.add(load)
		st := &state{now: t0, slots: []*place{p}}
		for i := range 100 {
			st.fared(&request{place: p}, i >= lost)
		}
		return p
	}
	const s = time.Second
	for _, tt := range []struct {
		name string
		a, b *place // a comes first
	}{
		{"the earlier deadline", at(50*s, s, 0), at(51*s, s, 0)},
		{"the longer load of two with the same", at(50*s, 9*s, 0), at(50*s, s, 0)},
		{"also if it is lost anyway", at(5*s, 9*s, 50), at(20*s, 9*s, 50)},
		{"of whom more requests were lost lately", at(60*s, s, 20), at(50*s, s, 0)},
		{"all the same if that would have been but few", at(60*s, s, 1), at(70*s, s, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := &state{now: t0, slots: []*place{tt.a, tt.b}, room: room{exclusive: true, limited: 1}}
			if !st.before(tt.a, tt.b) || st.before(tt.b, tt.a) {
				t.Errorf("a before b: %v, b before a: %v", st.before(tt.a, tt.b), st.before(tt.b, tt.a))
			}
		})
	}
}
