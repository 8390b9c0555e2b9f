package market

import (
	"fmt"
	"slices"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
)

// Replay says from the records of a deployment what other ways to choose among the same endpoints would have cost, and how
// long they would have taken. It reads records one by one, in any order, and keeps sums alone: memory grows with
// the endpoints, not with the records.
//
// The choice of the first endpoint of a tier was drawn, and how likely each was is recorded. The estimate is doubly robust
// (Dudík, Langford and Li, 2011): what was expected of each endpoint when the choice was made, as it came true at that
// endpoint on the whole, with the chances of the other policy; corrected by what really happened where that policy would
// have chosen the same, with a weight of the policy's chance over the recorded one. If either the expectations or
// the chances are right, so is the estimate. Weights above ten count as ten.
type Replay struct {
	policies []*replayPolicy
	drawn    *replayPolicy // as it was
	currency string
	from, to time.Time
	rows     int
	hours    uint32 // of the day, in which there are replayed ones
	carried  map[string]int
	models   []*replayModel
	byModel  map[string]*replayModel
	spots    int
	sessions sessionsOf
	was, now []routing.Chance // scratch
	warm     []float64        // likewise
	next     []float64        // likewise
}

// Bounds of a replay.
const (
	maxReplayPolicies = 8
	maxReplayModels   = 1000
	maxReplaySpots    = 1000

	replayGroups = 40              // of records, each left out once for the intervals
	replayBlock  = 2 * time.Minute // of records that stay together in a group
	leastGroups  = 8               // for intervals

	heaviest   = 10.0 // weight
	leastDrawn = 1e-3 // chance, below which an endpoint counts as never drawn
	faith      = 5.0  // requests that a model's mean weighs in how the expectations of one endpoint come true
)

// NewReplay makes a replay under policies: see ReplayPolicies.
func NewReplay(policies []string) (*Replay, error) {
	if len(policies) == 0 || len(policies) > maxReplayPolicies {
		return nil, fmt.Errorf("records can be replayed under 1 to %d policies at once, not %d", maxReplayPolicies, len(policies))
	}
	r := &Replay{
		drawn: &replayPolicy{base: RoutingCost}, carried: map[string]int{}, byModel: map[string]*replayModel{},
		was: make([]routing.Chance, maxCandidates), now: make([]routing.Chance, maxCandidates), warm: make([]float64, maxCandidates), next: make([]float64, maxCandidates),
	}
	for i, name := range policies {
		if slices.Contains(policies[:i], name) {
			return nil, fmt.Errorf("policy %s is there twice", name)
		}
		p, err := newReplayPolicy(name)
		if err != nil {
			return nil, err
		}
		r.policies = append(r.policies, p)
	}
	return r, nil
}

// replayModel is what records of a model sum up to.
type replayModel struct {
	id       string
	requests int
	replayed int
	groups   [replayGroups]happened
	spots    []*spot
	byID     map[string]*spot
	wait     histogram // seconds to the first token, as they were
	carried  histogram // likewise, of what is carried over
	ratio    histogram // of seconds to the first token over those expected
}

// happened is what a group of records came to.
type happened struct {
	n, sum [quantities]float64
	tokens float64
	chose  [quantities]float64 // of n, those that are replayed
}

// spot is an endpoint of a model.
type spot struct {
	id     string
	place  int32 // among those of its model
	chosen int   // times it was first
	base   [replayGroups]basis
	under  []*lot // by policy
	ratio  histogram
	room   float64 // requests at once, as far as it is known
}

// basis is what was expected of an endpoint where it was chosen, and what came.
type basis struct {
	n, got, expected [quantities]float64
	listed           float64 // what its list says of them
}

// lot is an endpoint under a policy.
type lot struct {
	groups       [replayGroups]lotSums
	square       float64 // sum of the squares of weights
	weight       float64
	unknown      float64 // requests it would get where it could not have been drawn
	mass         float64 // requests it would get
	clipped      float64 // weight of those that had more than the heaviest
	expectedWait histogram
}

// lotSums are what a group of records says of an endpoint under a policy.
type lotSums struct {
	direct   [quantities]float64 // expectations by the policy's chances
	listed   float64             // what its list says, by the policy's chances
	weight   [quantities]float64 // of the records in which the endpoint was chosen
	got      [quantities]float64 // what came there, by weight
	expected [quantities]float64 // what was expected there, by weight
}

// Add takes a record. An error says what is wrong with it.
func (r *Replay) Add(g *hearth.Generation) error {
	if err := checkRecord(g); err != nil {
		return err
	}
	switch {
	case r.currency == "":
		r.currency = g.Bill.Currency
	case g.Bill.Currency != r.currency && g.Bill.Currency != "":
		return fmt.Errorf("its amounts are in %.10q, those before in %s; replay a time with one currency (--from, --to)", g.Bill.Currency, r.currency)
	}
	if r.rows == 0 || g.CreatedAt.Before(r.from) {
		r.from = g.CreatedAt
	}
	if g.CreatedAt.After(r.to) {
		r.to = g.CreatedAt
	}
	r.rows++
	f := fateOf(g)
	m := r.byModel[f.model]
	if m == nil {
		if len(r.models) == maxReplayModels {
			return fmt.Errorf("there are more than %d models in the records; choose one (--model)", maxReplayModels)
		}
		m = &replayModel{id: f.model, byID: map[string]*spot{}}
		r.models, r.byModel[f.model] = append(r.models, m), m
	}
	group := int((uint64(g.CreatedAt.Unix()) / uint64(replayBlock/time.Second)) % replayGroups)
	m.add(&f, group)
	if f.tier == nil {
		r.carried[f.why]++
		if f.has[first] {
			m.carried.add(f.got[first], 1)
		}
		return nil
	}
	return r.remake(m, &f, group)
}

