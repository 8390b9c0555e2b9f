package routing

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestAtOnce: requests go on while views are made, while what is known is copied, and while one configuration follows
// another. It is for the race detector; and nothing may be lost or become nonsense.
func TestAtOnce(t *testing.T) {
	now := time.Now()
	cat := raceCatalog(t, 5)
	same := make([]int, len(cat.Endpoints))
	for i := range same {
		same[i] = i
	}
	r := NewRouter(cat, Options{MaxPremium: 0.1}, now)
	first := NewRouter(cat, Options{}, now)
	try := first.Begin(&Ask{In: 10, Session: 7, Explicit: true}, 1, Share, now)
	try.Done(Result{In: 10, Out: 10}, now.Add(time.Second))
	r.Restore(first.State(now.Add(time.Second)), now)
	var newest atomic.Pointer[Router]
	newest.Store(r)
	var requests, others sync.WaitGroup
	over := make(chan struct{})
	var tries atomic.Int64
	for g := range 4 {
		requests.Go(func() {
			tier := make([]hearth.Candidate, len(cat.Endpoints))
			why := make([]Terms, len(tier))
			for n := range 400 {
				r, at := newest.Load(), now.Add(time.Duration(n)*10*time.Millisecond)
				for i, e := range cat.Endpoints {
					tier[i] = hearth.Candidate{Endpoint: e}
				}
				ask := Ask{Draw: uint64(n*7 + g), Session: uint64(n%20 + 1), Explicit: true, In: 100, Stream: n%2 == 0, Tools: n%3 == 0}
				d := r.Order(&ask, tier, why, at)
				r.Warm(&ask, tier, at)
				r.Health(make([]hearth.EndpointHealth, len(tier)), at)
				try := r.Begin(&ask, d.Endpoint, d.Reason, at)
				tries.Add(1)
				try.First(at.Add(time.Millisecond))
				try.Done(Result{Outcome: Outcome(n % 5 % 4), In: 100, Out: 50}, at.Add(2*time.Millisecond))
				r.Judge(d.Endpoint, 1, n%2, at)
			}
		})
	}
	loop := func(f func(n int, at time.Time)) {
		others.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
					f(n, now.Add(time.Duration(n%400)*10*time.Millisecond))
				}
			}
		})
	}
	loop(func(_ int, at time.Time) { newest.Load().Refresh(at) })
	loop(func(_ int, at time.Time) { newest.Load().State(at); newest.Load().Mark() })
	loop(func(n int, at time.Time) {
		newest.Load().Flag(n%len(same), n%2 == 0)
		newest.Store(newest.Load().Next(cat, same, Options{Kappa: 1}, at))
		newest.Load().Overview("m", at)
	})
	requests.Wait()
	close(over)
	others.Wait()
	r = newest.Load()
	seen := 0.0
	for _, k := range r.markets {
		for _, e := range k.ends {
			if n := e.flight.Load(); n != 0 || e.waiting != (waiting{}) {
				t.Errorf("%s: %d requests under way, %+v", e.id, n, e.waiting)
			}
			seen += e.Slow.Sent
		}
		if n := k.model.firsts.Load(); n < tries.Load() || n > tries.Load()+1 {
			t.Errorf("%d first attempts are counted, of %d", n, tries.Load())
		}
	}
	// Eight of the twenty sessions get answers, and one had its own before.
	if !(seen > 1) || math.IsNaN(seen) || len(r.State(now.Add(time.Minute)).Sessions) != 9 {
		t.Errorf("%g tries are remembered, %d sessions", seen, len(r.State(now.Add(time.Minute)).Sessions))
	}
}

// raceCatalog has one model at n endpoints.
func raceCatalog(t *testing.T, n int) *hearth.Catalog {
	t.Helper()
	m := &hearth.Model{ID: "m"}
	cat := &hearth.Catalog{Currency: "USD", Models: []*hearth.Model{m}}
	for i := range n {
		p := &hearth.Provider{Slug: string(rune('a' + i)), Kind: hearth.External, Currency: "USD"}
		cat.Providers = append(cat.Providers, p)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: m, Provider: p, Tag: p.Slug, UpstreamModel: "m", Priority: 50})
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	return cat
}
