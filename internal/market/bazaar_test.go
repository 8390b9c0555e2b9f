package market

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth/internal/routing"
)

// fixed sends everything to the first endpoint.
type fixed struct{ how []ending }

func (*fixed) order(*Arrival, int, float64) []int                         { return []int{0} }
func (*fixed) again(*Arrival, int, []int, float64) []int                  { return nil }
func (*fixed) sent(*Arrival, *try, float64) bool                          { return true }
func (*fixed) first(*try, float64)                                        {}
func (p *fixed) ended(_ *Arrival, _ *try, e ending, _ bool, _, _ float64) { p.how = append(p.how, e) }
func (*fixed) listed([]Listing, float64) error                            { return nil }
func (*fixed) beat(float64)                                               {}

func TestBazaar_Room(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		room          float64
		queue         int
		bucket, burst float64
		all           []Arrival
		limited       int
	}{
		{"what is beyond the room and the queue is refused", 3, 2, 0, 0, at0(10), 5},
		{"without a queue what is beyond the room is refused", 4, 0, 0, 0, at0(10), 6},
		{"a bucket takes a burst and no more", 100, 0, 1, 3, at0(10), 7},
		{"a bucket fills again", 100, 0, 1, 3, append(at0(5), Arrival{At: 2.5, In: 10, Out: 10}), 2},
		{"room for all", 10, 0, 0, 0, at0(10), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, list := twins(1, c.room, 1, Chats(1), 10)
			w.arrivals, w.tally = c.all, newTally(list, c.all, 10)
			p, b := w.places[0], &fixed{}
			p.truth.queue, p.bucket, p.burst, p.tokens, p.errors = c.queue, c.bucket, c.burst, c.burst, 0
			w.buyer = b
			w.run(t.Context())
			n := map[ending]int{}
			for _, e := range b.how {
				n[e]++
			}
			want := map[ending]int{answered: len(c.all) - c.limited}
			if c.limited > 0 {
				want[limited] = c.limited
			}
			if d := cmp.Diff(want, n); d != "" {
				t.Error(d)
			}
		})
	}
}

// at0 are n requests at the same moment.
func at0(n int) []Arrival {
	list := make([]Arrival, n)
	for i := range list {
		list[i] = Arrival{In: 10, Out: 600}
	}
	return list
}

func TestRun_Conservation(t *testing.T) {
	t.Parallel()
	for _, policy := range append(Policies(), Thrifty) {
		t.Run("every request is answered or lost once under "+policy, func(t *testing.T) {
			t.Parallel()
			s := &Scenario{Name: "storm", Endpoints: 5, Shape: Typical(), Load: bursty(Agents(2)), Seconds: 900, Tight: 0.8, Storm: 5}
			w, list, seed := s.world(3)
			tries, _ := watched(t, w, list, policy, seed, routing.Options{}, nil)
			done, tried := make([]int, len(w.arrivals)), make([]int, len(w.arrivals))
			for i := range tries {
				q := &tries[i]
				if tried[q.request]++; q.how != answered {
					continue
				}
				done[q.request]++
				a, l := &w.arrivals[q.request], &list[q.endpoint]
				if q.cached < 0 || q.cached >= a.In {
					t.Fatalf("%d of %d tokens are cached", q.cached, a.In)
				}
				want := float64(a.In)*l.In/1e6 - float64(q.cached)*(l.In-l.Cache)/1e6 + float64(a.Out)*l.Out/1e6
				if math.Abs(q.cost-want) > 1e-9*want {
					t.Fatalf("billed %g, not %g", q.cost, want)
				}
			}
			answers, lost, counted := 0, 0, 0
			for i := range done {
				if done[i] > 1 || tried[i] > maxTries {
					t.Fatalf("request %d was answered %d times in %d tries", i, done[i], tried[i])
				}
				if w.arrivals[i].At >= w.tally.from {
					counted++
					answers += done[i]
					lost += 1 - done[i]
				}
			}
			if got, want := [3]int{w.tally.requests, w.tally.done, w.tally.lost}, [3]int{counted, answers, lost}; got != want || w.tally.open != 0 {
				t.Errorf("requests, answered, lost: %v, not %v; %d are open", got, want, w.tally.open)
			}
			for i, p := range w.places {
				if p.working != 0 || len(p.queue) != 0 {
					t.Errorf("endpoint %d still works on %d and %d wait", i, p.working, len(p.queue))
				}
			}
		})
	}
}

