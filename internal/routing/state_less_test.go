package routing

import (
	"math"
	"testing"
)

// What is counted or measured cannot be less than nothing. A state that says so is left out: with a prompt of less than no
// tokens no price list would be found.
func TestState_LessThanNothing(t *testing.T) {
	w := talk(t, 1, 6, twins()...)
	for name, spoil := range map[string]func(*State){
		"prompts":            func(s *State) { s.Models[0].Means.In = -1e9 },
		"estimates of them":  func(s *State) { s.Models[0].Means.Guess = -1e4 },
		"answers":            func(s *State) { s.Models[0].Means.Out = -1e9 },
		"length of prompts":  func(s *State) { s.Endpoints[0].Learned.Slow.Scale = -1e9 },
		"seconds":            func(s *State) { s.Endpoints[0].Learned.Slow.Secs = -1e9 },
		"hits":               func(s *State) { s.Endpoints[0].Learned.Warm.Part = -1e9 },
		"bills":              func(s *State) { s.Endpoints[0].Learned.Bills.Of = -1 },
		"tokens of sessions": func(s *State) { s.Sessions[0].Prefix, s.Sessions[0].Out = -1e9, -1e9 },
	} {
		s := w.State(w.time())
		spoil(&s)
		r := NewRouter(w.cat, Options{Kappa: 0.7}, w.time())
		r.Restore(s, w.time())
		a, why := w.bazaar.ask(), make([]Terms, 2)
		a.Session = s.Sessions[0].Key
		if d := r.Order(&a, w.tier(0), why, w.time()); d.Place < 0 || !(d.Share >= 0 && d.Share <= 1) {
			t.Errorf("%s: %+v", name, d)
		}
		for _, x := range why {
			if !(x.R > 0) || math.IsInf(x.R, 0) || !(x.Price > 0 && x.Wait > 0 && x.Decode > 0) || x.Cached < 0 {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
	good := w.State(w.time())
	for _, e := range good.Endpoints {
		if !e.sane() {
			t.Errorf("%+v is left out", e)
		}
	}
	for _, m := range good.Models {
		if !m.sane() {
			t.Errorf("%+v is left out", m)
		}
	}
}
