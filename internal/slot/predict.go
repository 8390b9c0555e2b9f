package slot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// retryMost is the longest time that a prediction tells anybody to come back in.
const retryMost = 10 * time.Minute

// load is how long the slot's engine takes from its start until it is ready: as lately measured, else as expected.
func (p *place) load() time.Duration {
	return cmp.Or(p.loading.P50(), p.ExpectedLoad)
}

// restOf predicts how long something still takes that began a while ago: by then it may be one of the slow ones.
func (l *learned) restOf(passed time.Duration) time.Duration {
	if passed < l.p50 {
		return l.p50 - passed
	}
	return max(0, l.p95-passed)
}

// loadRest predicts how long it takes until the slot is ready, from what its starts, drains and stops took before.
func (st *state) loadRest(p *place, now time.Time) time.Duration {
	switch p.state {
	case hearth.SlotReady:
		return 0
	case hearth.SlotStarting:
		return p.startRest(now)
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

// startRest predicts how long a start still takes.
func (p *place) startRest(now time.Time) time.Duration {
	if p.loading.P50() > 0 {
		return p.loading.restOf(now.Sub(p.since))
	}
	return max(0, p.ExpectedLoad-now.Sub(p.since))
}

// goneRest predicts how long it takes until a slot's engine is gone, if it is to go as soon as it may.
func (st *state) goneRest(p *place, now time.Time) time.Duration {
	stop := p.stopping.P50()
	switch p.state {
	case hearth.SlotStarting:
		return p.startRest(now) + st.minResident + stop
	case hearth.SlotReady:
		rest := max(0, p.readyAt.Add(st.minResident).Sub(now)) + stop
		if p.inflight > 0 {
			rest += p.draining.P50()
		}
		return rest
	case hearth.SlotDraining:
		return p.draining.restOf(now.Sub(p.since)) + stop
	}
	return p.stopping.restOf(now.Sub(p.since))
}

// waitRest predicts how long a request that comes now has to wait for its place, with so many before it.
func (st *state) waitRest(p *place, before int, now time.Time) time.Duration {
	free := p.places()
	if p.state == hearth.SlotReady {
		free = max(0, free-p.inflight)
	}
	return st.loadRest(p, now) + p.turnover(before+1-free)
}

// retryAfter is when somebody who is refused should come again who would have to wait for so long.
func retryAfter(wait time.Duration) time.Duration { return min(max(backoffMin, wait), retryMost) }

// turnover predicts how long it takes until so many more places have come free in a ready slot whose places are all taken.
func (p *place) turnover(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return min(time.Duration(n)*p.service.mean/time.Duration(p.places()), math.MaxInt64/4)
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
	next := st.nextWhy(p)
	return hearth.SlotView{
		Votes:     p.votes(now),
		Turn:      st.turnLimit(p),
		Next:      next != "",
		NextWhy:   next,
		State:     p.state,
		Since:     p.since,
		Inflight:  p.inflight,
		Waiting:   p.waiting,
		Batch:     p.batches,
		OtherBusy: st.otherBusy(p) || now.Before(p.busyUntil),
		LoadRest:  st.loadRest(p, now),
		WaitRest:  st.waitRest(p, p.waiting, now),
		Soonest:   st.quickest(p, now),
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
