package market

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRandomSlotScenarios(t *testing.T) {
	list := RandomSlotScenarios(300, 7)
	bursts, fallback, rare := 0, 0, 0
	for i := range list {
		s := &list[i]
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if len(s.Models) < 2 || len(s.Models) > 4 || s.Load > 0.9001 {
			t.Errorf("%s: %d models, load %v", s.Name, len(s.Models), s.Load)
		}
		for _, m := range s.Models {
			if m.LoadTime < seconds(5) || m.LoadTime > seconds(60) {
				t.Errorf("%s: a load of %v", s.Name, m.LoadTime)
			}
		}
		for _, b := range s.Budgets {
			if b < seconds(30) || b > seconds(120) {
				t.Errorf("%s: a budget of %v", s.Name, b)
			}
		}
		bursts += int(s.Burst) / 8
		if s.Fallback {
			fallback++
		}
		if s.Load < 0.299 {
			rare++
		}
	}
	if bursts < 100 || fallback < 100 || rare < 30 || rare > 100 {
		t.Errorf("%d with bursts, %d with a fallback, %d with little load", bursts, fallback, rare)
	}
	if d := cmp.Diff(list[:20], RandomSlotScenarios(20, 7)); d != "" {
		t.Errorf("the same seed, other scenarios: %s", d)
	}
	if cmp.Equal(list[0].Models, RandomSlotScenarios(1, 8)[0].Models) {
		t.Error("another seed, the same scenario")
	}
}

func TestSlotSummary(t *testing.T) {
	half, more, none := 0.5, 0.6, 0.0
	r := SlotResult{Name: "x", Load: 0.5, Policies: map[string]SlotFigures{
		PolicyHearth:      {LoadsPer100: 3, Served: &half, MinModel: &half, Jain: &more, LocalShare: &half},
		PolicyFIFO:        {LoadsPer100: 9, Served: &more, MinModel: &none, Jain: &more, LocalShare: &more},
		PolicyClairvoyant: {LoadsPer100: 2},
	}}
	var b bytes.Buffer
	if err := SlotSummary(&b, []SlotResult{r, r}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(b.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"SCENARIOS MISSED BY > 5 % MEAN MOST GATE",
		"2 0 0 0.000 0.000 worst model served within budget",
		"2 2 2 0.167 0.167 served within budget, against FIFO",
		"2 2 2 0.368 0.368 Jain's index",
		"2 0 0 0.000 0.000 loads, against the bound",
		"On average the GPU served 0.500 of all, with 3.00 loads per 100; without a fallback 0.500, of the worst model 0.500, FIFO 0.600.",
	}
	if d := cmp.Diff(want, rows); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
