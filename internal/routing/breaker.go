package routing

import "math"

// breaker keeps requests from an endpoint whose error rate is far above its peers'. Three failures in a row are not its
// business: they put the endpoint into the cooldown that every endpoint has. It is rare on purpose: an endpoint that
// fails now and then is left to the cost of failed tries.
type breaker struct {
	Until float64 `json:"until,omitzero"` // open up to then, half-open from then on; 0 = closed
	Opens int     `json:"opens,omitzero"` // times it has opened, one after the other
	Wins  int     `json:"wins,omitzero"`  // successes while half-open
	Shut  float64 `json:"shut,omitzero"`  // when it last closed
	Ramp  float64 `json:"ramp,omitzero"`  // part of its share, 0 = all of it
}

const (
	openTries  = 5.0  // of the fast window that it takes to open
	openSlow   = 10.0 // of the slow one
	openBar    = 0.5  // error rate
	openPeers  = 3.0  // times the peers' error rate
	openFirst  = 10.0 // seconds
	openFactor = 1.7
	openMax    = 120.0 // seconds
	openReset  = 600.0 // seconds closed after which the next opening is a first one
	closeWins  = 3
	rampStart  = 0.1
	rampStep   = 1.15
)

// fails says whether the error rate is one to open for. peers is that of the other endpoints of the model.
func (e *estimate) fails(peers float64) bool {
	bar := max(openBar, openPeers*peers)
	return e.Fast.Tries >= openTries && wilson(e.Fast.Errors, e.Fast.Tries) > bar ||
		e.Slow.Tries >= openSlow && wilson(e.Slow.Errors, e.Slow.Tries) > bar && e.errorRate(0) > bar
}

// open opens, for longer each time. jitter is from 0 to 1.
func (b *breaker) open(now, jitter float64) {
	if b.Shut != 0 && now-b.Shut > openReset {
		b.Opens = 0
	}
	wait := min(openFirst*math.Pow(openFactor, float64(min(b.Opens, 20))), openMax)
	b.Opens++
	b.Until, b.Wins = now+wait*(0.85+0.3*jitter), 0
}

// judged moves the breaker after a try. While half-open, a failure opens again and three successes close; what failed before is
// then forgotten. While closed, a success lets the share grow.
func (e *estimate) judged(now, jitter float64, ok bool) {
	b := &e.Breaker
	switch {
	case b.Until == 0:
		if ok && b.Ramp > 0 {
			if b.Ramp *= rampStep; b.Ramp >= 1 {
				b.Ramp = 0
			}
		}
	case now < b.Until: // of a request from before it opened
	case !ok:
		b.open(now, jitter)
	default:
		if b.Wins++; b.Wins < closeWins {
			return
		}
		*b = breaker{Opens: b.Opens, Shut: now, Ramp: rampStart}
		for _, w := range e.both(now) {
			w.Tries, w.Errors = 0, 0
		}
	}
}

// flag says that the quality of an endpoint's answers is not what it should be.
type flag struct {
	Tools     bool    `json:"tools,omitzero"` // its tool calls are broken too often
	Since     float64 `json:"since,omitzero"` // when Tools was set
	Tests     share   `json:"tests,omitzero"` // answers with tool calls since then, of them broken ones
	Benchmark bool    `json:"benchmark,omitzero"`
}

const (
	flagTries     = 4.0
	flagBroken    = 2.5 // broken answers that it takes: three, the first of them some minutes old; two among few prove nothing
	flagBar       = 0.04
	flagPeers     = 3.0
	clearBar      = 0.02
	clearPeers    = 1.5
	clearTries    = 8.0   // since the flag was set that say more than what was before
	flagMin       = 120.0 // seconds that a flag lasts at least
	halfToolsFast = 120.0 // seconds
)

// review sets and clears the flag for tool calls. peers is the rate of broken ones at the other endpoints of the model. What
// an endpoint did before it was flagged is forgotten once enough tests have gone well: it would take an hour to fade.
func (e *estimate) review(now, peers float64) {
	e.Tools.fade(now, halfLong)
	e.ToolsFast.fade(now, halfToolsFast)
	if f := &e.Flag; f.Tools {
		f.Tests.fade(now, halfLong)
		bar := max(clearBar, clearPeers*peers)
		mended := f.Tests.Of >= clearTries && wilson(f.Tests.Part, f.Tests.Of) < bar
		if now-f.Since < flagMin || !mended && wilson(e.Tools.Part, e.Tools.Of) >= bar {
			return
		}
		if f.Tools = false; mended {
			e.Tools, e.ToolsFast = f.Tests, share{At: now}
		}
		return
	}
	bar := max(flagBar, flagPeers*peers)
	for _, s := range [...]*share{&e.Tools, &e.ToolsFast} {
		if s.Of >= flagTries && s.Part >= flagBroken && wilson(s.Part, s.Of) > bar {
			e.Flag.Tools, e.Flag.Since, e.Flag.Tests = true, now, share{At: now}
		}
	}
}