// add counts what happened.
func (m *replayModel) add(f *fate, group int) {
	m.requests++
	h := &m.groups[group]
	for q := range quantities {
		if f.has[q] {
			h.n[q]++
			h.sum[q] += f.got[q]
			if f.tier != nil {
				h.chose[q]++
			}
		}
	}
	h.tokens += f.tokens
	if f.has[first] {
		m.wait.add(f.got[first], 1)
	}
}

// remake makes a record's choice anew under every policy.
func (r *Replay) remake(m *replayModel, f *fate, group int) error {
	t, n := f.tier, len(f.tier.Candidates)
	spots := make([]*spot, n)
	for i := range t.Candidates {
		s, err := r.spot(m, &t.Candidates[i])
		if err != nil {
			return err
		}
		spots[i] = s
	}
	m.replayed++
	r.hours |= 1 << f.at.UTC().Hour()
	chosen := spots[f.chosen]
	chosen.chosen++
	chosen.learn(m, f, group)
	was, now, warm := r.was[:n], r.now[:n], r.warm[:n]
	session := r.sessions.find(t.Session, f.at)
	after := &sessionState{at: f.at, stands: make([]belief, 0, len(r.policies)+1)}
	some := known(t)
	for k := len(r.policies); k >= 0; k-- { // first as it was drawn
		p, chances := r.drawn, was
		if k < len(r.policies) {
			p, chances = r.policies[k], now
		}
		if clear(warm); some {
			session.where(t, k, spots, warm)
		}
		if some || !p.asDrawn() {
			p.chances(t, warm, chances)
		} else {
			asRecorded(t, chances)
		}
		if t.Session != 0 {
			p.after(warm, chances, r.next[:n])
			after.stands = append(after.stands, standsOf(r.next[:n], spots))
		}
		if k == len(r.policies) {
			continue
		}
		for i := range now {
			if now[i].Share > 0 {
				spots[i].lot(k).would(f, i, now[i], was[i].Share < leastDrawn, group)
			}
		}
		if odds := was[f.chosen].Share; odds > 0 && now[f.chosen].Share > 0 {
			chosen.lot(k).did(f, now[f.chosen].Share/odds, group)
		}
	}
	if t.Session != 0 {
		slices.Reverse(after.stands)
		r.sessions.put(t.Session, after)
	}
	return nil
}

// asRecorded are the recorded shares; they hold where they do not depend on earlier requests of a session.
func asRecorded(t *hearth.Routed, into []routing.Chance) {
	for i := range into {
		into[i] = routing.Chance{Share: t.Candidates[i].Share}
	}
}

// spot is where the sums of a candidate are.
func (r *Replay) spot(m *replayModel, c *hearth.RoutedTerms) (*spot, error) {
	s := m.byID[c.Endpoint]
	if s == nil {
		if r.spots == maxReplaySpots {
			return nil, fmt.Errorf("there are more than %d endpoints in the records; choose a model (--model)", maxReplaySpots)
		}
		r.spots++
		s = &spot{id: c.Endpoint, place: int32(len(m.spots)), under: make([]*lot, len(r.policies))}
		m.spots, m.byID[c.Endpoint] = append(m.spots, s), s
	}
	for _, room := range [...]float64{c.Cap, c.Knee} {
		if room > 0 && (s.room == 0 || room < s.room) {
			s.room = room
		}
	}
	return s, nil
}

func (s *spot) lot(policy int) *lot {
	if s.under[policy] == nil {
		s.under[policy] = &lot{}
	}
	return s.under[policy]
}

// learn notes how what was expected of a chosen endpoint came true.
func (s *spot) learn(m *replayModel, f *fate, group int) {
	q := f.expected(f.chosen, f.tier.Candidates[f.chosen].Warm)
	b := &s.base[group]
	b.listed += listed(&f.tier.Candidates[f.chosen])
	for k := range quantities {
		if f.has[k] {
			b.n[k]++
			b.got[k] += f.got[k] - f.before[k]
			b.expected[k] += q[k]
		}
	}
	if f.has[first] && q[first] > 0 {
		ratio := f.got[first] / (q[first] + f.before[first])
		s.ratio.add(ratio, 1)
		m.ratio.add(ratio, 1)
	}
}

// would counts a candidate with the chance that the policy gives it.
func (l *lot) would(f *fate, i int, c routing.Chance, unknown bool, group int) {
	g := &l.groups[group]
	g.listed += c.Share * listed(&f.tier.Candidates[i])
	cold, warm := f.expected(i, false), f.expected(i, true)
	for k := range quantities {
		if f.has[k] {
			g.direct[k] += (c.Share-c.Warm)*cold[k] + c.Warm*warm[k]
		}
	}
	l.mass += c.Share
	if unknown {
		l.unknown += c.Share
	}
	if f.has[first] {
		l.expectedWait.add(cold[first]+f.before[first], c.Share-c.Warm)
		l.expectedWait.add(warm[first]+f.before[first], c.Warm)
	}
}

// did counts what happened where the policy could have chosen the same.
func (l *lot) did(f *fate, weight float64, group int) {
	if weight > heaviest {
		weight = heaviest
		l.clipped += weight
	}
	g := &l.groups[group]
	q := f.expected(f.chosen, f.tier.Candidates[f.chosen].Warm)
	for k := range quantities {
		if f.has[k] {
			g.weight[k] += weight
			g.got[k] += weight * (f.got[k] - f.before[k])
			g.expected[k] += weight * q[k]
		}
	}
	l.weight += weight
	l.square += weight * weight
}
