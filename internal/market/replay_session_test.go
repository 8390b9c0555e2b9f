package market

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// second is the next request of a conversation that began at a: its cache is there and it stays.
func second(n int) *hearth.Generation {
	g := drawnAt(n, "a", 0.4)
	t := &g.Routing[0]
	t.Reason, t.Share = "stick", 1
	a, b := &t.Candidates[0], &t.Candidates[1]
	a.Share, a.Warm, a.Holds, a.Price, a.OtherPrice, a.TTFT, a.OtherTTFT = 1, true, true, 0.5, 1, 0.4, 1
	a.Wait = 0.16
	b.Share, b.OtherPrice = 0, 1.2
	return g
}

// A conversation that a policy would have begun elsewhere stays there; what counts is how it came where it was.
func TestReplay_Conversations(t *testing.T) {
	r, err := NewReplay([]string{"price", "inverse-square", "routing-cost"})
	if err != nil {
		t.Fatal(err)
	}
	begin, next := drawnAt(0, "a", 1), second(1)
	begin.Routing[0].Session, next.Routing[0].Session = 7, 7
	for _, g := range []*hearth.Generation{begin, next} {
		if err := r.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	a, b := r.models[0].byID["a:m"], r.models[0].byID["b:m"]
	for _, c := range []struct {
		name string
		got  float64
		want float64
	}{
		// By price both go to a: the second one finds its cache there.
		{"price, expected cost at a", a.under[0].groups[1].direct[paid], 0.5},
		{"price, weight at a: it began there with a chance of a half, and stayed", a.under[0].groups[1].weight[paid], 2},
		// 4/5 of the conversations begin at a and 1/5 at b, and each request is drawn again.
		{"inverse square, expected cost at a", a.under[1].groups[1].direct[paid], 0.8 * (0.8*0.5 + 0.2*1)},
		{"inverse square, expected cost at b", b.under[1].groups[1].direct[paid], 0.2 * (0.2*1.2 + 0.8*2)},
		// As it was: half of them began at a, half at b, where it would have been cheaper to go on as well.
		{"as it was, expected cost at a", a.under[2].groups[1].direct[paid], 0.5 * 0.5},
		{"as it was, expected cost at b", b.under[2].groups[1].direct[paid], 0.5 * 1.2},
		{"as it was, weight", a.under[2].groups[1].weight[paid], 1},
	} {
		if math.Abs(c.got-c.want) > 1e-6 { // places are kept in 32 bits
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// Of a conversation that began before the records, its cache is where it was, under every policy.
func TestReplay_ConversationsCutOff(t *testing.T) {
	r, err := NewReplay([]string{"price"})
	if err != nil {
		t.Fatal(err)
	}
	g := second(0)
	g.Routing[0].Session = 7
	if err := r.Add(g); err != nil {
		t.Fatal(err)
	}
	if l := r.models[0].byID["a:m"].under[0].groups[0]; l.weight[paid] != 1 || l.direct[paid] != 0.5 {
		t.Errorf("%+v", l)
	}
	// and with the next request the conversation is forgotten after ten minutes
	late := drawnAt(10, "b", 2)
	late.Routing[0].Session = 7
	if err := r.Add(late); err != nil {
		t.Fatal(err)
	}
	if l := r.models[0].byID["a:m"].under[0].groups[10]; l.direct[paid] != 1 {
		t.Errorf("%+v", l)
	}
}

func TestSessions(t *testing.T) {
	var s sessionsOf
	at := time.Unix(0, 0)
	s.put(1, &sessionState{at: at})
	for key := range uint64(sessionsMost) {
		s.put(key+10, &sessionState{at: at})
	}
	if s.find(1, at) == nil || s.find(sessionsMost+9, at) == nil {
		t.Error("the last ones are forgotten")
	}
	if s.find(1, at.Add(11*time.Minute)) != nil || s.find(0, at) != nil {
		t.Error("a session is known for ten minutes, and none is none")
	}
	for key := range uint64(sessionsMost) {
		s.put(key+1e6, &sessionState{at: at})
	}
	if s.find(1, at) != nil || len(s.now)+len(s.old) > 2*sessionsMost {
		t.Error("sessions are not bounded")
	}
	spots := make([]*spot, 12)
	chances := make([]float64, len(spots))
	for i := range spots {
		spots[i], chances[i] = &spot{place: int32(i + 3)}, float64(i)/100
	}
	b := standsOf(chances, spots)
	if len(b) != mostStands {
		t.Errorf("%d places of a conversation are kept", len(b))
	}
	got := make([]float64, len(spots))
	b.on(spots, got)
	want := make([]float64, len(spots))
	for i := 4; i < 12; i++ {
		want[i] = float64(float32(float64(i) / 100))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
