package routing

import "math"

// Times inside the router are seconds since it began. Half-lives and prior weights are those that did best in simulation;
// within a factor of two they hardly matter, but for the prior: two pseudo-samples are better than twenty.
const (
	halfFast = 15.0  // seconds
	halfSlow = 300.0 // seconds
	halfLong = 900.0 // seconds: tool calls, cache hits, peaks, the model's means
	keep     = 6.0   // samples that the slow window keeps however much time goes by
	pseudo   = 2.0   // samples that the level of the next wider window weighs as much as

	priorTries = 20.0 // tries that the first guess of a rate weighs as much as
	fastTries  = 10.0 // tries that the slow window weighs as much as within the fast one
	firstError = 0.01
	firstLimit = 0.003
	firstBad   = 0.01
	firstHit   = 0.6    // of the tokens that a warm cache could hold
	cachePrior = 1000.0 // tokens that the first guesses of cache figures weigh as much as

	startTTFT     = 1.2      // seconds, of a model of which nothing is known
	startDecode   = 1 / 45.0 // seconds per token, likewise
	startFailTime = 2.0      // seconds that a failed try takes, or what an answer takes if that is less
	startLimit    = 0.3      // seconds that a 429 takes, likewise
	suspectAfter  = 5.0      // seconds overdue
	betterTTFT    = 0.5      // of the seconds expected, and less, are a surprise
	betterErrors  = 0.05     // is a rate of errors at which an answer is a surprise
	betterFor     = 60.0     // seconds in which it is worth a further try
	failStep      = 0.1      // weight of the newest in the mean of these
	failForget    = 0.03     // of the seconds that a failed try took beyond those, with each answer
	betterKeep    = 3.0      // samples that are left of the slow window at a surprise, when none is fresh
)

// sums is what was seen at an endpoint, fading with a half-life. Three groups fade on their own: tries, first tokens,
// answers.
type sums struct {
	At      float64 `json:"at"` // when they were last faded
	Tries   float64 `json:"tries,omitzero"`
	Errors  float64 `json:"errors,omitzero"`
	First   float64 `json:"first,omitzero"` // first tokens seen
	TTFT    float64 `json:"ttft,omitzero"`  // seconds to them
	Scale   float64 `json:"scale,omitzero"` // lengths of their prompts, see scale
	Flight  float64 `json:"flight,omitzero"`
	Answers float64 `json:"answers,omitzero"`
	Secs    float64 `json:"secs,omitzero"`   // of decoding
	Tokens  float64 `json:"tokens,omitzero"` // decoded in them
	Serve   float64 `json:"serve,omitzero"`  // seconds from dispatch to the end of the answers
	Sent    float64 `json:"sent,omitzero"`   // tries again, fading with time alone
	Limits  float64 `json:"limits,omitzero"` // 429s, likewise
}

// fade lets time go by; below floor samples it takes nothing from a group.
func (s *sums) fade(now, half, floor float64) {
	f := fading(&s.At, now, half)
	if f == 1 {
		return
	}
	s.Sent *= f
	s.Limits *= f
	g := left(f, s.Tries, floor)
	s.Tries *= g
	s.Errors *= g
	g = left(f, s.First, floor)
	s.First *= g
	s.TTFT *= g
	s.Scale *= g
	s.Flight *= g
	g = left(f, s.Answers, floor)
	s.Answers *= g
	s.Secs *= g
	s.Tokens *= g
	s.Serve *= g
}

// fading is what is left of a sum with a half-life, and moves its time on. Results that come a little out of order fade
// nothing, nor does a clock that was set back.
func fading(at *float64, now, half float64) float64 {
	dt := now - *at
	if dt <= 0 && dt > -1 {
		return 1
	}
	*at = now
	if dt < 0 {
		return 1
	}
	return math.Exp2(-dt / half)
}

// left is what time leaves of n samples, as a factor, when it may not take them below a floor.
func left(f, n, floor float64) float64 {
	if n <= floor {
		if floor > 0 {
			return 1
		}
		return f
	}
	return max(f, floor/n)
}

// share is a decaying part of a decaying whole.
type share struct {
	At   float64 `json:"at"`
	Of   float64 `json:"of,omitzero"`
	Part float64 `json:"part,omitzero"`
}

func (s *share) fade(now, half float64) {
	f := fading(&s.At, now, half)
	s.Of, s.Part = s.Of*f, s.Part*f
}

func (s *share) add(now, half, of, part float64) {
	s.fade(now, half)
	s.Of += of
	s.Part += part
}

// rate is the posterior of the part with a first guess that weighs as much as so many of the whole.
func (s *share) rate(guess, weight float64) float64 { return (s.Part + guess*weight) / (s.Of + weight) }

// slope is a regression, with fading sums, of how much slower an endpoint is with more requests under way.
type slope struct {
	At float64 `json:"at"`
	N  float64 `json:"n,omitzero"`
	X  float64 `json:"x,omitzero"` // requests under way at dispatch
	XX float64 `json:"xx,omitzero"`
	Y  float64 `json:"y,omitzero"` // seconds over those expected
	XY float64 `json:"xy,omitzero"`
}

