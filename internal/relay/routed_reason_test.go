package relay

import (
	"fmt"
	"math"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/health"
	"myip.co.kr/hearth/internal/routing"
	"myip.co.kr/hearth/internal/upstream"
)

// ranks orders the market's tier for a request under an id.
func (w *world) ranks(t *testing.T, x *routed, id string) (tier []hearth.Candidate) {
	t.Helper()
	for _, e := range w.relay.catalog.Endpoints {
		tier = append(tier, hearth.Candidate{Endpoint: e})
	}
	in := chain.Input{Request: &hearth.Request{Models: []string{model}, Estimate: 100}, Key: w.key, Views: chain.Views{Catalog: w.relay.catalog}, Now: time.Now()}
	w.relay.route(&in, x, id)
	w.relay.rank(x, tier)
	return tier
}

// TestRank_Maker: where the chain puts the maker of the history first nothing is drawn: the others follow by cost, the record
// has no choice, and the router hears of none.
func TestRank_Maker(t *testing.T) {
	w := newMarket(t, 4, nil)
	first := map[int]bool{}
	for i := range 30 {
		x := &routed{maker: chain.Maker{Provider: w.relay.catalog.Endpoints[3].Provider.Slug}, explained: i%2 == 1}
		if x.explained {
			x.terms = map[int]routing.Terms{}
		}
		tier := w.ranks(t, x, fmt.Sprint("gen-", i))
		first[tier[0].Endpoint.Index] = true
		if len(x.tiers) != 0 || x.noted() != nil || x.reason(tier[0].Endpoint) != routing.Only {
			t.Fatalf("%+v is remembered, %+v noted", x.tiers, x.noted())
		}
		x.forget()
	}
	if len(first) != 1 {
		t.Errorf("drawn: %v", first)
	}
}

// TestRank_Explained: what an explanation shows goes by what is most likely, and then by cost, whatever would be drawn.
func TestRank_Explained(t *testing.T) {
	w := newMarket(t, 4, nil)
	for i := range 100 {
		x := &routed{explained: true, terms: map[int]routing.Terms{}}
		tier := w.ranks(t, x, fmt.Sprint("gen-", i))
		if tier[0].Reason != string(routing.Share) && tier[0].Reason != string(routing.Explore) {
			t.Errorf("first because of %q", tier[0].Reason)
		}
		for i := range tier {
			a := x.terms[tier[i].Endpoint.Index]
			if a.Share > x.terms[tier[0].Endpoint.Index].Share {
				t.Errorf("the first has %v, another one %v", x.terms[tier[0].Endpoint.Index].Share, a.Share)
			}
			if i > 1 && x.terms[tier[i-1].Endpoint.Index].R > a.R {
				t.Errorf("place %d costs %v, the one before it %v", i, a.R, x.terms[tier[i-1].Endpoint.Index].R)
			}
		}
	}
}

// TestRank_Explores: only the first tier of a request is explored.
func TestRank_Explores(t *testing.T) {
	w := newMarket(t, 4, nil)
	again := 0
	for i := range 300 {
		x := new(routed)
		w.ranks(t, x, fmt.Sprint("gen-", i))
		x.tiers = x.tiers[:1]
		for range 2 {
			tier := make([]hearth.Candidate, 0, 4)
			for _, e := range w.relay.catalog.Endpoints {
				tier = append(tier, hearth.Candidate{Endpoint: e})
			}
			x.ask.Draw++
			w.relay.rank(x, tier)
		}
		for _, r := range x.tiers[1:] {
			if r.Reason == routing.Explore {
				again++
			}
		}
		x.forget()
	}
	if again != 0 {
		t.Errorf("%d of 600 further tiers are explored", again)
	}
}

// TestBegins: only the first try of a model is one that the mix by price is held against, whichever tier the next one is of.
func TestBegins(t *testing.T) {
	w := newMarket(t, 3, func(c *hearth.Catalog) { c.Endpoints[2].Priority = 60 })
	r, all := w.relay.router, w.relay.catalog.Endpoints
	x := &exchange{chat: &dialect.Chat{}}
	x.routed.ask.In, x.routed.ask.Out = 1000, 100
	for _, e := range all[1:] {
		x.routed.tiers = append(x.routed.tiers, ranked{e.Model, e.Priority, routing.Decision{Endpoint: e.Index, Reason: routing.Share}})
	}
	var on [2]float64
	for i, e := range all[1:] {
		try := w.relay.begins(x, e, time.Now())
		try.Done(routing.Result{Outcome: routing.Failed}, time.Now())
		on[i], _, _ = r.Premium(model, time.Now())
	}
	if on[0] == 0 || math.Abs(on[1]/on[0]-1) > 1e-9 {
		t.Errorf("over the mix by %v, and by %v after a second try", on[0], on[1])
	}
}

