package routing

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// State is all that a router has learned, for the next start of the program. Times in it are in seconds since At, so they
// are negative.
type State struct {
	At        time.Time       `json:"at"`
	Endpoints []EndpointState `json:"endpoints,omitzero"`
	Models    []ModelState    `json:"models,omitzero"`
	Sessions  []SessionState  `json:"sessions,omitzero"`
}

// EndpointState is what is known of an endpoint.
type EndpointState struct {
	ID      string   `json:"id"` // Endpoint.ID
	Learned estimate `json:"learned"`
}

// ModelState is what is known of a model besides its endpoints.
type ModelState struct {
	ID      string  `json:"id"`
	Means   means   `json:"means"`
	Budget  float64 `json:"budget"` // tries for the sake of knowing that may be made
	Premium premium `json:"premium"`
}

func (m *ModelState) shift(by float64) {
	m.Means.At += by
	m.Premium.Paid.At += by
	m.Premium.Stepped += by
}

// SessionState is where the cache of a session is.
type SessionState struct {
	Key      uint64  `json:"key,string"`
	Endpoint string  `json:"endpoint"` // Endpoint.ID
	At       float64 `json:"at"`       // when it answered last
	Prefix   float64 `json:"prefix"`   // tokens that its cache may hold
	Out      float64 `json:"out"`      // tokens of the answers, their sum
	Answers  float64 `json:"answers"`
	Armed    bool    `json:"armed"`
}

// times are all fields that hold a time; 0 in one of them is never, or since ever.
func (e *estimate) times() []*float64 {
	return []*float64{
		&e.Fast.At, &e.Slow.At, &e.TTFTSlope.At, &e.RestSlope.At, &e.Tools.At, &e.ToolsFast.At, &e.Warm.At, &e.Cold.At,
		&e.Written.At, &e.Bills.At, &e.Limit.Last, &e.Limit.Faded, &e.Limit.Begun, &e.Limit.Until, &e.Knee.Late,
		&e.Breaker.Until, &e.Breaker.Shut, &e.Flag.Since, &e.Flag.Tests.At, &e.Tried, &e.Better,
	}
}

func (e *estimate) shift(by float64) {
	for _, t := range e.times() {
		if *t != 0 {
			*t += by
		}
	}
}

// State copies what was learned. Endpoints that were never tried are not in it.
func (r *Router) State(now time.Time) State {
	at := r.secs(now)
	s := State{At: now}
	for _, k := range r.markets {
		for _, e := range k.ends {
			e.mu.Lock()
			known := e.estimate
			e.mu.Unlock()
			if known.Tried != 0 || known.Flag.Benchmark {
				known.shift(-at)
				s.Endpoints = append(s.Endpoints, EndpointState{e.id, known})
			}
		}
		m := k.model
		m.mu.Lock()
		if m.N > 0 || m.Outs > 0 {
			known := ModelState{m.id, m.means, m.budget, m.premium}
			known.shift(-at)
			s.Models = append(s.Models, known)
		}
		m.mu.Unlock()
	}
	s.Sessions = r.warmest(at)
	return s
}

// sessionsKept bounds the sessions of a State: those used last.
const sessionsKept = 8192

// warmest are the sessions whose cache is warm, those used last first.
func (r *Router) warmest(at float64) []SessionState {
	var out []SessionState
	r.sessions.each(func(key uint64, known session) {
		if at-known.at <= warmFor {
			out = append(out, SessionState{key, known.end.id, known.at - at, known.prefix, known.out, known.n, known.armed})
		}
	})
	slices.SortFunc(out, func(a, b SessionState) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Key, b.Key))
	})
	return out[:min(len(out), sessionsKept)]
}

// Restore takes over what an earlier router had learned, for those of its endpoints and models that are still there. It is
// for a router that has not been used. What makes no sense is left out.
func (r *Router) Restore(s State, now time.Time) {
	by := r.secs(now) - max(now.Sub(s.At).Seconds(), 0)
	ends, models := map[string]*end{}, map[string]*model{}
	for _, k := range r.markets {
		models[k.model.id] = k.model
		for _, e := range k.ends {
			ends[e.id] = e
		}
	}
	for i := range s.Endpoints {
		if e := ends[s.Endpoints[i].ID]; e != nil && s.Endpoints[i].sane() {
			r.restore(e, s.Endpoints[i].Learned, by)
		}
	}
	for _, known := range s.Models {
		if m := models[known.ID]; m != nil && known.sane() {
			m.mu.Lock()
			known.shift(by)
			m.means, m.budget, m.premium = known.Means, known.Budget, known.Premium
			m.mu.Unlock()
		}
	}
	for _, known := range s.Sessions {
		if e := ends[known.Endpoint]; e != nil && known.sane() {
			r.sessions.put(known.Key, session{e, known.At + by, known.Prefix, known.Out, known.Answers, known.Armed})
		}
	}
	for _, k := range r.markets {
		r.refresh(k, now)
	}
}

func (r *Router) restore(e *end, known estimate, by float64) {
	known.shift(by)
	e.mu.Lock()
	defer e.mu.Unlock()
	if known.Breaker.Until != 0 && e.Breaker.Until == 0 {
		r.open.Add(1)
	}
	e.estimate = known
	e.cool.Store(toNanos(known.Limit.Until))
	if e.shut.Store(0); known.Breaker.Until != 0 {
		e.shut.Store(max(toNanos(known.Breaker.Until), 1))
	}
	if known.Tried != 0 {
		e.sent.Store(max(toNanos(known.Tried), 1))
	}
}

// saneMost bounds every number in a state: it is more than any sum of tokens or of seconds.
const saneMost = 1e15

// sane says whether all numbers can be those of an endpoint.
func (s EndpointState) sane() bool {
	amounts := s.Learned
	for _, t := range amounts.times() {
		*t = 0
	}
	for _, r := range []*slope{&amounts.TTFTSlope, &amounts.RestSlope} {
		r.Y, r.XY = 0, 0 // faster than expected is less than 0
	}
	return bounded(reflect.ValueOf(s), -saneMost) && bounded(reflect.ValueOf(amounts), 0)
}

// sane says whether all numbers can be those of a model.
func (m ModelState) sane() bool {
	amounts := m
	amounts.Budget, amounts.Means.At, amounts.Premium.Paid.At, amounts.Premium.Stepped = 0, 0, 0, 0
	return bounded(reflect.ValueOf(m), -saneMost) && bounded(reflect.ValueOf(amounts), 0)
}

// sane says whether all numbers can be those of a session.
func (s SessionState) sane() bool {
	amounts := s
	amounts.At = 0
	return bounded(reflect.ValueOf(s), -saneMost) && bounded(reflect.ValueOf(amounts), 0)
}

// bounded says whether all numbers in v are from least to saneMost.
func bounded(v reflect.Value, least float64) bool {
	switch v.Kind() {
	case reflect.Float64:
		return v.Float() >= least && v.Float() <= saneMost // not if it is no number
	case reflect.Struct:
		for i := range v.NumField() {
			if !bounded(v.Field(i), least) {
				return false
			}
		}
	}
	return true
}
