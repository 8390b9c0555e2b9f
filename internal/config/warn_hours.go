package config

import (
	"time"

	"myip.co.kr/hearth"
)

// overlap says whether there are hours that lie in both calendars.
func overlap(a, b hearth.Calendar) bool {
	if len(a.Spans) == 0 || len(b.Spans) == 0 {
		return true
	}
	begins := func(a, b hearth.Calendar) bool {
		sunday := time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)
		b.Zone = time.UTC
		for _, s := range a.Spans {
			for day := range 7 {
				if s.Days.On(time.Weekday(day)) && b.Contain(sunday.AddDate(0, 0, day).Add(s.From)) {
					return true
				}
			}
		}
		return false
	}
	return begins(a, b) || begins(b, a)
}

// hours notices what is to be up when it may not, or when something else is.
func (w *warner) hours(path string, n *Node, s *Slot) {
	own := w.c.keepWarm(s)
	if own == nil || s.companion() {
		return
	}
	if !overlap(*own, w.c.calendar(n.Available)) {
		w.add(path+".keep_warm", "lies outside of available of the node: nothing is kept warm", "")
	}
	for i := range n.Slots {
		o := &n.Slots[i]
		if o == s {
			return
		}
		if theirs := w.c.keepWarm(o); theirs != nil && !o.companion() && n.excludes(s, o) && overlap(*own, *theirs) {
			w.add(path+".keep_warm", "is kept warm at the same time as "+o.Name+", beside which it has no room: whichever is up stays up", "keep one of them warm, or each at other times")
			return
		}
	}
}

// excludes says whether two slots that are no companions cannot be up together.
func (n *Node) excludes(a, b *Slot) bool {
	if len(n.Devices) == 0 {
		return n.Exclusive
	}
	for _, d := range n.on(a) {
		for _, e := range n.on(b) {
			if d == e && (n.Exclusive || d.Memory > 0 && a.Memory+b.Memory > n.free(d)) {
				return true
			}
		}
	}
	return false
}

// free is what companions leave of a device.
func (n *Node) free(d *Device) Size {
	rest := d.Memory
	for i := range n.Slots {
		if o := &n.Slots[i]; o.companion() {
			for _, e := range n.on(o) {
				if e == d {
					rest -= o.Memory
				}
			}
		}
	}
	return rest
}

// shared notices models that would have room together on a node that holds one at a time.
func (w *warner) shared(path string, n *Node) {
	if !n.Exclusive {
		return
	}
	together := *n
	together.Exclusive = false
	for i := range n.Slots {
		for j := range i {
			a, b := &n.Slots[i], &n.Slots[j]
			if a.companion() || b.companion() || a.Memory == 0 || b.Memory == 0 || !n.excludes(a, b) || together.excludes(a, b) {
				continue
			}
			w.add(path, a.Name+" and "+b.Name+" would have room together by what they take, but only one is up at a time", "write exclusive: false, or leave memory out")
			return
		}
	}
}