// TestReason: why an endpoint is tried is why its tier's first place is its own, else that those before it have failed.
func TestReason(t *testing.T) {
	m, other := &hearth.Model{ID: "a/b"}, &hearth.Model{ID: "c/d"}
	x := &routed{tiers: []ranked{{m, 50, routing.Decision{Endpoint: 1, Reason: routing.Stick}}, {m, 60, routing.Decision{Endpoint: 3, Reason: routing.Share}}}}
	for _, c := range []struct {
		e    hearth.Endpoint
		want routing.Reason
	}{
		{hearth.Endpoint{Index: 1, Model: m, Priority: 50}, routing.Stick},
		{hearth.Endpoint{Index: 2, Model: m, Priority: 50}, routing.Retry},
		{hearth.Endpoint{Index: 3, Model: m, Priority: 60}, routing.Share},
		{hearth.Endpoint{Index: 4, Model: m, Priority: 70}, routing.Only},
		{hearth.Endpoint{Index: 1, Model: other, Priority: 50}, routing.Only},
	} {
		if got := x.reason(&c.e); got != c.want {
			t.Errorf("%+v: %s, want %s", c.e, got, c.want)
		}
	}
}

// TestResult: what the router hears of an attempt.
func TestResult(t *testing.T) {
	x := &exchange{}
	o := &outcome{stream: &upstream.Stream{}}
	o.stream.Usage = hearth.Usage{PromptTokens: 100, CompletionTokens: 20, CachedTokens: 30, CacheWriteTokens: 40, Reported: true}
	o.health = health.Success
	if got, want := x.result(o), (routing.Result{Outcome: routing.Answered, In: 100, Out: 20, Cached: 30, Written: 40}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	o.stream.Usage.CachedTokens = 1000 // more than there are
	if got, want := x.result(o), (routing.Result{Outcome: routing.Answered}); got != want {
		t.Errorf("of a usage that cannot be %+v, want %+v", got, want)
	}
	o = &outcome{health: health.RateLimited}
	o.RetryAfter = 7 * time.Second
	if got, want := x.result(o), (routing.Result{Outcome: routing.Limited, RetryAfter: 7 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for h, want := range map[health.Outcome]routing.Outcome{health.KeyRefused: routing.Failed, health.Failure: routing.Failed, health.NoVerdict: routing.Unjudged} {
		if got := x.result(&outcome{health: h}); got != (routing.Result{Outcome: want}) {
			t.Errorf("%v: %+v", h, got)
		}
	}
}

// TestNote: what a record keeps of a long tier, and what of none.
func TestNote(t *testing.T) {
	w := newMarket(t, 20, nil)
	x := new(routed)
	e := w.relay.catalog.Endpoints[0]
	if x.note(w.relay, e, &routing.Decision{Place: -1, Endpoint: -1}, nil); x.noted() != nil {
		t.Errorf("%+v", x.noted())
	}
	why := make([]routing.Terms, 20)
	for i := range why {
		why[i].Endpoint, why[i].List = i, 2
	}
	why[18].List = 1
	x.note(w.relay, e, &routing.Decision{Endpoint: 0, Reason: routing.Share}, why)
	x.note(w.relay, e, &routing.Decision{Endpoint: 1, Reason: routing.Share}, why[:2])
	tiers := x.noted()
	if len(tiers) != 2 || len(tiers[0].Candidates) != hearth.MaxRouted || tiers[0].Candidates[hearth.MaxRouted-1].Endpoint != w.relay.catalog.Endpoints[18].ID || len(tiers[1].Candidates) != 2 {
		t.Errorf("%+v", tiers)
	}
	more := append(tiers[0].Candidates, hearth.RoutedTerms{Endpoint: "x"})
	if len(more) != hearth.MaxRouted+1 || tiers[1].Candidates[0].Endpoint != w.relay.catalog.Endpoints[0].ID {
		t.Error("one tier's candidates run into the next one's")
	}
	x.forget()
	if none, five := w.relay.mark(0), w.relay.mark(5); none != 0 || five == 0 || five != w.relay.mark(5) || five >= 1<<53 {
		t.Errorf("%d, %d", none, five)
	}
	long := make([]byte, maxOpening+10)
	a, b := routed{keyID: "k", opening: long[:maxOpening]}, routed{keyID: "k", opening: long}
	if m := e.Model; a.sessionOf(m) != b.sessionOf(m) || a.sessionOf(m) == (&routed{keyID: "k", opening: long[:10]}).sessionOf(m) {
		t.Error("a conversation is told from others by more than its beginning")
	}
}
