package slot

import (
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
				st.fared(p, i >= lost[m])
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
	t.Run("what is long ago is forgotten", func(t *testing.T) {
		st := ready([2]int{90, 0})
		if st.now = t0.Add(100 * round); st.lag(st.slots[0]) > fairly {
			t.Errorf("it still lags by %v", st.lag(st.slots[0]))
		}
	})
}
