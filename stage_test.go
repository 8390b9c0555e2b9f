package hearth

import "testing"

// The stages come in the order in which a chain is built.
func TestStage_Order(t *testing.T) {
	for want, s := range []Stage{StageUnknown, StageKey, StageConditions, StageCapability, StageHealth, StageCredits, StageCut} {
		if got := s.Order(); got != want {
			t.Errorf("%s: %d, want %d", s, got, want)
		}
	}
	if got := Stage("").Order(); got != -1 {
		t.Errorf("no stage: %d", got)
	}
}
