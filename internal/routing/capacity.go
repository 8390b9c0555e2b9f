package routing

import "math"

// limit is how many requests an endpoint takes at once, learned from its 429s. It is the clock of CUBIC (RFC 9438): after
// a 429 the cap is a function of time alone, so that nothing has to be counted per answer. It comes back to what it was
// after one cycle and then probes beyond it. A cycle is as long as 200 requests take, so that probing costs at most one
// 429 in 200.
type limit struct {
	Max   float64 `json:"max,omitzero"`   // requests under way that it took when it last said 429, 0 = it never did
	Last  float64 `json:"last,omitzero"`  // when that was
	Peak  float64 `json:"peak,omitzero"`  // most requests under way that it took, fading
	Faded float64 `json:"faded,omitzero"` // when Peak was last faded
	Run   int     `json:"run,omitzero"`   // 429s one after the other
	Begun float64 `json:"begun,omitzero"` // when the last of the run counted
	Until float64 `json:"until,omitzero"` // it is left alone up to then
}

const (
	cycleRequests = 200.0
	cycleMin      = 20.0  // seconds
	cycleMax      = 300.0 // seconds, at the default value of time; see longest
	cycleLeast    = 30.0  // seconds that it may last at any
	cyclePerKappa = 400.0 // seconds
	cutBack       = 0.1   // of the cap, at a 429
	cubic         = 0.15
	overPeak      = 1.1  // the cap is no more than that times the peak, and one
	capSlack      = 0.25 // of a request, by which a cap may be passed
	limitEvery    = 1.0  // second in which further 429s are the same one
	lowered       = 0.95
	raise         = 0.25 // of a request, for an answer beyond the cap

	coolFirst  = 0.5 // seconds
	coolFactor = 1.6
	coolMax    = 30.0  // seconds
	askedMax   = 600.0 // seconds of a Retry-After that are believed
)

// longest is how many seconds a cycle may last at a value of time. Where an endpoint had no room for a while, it takes some
// cycles until the cap is back. Meanwhile requests pay more elsewhere, and a 429 costs little but time: who values that
// less is better off asking again soon.
func longest(kappa float64) float64 { return min(max(cyclePerKappa*kappa, cycleLeast), cycleMax) }

// at is the cap at a time, of an endpoint that takes so many requests a second; infinite while none is known. cycle is the
// longest one, in seconds.
func (l *limit) at(now, rate, cycle float64) float64 {
	if l.Max == 0 {
		return math.Inf(1)
	}
	tau := l.cycles(now, rate, cycle)
	return max(min(l.Max*growth(tau), overPeak*l.peak(now)+1), 1)
}

// mixed is the cap of an endpoint that would get more requests than it gets. It is bounded by what was under way as well,
// for what it would take beyond that nobody knows, but more loosely.
func (l *limit) mixed(now, rate, cycle float64) float64 {
	if l.Max == 0 {
		return math.Inf(1)
	}
	return max(min(l.Max*growth(l.cycles(now, rate, cycle)), mixOverPeak*l.peak(now)+mixMore), 1)
}

// cycles is how many of its cycles have passed since the last 429.
func (l *limit) cycles(now, rate, cycle float64) float64 {
	return max(now-l.Last, 0) / min(max(cycleRequests/max(rate, 1e-9), cycleMin), cycle)
}

// whole is a cap in requests, which are whole. A tenth less than four is four again after a seventh of a cycle, and of two at
// once: else a small endpoint would stand with a quarter or half of its room empty for a whole cycle after each 429.
func whole(c float64) float64 { return math.Floor(c + capSlack) }

// growth is how the cap moves: it starts a tenth lower, is back after one cycle, and rises ever faster from there.
func growth(tau float64) float64 {
	if tau < 1 {
		return 1 - cutBack*(1-tau)*(1-tau)*(1-tau)
	}
	return 1 + cubic*(tau-1)*(tau-1)*(tau-1)
}

// accepted notes that the endpoint took a request that was the n-th under way.
func (l *limit) accepted(now, n float64) {
	l.Peak, l.Faded = max(l.peak(now), n), now
}

func (l *limit) peak(now float64) float64 {
	return l.Peak * math.Exp2(-max(now-l.Faded, 0)/halfLong)
}

// answered ends a run of 429s. An answer to a request that was sent beyond the cap says that the cap is too low.
func (l *limit) answered(n, capAtDispatch float64) {
	l.Run = 0
	if n > capAtDispatch && n > l.Max && l.Max > 0 {
		l.Max = min(l.Max+raise, n)
	}
}

// refused notes a 429 for a request with so many others under way. A request that was sent beyond the cap because there
// was nowhere else to go teaches nothing: would it shrink the cap, an overload would shrink it to one. asked is the
// Retry-After in seconds, 0 = none; jitter is from 0 to 1.
func (l *limit) refused(now, others, capAtDispatch, asked, jitter float64) {
	if asked > 0 {
		l.Until = max(l.Until, now+min(asked, askedMax))
	}
	if l.Run > 0 && now-l.Begun < limitEvery && now >= l.Begun {
		return
	}
	l.Run, l.Begun = l.Run+1, now
	if asked == 0 {
		wait := min(coolFirst*math.Pow(coolFactor, float64(min(l.Run, 20)-1)), coolMax)
		l.Until = max(l.Until, now+wait*(0.85+0.3*jitter))
	}
	if others+1 > capAtDispatch {
		return
	}
	seen := max(others, 1)
	if seen < l.Max {
		seen = max(seen*lowered, 1)
	}
	l.Max, l.Last = seen, now
}

// knee is how many requests an endpoint serves at once before further ones queue, learned from late first tokens.
type knee struct {
	At   float64 `json:"at,omitzero"`   // requests, 0 = no queue was ever seen
	Late float64 `json:"late,omitzero"` // when it was last seen
}

const (
	kneeStep  = 0.15
	kneeNear  = 0.6 // with fewer requests than that part of the knee under way, a late token is no queue
	kneeRaise = 0.3
)

// see notes a first token that came late by so many seconds, with others under way; it counts as late beyond bar. service
// is the mean time that an answer takes, peak the most requests under way lately.
func (k *knee) see(now, others, late, bar, service, peak float64) {
	n := others + 1
	at := k.value(now, peak)
	switch {
	case late > bar:
		if at == 0 {
			at = max(peak, n) + 2
		}
		if n > kneeNear*at {
			at += kneeStep * (n/(1+late/max(service, 1e-3)) - at) // first in, first out: n·service/k = service + late
			k.At, k.Late = max(at, 1), now
		}
	case at > 0 && n > at:
		k.At, k.Late = at+kneeRaise*(n-at), now
	}
}

// value is the knee at a time. Without a queue it rises in the way the cap does, but no further than to the most requests
// that were under way lately: with fewer than that a queue would never be taken for one again.
func (k *knee) value(now, peak float64) float64 {
	return min(k.At*max(growth(max(now-k.Late, 0)/cycleMax), 1), max(peak, k.At))
}