// outlier bounds what one sample says, in multiples of what was expected: a hang is the error term's business.
const outlier = 5.0

func (s *slope) add(now, x, y float64) {
	s.fade(now)
	y = min(max(y, 0), outlier)
	s.N++
	s.X += x
	s.XX += x * x
	s.Y += y
	s.XY += x * y
}

func (s *slope) fade(now float64) {
	f := fading(&s.At, now, halfSlow)
	s.N, s.X, s.XX, s.Y, s.XY = s.N*f, s.X*f, s.XX*f, s.Y*f, s.XY*f
}

const (
	slopeGuess  = 0.15 // slower at twice the mean load than without any
	slopeWeight = 15.0 // samples that the guess weighs as much as
	slopeMost   = 2.0  // as slopeGuess
)

// per is how much slower the endpoint is per further request under way, as a part of its level; half of the guess and of
// the bound for the speed of decoding.
func (s *slope) per(factor float64) float64 {
	mean, n := 1.0, max(s.N, 1e-9)
	if s.N > 0 {
		mean = max(s.X/n, 1)
	}
	spread := slopeWeight * mean // requests under way scatter like a Poisson count
	xy, xx := s.XY-s.X*s.Y/n, max(s.XX-s.X*s.X/n, 0)
	b := (xy + spread*slopeGuess*factor/mean) / (xx + spread)
	return min(max(b, 0), slopeMost*factor/mean)
}

// estimate is all that is learned of one endpoint.
type estimate struct {
	Fast      sums    `json:"fast"`
	Slow      sums    `json:"slow"`
	TTFTSlope slope   `json:"ttft_slope"`
	RestSlope slope   `json:"rest_slope"`
	FailTime  float64 `json:"fail_time,omitzero"`  // seconds a failed try takes, 0 = none yet
	LimitTime float64 `json:"limit_time,omitzero"` // seconds a 429 takes, 0 = none yet
	Tools     share   `json:"tools"`               // answers with tool calls, of them broken ones
	ToolsFast share   `json:"tools_fast"`          // likewise, of the last minutes
	Warm      share   `json:"warm"`                // tokens that a warm cache could hold, of them cached ones
	Cold      share   `json:"cold"`                // prompt tokens of requests without a warm cache, of them cached ones
	Written   share   `json:"written"`             // prompt tokens not cached, of them those written to the cache
	Bills     share   `json:"bills"`               // what the lists say that answers cost, and what they cost
	Limit     limit   `json:"limit"`
	Knee      knee    `json:"knee"`
	Breaker   breaker `json:"breaker"`
	Flag      flag    `json:"flag"`
	Tried     float64 `json:"tried,omitzero"` // when the last try ended, 0 = never
	Row       int     `json:"row,omitzero"`   // failures since the last answer
	// Better is when a try last went far better than what is thought of the endpoint, 0 = never: that may be out of date.
	Better float64 `json:"better,omitzero"`
}

// seen is one first token.
type seen struct {
	ttft   float64 // seconds from dispatch
	scale  float64 // length of the prompt
	level  float64 // seconds expected at scale 1
	queue  float64 // seconds of them that were expected to be a queue
	flight float64 // other requests under way at dispatch
}

// first notes a first token.
func (e *estimate) first(now float64, s seen) {
	net := max(s.ttft-s.queue, 0.3*s.ttft)
	for _, w := range e.both(now) {
		w.First++
		w.TTFT += net
		w.Scale += s.scale
		w.Flight += s.flight
	}
	ratio := net / (s.scale * s.level)
	if ratio < betterTTFT {
		e.Better = now
		if w := &e.Slow; e.Fast.First < 2*betterKeep && w.First > betterKeep {
			f := betterKeep / w.First
			w.First, w.TTFT, w.Scale, w.Flight = w.First*f, w.TTFT*f, w.Scale*f, w.Flight*f
		}
	}
	e.TTFTSlope.add(now, s.flight, ratio)
	e.Limit.accepted(now, s.flight+1)
	e.Knee.see(now, s.flight, s.ttft-s.level*s.scale, max(s.level, 0.5), e.service(s.level), e.Limit.peak(now))
}

// both windows, faded to now.
func (e *estimate) both(now float64) [2]*sums {
	e.Fast.fade(now, halfFast, 0)
	e.Slow.fade(now, halfSlow, keep)
	return [2]*sums{&e.Fast, &e.Slow}
}

// service is the mean time, in seconds, that an answer occupies the endpoint.
func (e *estimate) service(guess float64) float64 {
	return (e.Slow.Serve + pseudo*guess) / (e.Slow.Answers + pseudo)
}

// late adds the overdue part of a wait that somebody gave up: it is no first token, but it counts as time, as censored
// samples of an exponential do.
func (e *estimate) late(now, overdue float64) {
	if overdue <= 0 {
		return
	}
	for _, w := range e.both(now) {
		w.TTFT += overdue
	}
}

