package market

import (
	"testing"
)

func TestSlotGates(t *testing.T) {
	for _, s := range SlotScenarios() {
		r, err := SimulateSlots(t.Context(), s, 1, 2, func() {})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(s.Name)
		for _, p := range []string{PolicyHearth, PolicyFIFO, PolicyNoAgeing, PolicyClairvoyant, PolicyNever, PolicyAlways} {
			f, ok := r.Policies[p]
			if !ok || f.Served == nil {
				t.Logf("   %-20s loads %.2f", p, f.LoadsPer100)
				continue
			}
			t.Logf("   %-20s loads %6.2f±%.2f served %.3f min %.3f wait %.1f/%.1f/%.1f jain %.3f local %.3f loading %.3f", p, f.LoadsPer100, r.Widths[p].LoadsPer100,
				*f.Served, *f.MinModel, *f.WaitP50, *f.WaitP95, *f.WaitLongest, *f.Jain, *f.LocalShare, *f.LoadingShare)
		}
		for _, g := range r.Gates() {
			if !g.OK() {
				t.Logf("   FAILS %s", g)
			}
		}
	}
}
