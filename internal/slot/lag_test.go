package slot

import (
	"cmp"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestLag is about what is made good to a model of which requests were lost.
func TestLag(t *testing.T) {
	ready := func(lost [2]int) *state {
		n := &hearth.Node{Exclusive: true, Turn: 10 * time.Second}
		s := func() *hearth.Slot {
			return &hearth.Slot{Node: n, Wait: 40 * time.Second, ExpectedLoad: 5 * time.Second}
		}
		st := newState(n, []*hearth.Slot{s(), s()}, t0)
		for m, p := range st.slots {
			for i := range 100 {
				st.fared(&request{place: p}, i >= lost[m])
			}
			p.wanted = t0 // it has turns
		}
		return st
	}
	const round = 50 * time.Second
	for _, tt := range []struct {
		name string
		lost [2]int
		want [2]time.Duration // least and most that the turn of the first is longer
	}{
		{"nobody lost, nothing made good", [2]int{0, 0}, [2]time.Duration{0, 0}},
		{"both lost as many", [2]int{40, 40}, [2]time.Duration{0, 0}},
		{"one in a hundred is luck", [2]int{1, 0}, [2]time.Duration{0, 0}},
		{"one that lost a twelfth more stays longer", [2]int{12, 4}, [2]time.Duration{round / 10, round / 3}},
		{"at most for a round", [2]int{90, 0}, [2]time.Duration{round, round}},
		{"one that lost less leaves earlier, by half of that", [2]int{4, 12}, [2]time.Duration{-round / 6, -round / 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := ready(tt.lost)
			if got := st.catchUp(st.slots[0]); got < tt.want[0] || got > tt.want[1] {
				t.Errorf("%v longer, want %v to %v", got, tt.want[0], tt.want[1])
			}
		})
	}
	for _, tt := range []struct {
		name   string
		budget time.Duration // of requests for the second; 0 = they leave after half a load
		lags   bool
	}{
		{"one whose requests may not wait for a load has lost none of them", 2 * time.Second, false},
		{"nor one whose callers leave in no time", 0, false},
		{"one whose requests may wait for a load has lost them", 6 * time.Second, true},
		{"those that may wait for as long as the slot lets anybody", time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := ready([2]int{0, 0})
			first, second := st.slots[0], st.slots[1]
			first.state, first.run, st.lastRun, second.wanted = hearth.SlotReady, 1, 1, time.Time{}
			step(st, event{kind: evAsked, now: t0, id: 1, budget: time.Hour}) // the first is in use
			now, id := t0, uint64(1)
			for range 20 {
				id++
				step(st, event{kind: evAsked, now: now, slot: second.index, id: id, budget: cmp.Or(tt.budget, time.Hour)})
				if tt.budget == 0 {
					now = now.Add(2500 * time.Millisecond)
					step(st, event{kind: evCancelled, now: now, id: id})
				}
			}
			step(st, event{kind: evTick, now: now.Add(min(tt.budget, second.Wait))})
			if second.waiting != 0 || second.run != 0 {
				t.Fatalf("%d wait, run %d", second.waiting, second.run)
			}
			if by := st.lag(second); by > fairly != tt.lags || !tt.lags && by != 0 {
				t.Errorf("it lags by %v", by)
			}
		})
	}
	t.Run("what is long ago is forgotten", func(t *testing.T) {
		st := ready([2]int{90, 0})
		if st.now = t0.Add(100 * round); st.lag(st.slots[0]) > fairly {
			t.Errorf("it still lags by %v", st.lag(st.slots[0]))
		}
	})
}