func TestRun_Seed(t *testing.T) {
	t.Parallel()
	s := &Scenario{Name: "seed", Endpoints: 6, Shape: Typical(), Load: Agents(2), Seconds: 900, Tight: 0.8, Storm: 3, PriceCut: true, Newcomer: true}
	play := func(t *testing.T, policy string, seed uint64) Figures {
		t.Helper()
		f, err := Run(t.Context(), s, policy, seed, routing.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, policy := range Policies() {
		t.Run("the same seed gives the same figures under "+policy, func(t *testing.T) {
			t.Parallel()
			a := play(t, policy, 5)
			if d := cmp.Diff(a, play(t, policy, 5), cmp.AllowUnexported(Figures{})); d != "" {
				t.Error(d)
			}
			if b := play(t, policy, 6); cmp.Equal(a, b, cmp.AllowUnexported(Figures{})) {
				t.Error("another seed gives the same figures")
			}
		})
	}
	t.Run("the world does not depend on the policy", func(t *testing.T) {
		t.Parallel()
		type look struct{ Room, Slow, Bad, First, Speed float64 }
		worlds := map[string][]look{}
		for _, policy := range []string{RoutingCost, ByPrice, Random} {
			w, list, seed := s.world(7)
			w.script = append(w.script, change{800, func(w *bazaar) error {
				for i, p := range w.places {
					q := &try{request: 9, endpoint: i}
					worlds[policy] = append(worlds[policy], look{p.places(w.now), p.slowness(w.now), p.badCalls(w.now), p.first(w.chance, q, 500, 0.5, w.now), p.speed(w.chance, q, 0.5, w.now)})
				}
				return nil
			}})
			watched(t, w, list, policy, seed, routing.Options{}, nil)
		}
		if len(worlds[ByPrice]) != s.Endpoints {
			t.Fatalf("%d looks", len(worlds[ByPrice]))
		}
		for _, policy := range []string{RoutingCost, Random} {
			if d := cmp.Diff(worlds[ByPrice], worlds[policy]); d != "" {
				t.Errorf("%s: %s", policy, d)
			}
		}
	})
	t.Run("scenarios with the same seed are different markets", func(t *testing.T) {
		t.Parallel()
		other := *s
		other.Name = "another"
		_, a, _ := s.world(1)
		_, b, _ := other.world(1)
		if cmp.Equal(a, b) {
			t.Error("they are the same")
		}
	})
	t.Run("it ends when it is told to", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := Run(ctx, s, Random, 1, routing.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestBazaar_Cache(t *testing.T) {
	t.Parallel()
	w, _ := twins(1, 10, 1, Chats(1), 10)
	p := w.places[0]
	p.replica, p.keep = 1, 300
	a := &Arrival{In: 1000, prefix: []block{{1, 400}, {2, 500}, {3, 100}}}
	look := func(a *Arrival, now float64) int { return p.lookup(w.chance, a, &try{}, now) }
	for _, c := range []struct {
		name string
		a    *Arrival
		now  float64
		want int
	}{
		{"a new prompt", a, 0, 0},
		{"the same again, but for its last token", a, 10, 999},
		{"only leading blocks count", &Arrival{In: 700, prefix: []block{{1, 400}, {9, 200}, {3, 100}}}, 20, 400},
		{"after the time for which it is kept", a, 330, 0},
	} {
		if got := look(c.a, c.now); got != c.want {
			t.Errorf("%s: %d cached, not %d", c.name, got, c.want)
		}
	}
	if p.replica = 0; look(a, 331) != 0 {
		t.Error("a machine that has not seen the prompt has it cached")
	}
}
