package hearth

import (
	"slices"
	"time"
)

// Calendar is the parts of a week in which something holds, by the clock on the wall. The zero value is always.
type Calendar struct {
	Spans []Span
	Zone  *time.Location // nil = UTC
}

// Span is a part of a day: from From (included) to To (not included), both since midnight and at most 24 h. To before or
// at From spans midnight: it ends on the day after.
type Span struct {
	Days     Days // on which it begins
	From, To time.Duration
}

// Days is a set of days of the week: bit d is time.Weekday d.
type Days uint8

// Week is all days.
const Week Days = 1<<7 - 1

// On says whether a day of the week is in the set; days are counted modulo 7.
func (d Days) On(day time.Weekday) bool { return d>>(day%7)&1 == 1 }

// Contain says whether t lies within the calendar.
func (c Calendar) Contain(t time.Time) bool {
	t = t.In(c.zone())
	hour, minute, second := t.Clock()
	return c.holds(t.Weekday(), time.Duration(hour)*time.Hour+time.Duration(minute)*time.Minute+time.Duration(second)*time.Second)
}

func (c Calendar) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

func (c Calendar) holds(day time.Weekday, at time.Duration) bool {
	for _, s := range c.Spans {
		switch {
		case s.From < s.To:
			if s.Days.On(day) && s.From <= at && at < s.To {
				return true
			}
		case s.Days.On(day) && at >= s.From, s.Days.On(day+6) && at < s.To:
			return true
		}
	}
	return len(c.Spans) == 0
}

// horizon bounds the search for the next change, in days: a week, and what the clocks' changes may hide of it.
const horizon = 16

// Next is the first instant after t at which Contain changes, to the second; zero = it never does. Where the clocks are
// put forward or back the wall's clock counts: an hour that is skipped is no hour, one that comes twice counts twice.
func (c Calendar) Next(t time.Time) time.Time {
	if len(c.Spans) == 0 {
		return time.Time{}
	}
	t = t.Round(0).In(c.zone())
	now, last := c.Contain(t), t.AddDate(0, 0, horizon)
	for t.Before(last) {
		_, shifted := t.ZoneBounds() // until then the wall's clock runs evenly
		if at := c.nextWithin(t, shifted, last, now); !at.IsZero() {
			return at
		}
		if shifted.IsZero() {
			return time.Time{}
		}
		if t = shifted; c.Contain(t) != now {
			return t
		}
	}
	return time.Time{}
}

// nextWithin is Next as long as the wall's clock runs evenly: before shifted, if that is not zero, and not after last.
func (c Calendar) nextWithin(t, shifted, last time.Time, now bool) time.Time {
	_, offset := t.Zone()
	midnight := t.Unix() + int64(offset)
	midnight -= (midnight%86400+86400)%86400 + int64(offset)
	for {
		for _, b := range c.bounds() {
			at := time.Unix(midnight+int64(b/time.Second), 0).In(c.zone())
			switch {
			case !at.After(t):
			case !shifted.IsZero() && !at.Before(shifted), at.After(last):
				return time.Time{}
			case c.Contain(at) != now:
				return at
			}
		}
		midnight += 86400
	}
}

// bounds are the times of a day at which a span begins or ends, in order.
func (c Calendar) bounds() []time.Duration {
	var list []time.Duration
	for _, s := range c.Spans {
		list = append(list, s.From, s.To)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
