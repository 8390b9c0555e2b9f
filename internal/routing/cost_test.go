package routing

import (
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// plain is a row without surprises: 1 and 3 per million tokens.
func plain() row {
	return row{
		lists: []list{{above: -1, prompt: 1e-6, cached: 0.2e-6, completion: 3e-6}}, adjust: 1, hit: 0.5,
		levels: levels{ttft: 2, decode: 0.02, flight: 4}, perTTFT: 0.1, perRest: 0.05, knee: math.Inf(1), cap: math.Inf(1),
		fail0: 1e-5, fail1: 2e-5, tries: 1, bad: 0.1,
	}
}

// The terms, computed by hand.
func TestCost(t *testing.T) {
	v := &view{in: 1000, perToken: perToken(1000), out: 500, unit: 0.002, lambda: 1e-4}
	q := query{in: 3000, out: 400, kappa: 0.5}
	here := new(end)
	for _, c := range []struct {
		name string
		do   func(*row, *query)
		n    float64
		want Cost
	}{
		{"as usual", func(*row, *query) {}, 4, Cost{Price: 0.0042, Wait: 5e-5 * firstWeight * 2 * 2, Decode: 5e-5 * 8, Failed: 2e-5}},
		{"more load: slower", func(*row, *query) {}, 9, Cost{Price: 0.0042, Wait: 5e-5 * firstWeight * 4 * 1.5, Decode: 5e-5 * 8 * 1.25, Failed: 2e-5}},
		{"no load: not more than 2.5 times as fast", func(r *row, _ *query) { r.perTTFT, r.perRest = 1, 1 }, 0, Cost{Price: 0.0042, Wait: 5e-5 * firstWeight * 4 * 0.4, Decode: 5e-5 * 8 * 0.5, Failed: 2e-5}},
		{"a queue counts four times", func(r *row, _ *query) { r.knee, r.perQueued = 3, 1.5 }, 4, Cost{Price: 0.0042, Wait: 5e-5 * firstWeight * (4 + 4*2*1.5), Decode: 5e-5 * 8, Failed: 2e-5}},
		{"a warm cache is cheaper and faster", func(r *row, q *query) { r.end, q.warm, q.prefix, q.trust = here, here, 2000, 1 }, 4,
			Cost{Price: 2000e-6 + 1000*0.2e-6 + 0.0012, Wait: 5e-5 * firstWeight * 2 * 1.5, Decode: 5e-5 * 8, Failed: 2e-5}},
		{"a cooling cache counts three tenths", func(r *row, q *query) { r.end, q.warm, q.prefix, q.trust = here, here, 9000, 0.3 }, 4,
			Cost{Price: 2550e-6 + 450*0.2e-6 + 0.0012, Wait: 5e-5 * firstWeight * 2 * (0.5 + 2.55/2), Decode: 5e-5 * 8, Failed: 2e-5}},
		{"a warm cache elsewhere is none", func(r *row, q *query) { r.end, q.warm, q.prefix, q.trust = new(end), here, 2000, 1 }, 4,
			Cost{Price: 0.0042, Wait: 5e-5 * firstWeight * 4, Decode: 5e-5 * 8, Failed: 2e-5}},
		{"caches hold something of new prompts", func(r *row, _ *query) { r.cold = 0.1 }, 4,
			Cost{Price: 2700e-6 + 300*0.2e-6 + 0.0012, Wait: 5e-5 * firstWeight * 2 * (0.5 + 2.7/2), Decode: 5e-5 * 8, Failed: 2e-5}},
		{"writing to the cache costs", func(r *row, _ *query) { r.written = 0.5; r.lists[0].dearer = 0.25e-6 }, 4,
			Cost{Price: 0.0042 + 1500*0.25e-6, Wait: 5e-5 * firstWeight * 4, Decode: 5e-5 * 8, Failed: 2e-5}},
		{"images, requests, and bills that are not as listed", func(r *row, q *query) { r.lists[0].image, r.lists[0].request, q.images, r.adjust = 0.001, 0.002, 3, 2 }, 4,
			Cost{Price: 2 * (0.0042 + 0.005), Wait: 5e-5 * firstWeight * 4, Decode: 5e-5 * 8, Failed: 2e-5}},
		{"broken tool calls", func(_ *row, q *query) { q.tools = true }, 4,
			Cost{Price: 0.0042, Wait: 8e-4, Decode: 4e-4, Failed: 2e-5, Quality: 0.1 * (0.0042 + 12e-4 + 0.002*1.5)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, q := plain(), q
			c.do(&r, &q)
			r.usual()
			q.special = q.images > 0
			var got terms
			v.cost(&got, &r, &q, c.n)
			w := c.want
			w.R = w.Price + w.Wait + w.Decode + w.Failed + w.Quality
			for _, p := range [][2]float64{{got.Price, w.Price}, {got.Wait, w.Wait}, {got.Decode, w.Decode}, {got.Failed, w.Failed}, {got.Quality, w.Quality}, {got.R, w.R}} {
				if !near(p[0], p[1], 1e-9) {
					t.Fatalf("%+v\nwant %+v", got.Cost, w)
				}
			}
		})
	}
	t.Run("a flag doubles it, for tools only when there are some", func(t *testing.T) {
		r := plain()
		r.usual()
		var base, got terms
		v.cost(&base, &r, &q, 4)
		r.flaggedTools = true
		if v.cost(&got, &r, &q, 4); got.R != base.R {
			t.Error("a request without tools pays for the flag")
		}
		r.flaggedAll = true
		if v.cost(&got, &r, &q, 4); got.R != 2*base.R {
			t.Error("a benchmark flag concerns all")
		}
	})
}

// One in five tries fails: 1.25 tries per good answer. The penalties are in answers, at the median price.
func TestFailedTries(t *testing.T) {
	v := &view{unit: 0.01, lambda: 0.001}
	r := row{errors: 0.2}
	e := estimate{FailTime: 4}
	r.fails(&e, v)
	if !near(r.tries, 1.25, 1e-9) || !near(r.fail0, 1.25*0.2*errorPenalty*0.01, 1e-9) || !near(r.fail1, 1.25*0.2*(0.001*firstWeight*4+errorPenalty*0.01), 1e-9) {
		t.Errorf("%+v", r)
	}
	r = row{limits: 0.05}
	r.fails(&estimate{LimitTime: 0.5}, v)
	tries := 1 / 0.95
	if !near(r.fail0, tries*0.05*0.3*2*0.01, 1e-9) || !near(r.fail1, tries*0.05*(0.001*firstWeight*0.5+0.3*2*0.01), 1e-9) {
		t.Errorf("%+v", r)
	}
	r = row{errors: 0.9, limits: 0.9}
	if r.fails(&estimate{}, v); !near(r.tries, 20, 1e-9) {
		t.Errorf("%v tries", r.tries)
	}
}

// At the typical endpoint waiting costs kappa of the price, whatever the price level; without prices an hour costs what
// the operator says.
func TestValueOfTime(t *testing.T) {
	for _, price := range []float64{0.02, 1, 50, 0} {
		b := bazaarOf(t, offer{in: price, out: 3 * price}, offer{in: price, out: 3 * price}, offer{in: price, out: 3 * price})
		b.warm()
		v, a := b.markets[0].view.Load(), b.ask()
		why := make([]Terms, 3)
		b.Order(&a, b.tier(0), why, b.now)
		if price == 0 {
			if hour := v.kappa * v.lambda * 3600; !near(hour, 0.36, 1e-6) {
				t.Errorf("an hour costs %v", hour)
			}
			if why[0].Price != 0 || why[0].Wait <= 0 {
				t.Errorf("%+v", why[0])
			}
			continue
		}
		if got := (why[0].Wait/firstWeight + why[0].Decode) / why[0].Price; !near(got, 0.7/typicalWait, 0.05) {
			t.Errorf("at a price of %v waiting costs %.3f of it", price, got)
		}
		a.Kappa = 1
		b.Order(&a, b.tier(0), why, b.now)
		if got := (why[0].Wait/firstWeight + why[0].Decode) / why[0].Price; !near(got, 1/typicalWait, 0.05) {
			t.Errorf("at a price of %v and a kappa of 1 waiting costs %.3f of it", price, got)
		}
	}
}

func TestDecline(t *testing.T) {
	for y := 0.0; y <= 15; y += 0.01 {
		if got := decline(y); !near(got, math.Exp(-y), 1e-2) {
			t.Fatalf("%v: %v, want %v", y, got, math.Exp(-y))
		}
	}
}

func TestPriceLists(t *testing.T) {
	c := catalog(t, same(1)...)
	e := c.Endpoints[0]
	dear := hearth.Price{Prompt: decimal.NewFromInt(2), Completion: decimal.NewFromInt(6), CacheRead: decimal.NewFromInt(2), CacheWrite: decimal.NewFromInt(2)}
	night := hearth.Price{Prompt: decimal.NewFromFloat(0.5), Completion: decimal.NewFromInt(1)}
	e.Steps = []hearth.Tariff{
		{Name: "long", Above: 2000, List: dear},
		{Name: "night", Hours: hearth.Hours{From: 22 * time.Hour, To: 6 * time.Hour}, List: night},
	}
	e.OwnMargin = &[]decimal.Decimal{decimal.NewFromFloat(0.5)}[0]
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	r := NewRouter(c, Options{}, began)
	price := func(in float64, at time.Time) float64 {
		r.refresh(r.markets[0], at)
		v := r.markets[0].view.Load()
		var got terms
		v.cost(&got, &v.rows[0], &query{in: in, out: 100}, 0)
		return got.Price
	}
	late := began.Add(14 * time.Hour) // 23:00
	for _, c := range []struct {
		in, want float64
		at       time.Time
	}{{1000, 1.5 * 1300e-6, began}, {2000, 1.5 * 2300e-6, began}, {2001, 1.5 * 4602e-6, began}, {1000, 1.5 * 600e-6, late}, {3000, 1.5 * 6600e-6, late}} {
		if got := price(c.in, c.at); !near(got, c.want, 1e-9) {
			t.Errorf("%v tokens at %s: %v, want %v", c.in, c.at.Format(time.TimeOnly), got, c.want)
		}
		if got := e.Expected(c.at, int(c.in), 100, 0); !near(got, c.want, 1e-9) {
			t.Errorf("the catalog says %v", got)
		}
	}
}
