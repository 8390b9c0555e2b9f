package slot

import (
	"math"
	"time"

	"myip.co.kr/hearth"
)

const (
	// outweighs is by how many load times the work that voters would have brought over paysOff load times has to exceed the
	// resident's, so that the node is swapped for them: one load to come, and one to come back.
	outweighs = 2
	// seldom is how many load times there are at least between two swaps of a node that has been idle for less than
	// paysOff load times: what comes while it loads is not served there, which is then one request in forty at most.
	seldom = 40
	// votesKept is up to how many votes are told apart.
	votesKept = 256
)

// poll is what a place knows of the votes for it, and of the work that it gets.
type poll struct {
	cast    []time.Time // votes that count, oldest first
	asked   pace        // requests that came for it
	elected bool        // it is wanted because of votes
}

// pace is how often something has happened lately: a sum in which what is long ago counts less. The weight falls to 1/e
// within a span, which may be another each time.
type pace struct {
	sum float64
	at  time.Time
}

// add counts one.
func (c *pace) add(now time.Time, span time.Duration) {
	c.sum = c.over(now, span) + 1
	c.at = now
}

// over is how often it happened during the last span.
func (c *pace) over(now time.Time, span time.Duration) float64 {
	if c.sum == 0 || span <= 0 {
		return 0
	}
	return c.sum * math.Exp(-float64(now.Sub(c.at))/float64(span))
}

// horizon is over how long work is compared for a slot.
func (p *place) horizon() time.Duration { return paysOff * p.load() }

// vote notes that a request was not let wait for p.
func (st *state) vote(p *place, now time.Time) {
	if len(p.cast) == votesKept {
		p.cast = append(p.cast[:0], p.cast[1:]...)
	}
	p.cast = append(p.cast, now)
	if st.voting == VotesAlways && p.wanted.IsZero() {
		p.wanted = now
	}
}

// votes is how many votes for p count: a vote does for one load time.
func (p *place) votes(now time.Time) int {
	n := len(p.cast)
	for n > 0 && now.Sub(p.cast[len(p.cast)-n]) > p.load() {
		n--
	}
	return n
}

// elect has slots started for which there are votes, if nobody waits for anything in their room and it pays; and takes that
// back when it does not any more.
func (st *state) elect(now time.Time) {
	for _, p := range st.slots {
		if len(p.cast) == 0 && !p.elected {
			continue
		}
		if p.elected && p.run != 0 {
			p.elected, st.electedAt = false, now
		}
		if p.state == hearth.SlotStarting || p.state == hearth.SlotReady {
			p.cast = p.cast[:0]
			continue
		}
		p.cast = p.cast[len(p.cast)-p.votes(now):]
		carried := len(p.cast) > 0 && st.voting == VotesCount && st.startable(p, now) && st.carried(p, now)
		switch {
		case carried && p.wanted.IsZero():
			p.wanted, p.elected = now, true
		case !carried && p.elected:
			p.wanted, p.elected = time.Time{}, false
		}
	}
}

// carried says whether the votes for p are enough.
func (st *state) carried(p *place, now time.Time) bool {
	for _, o := range st.slots {
		if o != p && o.demanded() && !o.elected && st.vie(p, o) {
			return false
		}
	}
	if at, ok := st.idleFor(p); ok && !at.After(now) {
		return true
	}
	work := 0.0
	for _, o := range st.evictions(p) {
		switch {
		case p.elected && (o.state == hearth.SlotDraining || o.state == hearth.SlotStopping):
			return true // it has begun
		case o.state != hearth.SlotReady || o.service.N() == 0:
			return false
		}
		work += o.use(now)
	}
	return p.use(now)-work > float64(outweighs)/paysOff
}

// use is what part of its engine's time the requests take that are asked of a slot.
func (p *place) use(now time.Time) float64 {
	each := p.service.P50().Seconds() / float64(p.places())
	return min(1, p.asked.over(now, p.horizon())*each/max(1, p.horizon().Seconds()))
}

// idleFor is when the room that p needs has been idle for long enough to be p's by votes alone, false = it is not idle.
// Nobody must have used it for as long as work is compared over, or for a moment if it has not been swapped for votes lately.
func (st *state) idleFor(p *place) (at time.Time, ok bool) {
	for _, o := range st.evictions(p) {
		if o.state != hearth.SlotReady || !o.idle() {
			return at, false
		}
		quiet := later(o.idleAt, o.readyAt)
		at = later(at, earlier(quiet.Add(p.horizon()), later(o.quiet(0, 1), st.electedAt.Add(seldom*p.load()))))
	}
	return at, true
}

// electAt is when votes for p will be enough as things stand, false = they will not.
func (st *state) electAt(p *place, now time.Time) (at time.Time, ok bool) {
	if len(p.cast) == 0 || !p.wanted.IsZero() || p.state != hearth.SlotAsleep {
		return at, false
	}
	at, ok = st.idleFor(p)
	return at, ok && at.After(now) && !at.After(p.cast[len(p.cast)-1].Add(p.load()))
}
