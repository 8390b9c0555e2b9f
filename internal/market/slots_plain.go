package market

import (
	"slices"
)

// plain is a policy of the swappers that there are: one queue, oldest first, and no turns. A request that has waited
// as long as it may leaves; a load that was started goes on.
type plain struct {
	*world
	// resident says that whoever asks for the loaded model is served as long as anybody does (no ageing); else nobody
	// overtakes anybody: the oldest request decides which model is loaded (FIFO).
	resident bool
	queue    []int // oldest first
	model    int   // that the GPU holds, -1 = none
	up       bool  // it is ready
	leaving  bool  // it is being stopped
	run      uint64
	using    int
}

func newPlain(w *world, resident bool) *plain { return &plain{world: w, resident: resident, model: -1} }

func (p *plain) ask(id int) {
	p.queue = append(p.queue, id)
	p.decide()
}

func (p *plain) release(int) {
	p.using--
	p.decide()
}

func (p *plain) ready(int, uint64) {
	p.up = true
	p.decide()
}

func (p *plain) ended(int, uint64) {
	p.model, p.up, p.leaving = -1, false, false
	p.decide()
}

func (p *plain) tick() { p.decide() }

func (p *plain) decide() {
	p.serve()
	p.alarm = never
	p.queue = slices.DeleteFunc(p.queue, func(id int) bool {
		due := p.requests[id].at + p.requests[id].budget
		if due <= p.now {
			p.refuse(id)
			return true
		}
		p.alarm = min(p.alarm, due)
		return false
	})
	if len(p.queue) == 0 {
		return
	}
	want := p.requests[p.queue[0]].model
	switch {
	case p.model < 0:
		p.run++
		p.model = want
		p.start(want, p.run)
	case p.up && !p.leaving && p.using == 0 && want != p.model:
		p.leaving = true
		p.stop(p.model, p.run)
	}
}

// serve lets into the engine whoever may be.
func (p *plain) serve() {
	if !p.up || p.leaving {
		return
	}
	free := p.Models[p.model].Concurrency - p.using
	blocked := false // by somebody who came before
	p.queue = slices.DeleteFunc(p.queue, func(id int) bool {
		r := &p.requests[id]
		if free == 0 || blocked || r.model != p.model || p.late(r) {
			blocked = blocked || !p.resident
			return false
		}
		free--
		p.using++
		p.grant(id, p.run)
		return true
	})
}

func (p *plain) late(r *asked) bool { return r.at+r.budget < p.now }
