package slot

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestLearned(t *testing.T) {
	of := func(seconds ...int) *learned {
		l := new(learned)
		for _, n := range seconds {
			l.add(time.Duration(n) * time.Second)
		}
		return l
	}
	many := func(n, seconds int) []int { return slices.Repeat([]int{seconds}, n) }
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, tt := range []struct {
		name string
		l    *learned
		want hearth.Figures
	}{
		{"nothing was measured", of(), hearth.Figures{}},
		{"one is all of it", of(7), hearth.Figures{P50: s(7), P95: s(7), Min: s(7), N: 1}},
		{"of two the later one counts more", of(1, 9), hearth.Figures{P50: s(9), P95: s(9), Min: s(1), N: 2}},
		{"of two the later one counts more, be it the shorter", of(9, 1), hearth.Figures{P50: s(1), P95: s(9), Min: s(1), N: 2}},
		{"a time below zero is zero", of(-5), hearth.Figures{N: 1}},
		{"sixteen later ones outweigh sixteen", of(append(many(16, 60), many(16, 5)...)...), hearth.Figures{P50: s(5), P95: s(60), Min: s(5), N: 32}},
		{"twelve later ones do not", of(append(many(20, 60), many(8, 5)...)...), hearth.Figures{P50: s(60), P95: s(60), Min: s(5), N: 28}},
		{"one of many is past 95 of 100", of(append(many(30, 5), 60, 5, 5, 5, 5)...), hearth.Figures{P50: s(5), P95: s(5), Min: s(5), N: 35}},
		{"the sixty-fifth drives out the first", of(append([]int{1}, many(64, 5)...)...), hearth.Figures{P50: s(5), P95: s(5), Min: s(5), N: 64}},
		{"the sixty-fourth does not", of(append([]int{1}, many(63, 5)...)...), hearth.Figures{P50: s(5), P95: s(5), Min: s(1), N: 64}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, tt.l.figures()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// The figures are those of the definition, worked out slowly: whoever counts 2^(-age/16), among the last 64.
func TestLearnedIsWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 40), 1, 150).Draw(t, "times")
		l := new(learned)
		for _, d := range all {
			l.add(time.Duration(d))
		}
		last := all[max(0, len(all)-64):]
		weight := func(d int64) (below, sum, total float64) {
			for i, v := range last {
				w := math.Exp2(-float64(len(last)-1-i) / 16)
				sum, total = sum+w, total+w*float64(v)
				if v <= d {
					below += w
				}
			}
			return below, sum, total
		}
		for q, got := range map[float64]time.Duration{0.5: l.P50(), 0.95: l.P95()} {
			below, sum, _ := weight(int64(got))
			less, _, _ := weight(int64(got) - 1)
			if below < q*sum-1e-9 || less > q*sum+1e-9 || !slices.Contains(last, int64(got)) {
				t.Fatalf("quantile %v is %d: %v of %v are not above, %v below", q, got, below, sum, less)
			}
		}
		_, sum, total := weight(0)
		if math.Abs(float64(l.mean)-total/sum) > 1 || l.Min() != time.Duration(slices.Min(last)) || l.N() != len(last) {
			t.Fatalf("mean %d, not %v; min %d, n %d", l.mean, total/sum, l.Min(), l.N())
		}
	})
}

// served lets a request have a place in slot 0 for d.
func (s *sim) served(id uint64, d time.Duration) {
	s.do(event{kind: evAsked, id: id, budget: time.Hour})
	s.pass(d)
	s.do(event{kind: evReleased, id: id})
}

// figuresOf is a slot of its own that has served for so long each.
func figuresOf(t *testing.T, conf hearth.Slot, served ...time.Duration) *sim {
	conf.Wait, conf.QueueWait, conf.StartTimeout, conf.ExpectedLoad = time.Hour, time.Hour, time.Hour, 30*time.Second
	s := newSim(t, hearth.Node{}, &conf)
	s.run("wake a")
	s.pass(4 * time.Second)
	s.run("ready a")
	for i, d := range served {
		s.served(uint64(1000+i), d)
	}
	return s
}

func TestMeasured(t *testing.T) {
	view := func(s *sim) hearth.Learned { return s.st.view(s.st.slots[0], s.now).Learned }
	one := func(d time.Duration) hearth.Figures { return hearth.Figures{P50: d, P95: d, Min: d, N: 1} }
	t.Run("load, service, drain and stop", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{DrainMax: time.Hour}, 3*time.Second)
		s.do(event{kind: evAsked, id: 1, budget: time.Hour})
		s.pass(time.Second)
		s.run("sleep a")
		s.pass(2 * time.Second)
		s.do(event{kind: evReleased, id: 1})
		s.pass(5 * time.Second)
		s.run("ended a")
		want := hearth.Learned{
			Load: one(4 * time.Second), Drain: one(2 * time.Second), Stop: one(5 * time.Second),
			Service: hearth.Figures{P50: 3 * time.Second, P95: 3 * time.Second, Min: 3 * time.Second, N: 2},
		}
		if d := cmp.Diff(want, view(s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if p := s.st.slots[0]; p.fastestLoad() != 4*time.Second || p.fastestDrain() != 2*time.Second {
			t.Errorf("fastest load %v, drain %v", p.fastestLoad(), p.fastestDrain())
		}
	})
	t.Run("what a question, or a caller that left before its grant came, takes is not learned", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{})
		s.do(event{kind: evAsked, id: 1, budget: time.Hour, brief: true})
		s.pass(time.Second)
		s.do(event{kind: evReleased, id: 1})
		s.do(event{kind: evAsked, id: 2, budget: time.Hour})
		s.do(event{kind: evCancelled, id: 2})
		if got := view(s).Service; got.N != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a lease of an engine that is gone says nothing of the next", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{})
		s.do(event{kind: evAsked, id: 1, budget: time.Hour})
		s.run("ended a")
		s.pass(time.Second)
		s.do(event{kind: evReleased, id: 1})
		if got := view(s).Service; got.N != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("all is kept when the start line changes, nothing when the model does", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{}, time.Second)
		was := view(s)
		s.run("reload a line")
		if d := cmp.Diff(was, view(s)); d != "" {
			t.Errorf("line (-want +got):\n%s", d)
		}
		s.run("reload a model")
		if d := cmp.Diff(hearth.Learned{}, view(s)); d != "" {
			t.Errorf("model (-want +got):\n%s", d)
		}
	})
	t.Run("a drain that was cut short is no measurement", func(t *testing.T) {
		s := figuresOf(t, hearth.Slot{DrainMax: 10 * time.Second})
		s.do(event{kind: evAsked, id: 1, budget: time.Hour})
		s.run("sleep a")
		s.pass(time.Minute)
		if s.run("ended a"); view(s).Drain.N != 0 || view(s).Stop.N != 1 {
			t.Errorf("%+v", view(s))
		}
	})
}

// What always takes the same time takes that on average, to the nanosecond: a deadline may depend on it.
func TestLearned_Mean(t *testing.T) {
	var l learned
	for n := range 200 {
		if l.add(4 * time.Second); l.mean != 4*time.Second {
			t.Fatalf("the mean of %d is %d", n+1, l.mean)
		}
	}
}
