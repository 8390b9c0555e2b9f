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

// In the mix a request is under way until its last token, not its first.
func TestPremium_UnderWay(t *testing.T) {
	m := priceMix{{flight: 8}}
	v := &view{out: 100, rows: []row{{mixCap: 9, levels: levels{slowTTFT: 1, slowDecode: 0.09}}}}
	if m.send([]lot{{price: 1}}, v, 10, 0, 1); !near(m[0].flight, 8/math.E+1, 1e-9) {
		t.Errorf("%v under way", m[0].flight)
	}
	if _, ok := m.send([]lot{{price: 1e-90, saved: 1e-91}}, v, 10, 0, 1); ok {
		t.Error("prices whose squares are no numbers have a mix")
	}
}

// Every request is drawn anew in the mix, once: what is tried again after a failure is neither paid nor drawn.
func TestPremium_Draws(t *testing.T) {
	b := bazaarOf(t, offer{in: 1, out: 3}, offer{in: 2, out: 6})
	b.edit(func(v *view) { v.rows[0].mixCap, v.rows[1].mixCap, v.rows[0].errors, v.rows[1].errors = 1e6, 1e6, 0, 0 })
	for range 1000 {
		a := b.ask()
		try := b.Begin(&a, 0, Share, b.now)
		try.Done(Result{Outcome: Unjudged}, b.now)
	}
	k := b.markets[0]
	if first, second := k.mix[0].flight, k.mix[1].flight; first+second < 990 || second < 150 || second > 250 { // one in five
		t.Errorf("%v and %v under way", first, second)
	}
	before, drawn := k.model.premium.Paid, k.mix[0].flight+k.mix[1].flight
	a := b.ask()
	try := b.Begin(&a, 1, Retry, b.now)
	try.Done(Result{Outcome: Unjudged}, b.now)
	if after := k.model.premium.Paid; after != before || k.mix[0].flight+k.mix[1].flight != drawn {
		t.Errorf("%+v, before the retry %+v", after, before)
	}
}

// The ceiling that holds where none is set is the documented one.
func TestPremium_Bound(t *testing.T) {
	o := Options{MaxPremiums: map[string]float64{"m/own": 0.2, "m/none": -1}}
	for model, want := range map[string]float64{"m/m": 0.05, "m/own": 0.2, "m/none": 0} {
		if got := o.bound(model); got != want {
			t.Errorf("%s: %v, want %v", model, got, want)
		}
	}
}
