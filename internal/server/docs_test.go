package server

import (
	"os"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

// TestDocs_Words checks that docs/chain.md says of every word that explain or a record may hold what it means.
func TestDocs_Words(t *testing.T) {
	page, err := os.ReadFile("../../docs/chain.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []hearth.Stage{hearth.StageUnknown, hearth.StageKey, hearth.StageConditions, hearth.StageCapability, hearth.StageHealth,
		hearth.StageCredits, hearth.StageCut} {
		if !strings.Contains(string(page), "| `"+string(s)+"` |") {
			t.Errorf("stage %s has no row", s)
		}
	}
	for _, s := range []hearth.SkipReason{hearth.SkipLoading, hearth.SkipBusy, hearth.SkipFailed, hearth.SkipQueueFull, hearth.SkipCooldown,
		hearth.SkipRateLimited, hearth.SkipContext, hearth.SkipOverBudget} {
		if !strings.Contains(string(page), "`"+string(s)+"`") {
			t.Errorf("the word %s is not explained", s)
		}
	}
}
