package slot

// push appends r to those who wait for its place.
func (p *place) push(r *request) {
	if r.prev = p.last; p.last == nil {
		p.first = r
	} else {
		p.last.next = r
	}
	p.last = r
	if r.deadline.Before(p.due) {
		p.due = r.deadline
	}
	p.waiting++
	r.queued = true
	for _, q := range r.also {
		q.guests = append(q.guests, r)
		q.guesting++
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
	r.queued = false
	for _, q := range r.also {
		q.guesting--
		q.tidy()
	}
}

// tidy forgets guests that have left: those at the front, and all of them once they are most.
func (p *place) tidy() {
	if p.guesting == 0 {
		p.guests = nil
		return
	}
	for !p.guests[0].queued {
		p.guests = p.guests[1:]
	}
	if len(p.guests) > 2*p.guesting+16 {
		p.guests = p.present()
	}
}

// present are the guests that have not left.
func (p *place) present() []*request {
	here := make([]*request, 0, p.guesting)
	for _, r := range p.guests {
		if r.queued {
			here = append(here, r)
		}
	}
	return here
}

// turnAway forgets all guests; they go on waiting where they asked.
func (p *place) turnAway() {
	for _, r := range p.present() {
		kept := make([]*place, 0, len(r.also))
		for _, q := range r.also {
			if q != p {
				kept = append(kept, q)
			}
		}
		r.also = kept
	}
	p.guests, p.guesting = nil, 0
}

// head is who is to be served next: whoever came first, a guest or not; nil = nobody waits.
func (p *place) head() *request {
	if p.guesting == 0 {
		return p.first
	}
	if g := p.guests[0]; p.first == nil || g.seq < p.first.seq { // tidy keeps one who waits in front
		return g
	}
	return p.first
}
