package slot

import (
	"time"

	"myip.co.kr/hearth"
)

// lookAgain bounds the time between two looks at the clock on the wall, which may be set.
const lookAgain = 10 * time.Minute

// hours are what the clock on the wall says of a node.
type hours struct {
	available hearth.Calendar
	shut      time.Time // until when the node is outside of its hours, zero = it is not
	look      time.Time // when the clock has something else to say, zero = it never has
}

// keepHours makes what the clock on the wall says hold: whether engines may run, and which are to be up.
func (st *state) keepHours(now time.Time) {
	if st.look.IsZero() || now.Before(st.look) {
		return
	}
	st.readClock(now)
}

// readClock is keepHours when it may have something else to say.
func (st *state) readClock(now time.Time) {
	st.look = time.Time{}
	next := func(c hearth.Calendar) time.Time {
		at := c.Next(now)
		if len(c.Spans) > 0 && (at.IsZero() || at.After(now.Add(lookAgain))) {
			st.look = soonest(st.look, now.Add(lookAgain))
		} else {
			st.look = soonest(st.look, at)
		}
		return at
	}
	was, until := !st.shut.IsZero(), next(st.available)
	switch {
	case st.available.Contain(now):
		st.shut = time.Time{}
	case until.IsZero():
		st.shut = now.Add(forever)
	default:
		st.shut = until
	}
	for _, p := range st.slots {
		warm := p.KeepWarm != nil && p.KeepWarm.Contain(now)
		if warm && !p.warm || was && st.shut.IsZero() {
			p.resting = false
		}
		if p.warm = warm; p.KeepWarm != nil {
			next(*p.KeepWarm)
		}
		if !was && !st.shut.IsZero() {
			p.wanted, p.owed, p.ousted = time.Time{}, false, false
			st.refuseWaiting(p, st.barring(p, now))
		}
	}
	if was && st.shut.IsZero() {
		st.spare()
	}
}

// soonest is the earlier of two instants, of which zero is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
