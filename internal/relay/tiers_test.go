package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/slot"
)

// tiered is an own slot that loads for so long, and a provider behind it, for a model with a tier mode.
func tiered(t *testing.T, mode hearth.TierMode, load time.Duration) *scene {
	own := part{local: true, load: load, serve: answers, edit: func(e *hearth.Endpoint) {
		e.Model.TierMode, e.Model.SpillAfter, e.List = mode, 3*time.Second, hearth.Price{}
	}}
	s := stage(t, Options{ByCost: true}, own, good)
	s.relay.router = routing.NewRouter(s.cat, routing.Options{}, time.Now())
	return s
}

// Where slots may be passed over, a request does not wait for one that sleeps: the next endpoint serves it at once, and
// the slot is started for those that come later.
func TestTierMode(t *testing.T) {
	const load = 20 * time.Second
	for _, mode := range []hearth.TierMode{hearth.TierSpill, hearth.TierCost} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tiered(t, mode, load)
				a := s.ask(t.Context(), chat(""))
				g := s.record(a.id)
				if words(g.Attempts) != "200" || g.Slug != "p1" || a.took > time.Second {
					t.Fatalf("served by %q after %v: %s, %v", g.Slug, a.took, words(g.Attempts), a.err)
				}
				<-time.After(time.Second)
				if v := s.fleet.View(s.cat.Slots[0]); v.State != hearth.SlotStarting || v.Waiting != 0 {
					t.Fatalf("the slot is %v", v.State)
				}
				<-time.After(load / 2) // the slot is on its way
				if g := s.record(s.ask(t.Context(), chat("")).id); g.Slug != "p1" {
					t.Errorf("served by %q while the slot loads", g.Slug)
				}
				<-time.After(load)
				if g := s.record(s.ask(t.Context(), chat("")).id); g.Slug != hearth.LocalSlug || words(g.Attempts) != "200" {
					t.Errorf("served by %q when it is up: %s", g.Slug, words(g.Attempts))
				}
				synctest.Wait()
				if v := s.fleet.View(s.cat.Slots[0]); v.Loads != 1 || v.Inflight+v.Waiting != 0 {
					t.Errorf("afterwards the slot has %d loads, %d requests", v.Loads, v.Inflight+v.Waiting)
				}
				s.must(s.fleet.Order(t.Context(), slot.Order{Slot: "slot-0", Verb: slot.Sleep}))
				<-time.After(time.Minute)
				if g := s.record(s.ask(t.Context(), chat("")).id); g.Slug != "p1" {
					t.Errorf("served by %q when it sleeps again", g.Slug)
				}
				<-time.After(2 * load) // now that a load was measured, what is counted is the vote
				if v := s.fleet.View(s.cat.Slots[0]); v.State != hearth.SlotReady || v.Loads != 2 {
					t.Errorf("afterwards the slot is %v after %d loads", v.State, v.Loads)
				}
			})
		})
	}
	t.Run("strict waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := tiered(t, hearth.TierStrict, load)
			a := s.ask(t.Context(), chat(""))
			if g := s.record(a.id); g.Slug != hearth.LocalSlug || a.took < load {
				t.Errorf("served by %q after %v", g.Slug, a.took)
			}
		})
	})
	t.Run("a failure elsewhere leads back to the slot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := tiered(t, hearth.TierSpill, load)
			s.peers[1].plays(boom.serve)
			a := s.ask(t.Context(), chat(""))
			if g := s.record(a.id); words(g.Attempts) != "500 200" || a.took < load {
				t.Errorf("%s after %v: %v", words(g.Attempts), a.took, a.err)
			}
		})
	})
}

// What is explained is what would happen, and nobody is called and nothing started for it.
func TestTierMode_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tiered(t, hearth.TierCost, time.Minute)
		x, err := s.relay.Explain([]byte(chat("")), s.key, "", "")
		if err != nil || len(x.Chain.Candidates) != 2 {
			t.Fatalf("%+v, %v", x.Chain, err)
		}
		if c := x.Chain.Candidates; c[0].Endpoint.Local() || !c[1].Spilled {
			t.Errorf("%s because of %q, then %s because of %q", c[0].Endpoint.ID, c[0].Reason, c[1].Endpoint.ID, c[1].Reason)
		}
		synctest.Wait()
		if v := s.fleet.View(s.cat.Slots[0]); v.State != hearth.SlotAsleep {
			t.Errorf("the slot is %v", v.State)
		}
	})
}
