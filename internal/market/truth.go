package market

import (
	"math"
	"math/rand/v2"
)

// tick is how often what changes by itself is drawn anew, in seconds.
const tick = 5.0

// Parameters of what an endpoint is really like, beside its listing.
const (
	driftSpread, driftMemory = 0.25, 900.0 // of the logarithm of its speed, and seconds
	otherSpread, otherMemory = 0.2, 300.0  // share of its room that other customers take
	leastRoom                = 3.0         // requests at once

	spikesPerHour  = 0.7
	brownPerHour   = 0.25
	squeezePerHour = 0.25
	toolsPerHour   = 0.08

	fullWait, fullDecode = 2.5, 1.8 // how much longer the first token and the others take when all of the room is taken

	leastErrors   = 0.001
	scattered     = 0.3 // share of the downtime that is single errors; the rest comes in episodes
	meanEpisode   = 0.35*210 + 0.25*150 + 0.4*720*0.35
	brokenTools   = 0.12 // share of endpoints whose tool calls are always bad
	queueingShare = 0.5  // share of endpoints that queue rather than reject
	bucketShare   = 0.3  // share of endpoints that bound requests per second too
)

// episode is something that holds for a while.
type episode struct {
	until float64
	size  float64
}

// on is its size while it lasts, else 0.
func (e episode) on(now float64) float64 {
	if now < e.until {
		return e.size
	}
	return 0
}

// truth is what an endpoint is really like at each moment. It changes with time alone.
type truth struct {
	Listing
	r    *rand.Rand
	calm bool // nothing changes but by a script

	fixed, prefill float64 // seconds; tokens per second
	room           float64 // requests at once, when nobody else is there
	queue          int     // requests that wait beyond that
	bucket, burst  float64 // requests per second and in a row; 0 = not bounded
	errors         float64 // share of tries with a scattered error
	malformed      float64 // share of answers with tool calls that are not well formed
	replica        float64 // probability that a request meets the machine that has its prefix
	keep           float64 // seconds for which a prefix is kept

	drift, other                           float64 // processes
	spike, outage, hang, partial           episode
	slow, squeeze, tools                   episode
	forcedOutage, forcedHang, forcedErrors episode // of a script
	forcedSlow, forcedSqueeze, forcedTools episode
}

// newTruth draws an endpoint behind a listing. demand is how many requests per second come to the market, share what part
// of them an endpoint of this price gets where demand goes by the inverse square of prices, and in and out the mean sizes.
func newTruth(l Listing, r *rand.Rand, demand, share, in, out, tight float64) *truth {
	t := &truth{Listing: l, r: r, fixed: l.TTFT / 2, prefill: in / (l.TTFT / 2)}
	service := l.TTFT + out/l.TPS
	t.room = max(leastRoom, tight*max(demand*share*service*3*logNormal(0.45, r.NormFloat64()), demand*service*0.2*logNormal(0.6, r.NormFloat64())))
	t.queue = int(0.08 * t.room)
	if r.Float64() < queueingShare {
		t.queue = int(0.6 * t.room)
	}
	if bounded, rate := r.Float64() < bucketShare, t.room/service*(0.7+0.5*r.Float64()); bounded {
		t.bucket, t.burst = rate, max(1, 8*rate)
	}
	t.errors = max(leastErrors, scattered*(1-l.Uptime))
	t.malformed = 0.003 + 0.009*r.Float64()
	if r.Float64() < brokenTools {
		t.malformed = 0.03 + 0.05*r.Float64()
	}
	t.replica = pick(r, []float64{0.95, 0.8, 0.5, 0.1}, []float64{0.35, 0.35, 0.2, 0.1})
	t.keep = pick(r, []float64{240, 300, 600, 1800}, []float64{0.25, 0.25, 0.25, 0.25})
	t.drift, t.other = driftSpread*r.NormFloat64(), otherSpread*r.NormFloat64()
	return t
}

func pick(r *rand.Rand, values, shares []float64) float64 {
	u := r.Float64()
	for i, s := range shares {
		if u -= s; u < 0 {
			return values[i]
		}
	}
	return values[len(values)-1]
}

