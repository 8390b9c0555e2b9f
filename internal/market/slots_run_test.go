package market

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawScenario is any traffic, small.
func drawScenario(t *rapid.T) SlotScenario {
	s := DefaultSlotScenario()
	s.Name, s.Requests = "drawn", 150
	n := rapid.IntRange(1, 4).Draw(t, "models")
	for range n {
		s.Models = append(s.Models, SlotModel{
			Share: 1 / float64(n), LoadTime: time.Duration(rapid.IntRange(1, 60).Draw(t, "load")) * time.Second,
			Service: time.Duration(rapid.IntRange(1, 10).Draw(t, "service")) * time.Second, Concurrency: rapid.IntRange(1, 4).Draw(t, "concurrency"),
		})
	}
	s.Load = rapid.SampledFrom([]float64{0.1, 0.3, 0.6, 0.9, 2}).Draw(t, "utilisation")
	s.Burst = rapid.SampledFrom([]float64{1, 8}).Draw(t, "burst")
	s.Budgets = rapid.SliceOfN(rapid.Map(rapid.IntRange(1, 120), func(n int) time.Duration { return time.Duration(n) * time.Second }), 1, 3).Draw(t, "budgets")
	s.Fallback = rapid.Bool().Draw(t, "fallback")
	s.Keys = rapid.IntRange(1, 4).Draw(t, "keys")
	s.Greedy = rapid.Bool().Draw(t, "greedy")
	s.Turn = time.Duration(rapid.IntRange(0, 30).Draw(t, "turn")) * time.Second
	return s
}

// Every policy keeps to what a GPU can do and answers everybody, whatever comes; and none gets by with fewer loads than the
// bound, for those that it served.
func TestPolicies_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		tr := newTrace(&s, rapid.Uint64().Draw(t, "seed"))
		for _, p := range slotPolicies {
			w, err := tr.run(p.make)
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			loads := 0
			for _, l := range w.loads {
				if l.from > w.from && l.from <= w.to {
					loads++
				}
			}
			if least := clairvoyantFree(w); loads < least {
				t.Fatalf("%s has %d loads, the bound is %d", p.name, loads, least)
			}
		}
	})
}

func TestSimulateSlots(t *testing.T) {
	s := pair(func(s *SlotScenario) { s.Fallback, s.Requests = true, 500 })
	play := func(seed uint64) []byte {
		t.Helper()
		ticks := 0
		r, err := SimulateSlots(t.Context(), s, seed, 3, func() { ticks++ })
		if err != nil {
			t.Fatal(err)
		}
		if ticks != 3 {
			t.Errorf("%d ticks", ticks)
		}
		b, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := play(7)
	t.Run("the same seed gives the same figures", func(t *testing.T) {
		if d := cmp.Diff(string(first), string(play(7))); d != "" {
			t.Error(d)
		}
	})
	t.Run("another seed gives others", func(t *testing.T) {
		if bytes.Equal(first, play(8)) {
			t.Error("the same figures")
		}
	})
	t.Run("the JSON has every policy, and nothing that is not known of a bound", func(t *testing.T) {
		var got struct {
			Name     string                        `json:"name"`
			Load     float64                       `json:"load"`
			Policies map[string]map[string]float64 `json:"policies"`
		}
		if err := json.Unmarshal(first, &got); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(SlotPolicies(), func(name string) bool { return name == PolicyFree }) // which is known of one key only
		all := []string{"loads_per_100", "served_within_budget", "min_model_served_within_budget", "wait_p50", "wait_p95", "wait_longest", "jain", "local_share", "gpu_loading_share"}
		for _, name := range want {
			want := all
			if name == PolicyClairvoyant {
				want = all[:1]
			}
			if len(got.Policies[name]) != len(want) {
				t.Errorf("%s has %v", name, got.Policies[name])
			}
			for _, f := range want {
				if _, ok := got.Policies[name][f]; !ok {
					t.Errorf("%s has no %s", name, f)
				}
			}
		}
		if got.Name != "pair" || got.Load != 0.6 || len(got.Policies) != len(want) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a scenario that cannot be is refused", func(t *testing.T) {
		if _, err := SimulateSlots(t.Context(), SlotScenario{}, 1, 1, func() {}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("it ends when it is told to", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := SimulateSlots(ctx, s, 1, 1, func() {}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestPictures(t *testing.T) {
	s := pair(func(s *SlotScenario) { s.Name, s.Requests = "<&>", 200 })
	r, err := SimulateSlots(t.Context(), s, 1, 1, func() {})
	if err != nil {
		t.Fatal(err)
	}
	var chart, turn bytes.Buffer
	if err := SlotChart(&chart, []SlotResult{r}); err != nil {
		t.Fatal(err)
	}
	if err := TurnPicture(&turn); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"chart": {chart.String(), []string{"&lt;&amp;&gt;", "hearth", "fifo", "no-ageing", "clairvoyant"}},
		"turn":  {turn.String(), []string{"model A", "model B", "starting", "ready"}},
	} {
		d := xml.NewDecoder(strings.NewReader(c.text))
		for err = nil; err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range c.want {
			if !strings.Contains(c.text, w) {
				t.Errorf("%s has no %q", name, w)
			}
		}
	}
	t.Run("an error of the file is passed on", func(t *testing.T) {
		if SlotChart(tornFile{}, []SlotResult{r}) == nil || TurnPicture(tornFile{}) == nil || SlotMarkdown(tornFile{}, []SlotResult{r}) == nil {
			t.Error("no error")
		}
	})
}

type tornFile struct{}

func (tornFile) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
