package chain

import "myip.co.kr/hearth"

// Recount finds the endpoint whose own engine should count the prompt, after Build found no candidate: a local one that
// only the estimate removed, whose slot is ready, that is not out for another reason and whose engine can count. The caller
// builds again with the count in Exact. nil means that nobody can tell better than the estimate: an engine counts text
// only, so a prompt with media is not counted.
func Recount(in Input, ch hearth.Chain) *hearth.Endpoint {
	if len(ch.Candidates) > 0 || in.Request.Images > 0 || len(in.Request.Media) > 0 {
		return nil
	}
	b := builder{Input: in}
	for _, d := range ch.Drops {
		if d.Stage != hearth.StageCapability || d.Skip != hearth.SkipContext {
			continue
		}
		for _, e := range in.Views.Catalog.Endpoints {
			if e.ID == d.Endpoint && b.mayCount(e) {
				return e
			}
		}
	}
	return nil
}

func (b *builder) mayCount(e *hearth.Endpoint) bool {
	if v := b.slot(e); v == nil || v.State != hearth.SlotReady || v.Unknown {
		return false
	}
	if _, counted := b.prompt(e); counted {
		return false
	}
	if h := b.health(e); h != nil && h.Out(b.Now) {
		return false
	}
	return engine(e).Counts != hearth.CountsNot
}