// advance draws the next tick.
func (t *truth) advance(now float64) {
	if t.calm {
		return
	}
	t.drift = wander(t.r, t.drift, driftSpread, driftMemory)
	t.other = wander(t.r, t.other, otherSpread, otherMemory)
	begin := func(e *episode, perHour, least, most float64, size func() float64) {
		starts, length, big := t.r.Float64() < perHour*tick/3600, least+(most-least)*t.r.Float64(), size()
		if starts && now >= e.until {
			*e = episode{until: now + length, size: big}
		}
	}
	between := func(a, b float64) func() float64 { return func() float64 { return a + (b-a)*t.r.Float64() } }
	failures := (1 - scattered) * (1 - t.Uptime) / meanEpisode * 3600
	begin(&t.outage, 0.35*failures, 60, 360, between(1, 1))
	begin(&t.hang, 0.25*failures, 60, 240, between(1, 1))
	begin(&t.partial, 0.4*failures, 240, 1200, between(0.15, 0.55))
	begin(&t.spike, spikesPerHour, 60, 400, between(0.4, 0.9))
	begin(&t.slow, brownPerHour, 300, 1200, between(2.5, 6))
	begin(&t.squeeze, squeezePerHour, 300, 1200, between(0.05, 0.3))
	begin(&t.tools, toolsPerHour, 900, 3000, between(0.2, 0.6))
}

// wander is one tick of an Ornstein-Uhlenbeck process around 0.
func wander(r *rand.Rand, v, spread, memory float64) float64 {
	keep := math.Exp(-tick / memory)
	return v*keep + spread*math.Sqrt(1-keep*keep)*r.NormFloat64()
}

// others is the share of the room that other customers take.
func (t *truth) others(now float64) float64 {
	return clamp(max(t.other, 0)+t.spike.on(now), 0, 0.95)
}

// places is how many requests it works on at once.
func (t *truth) places(now float64) float64 {
	room := t.room * (1 - t.others(now))
	for _, e := range [...]episode{t.squeeze, t.forcedSqueeze} {
		if s := e.on(now); s > 0 {
			room *= s
		}
	}
	return max(1, room)
}

// slowness is by how much everything takes longer than usual.
func (t *truth) slowness(now float64) float64 {
	return max(1, t.slow.on(now), t.forcedSlow.on(now)) / math.Exp(t.drift)
}

// first is how long the first token takes once the request is at work beside others that fill the room to load.
func (t *truth) first(c chance, q *try, uncached int, load, now float64) float64 {
	base := t.fixed*logNormal(0.45, c.normal(q.request, q.endpoint, q.number, forFixed)) +
		float64(uncached)/t.prefill*logNormal(0.2, c.normal(q.request, q.endpoint, q.number, forPrefill))
	d := base * (1 + (fullWait-1)*load*load*load + t.others(now)) * t.slowness(now)
	if c.at(q.request, q.endpoint, q.number, forTail) < 0.01 {
		d += 4 * logNormal(0.6, c.normal(q.request, q.endpoint, q.number, forTailSize))
	}
	return d
}

// speed is how many tokens a second it makes after the first.
func (t *truth) speed(c chance, q *try, load, now float64) float64 {
	return t.TPS * logNormal(0.28, c.normal(q.request, q.endpoint, q.number, forSpeed)) / (1 + (fullDecode-1)*load*load + 0.6*t.others(now)) / t.slowness(now)
}

// fault is how a try fails.
type fault uint8

const (
	sound    fault = iota
	refused        // an error after a moment
	hangs          // nothing ever comes
	breaks         // the answer ends in the middle
	rejected       // 429: the endpoint was full
)

// fault draws whether a try fails at now.
func (t *truth) fault(c chance, q *try, now float64) fault {
	switch u := c.at(q.request, q.endpoint, q.number, forFailure); {
	case t.outage.on(now)+t.forcedOutage.on(now) > 0:
		return refused
	case t.hang.on(now)+t.forcedHang.on(now) > 0:
		return hangs
	case u < t.partial.on(now)+t.forcedErrors.on(now):
		return refused
	case u < t.partial.on(now)+t.forcedErrors.on(now)+t.errors:
	default:
		return sound
	}
	switch kind := c.at(q.request, q.endpoint, q.number, forKind); {
	case kind < 0.15:
		return hangs
	case kind < 0.3:
		return breaks
	}
	return refused
}

// badCalls is the share of answers with tools whose calls are not well formed.
func (t *truth) badCalls(now float64) float64 {
	return clamp(t.malformed+t.tools.on(now)+t.forcedTools.on(now), 0, 1)
}
