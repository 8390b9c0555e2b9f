package slot

import "time"

// push lets r wait for its place, and take whichever of the others it named has room first.
func (p *place) push(r *request) {
	if r.prev = p.last; p.last == nil {
		p.first = r
	} else {
		p.last.next = r
	}
	p.last = r
	p.waiting++
	p.batches += r.class // 0 or 1
	r.queued = true
	r.seat.r = r
	p.deadlines.push(&r.seat)
	p.due = p.deadlines.due()
	if r.hasNext {
		p.choosers.push(&r.seat)
	}
	p.sit(&r.seat)
	if len(r.also) == 0 {
		return
	}
	r.guest = make([]seat, len(r.also))
	for i, q := range r.also {
		r.guest[i].r = r
		q.guesting++
		q.sit(&r.guest[i])
	}
}

// take removes r from those who wait, wherever it does.
func (p *place) take(r *request) {
	if r.prev == nil {
		p.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		p.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	p.waiting--
	p.batches -= r.class
	r.queued = false
	p.deadlines.remove(&r.seat)
	p.choosers.remove(&r.seat)
	p.due = p.deadlines.due()
	p.stand(&r.seat)
	for i, q := range r.also {
		if r.guest[i].line != nil {
			q.guesting--
			q.stand(&r.guest[i])
		}
	}
}

// hurry moves the deadline of one who waits to an earlier time.
func (p *place) hurry(r *request, deadline time.Time) {
	if !deadline.Before(r.deadline) {
		return
	}
	r.deadline = deadline
	p.deadlines.fix(&r.seat)
	p.choosers.fix(&r.seat)
	p.due = p.deadlines.due()
	p.pressing.fix(&r.seat)
	for i, q := range r.also {
		q.pressing.fix(&r.guest[i])
	}
}

// turnAway forgets all guests; they go on waiting where they asked.
func (p *place) turnAway() {
	for _, c := range p.callers {
		for i := range c.lines {
			for s := c.lines[i].first; s != nil; {
				next := s.next
				if s.r.place != p {
					p.guesting--
					p.stand(s)
				}
				s = next
			}
		}
	}
}

// timeline is seats by the deadlines of their requests: a binary heap whose first is the earliest, of two the one that came
// first.
type timeline struct {
	seats []*seat
	which int // the place of a seat is in seat.at[which], counted from 1; 0 = it is in none
}

func (t *timeline) before(i, j int) bool {
	a, b := t.seats[i].r, t.seats[j].r
	if a.deadline.Equal(b.deadline) {
		return a.seq < b.seq
	}
	return a.deadline.Before(b.deadline)
}

// due is the earliest deadline, zero = there is none.
func (t *timeline) due() time.Time {
	if len(t.seats) == 0 {
		return time.Time{}
	}
	return t.seats[0].r.deadline
}

// within appends to dst how long after now the deadlines are that come within d of it, in no order. more says that there is
// no room in dst for all of them.
func (t *timeline) within(now time.Time, d time.Duration, dst []time.Duration) (all []time.Duration, more bool) {
	var found [foreseen]int // where they are in the heap: above each is an earlier one
	n := 0
	look := func(i int) {
		if i >= len(t.seats) {
			return
		}
		left := t.seats[i].r.deadline.Sub(now)
		switch {
		case left > d:
		case n == len(found) || len(dst) == cap(dst):
			more = true
		default:
			found[n] = i
			n++
			dst = append(dst, left)
		}
	}
	look(0)
	for k := 0; k < n && !more; k++ {
		look(2*found[k] + 1)
		look(2*found[k] + 2)
	}
	return dst, more
}

func (t *timeline) push(s *seat) {
	t.seats = append(t.seats, s)
	s.at[t.which] = len(t.seats)
	t.up(len(t.seats) - 1)
}

// remove takes out a seat, if it is in the timeline.
func (t *timeline) remove(s *seat) {
	i, last := s.at[t.which]-1, len(t.seats)-1
	if i < 0 {
		return
	}
	t.swap(i, last)
	t.seats[last] = nil
	t.seats = t.seats[:last]
	s.at[t.which] = 0
	if i < last {
		t.down(i)
		t.up(i)
	}
	if last == 0 && cap(t.seats) > roomKept {
		t.seats = nil // a crowd is over
	}
}

// roomKept is how many seats an empty timeline keeps room for.
const roomKept = 256

// fix finds the place of a seat whose deadline is earlier now, if it is in the timeline.
func (t *timeline) fix(s *seat) {
	if i := s.at[t.which] - 1; i >= 0 {
		t.up(i)
	}
}

func (t *timeline) swap(i, j int) {
	t.seats[i], t.seats[j] = t.seats[j], t.seats[i]
	t.seats[i].at[t.which], t.seats[j].at[t.which] = i+1, j+1
}

func (t *timeline) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timeline) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.seats) {
			return
		}
		if child+1 < len(t.seats) && t.before(child+1, child) {
			child++
		}
		if !t.before(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
