package slot

import (
	"slices"
	"time"

	"myip.co.kr/hearth"
)

// Classes as places in a round.
const (
	interactive = iota // 0, and batch is 1: places count the latter by adding them up
	batch
	classes
)

const (
	// foreseen is up to how many batch requests are asked for together whether they can all be served in time.
	foreseen = 64
	// serviceGuess is how long a place is taken for as long as nothing was measured.
	serviceGuess = 10 * time.Second
	// callersKept is how many keys of which nobody waits are remembered, besides as many as there are others.
	callersKept = 64
)

// caller is who of one key waits at a place.
type caller struct {
	waiting int // requests that asked for this place
	lines   [classes]line
}

// line is who of one key and class waits at a place, guests too, in the order of arrival. Lines in which somebody stands
// form a ring, in which they are served in turn.
type line struct {
	class       int
	first, last *seat
	prev, next  *line
}

// seat is where a request stands in a line.
type seat struct {
	r          *request
	caller     *caller
	line       *line // nil = it stands in none
	prev, next *seat
	at         [timelines]int
}

// Timelines of a place.
const (
	byDeadline = iota // of those who asked for it
	byPressure        // of the batch requests that stand in its lines
	byChoice          // of those who asked for it and could be served by somebody else
	timelines
)

func classOf(c hearth.Class) int {
	if c == hearth.Batch {
		return batch
	}
	return interactive
}

// sit puts a seat at the end of its key's line.
func (p *place) sit(s *seat) {
	r := s.r
	c := p.callers[r.key]
	if c == nil {
		c = p.newCaller(r.key)
	}
	l := &c.lines[r.class]
	s.caller, s.line = c, l
	if r.place == p {
		c.waiting++
	}
	if r.class == batch {
		p.pressing.push(s)
	}
	if s.prev = l.last; l.last != nil {
		l.last.next = s
		l.last = s
		return
	}
	l.first, l.last = s, s
	p.lined++
	p.join(l)
}

// stand takes a seat out of its line.
func (p *place) stand(s *seat) {
	l := s.line
	if s.r.place == p {
		s.caller.waiting--
	}
	p.pressing.remove(s)
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next, s.line, s.caller = nil, nil, nil, nil
	if l.first == nil {
		p.lined--
		p.part(l)
	}
}

// newCaller makes room for a key, and forgets keys of which nobody waits once they are most.
func (p *place) newCaller(key string) *caller {
	if p.callers == nil {
		p.callers = map[string]*caller{}
	}
	if len(p.callers) >= 2*p.lined+callersKept {
		for k, c := range p.callers {
			if c.lines[interactive].first == nil && c.lines[batch].first == nil {
				delete(p.callers, k)
			}
		}
	}
	c := &caller{}
	c.lines[batch].class = batch
	p.callers[key] = c
	return c
}

// join lets a line be the last of its class in turn.
func (p *place) join(l *line) {
	next := p.turns[l.class]
	if next == nil {
		l.prev, l.next = l, l
		p.turns[l.class] = l
		return
	}
	l.prev, l.next = next.prev, next
	l.prev.next, next.prev = l, l
}

// part takes an empty line out of the ring.
func (p *place) part(l *line) {
	switch {
	case l.next == l:
		p.turns[l.class] = nil
	case p.turns[l.class] == l:
		p.turns[l.class] = l.next
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = nil, nil
}

// had lets the line of a request that p serves now, and that still stands in it, have had its turn.
func (p *place) had(r *request) {
	s := &r.seat
	for i, q := range r.also {
		if q == p {
			s = &r.guest[i]
		}
	}
	p.rescued = s.line.class == batch && p.turns[interactive] != nil
	p.part(s.line)
	p.join(s.line)
}

// head is who is to be served next in a place, guests too; nil = nobody waits. Keys take turns, and within a key it is who
// came first. Batch requests come after all others, unless one would run out of time because of that: then it goes first, that
// whose time runs out first before any other, but never two in a row while somebody else waits.
//
// So of the places that come free while interactive requests wait at least every other one is theirs, however many batch
// requests there are. And if everybody has a place for as long as was learned, no batch request runs out of time while, of those
// that wait, the i-th by its time (from 0 on) comes with as much of it as two requests take, and 2i+1 of the places come free:
// while every other place is enough for them, that is.
func (st *state) head(p *place) *request {
	l := p.turns[interactive]
	if b := p.turns[batch]; b != nil && (l == nil || !p.rescued && st.pressed(p)) {
		if l == nil {
			return b.first.r
		}
		return p.pressing.seats[0].r
	}
	if l == nil {
		return nil
	}
	return l.first.r
}

// pressed says whether a batch request would run out of time if an interactive one were served before it now and from then
// on every other turn was for batch requests, by the times for which places were taken lately: the place that is free now
// is free again in P95 at the latest, and of those that come free one in mean/places, every other one is for batch requests. Of
// those whose time runs out later as many are looked at as can be of importance, up to foreseen.
func (st *state) pressed(p *place) bool {
	n := time.Duration(p.places())
	next, each := serviceGuess, 2*serviceGuess/n
	if p.service.N() > 0 {
		next, each = p.service.P95(), 2*p.service.mean/n
	}
	var room [foreseen]time.Duration
	late, more := p.pressing.within(st.now, next+foreseen*each, room[:0])
	if more {
		return true
	}
	slices.Sort(late)
	for i, left := range late {
		if left <= next+time.Duration(i)*each {
			return true
		}
	}
	return false
}

// share is how many requests of one key may wait: as many as are in the engine as soon as it is ready, and half of the
// queue.
func (p *place) share() int { return p.room() - p.Queue + max(1, p.Queue/2) }

// held is how many requests of a key wait that asked for this place.
func (p *place) held(key string) int {
	if c := p.callers[key]; c != nil {
		return c.waiting
	}
	return 0
}
