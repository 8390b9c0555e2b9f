package market

import (
	"testing"
)

// short says by how much a promise may not be kept in a scenario of the list, where it is not; docs/slots.md shows these.
var short = map[string]float64{}

// TestSlotGates holds what is promised of every scenario of the list: with -full in many runs; else in two, whose means
// are uncertain by about a twentieth, and may miss a promise by so much.
func TestSlotGates(t *testing.T) {
	seed, runs, unsure := uint64(1), 2, 0.05
	if *full {
		seed, runs, unsure = 5000, 20, 0
	}
	for _, r := range playList(t, seed, runs) {
		for _, g := range r.Gates() {
			slack := short[r.Name+": "+g.Name] + unsure*g.Want
			if g.Most {
				slack = -slack
			}
			if g.Want -= slack; !g.OK() {
				t.Errorf("%s: %s", r.Name, g)
			}
		}
	}
}

func TestSlotGates_Short(t *testing.T) {
	names := map[string]bool{}
	for _, s := range SlotScenarios() {
		for _, g := range []string{"loads, against the bound", "worst model served within budget"} {
			names[s.Name+": "+g] = true
		}
	}
	for name := range short {
		if !names[name] {
			t.Errorf("no scenario has %s", name)
		}
	}
}
