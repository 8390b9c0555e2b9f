package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestTurnEnds is about when a model that is ready since t0 leaves for another that is asked for since then.
func TestTurnEnds(t *testing.T) {
	const s = time.Second
	type wait struct{ asked, deadline time.Duration }
	for _, tt := range []struct {
		name  string
		now   time.Duration
		loads [2][]time.Duration // of the resident and of the other, as measured
		here  []wait
		other wait
		lost  [2]int // of the latest hundred requests
		idle  bool
		want  time.Duration
		asked float64 // how often the resident was asked for in the last ten loads
	}{
		{"who came while turn lasted is served, for up to ten loads", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{5 * s, 600 * s}}, wait{0, 600 * s}, [2]int{}, false, 80 * s, 0},
		{"who came later is not", 12 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{11 * s, 600 * s}}, wait{0, 600 * s}, [2]int{}, false, 10 * s, 0},
		{"and a round longer if all were lost", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{5 * s, 600 * s}}, wait{0, 600 * s}, [2]int{90, 0}, false, 190 * s, 0},
		{"one who waits elsewhere can be saved, and nobody is lost here", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{5 * s, 600 * s}}, wait{0, 16 * s}, [2]int{}, false, 14 * s, 0},
		{"but requests that the turn is for would be", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{5 * s, 9 * s}}, wait{0, 16 * s}, [2]int{}, false, 80 * s, 0},
		{"unless the other model has lost more", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, []wait{{5 * s, 9 * s}}, wait{0, 16 * s}, [2]int{2, 6}, false, 14 * s, 0},
		{"as long as a load of the round if anybody would be lost", 12 * s, [2][]time.Duration{{8 * s}, {20 * s}}, []wait{{11 * s, 20 * s}}, wait{0, 32*s + s/2}, [2]int{}, false, 14 * s, 0},
		{"half of all loads would be in time", 5 * s, [2][]time.Duration{{8 * s}, {2 * s, 2 * s, 2 * s, 30 * s}}, nil, wait{0, 15 * s}, [2]int{}, false, 5 * s, 0},
		{"one that is asked for once in the two loads that it costs to leave and come back stays for as long", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, nil, wait{0, 600 * s}, [2]int{}, false, 16 * s, 5},
		{"one that is asked for less often does not", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, nil, wait{0, 600 * s}, [2]int{}, false, 10 * s, 4.9},
		{"idle, it goes at once if who waits might be too late after a while", 2 * s, [2][]time.Duration{{8 * s}, {2 * s}}, nil, wait{0, 9 * s}, [2]int{}, true, s, 4.9},
		{"idle but asked for as often it goes when who waits would be too late", 2 * s, [2][]time.Duration{{8 * s}, {2 * s}}, nil, wait{0, 9 * s}, [2]int{}, true, 7 * s, 5},
		{"one whose load nobody has measured is expected to be", 2 * s, [2][]time.Duration{nil, {2 * s}}, nil, wait{0, 4*s + s/2}, [2]int{}, true, 2*s + s/2, 5},
		{"an idle one that has lost more stays all the same", 5 * s, [2][]time.Duration{{8 * s}, {2 * s}}, nil, wait{0, 16 * s}, [2]int{90, 0}, true, 110 * s, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &hearth.Node{Exclusive: true, Turn: 10 * s}
			st := newState(n, []*hearth.Slot{{Node: n, Wait: 100 * s, ExpectedLoad: 8 * s}, {Node: n, Wait: 100 * s}}, t0)
			st.now = t0
			a, b := st.slots[0], st.slots[1]
			for i, p := range st.slots {
				for _, d := range tt.loads[i] {
					p.loading.add(d)
				}
				for k := range 100 {
					st.fared(&request{place: p}, k >= tt.lost[i])
				}
			}
			a.state, a.run, a.readyAt, a.idleAt, a.inflight = hearth.SlotReady, 1, t0, t0.Add(s), 1
			if tt.idle {
				a.inflight = 0
			}
			for i, w := range tt.here {
				a.push(&request{id: uint64(i), place: a, asked: t0.Add(w.asked), deadline: t0.Add(w.deadline)})
			}
			b.push(&request{id: 99, place: b, asked: t0.Add(tt.other.asked), deadline: t0.Add(tt.other.deadline)})
			st.now = t0.Add(tt.now)
			a.asked = pace{tt.asked, st.now}
			if got := st.turnEnds(a, b, st.now).Sub(t0); (got - tt.want).Abs() > 100*time.Millisecond {
				t.Errorf("it ends after %v, want %v", got, tt.want)
			}
		})
	}
}