// decoded notes an answer: seconds and tokens from the first token on, seconds in all, seconds per token expected.
func (e *estimate) decoded(now, secs, tokens, total, expected, flight float64) {
	for _, w := range e.both(now) {
		w.Answers++
		w.Serve += total
		w.Secs += secs
		w.Tokens += tokens
	}
	if tokens >= 8 { // shorter answers tell of jitter alone
		if w := &e.Slow; secs < betterTTFT*tokens*expected {
			e.Better = now
			if e.Fast.Answers < 2*betterKeep && w.Answers > betterKeep {
				f := betterKeep / w.Answers
				w.Answers, w.Secs, w.Tokens, w.Serve = w.Answers*f, w.Secs*f, w.Tokens*f, w.Serve*f
			}
		}
		e.RestSlope.add(now, flight, secs/tokens/expected)
	}
}

// tried counts a try by how it ended, and the seconds that one in vain took; usual is what an answer was expected to take.
func (e *estimate) tried(now, secs, usual float64, o Outcome) {
	e.Tried = now
	for _, w := range e.both(now) {
		w.Tries++
		w.Sent++
		switch o {
		case Failed:
			w.Errors++
		case Limited:
			w.Limits++
		}
	}
	switch o {
	case Answered:
		e.Row = 0
		if start := min(startFailTime, usual); e.FailTime > start {
			e.FailTime += failForget * (start - e.FailTime)
		}
		if e.errorRate(0) > betterErrors {
			e.Better = now
		}
	case Failed:
		e.Row++
		e.FailTime = step(e.FailTime, secs, min(startFailTime, usual))
	case Limited:
		e.LimitTime = step(e.LimitTime, secs, min(startLimit, usual))
	}
}

func step(mean, secs, start float64) float64 {
	if mean == 0 {
		mean = start
	}
	return mean + failStep*(secs-mean)
}

// errorRate and limitRate are how likely a try fails, and how likely it meets a 429. They react within seconds; the slow
// window forgives a calm half-minute only half. suspects are tries under way that look like failures. The windows must be
// faded to the same time.
func (e *estimate) errorRate(suspects float64) float64 {
	slow := (e.Slow.Errors + priorTries*firstError) / (e.Slow.Tries + priorTries)
	fast := (e.Fast.Errors + suspects + fastTries*slow) / (e.Fast.Tries + suspects + fastTries)
	return max(fast, slow/2)
}

// suspects is how many failures there will be among the tries that wait for a first token and are overdue by so many
// seconds in all: one for each time that a hang would have to take to be told from a slow answer.
func suspects(overdue, level float64) float64 { return overdue / (suspectAfter + 3*level) }

func (e *estimate) limitRate() float64 {
	slow := (e.Slow.Limits + priorTries*firstLimit) / (e.Slow.Sent + priorTries)
	fast := (e.Fast.Limits + fastTries*slow) / (e.Fast.Sent + fastTries)
	return max(fast, slow/2)
}

// typical are the usual numbers of a model: medians over its endpoints.
type typical struct {
	ttft   float64 // seconds at scale 1
	decode float64 // seconds per token
	out    float64 // tokens of an answer
}

// levels are the present speeds of an endpoint: of the fast window shrunk to the slow one, that one shrunk to the model's
// typical numbers. overdue is the time, in seconds, by which those who wait for a first token have waited too long.
type levels struct {
	ttft, slowTTFT     float64 // seconds at scale 1
	decode, slowDecode float64 // seconds per token
	flight             float64 // requests under way when the fast samples were taken
}

func (e *estimate) levels(typ typical, overdue float64) levels {
	var l levels
	f, s := &e.Fast, &e.Slow
	l.slowTTFT = (s.TTFT + pseudo*typ.ttft) / (s.Scale + pseudo)
	l.ttft = (f.TTFT + overdue + pseudo*l.slowTTFT) / (f.Scale + pseudo)
	m := pseudo * max(typ.out, 1)
	l.slowDecode = (s.Secs + m*typ.decode) / (s.Tokens + m)
	l.decode = (f.Secs + m*l.slowDecode) / (f.Tokens + m)
	wide := s.Flight / max(s.First, 1)
	l.flight = (f.Flight + pseudo*wide) / (f.First + pseudo)
	return l
}

// scale is how long a prompt of so many uncached tokens is, compared with the model's mean: half of the time to the first
// token does not depend on it.
func scale(tokens, mean float64) float64 { return 0.5 + max(tokens, 0)*perToken(mean) }

// perToken is what an uncached token adds to the scale.
func perToken(mean float64) float64 { return 0.5 / max(mean, 1) }

// wilson is the lower end of the 95 % interval of a rate, of which part of n was seen. n need not be whole.
func wilson(part, n float64) float64 {
	if n <= 0 {
		return 0
	}
	const z = 1.96
	p := min(max(part/n, 0), 1)
	mid := p + z*z/(2*n)
	return max((mid-z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n)))/(1+z*z/n), 0)
}
