package market

import (
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// belief is how likely the cache of a session is at each endpoint of its model, by their places; what is left out is
// nowhere.
type belief []stand

type stand struct {
	spot int32
	part float32
}

// sessionState is where the cache of a session would be: under each policy, and last as it was drawn.
type sessionState struct {
	at     time.Time
	stands []belief
}

const (
	sessionLasts = 10 * time.Minute // without a request; the router forgets it then, too
	sessionsMost = 1 << 15          // of which older ones are forgotten, twice as many in all
	leastStand   = 0.005            // of a belief
	mostStands   = 8
)

// sessionsOf keeps sessions in two generations: nothing is searched. A session is of one model.
type sessionsOf struct{ now, old map[uint64]*sessionState }

func (s *sessionsOf) find(key uint64, at time.Time) *sessionState {
	if key == 0 {
		return nil
	}
	k := s.now[key]
	if k == nil {
		k = s.old[key]
	}
	if k != nil && at.Sub(k.at) > sessionLasts {
		return nil
	}
	return k
}

func (s *sessionsOf) put(key uint64, k *sessionState) {
	if s.now == nil {
		s.now = map[uint64]*sessionState{}
	}
	s.now[key] = k
	if len(s.now) >= sessionsMost {
		s.now, s.old = nil, s.now
	}
}

// known says whether the router knew the session of a request: else no cache is warm for it.
func known(t *hearth.Routed) bool {
	for i := range t.Candidates {
		if c := &t.Candidates[i]; c.Warm || c.OtherPrice > 0 || c.OtherTTFT > 0 {
			return true
		}
	}
	return false
}

// on writes how likely the cache is at each candidate.
func (b belief) on(spots []*spot, into []float64) {
	clear(into)
	for _, s := range b {
		for i := range spots {
			if spots[i].place == s.spot {
				into[i] = float64(s.part)
			}
		}
	}
}

// where writes how likely the cache of a request's session is at each candidate under a policy, by its place; the last is
// how it was drawn. Of a session that began before the records, it is where it was.
func (k *sessionState) where(t *hearth.Routed, policy int, spots []*spot, into []float64) {
	if k != nil {
		k.stands[policy].on(spots, into)
		return
	}
	clear(into)
	for i := range t.Candidates {
		if t.Candidates[i].Warm {
			into[i] = 1
		}
	}
}

// standsOf are the likeliest of chances.
func standsOf(chances []float64, spots []*spot) belief {
	var b belief
	for i, p := range chances {
		if p >= leastStand {
			b = append(b, stand{spots[i].place, float32(p)})
		}
	}
	for len(b) > mostStands {
		least := 0
		for i := range b {
			if b[i].part < b[least].part {
				least = i
			}
		}
		b[least] = b[len(b)-1]
		b = b[:len(b)-1]
	}
	return b
}

// after is how likely the cache is at each candidate after a request. Where nothing holds a session, it may be at several.
func (p *replayPolicy) after(warm []float64, now []routing.Chance, into []float64) {
	for i := range now {
		into[i] = now[i].Share
		if p.base == InverseSquare {
			into[i] = 1 - (1-warm[i])*(1-now[i].Share)
		}
	}
}
