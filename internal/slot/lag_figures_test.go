package slot

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestLag_Figures holds what is made good to a model against figures that were worked out by hand. Of the four slots the first
// three take turns on a device; the third is not asked for. The fourth is on another device, and lost all.
func TestLag_Figures(t *testing.T) {
	const s = time.Second
	faring := func(lost, of [4]int) *state {
		n := &hearth.Node{Exclusive: true, Devices: []hearth.Device{{ID: 0}, {ID: 1}}}
		var slots []*hearth.Slot
		for i, load := range []time.Duration{5 * s, 6 * s, 7 * s, 50 * s} {
			slots = append(slots, &hearth.Slot{Node: n, Devices: []int{i / 3}, Wait: 40 * s, ExpectedLoad: load})
		}
		st := newState(n, slots, t0)
		st.now = t0
		for i, p := range st.slots {
			for k := range of[i] {
				st.fared(&request{place: p}, k >= lost[i])
			}
			if i != 2 {
				p.wanted = t0
			}
		}
		return st
	}
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if (got - want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	hundred := [4]int{100, 100, 0, 100}
	st := faring([4]int{12, 4, 0, 100}, hundred) // 8 % of all were lost: (12+1.6)/120 - 0.08 = 1/30, and (4+1.6)/120 - 0.08 = -1/30
	a, b, d := st.slots[0], st.slots[1], st.slots[3]
	near("remembered for ten rounds", st.recalled(a), 10*(40+5+6+7)*s)
	if loads, n := st.round(a); loads != 11*s || n != 2 {
		t.Errorf("a round: %d turns with loads of %v", n, loads)
	}
	near("a lags: eight rounds for what is over 0.01", st.catchUp(a), time.Duration(8*(1./30-0.01)*float64((40+11)*s)))
	near("b is ahead: four rounds for what is over 0.01", st.catchUp(b), -time.Duration(4*(1./30-0.01)*float64((40+11)*s)))
	near("the turn of a comes sooner, by twelve times what it may wait", st.lastStart(a).Sub(t0), 40*s-5*s-time.Duration(12./30*float64(40*s)))
	near("that of b comes later", st.lastStart(b).Sub(t0), 40*s-6*s+time.Duration(12./30*float64(40*s)))
	if by := st.lag(d); by != 0 {
		t.Errorf("one that has nobody to take turns with lags by %v", by)
	}

	st = faring([4]int{100, 0}, hundred)
	near("at most a round longer", st.catchUp(st.slots[0]), (40+11)*s)
	near("and a round less long", st.catchUp(st.slots[1]), -(40+11)*s)

	st = faring([4]int{}, [4]int{})
	if by := st.lag(st.slots[0]); by != 0 {
		t.Errorf("one that was never asked for lags by %v", by)
	}
}
