package chain

import "myip.co.kr/hearth"

// Recount finds the endpoint whose own engine should count the prompt, after Build failed because of the context window
// alone: a local one that only the estimate removed, whose slot is ready and whose engine can count. The caller builds
// again with the count in Exact. nil means that nobody can tell better than the estimate.
func Recount(in Input, ch hearth.Chain) *hearth.Endpoint {
	if len(ch.Candidates) > 0 {
		return nil
	}
	for _, d := range ch.Drops {
		if d.Stage != hearth.StageCapability || d.Skip != hearth.SkipContext {
			continue
		}
		for _, e := range in.Views.Catalog.Endpoints {
			if e.ID != d.Endpoint || e.Slot == nil || e.Slot.Index >= len(in.Views.Slots) {
				continue
			}
			engine, _ := hearth.EngineOf(e.Slot.Engine)
			_, counted := in.Exact[e.Index]
			if !counted && engine.Counts != hearth.CountsNot && in.Views.Slots[e.Slot.Index].State == hearth.SlotReady {
				return e
			}
		}
	}
	return nil
}
