package slot

import (
	"errors"
	"fmt"
	"time"

	"myip.co.kr/hearth"
)

// forever is how long a pause without an end is.
const forever = 100 * 365 * 24 * time.Hour

// Bounds of what a refusal by order says of when to ask again.
const (
	barredRetry  = time.Minute
	pausedRetry  = time.Hour // at most
	foreignRetry = 5 * time.Second
)

// obey carries out an operator's order. An error says why it cannot be.
func (st *state) obey(ev event) error {
	o := ev.order
	switch o.Verb {
	case Pause:
		st.paused = ev.now.Add(forever)
		if o.For > 0 {
			st.paused = ev.now.Add(min(o.For, forever))
		}
		for _, p := range st.slots {
			st.bar(p, ev.now)
		}
		return nil
	case Resume:
		st.paused = time.Time{}
		st.spare()
		return nil
	}
	p := st.slots[ev.slot]
	if p.removed {
		return ErrNoSlot
	}
	switch o.Verb {
	case Wake:
		return st.rouse(p, ev.now)
	case Sleep:
		st.dismiss(p, ev.now)
	case Drain:
		p.drained = true
		st.bar(p, ev.now)
	case Disable:
		p.disabled = true
		st.bar(p, ev.now)
	case Enable:
		p.disabled, p.drained = false, false
		st.spare()
	default:
		return ErrNoVerb
	}
	return nil
}

// rouse has a slot started as if somebody waited for it, and ends what keeps it from that.
func (st *state) rouse(p *place, now time.Time) error {
	switch {
	case st.refusing:
		return errors.New("the gateway is shutting down")
	case st.foreign:
		return errors.New("the GPU belongs to another gateway")
	case !st.paused.IsZero():
		return fmt.Errorf("the node is paused until %s", st.paused.Format(time.RFC3339))
	case !st.shut.IsZero():
		return fmt.Errorf("the node is outside of its hours until %s", st.shut.Format(time.RFC3339))
	case p.disabled:
		return errors.New("the slot is disabled: enable it first")
	}
	p.drained, p.resting, p.busyUntil = false, false, time.Time{}
	if !p.cut {
		p.dismissed = false
	}
	st.spare()
	p.retryAt = now
	st.recover(p, now)
	if p.state != hearth.SlotReady && p.wanted.IsZero() {
		p.wanted = now
	}
	p.elected = false // from now on an order wants it up
	return nil
}

// dismiss has a slot's engine stopped once nobody uses it, or at the end of drain_max.
func (st *state) dismiss(p *place, now time.Time) {
	p.wanted = time.Time{}
	p.owed, p.ousted, p.resting = false, false, true
	if p.run != 0 {
		p.dismissed = true
		p.cutBy(now.Add(p.DrainMax))
	}
}

// bar refuses whoever waits for a slot that takes nobody any more.
func (st *state) bar(p *place, now time.Time) {
	p.wanted, p.owed = time.Time{}, false // else it would be started for nobody as soon as it may be used again
	p.cutBy(now.Add(p.DrainMax))
	st.refuseWaiting(p, st.barring(p, now))
}

// cutBy bounds the drain of a slot whose engine exists.
func (p *place) cutBy(at time.Time) {
	if p.run != 0 && !p.cut && (p.cutAt.IsZero() || at.Before(p.cutAt)) {
		p.cutAt = at
	}
}

// spare takes the bound off the drains of all slots that have no reason left to be bounded.
func (st *state) spare() {
	for _, p := range st.slots {
		if !st.withheld(p) && !p.dismissed && !p.cut && !st.refusing {
			p.cutAt = time.Time{}
		}
	}
}

// barred says whether a slot takes no requests, whatever its engine does.
func (st *state) barred(p *place) bool { return st.withheld(p) || !st.shut.IsZero() }

// withheld says whether a slot is barred for a reason for which it need not drain for ever.
func (st *state) withheld(p *place) bool {
	return p.disabled || p.drained || p.removed || st.foreign || !st.paused.IsZero()
}

// barring is the refusal of a barred slot.
func (st *state) barring(p *place, now time.Time) *Refusal {
	switch {
	case p.removed:
		return notConfigured()
	case p.disabled, p.drained:
		return &Refusal{hearth.SkipFailed, barredRetry, "the operator has taken the slot out of service"}
	case st.foreign:
		return &Refusal{hearth.SkipBusy, foreignRetry, "the GPU belongs to another gateway"}
	case st.paused.IsZero():
		return &Refusal{hearth.SkipBusy, min(pausedRetry, max(backoffMin, st.shut.Sub(now))), "the GPU is outside of its hours"}
	}
	return &Refusal{hearth.SkipBusy, min(pausedRetry, max(backoffMin, st.paused.Sub(now))), "the GPU is paused by its operator"}
}

// notConfigured is the refusal of a slot that a reload removed.
func notConfigured() *Refusal {
	return &Refusal{hearth.SkipFailed, barredRetry, notThere}
}

// mustGo is why a slot's engine has to be stopped once nobody uses it, whoever waits; "" = it need not.
func (st *state) mustGo(p *place) string {
	switch {
	case st.closing:
		return "the gateway is shutting down"
	case p.removed:
		return "the slot is not configured any more"
	case p.disabled:
		return "the operator has disabled it"
	case p.drained:
		return "the operator drains it"
	case st.foreign:
		return "the GPU belongs to another gateway"
	case !st.paused.IsZero():
		return "the node is paused"
	case !st.shut.IsZero():
		return "the node is outside of its hours"
	case !p.staleAt.IsZero():
		return "its start line was changed"
	case p.dismissed, p.cut && !st.refusing:
		return "it was sent to sleep"
	case p.evicted:
		return "the node has room for one"
	}
	return ""
}

// withdrawn says whether the engine of a ready slot takes nobody any more.
func (st *state) withdrawn(p *place) bool {
	return st.barred(p) || p.dismissed || p.evicted || p.cut || st.closing || p.unready != ""
}

// restore lets operators' orders of before a restart hold.
func (s *State) restore(st *state, node string, now time.Time) {
	if until := s.Paused[node]; until.After(now) {
		st.paused = until
	}
	for _, p := range st.slots {
		for _, name := range s.Disabled {
			p.disabled = p.disabled || name == p.Name
		}
		for _, name := range s.Drained {
			p.drained = p.drained || name == p.Name
		}
	}
}
