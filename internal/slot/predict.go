package slot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// load is how long the slot's engine takes from its start until it is ready: as last measured, else as expected.
func (p *place) load() time.Duration {
	if p.loadTime > 0 {
		return p.loadTime
	}
	return p.ExpectedLoad
}

// loadRest predicts how long it takes until the slot is ready, from what its starts, drains and stops took before.
func (st *state) loadRest(p *place, now time.Time) time.Duration {
	switch p.state {
	case hearth.SlotReady:
		return 0
	case hearth.SlotStarting:
		return max(0, p.load()-now.Sub(p.since))
	case hearth.SlotFailed:
		return max(0, p.retryAt.Sub(now)) + p.load()
	}
	rest := p.load()
	gone := st.evictions(p)
	for _, o := range st.slots {
		if o.run != 0 && (o == p || slices.Contains(gone, o)) {
			rest += st.goneRest(o, now)
		}
	}
	return rest
}

// goneRest predicts how long it takes until a slot's engine is gone, if it is to go as soon as it may.
func (st *state) goneRest(p *place, now time.Time) time.Duration {
	passed := now.Sub(p.since)
	switch p.state {
	case hearth.SlotStarting:
		return max(0, p.load()-passed) + st.minResident + p.stopTime
	case hearth.SlotReady:
		rest := max(0, p.readyAt.Add(st.minResident).Sub(now)) + p.stopTime
		if p.inflight > 0 {
			rest += p.drainTime
		}
		return rest
	case hearth.SlotDraining:
		return max(0, p.drainTime-passed) + p.stopTime
	}
	return max(0, p.stopTime-passed)
}

// otherBusy says whether another model holds the room that the slot needs or is the reason why this one is leaving it.
func (st *state) otherBusy(p *place) bool {
	if st.foreign {
		return true
	}
	if p.run == 0 {
		return !st.fits(p)
	}
	leaving := p.state == hearth.SlotDraining || p.state == hearth.SlotStopping
	for _, o := range st.slots {
		if st.vie(p, o) && (o.run != 0 && st.exclusive || leaving && o.waiting > 0) {
			return true
		}
	}
	return false
}

// compare notes where what the engine said of itself contradicts the configuration, of which there may be a newer one since.
func (p *place) compare() {
	var says []string
	if n := p.facts.Window; n > 0 && n < p.Context {
		says = append(says, fmt.Sprintf("a request may have %d tokens, not %d (context)", n, p.Context))
	}
	if n := p.facts.Parallel; n > 0 && n < p.Concurrency {
		says = append(says, fmt.Sprintf("it works on %d requests at once, not %d (concurrency)", n, p.Concurrency))
	}
	if p.facts.Warning != "" {
		says = append(says, p.facts.Warning)
	}
	p.differs = strings.Join(says, "; ")
}

// view is what may be known of a slot at an instant.
func (st *state) view(p *place, now time.Time) hearth.SlotView {
	facts := p.facts
	if facts.Warning = p.differs; p.unready != "" {
		facts.Warning = p.unready
	}
	return hearth.SlotView{
		State:     p.state,
		Since:     p.since,
		Inflight:  p.inflight,
		Waiting:   p.waiting,
		OtherBusy: st.otherBusy(p) || now.Before(p.busyUntil),
		LoadRest:  st.loadRest(p, now),
		LastError: p.lastError,
		LoadTime:  p.loadTime,
		StopTime:  p.stopTime,
		Loads:     p.loads,
		Served:    p.served,
		Learned:   hearth.Learned{Load: p.loading.figures(), Stop: p.stopping.figures(), Drain: p.draining.figures(), Service: p.service.figures()},
		Disabled:  p.disabled,
		Drained:   p.drained || p.removed,
		Paused:    st.paused,
		Shut:      st.shut,
		Foreign:   st.foreign,
		Facts:     facts,
	}
}
