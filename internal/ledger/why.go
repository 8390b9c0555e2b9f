package ledger

import (
	"cmp"
	"strings"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// Cause is why an answer came from an external provider.
type Cause string

const (
	CauseContext  Cause = "context"  // the prompt does not fit
	CauseSlot     Cause = "slot"     // the slot is asleep and cannot wake up in time
	CauseCooldown Cause = "cooldown" // the slot is in cooldown
	CauseAsked    Cause = "asked"    // by the caller, or by the operator's priorities
	CauseNoSlot   Cause = "no_slot"  // the model has no local slot at all
	CauseOther    Cause = "other"    // as the detail says
)

// Causes are all causes, in the order of the page "When local loses".
var Causes = []Cause{CauseContext, CauseSlot, CauseCooldown, CauseAsked, CauseNoSlot, CauseOther}

// Why says why a recorded answer came from an external provider; "" if it did not. Of several own slots that one counts
// that came closest: one that was tried before one that was left out, and of two of a kind the later one. The detail says
// more where one cause has several forms.
func Why(g *hearth.Generation) (c Cause, detail string) {
	if !store.External(g.Slug) {
		return "", ""
	}
	for i := len(g.Attempts) - 1; i >= 0; i-- {
		if a := &g.Attempts[i]; a.Slug == hearth.LocalSlug {
			return whyTried(a)
		}
	}
	if g.Local > 0 {
		return CauseAsked, "another one came first"
	}
	best := -1
	for i := range g.Drops {
		if g.Drops[i].Provider == hearth.LocalSlug && (best < 0 || g.Drops[i].Stage.Order() >= g.Drops[best].Stage.Order()) {
			best = i
		}
	}
	if best < 0 {
		return CauseNoSlot, ""
	}
	return whyDropped(&g.Drops[best])
}

func whyTried(a *hearth.Attempt) (Cause, string) {
	switch {
	case a.Skip.Slot():
		return CauseSlot, string(a.Skip)
	case a.Skip == hearth.SkipContext:
		return CauseContext, ""
	case a.Skip == hearth.SkipCooldown, a.Skip == hearth.SkipRateLimited:
		return CauseCooldown, ""
	case a.Skip == hearth.SkipOverBudget:
		return CauseOther, "the key's limit did not cover it"
	case a.TimedOut:
		return CauseOther, "the engine took too long"
	}
	return CauseOther, "the engine failed"
}

func whyDropped(d *hearth.Drop) (Cause, string) {
	switch d.Stage {
	case hearth.StageConditions:
		if strings.HasSuffix(d.Reason, "is disabled") || strings.HasSuffix(d.Reason, "disabled by the operator") {
			return CauseOther, "the slot was disabled"
		}
		return CauseAsked, ""
	case hearth.StageCut:
		return CauseAsked, "no fallbacks"
	case hearth.StageHealth:
		return CauseCooldown, ""
	case hearth.StageCapability:
		if d.Skip == hearth.SkipContext {
			return CauseContext, ""
		}
		return CauseOther, "the slot cannot do what was asked"
	case hearth.StageCredits:
		return CauseOther, "the key's limit did not cover it"
	case hearth.StageKey:
		return CauseOther, "the key may not use the slot"
	case hearth.StageUnknown:
	}
	return CauseOther, cmp.Or(string(d.Stage), "unknown")
}
