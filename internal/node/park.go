package node

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// A gateway that asks for a slot may name others of its node that would do. When one of them is ready first, the gateway
// must make another request of it: it is told to go on to that one, and the place is kept for it meanwhile.

const (
	parkTime = 2 * time.Second // for which a place is kept
	maxAlso  = 32              // slots that are named
)

// parked is a place that is kept for a request.
type parked struct {
	lease *slot.Lease
	timer *time.Timer
	stop  func() bool // waits no more for the engine to go
}

// also are the slots of this machine with these names.
func (s *Server) also(names string) []*hearth.Slot {
	var list []*hearth.Slot
	for _, name := range strings.SplitN(names, ",", maxAlso+1) {
		if at := s.find(name); at != nil && len(list) < maxAlso {
			list = append(list, at)
		}
	}
	return list
}

// acquire waits for a place in the slot, or takes the one that is kept for the request. A place in one of the others is
// kept, and the refusal says so.
func (s *Server) acquire(ctx context.Context, a slot.Ask) (*slot.Lease, error) {
	l := s.claim(a.Generation)
	if l != nil && l.Slot != a.Slot && !slices.Contains(a.Also, l.Slot) {
		l.Release()
		l = nil
	}
	if l == nil {
		var err error
		if l, err = s.o.Fleet.Acquire(ctx, a); err != nil {
			return nil, err
		}
	}
	if l.Slot == a.Slot {
		return l, nil
	}
	r := &slot.Refusal{RetryAfter: time.Second}
	r.Word, r.Message = slot.NotFirst(s.o.Fleet.View(a.Slot))
	s.park(a.Generation, l)
	return nil, r
}

// park keeps a place for the request with that id.
func (s *Server) park(id string, l *slot.Lease) {
	p := &parked{lease: l}
	drop := func() {
		s.mu.Lock()
		mine := s.parked[id] == p
		if mine {
			delete(s.parked, id)
		}
		s.mu.Unlock()
		if mine {
			l.Release()
		}
	}
	s.mu.Lock()
	before := s.parked[id] // of another request with that id
	s.parked[id] = p
	p.timer, p.stop = time.AfterFunc(parkTime, drop), l.OnCut(drop)
	s.mu.Unlock()
	if before != nil {
		before.end()
		before.lease.Release()
	}
}

// claim gives the place that is kept for the request with that id, nil = there is none.
func (s *Server) claim(id string) *slot.Lease {
	s.mu.Lock()
	p := s.parked[id]
	delete(s.parked, id)
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	p.end()
	return p.lease
}

func (p *parked) end() {
	p.timer.Stop()
	p.stop()
}

// ask is what a request asks for.
func (s *Server) ask(r *http.Request, at *hearth.Slot) slot.Ask {
	h := r.Header
	a := slot.Ask{
		Slot: at, Key: bounded(h.Get(headKey)), Budget: header(h, headBudget), HasNext: h.Get(headHasNext) == "1",
		Class: hearth.Class(h.Get(headClass)), Generation: bounded(h.Get(headGeneration)),
	}
	if a.Generation != "" { // else nobody would know whose place is kept
		a.Also = s.also(h.Get(headAlso))
	}
	return a
}
