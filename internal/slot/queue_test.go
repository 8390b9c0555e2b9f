package slot

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// A timeline has the earliest deadline first, whoever comes, leaves or is hurried.
func TestTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := timeline{which: rapid.IntRange(byDeadline, byPressure).Draw(t, "which")}
		var in []*seat
		for n, op := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 120).Draw(t, "ops") {
			switch {
			case op < 5 || len(in) == 0:
				at := t0.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "due")) * time.Second)
				s := &seat{r: &request{seq: uint64(n), deadline: at}}
				in = append(in, s)
				line.push(s)
			case op < 8:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "who")
				line.remove(in[i])
				line.remove(in[i]) // which changes nothing
				in = append(in[:i], in[i+1:]...)
			default:
				s := in[rapid.IntRange(0, len(in)-1).Draw(t, "who")]
				s.r.deadline = s.r.deadline.Add(-time.Duration(rapid.IntRange(0, 50).Draw(t, "by")) * time.Second)
				line.fix(s)
			}
			if len(line.seats) != len(in) {
				t.Fatalf("%d are in it, not %d", len(line.seats), len(in))
			}
			for i := range line.seats {
				if line.seats[i].at[line.which] != i+1 || i > 0 && line.before(i, (i-1)/2) {
					t.Fatalf("seat %d is out of order", i)
				}
			}
		}
	})
}

func TestHurry(t *testing.T) {
	s := newSim(t, hearth.Node{}, &hearth.Slot{Queue: 9, Wait: time.Hour, StartTimeout: time.Hour}, &hearth.Slot{Queue: 9, Wait: time.Hour, StartTimeout: time.Hour})
	for id, budget := range []time.Duration{20 * time.Second, 30 * time.Second} {
		s.do(event{kind: evAsked, id: uint64(id), class: hearth.Batch, budget: budget, also: []int{1}})
	}
	p, q := s.st.slots[0], s.st.slots[1]
	r := s.st.requests[1]
	p.hurry(r, t0.Add(25*time.Second))
	p.hurry(r, t0.Add(40*time.Second)) // never back
	if !r.deadline.Equal(t0.Add(25*time.Second)) || !p.due.Equal(t0.Add(20*time.Second)) {
		t.Errorf("due %v, all %v", r.deadline, p.due)
	}
	p.hurry(r, t0.Add(10*time.Second))
	if !p.due.Equal(t0.Add(10*time.Second)) || p.deadlines.seats[0].r != r || p.pressing.seats[0].r != r || q.pressing.seats[0].r != r {
		t.Errorf("due %v", p.due)
	}
}

func TestTurnAway(t *testing.T) {
	s := newSim(t, hearth.Node{}, &hearth.Slot{Queue: 9, Wait: time.Hour, StartTimeout: time.Hour}, &hearth.Slot{Queue: 9, Wait: time.Hour, StartTimeout: time.Hour})
	s.do(event{kind: evAsked, slot: 1, id: 1, key: "k", budget: time.Hour})
	s.do(event{kind: evAsked, also: []int{1}, id: 2, key: "k", budget: time.Hour})
	q := s.st.slots[1]
	if q.turnAway(); q.guesting != 0 || q.held("k") != 1 || q.lined != 1 || s.st.head(q).id != 1 {
		t.Errorf("%d guests, %d of the key, %d lines", q.guesting, q.held("k"), q.lined)
	}
	s.do(event{kind: evCancelled, id: 2})
	if q.guesting != 0 || q.lined != 1 {
		t.Errorf("%d guests, %d lines", q.guesting, q.lined)
	}
}
