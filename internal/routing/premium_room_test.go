package routing

import (
	"math"
	"testing"
	"time"
)

// Of two that cost 1 and 2, and take 10 s for an answer, the first takes two requests at once.
func TestPremium_Full(t *testing.T) {
	var m priceMix
	v := &view{rows: []row{{mixCap: 2, levels: levels{slowTTFT: 10}}, {mixCap: 100, levels: levels{slowTTFT: 10}}}}
	lots := []lot{{row: 0, price: 1}, {row: 1, price: 2}}
	both := (1 + 2.0/4) / 1.25
	for i, c := range []struct {
		now, drawn, price float64
		first, second     float64 // under way afterwards
	}{
		{0, 0.79, both, 1, 0},
		{0, 0.81, both, 1, 1},
		{0, 0, both, 2, 1},
		{0, 0, both, 2, 2}, // refused: the dearer one gets it, and the cheap one rests
		{1, 0, 2, 2, 2*math.Exp(-0.1) + 1},
		{29.9, 0, 2, 2, 2*math.Exp(-2.99) + math.Exp(-2.89) + 1},
		{30, 0, both, 2*math.Exp(-3) + 1, 2*math.Exp(-3) + math.Exp(-2.9) + math.Exp(-0.01)},
	} {
		price, ok := m.send(lots, v, c.now, c.drawn, 1)
		if !ok || !near(price, c.price, 1e-9) || !near(m[0].flight, c.first, 1e-9) || !near(m[1].flight, c.second, 1e-9) {
			t.Errorf("%d: price %v, under way %v and %v; want %+v (%v)", i, price, m[0].flight, m[1].flight, c, ok)
		}
	}
	v.rows[1].mixCap = math.Inf(1)
	for range 9 {
		if m.send(lots, v, 30, 0.99, 1); m[1].flight > 1 {
			t.Errorf("%v are counted where there is always room", m[1].flight)
		}
	}
	m[0].until, m[1].until = 60, 60
	if price, ok := m.send(lots, v, 31, 0, 1); ok {
		t.Errorf("all are left alone, and yet there is a price of %v", price)
	}
	if _, ok := m.send(lots, v, 1, 0, 1); !ok {
		t.Error("a clock that was set back keeps all of them out")
	}
	// Where the cheapest is full too, who is refused goes to the cheapest with room.
	m, v.rows = nil, []row{{mixCap: 0.5}, {mixCap: 0.5}, {mixCap: 1}, {mixCap: 1}}
	m.send([]lot{{row: 0, price: 1}, {row: 1, price: 1}, {row: 2, price: 3}, {row: 3, price: 2}}, v, 0, 0, 1)
	if m[0].flight+m[1].flight+m[2].flight != 0 || m[3].flight != 1 || m[0].until != mixRest || m[1].until != 0 {
		t.Errorf("%+v", m)
	}
}

// Who would fail is left alone like who would refuse: as often as tries fail there. The request goes to the cheapest other.
func TestPremium_Failing(t *testing.T) {
	v := &view{rows: []row{{mixCap: 9, errors: 0.2}, {mixCap: 9}, {mixCap: 9}}}
	lots := []lot{{row: 0, price: 1}, {row: 1, price: 3}, {row: 2, price: 2}}
	for luck, want := range map[float64][4]float64{0.21: {1, 0, 0, 0}, 0.19: {0, 0, 1, 50 + mixRest}} {
		var m priceMix
		m.send(lots, v, 50, 0, luck)
		if got := [...]float64{m[0].flight, m[1].flight, m[2].flight, m[0].until}; got != want {
			t.Errorf("luck %v: %v, want %v", luck, got, want)
		}
	}
	var m priceMix
	m.send(lots[:1], v, 50, 0, 0)
	if m[0].flight != 0 || m[0].until == 0 {
		t.Errorf("%+v: it has failed, and there is no other", m)
	}
}

// What price alone would pay does not follow from what is under way here.
func TestPremium_OwnLoad(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 2, out: 6})
	a := b.ask()
	for range 50 {
		b.Begin(&a, 0, Share, b.now)
	}
	b.pass(time.Minute)
	b.edit(func(v *view) { v.rows[0].mixCap = 10 })
	before := b.markets[0].model.premium.Paid
	try := b.Begin(&a, 1, Share, b.now)
	after := b.markets[0].model.premium.Paid
	before.fade(b.now.Sub(began).Seconds(), premiumHalf)
	if part := (after.Part - before.Part) / (after.Of - before.Of); !near(part, 2/1.2, 0.01) {
		t.Errorf("%.3f of the mix", part)
	}
	try.Done(Result{Outcome: Unjudged}, b.now)
	b.markets[0].ends[0].shut.Store(1)
	before = b.markets[0].model.premium.Paid
	b.Begin(&a, 1, Share, b.now)
	after = b.markets[0].model.premium.Paid
	if part := (after.Part - before.Part) / (after.Of - before.Of); !near(part, 1, 0.01) {
		t.Errorf("with the cheap one out: %.3f of the mix", part)
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
