package routing

import (
	"testing"
	"time"
)

// An endpoint has less of the mix the nearer it is to its cap, and nothing while it takes nobody.
func TestPremium_Takes(t *testing.T) {
	for _, c := range []struct {
		name   string
		flight int64
		do     func(*end)
		want   float64
	}{
		{"roomy", 7, nil, 1},
		{"nearly full", 8, nil, 2.0 / 3},
		{"one more goes in", 9, nil, 1.0 / 3},
		{"full", 10, nil, 0},
		{"shut", 0, func(e *end) { e.shut.Store(1) }, 0},
		{"cooling", 0, func(e *end) { e.cool.Store(1000) }, 0},
		{"cool", 0, func(e *end) { e.cool.Store(100) }, 1},
	} {
		e := new(end)
		e.flight.Store(c.flight)
		if c.do != nil {
			c.do(e)
		}
		r := row{end: e, cap: 10, perCap: 0.1}
		if got := r.takes(100); !near(got, c.want, 1e-9) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The mix has the cache of a session as often as it would have sent the request before to the same endpoint: of two alike,
// every second time.
func TestPremium_MixOfASession(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3, cached: 0.1}, offer{in: 1, out: 3, cached: 0.1})
	a := b.ask()
	a.Session, a.Explicit = 7, true
	b.serve(a, 0, Share, time.Second, 50)
	a = b.ask()
	a.Session, a.Explicit = 7, true
	tier := b.tier(0)
	why := make([]Terms, len(tier))
	b.Order(&a, tier, why, b.now)
	warm, cold := why[0].Price, why[1].Price
	if why[0].Endpoint != 0 || !(warm < 0.95*cold) {
		t.Fatalf("the session's cache saves nothing: %v, %v elsewhere", warm, cold)
	}
	m := b.markets[0].model
	before := m.premium.Paid
	try := b.Begin(&a, 0, Stick, b.now)
	try.Done(Result{Outcome: Unjudged}, b.now)
	after := m.premium.Paid
	before.fade(b.now.Sub(began).Seconds(), premiumHalf)
	if part, of := after.Part-before.Part, after.Of-before.Of; !near(part, warm, 1e-6*cold) || !near(of, (warm+cold)/2, 1e-6*cold) {
		t.Errorf("paid %v, in the mix %v; want %v and %v", part, of, warm, (warm+cold)/2)
	}
}
