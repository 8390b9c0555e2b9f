package slot

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestMemory(t *testing.T) {
	bubble(t, "what was measured is known to the next fleet, of the same model", func(t *testing.T) {
		h := newHouse(t, &gpu{load: 3 * time.Second, stops: time.Second})
		l, err := h.Acquire(t.Context(), Ask{Slot: h.a, Budget: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		l.Release()
		m := h.Memory() // of a node that has seen the release
		was := h.View(h.a).Learned
		if got := m["a"]; len(m) != 1 || !slices.Equal(got.Service, []int64{2000}) || len(got.Load) != 1 || got.Load[0] < 3000 {
			t.Fatalf("%+v", m)
		}
		h.close()
		next := newHouse(t, &gpu{options: Options{Memory: m}})
		if d := cmp.Diff(was, next.View(next.a).Learned, cmp.Transformer("ms", func(d time.Duration) int64 { return d.Milliseconds() })); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if n := next.View(next.b).Learned; n != (hearth.Learned{}) {
			t.Errorf("the other slot: %+v", n)
		}
		next.close()
		other := newHouse(t, &gpu{options: Options{Memory: m}}, func(s *hearth.Slot) { s.UpstreamModel = "another" })
		if n := other.View(other.a).Learned; n != (hearth.Learned{}) {
			t.Errorf("another model: %+v", n)
		}
		other.close()
	})
}

// What an earlier gateway wrote down may be anything.
func TestMemoryIsNotTrusted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64(), 0, 200).Draw(t, "list")
		l := new(learned)
		l.believe(list)
		for _, d := range []time.Duration{l.P50(), l.P95(), l.Min(), l.mean} {
			if d < 0 || d > longest {
				t.Fatalf("%v", d)
			}
		}
		good := rapid.SliceOfN(rapid.Int64Range(0, 1e6), 0, 150).Draw(t, "good")
		l = new(learned)
		l.believe(good)
		if got := l.list(); !slices.Equal(got, good[max(0, len(good)-memory):]) {
			t.Fatalf("%v", got)
		}
	})
}
