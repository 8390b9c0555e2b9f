package routing

import (
	"math"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// How often a request goes on with a conversation is learned from those that were answered.
func TestMeans_Later(t *testing.T) {
	b := bazaarOf(t, same(2)...)
	in := func(session uint64) Ask {
		a := b.ask()
		a.Session = session
		return a
	}
	state := func() means { return b.markets[0].model.means }
	for session := range uint64(3) { // three are opened
		b.serve(in(session+1), 0, Share, time.Second, 50)
	}
	b.serve(in(0), 0, Share, time.Second, 50) // of no conversation
	brief := in(4)
	brief.MaxTokens = 1
	b.serve(brief, 0, Share, time.Second, 50)
	b.fail(in(5), 0, Failed, time.Second)
	b.now = b.now.Add(100 * time.Second)
	b.serve(in(1), 0, Stick, time.Second, 50)
	b.serve(in(2), 1, Share, time.Second, 50) // elsewhere
	if m := state(); m.Opened != 3 || m.Went != 2 || m.Ons != 1 || m.Prefix != 1000 {
		t.Errorf("%+v", m)
	}
	b.now = b.now.Add(320 * time.Second)
	b.serve(in(1), 0, Share, time.Second, 50) // its cache may be warm still
	if m := state(); m.Opened != 3 || m.Went != 3 || m.Ons != 2 {
		t.Errorf("%+v", m)
	}
	b.now = b.now.Add(620 * time.Second)
	b.serve(in(1), 0, Share, time.Second, 50) // forgotten
	b.Router.refresh(b.markets[0], b.now.Add(time.Minute))
	if m := state(); m.Opened != 4 || m.Went != 3 || m.later() != 3.0/8 {
		t.Errorf("%+v, %v", m, m.later())
	}
	if v := b.markets[0].view.Load(); v.later != 3.0/8 || v.prefix != 1000 {
		t.Errorf("%v of the requests go on, with %v tokens", v.later, v.prefix)
	}
	m := means{N: 100, Ons: 40, Went: 60, Opened: 20, Prefix: 8000}
	m.fade(halfLong)
	if m.Ons != 20 || m.Went != 30 || m.Opened != 10 || m.returning() != 200 {
		t.Errorf("%+v", m)
	}
	for _, m := range []means{{}, {Went: -5, Opened: 4}, {Went: -5, Opened: -1}, {Ons: -1, Prefix: 9}, {Ons: 1, Prefix: -9}} {
		if m.later() != 0 || m.returning() != 0 {
			t.Errorf("%+v: %v, %v", m, m.later(), m.returning())
		}
	}
}

// What a cache saves over a conversation, computed by hand.
func TestAhead(t *testing.T) {
	// The mean request has 1,000 tokens, of which a warm cache may hold 600, and an answer of 500. A second is worth 0.5 × 1e-4.
	cold := 1000e-6 + 1500e-6 + 5e-5*(firstWeight*2+10) + 2e-5
	warm := 700e-6 + 300*0.2e-6 + 1500e-6 + 5e-5*(firstWeight*2*0.85+10) + 2e-5 // half of the 600 are cached
	cooler := 900e-6 + 100*0.2e-6 + 1500e-6 + 5e-5*(firstWeight*2*0.95+10) + 2e-5
	for _, c := range []struct {
		name string
		do   func(*row)
		want float64
	}{
		{"half of what could be", func(*row) {}, 0.8 * (1 - warm/cold)},
		{"no hits", func(r *row) { r.hit = 0 }, 0},
		{"none but those that a cold cache has", func(r *row) { r.hit, r.cold = 0.1, 0.1 }, 0},
		{"fewer than a cold one", func(r *row) { r.hit, r.cold = 0, 0.1 }, 0},
		{"some of a cold one too", func(r *row) { r.cold = 0.1 }, 0.8 * (1 - (660e-6+340*0.2e-6+1500e-6+5e-5*(firstWeight*2*(0.5+0.33)+10)+2e-5)/cooler)},
		{"as much when it is flagged", func(r *row) { r.flaggedAll = true }, 0.8 * (1 - warm/cold)},
		{"it costs more than can be told", func(r *row) { r.adjust = math.Inf(1) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &view{in: 1000, perToken: perToken(1000), out: 500, unit: 0.002, lambda: 1e-4, kappa: 0.5, later: 0.8, prefix: 600, rows: []row{plain()}}
			c.do(&v.rows[0])
			v.rows[0].usual()
			v.ahead(query{in: v.in, out: v.out, kappa: 7, prefix: 77, trust: -1, special: true})
			if got := v.rows[0].keeps; math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	free := &view{in: 1000, out: 500, later: 0.8, prefix: 600, rows: []row{{lists: []list{{above: -1}}, adjust: 1, knee: math.Inf(1)}}}
	if free.ahead(query{in: 1000, trust: -1, special: true}); free.rows[0].keeps != 0 {
		t.Errorf("of nothing %v is saved", free.rows[0].keeps)
	}
}

// opening is a bazaar of two whose first endpoint keeps a fifth, and a request that opens a conversation there.
func opening(t *testing.T) (*bazaar, Ask) {
	b := calm(t, 2)
	b.edit(func(v *view) { v.rows[0].keeps, v.rows[1].keeps = 0.2, 0 })
	a := b.ask()
	a.Session = 42
	return b, a
}

// costs are the terms of both endpoints, by endpoint.
func (b *bazaar) costs(a Ask) (out [2]Terms) {
	why := make([]Terms, 2)
	b.Order(&a, b.tier(0), why, b.now)
	for _, w := range why {
		out[w.Endpoint] = w
	}
	return out
}

func sum(c *Cost) float64 { return c.Price + c.Wait + c.Decode + c.Failed + c.Quality }

func TestLater(t *testing.T) {
	t.Run("the terms add up", func(t *testing.T) {
		b, a := opening(t)
		a.Tools = true
		for i, w := range b.costs(a) {
			if want := []float64{-0.2 * sum(&w.Cost), 0}[i]; !near(w.Later, want, 1e-12) || !near(w.R, sum(&w.Cost)+w.Later, 1e-12) || w.Quality <= 0 || math.Signbit(w.Later) != (i == 0) {
				t.Errorf("endpoint %d: %+v", i, w.Cost)
			}
			if r := w.Recorded("e"); r.Later != w.Later {
				t.Errorf("%v is recorded of %v", r.Later, w.Later)
			}
		}
	})
	t.Run("a flag doubles what is left", func(t *testing.T) {
		b, a := opening(t)
		b.edit(func(v *view) { v.rows[0].flaggedAll = true })
		if w := b.costs(a)[0]; !near(w.Later, -0.2*sum(&w.Cost), 1e-12) || !near(w.R, 2*0.8*sum(&w.Cost), 1e-12) {
			t.Errorf("%+v", w.Cost)
		}
	})
	t.Run("a retry goes by it too", func(t *testing.T) {
		b, a := opening(t)
		a.Retry = true
		b.edit(func(v *view) { v.rows[0].adjust = 1.1 })
		if d := b.Pick(&a, b.tier(0), b.now); d.Endpoint != 0 || b.costs(a)[0].Later >= 0 {
			t.Errorf("%+v", d)
		}
	})
	none := func(t *testing.T, b *bazaar, a Ask) {
		t.Helper()
		for i, w := range b.costs(a) {
			if w.Later != 0 || w.R != sum(&w.Cost) {
				t.Errorf("endpoint %d: %+v", i, w.Cost)
			}
		}
	}
	t.Run("not of a request on its own", func(t *testing.T) {
		b, a := opening(t)
		a.Session = 0
		none(t, b, a)
		for _, w := range b.Overview("m/m", b.now) {
			if w.Later != 0 || w.R != sum(&w.Cost) {
				t.Errorf("%+v", w.Cost)
			}
		}
	})
	for name, after := range map[string]time.Duration{"nor where its cache is known to be": 10 * time.Second, "nor where it may be warm still": 400 * time.Second} {
		t.Run(name, func(t *testing.T) {
			b, a := opening(t)
			b.serve(a, 0, Share, time.Second, 50)
			b.now = b.now.Add(after)
			none(t, b, a)
		})
	}
	t.Run("nor in a comparison with own slots", func(t *testing.T) {
		b, a := opening(t)
		w := b.costs(a)[0]
		if f, ok := b.Forecast(&a, 0, b.now); !ok || !near(f.Cost, sum(&w.Cost), 1e-12) {
			t.Errorf("%+v, want %v", f, sum(&w.Cost))
		}
	})
}

// talk is a world of two sites at the same list price, one of which has a cache that gives something, after half an hour of
// conversations of so many turns.
func talk(t *testing.T, seed uint64, turns int, sites ...*site) *world {
	w := newWorld(t, seed, sites...)
	w.turns = turns
	w.run(2/float64(turns), 1800)
	return w
}

func twins() []*site {
	return []*site{{offer: offer{in: 1, out: 3, cached: 0.1}, ttft: 1, speed: 50}, {offer: offer{in: 1, out: 3, cached: 0.1}, ttft: 1, speed: 50, hit: 0.9}}
}

// Of two endpoints at the same price, conversations begin where the cache is the better one.
func TestConversationsBeginWhereTheCacheIs(t *testing.T) {
	got := median3(func(seed uint64) []float64 {
		w := talk(t, seed, 6, twins()...)
		n := [2]float64{float64(within(w.sites[0].opened, 600, 1800)), float64(within(w.sites[1].opened, 600, 1800))}
		v := w.markets[0].view.Load()
		return []float64{n[1] / (n[0] + n[1]), v.later, v.rows[0].keeps, v.rows[1].keeps}
	})
	t.Logf("%.2f of them begin there; %.2f of the requests go on, of their cost %.2f and %.2f is saved", got[0], got[1], got[2], got[3])
	if got[0] < 0.85 || got[1] < 0.7 || got[1] > 5.0/6 || got[2] > 0.02 || got[3] < 0.1 {
		t.Error("too few")
	}
}

// Where sessions do not go on, one that opens is a request like any other.
func TestConversationsOfOneTurn(t *testing.T) {
	w := talk(t, 1, 1, twins()...)
	for i, r := range w.markets[0].view.Load().rows {
		if r.keeps != 0 {
			t.Errorf("site %d keeps %v", i, r.keeps)
		}
	}
	for range 200 {
		a := w.bazaar.ask()
		alone := w.Pick(&a, w.tier(0), w.time())
		a.Session, a.Explicit = math.MaxUint64, true
		if d := w.Pick(&a, w.tier(0), w.time()); d != alone {
			t.Fatalf("%+v, without a session %+v", d, alone)
		}
	}
}

// What is known of conversations outlives the program.
func TestState_Later(t *testing.T) {
	w := talk(t, 1, 6, twins()...)
	restored := func(spoil func(*State)) *Router {
		text, err := json.Marshal(w.State(w.time()))
		if err != nil {
			t.Fatal(err)
		}
		var s State
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if spoil != nil {
			spoil(&s)
		}
		r := NewRouter(w.cat, Options{Kappa: 0.7}, w.time())
		r.Restore(s, w.time())
		return r
	}
	w.Router.refresh(w.markets[0], w.time())
	was, is := w.markets[0].view.Load(), restored(nil).markets[0].view.Load()
	if !near(is.later, was.later, 1e-9) || !near(is.prefix, was.prefix, 1e-9) || was.prefix < 500 {
		t.Errorf("%v go on with %v tokens, before the restart %v with %v", is.later, is.prefix, was.later, was.prefix)
	}
	if is.rows[1].keeps < 0.1 || !near(is.rows[1].keeps, was.rows[1].keeps, 0.02) { // requests under way are not restored
		t.Errorf("%v is kept, before the restart %v", is.rows[1].keeps, was.rows[1].keeps)
	}
	for name, spoil := range map[string]func(*State){
		"of a version that did not count them": func(s *State) { m := &s.Models[0].Means; m.Ons, m.Went, m.Opened = 0, 0, 0 },
		"less than nothing":                    func(s *State) { m := &s.Models[0].Means; m.Ons, m.Went, m.Opened = -5, -5, 4 },
		"not a number":                         func(s *State) { s.Models[0].Means.Went = math.NaN() },
		"far too much":                         func(s *State) { s.Models[0].Means.Ons = 1e16 },
	} {
		r := restored(spoil)
		for _, row := range r.markets[0].view.Load().rows {
			if row.keeps != 0 {
				t.Errorf("%s: %v", name, row.keeps)
			}
		}
		a := w.bazaar.ask()
		a.Session = math.MaxUint64
		if d := r.Pick(&a, w.tier(0), w.time()); d.Place < 0 || math.IsNaN(d.Share) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// A record of a request that opened a conversation is remade with what its later turns would save, by hand; with the cache
// somewhere it opens none.
func TestReplay_Later(t *testing.T) {
	record := hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{
		{Endpoint: "a", Price: 1, Wait: 0.5, Decode: 0.5, Later: -0.5, TTFT: 1}, {Endpoint: "b", Price: 0.9, Wait: 0.5, Decode: 0.5, TTFT: 1},
		{Endpoint: "c", Price: 1, Wait: 0.5, Decode: 0.5, Later: -0.5, TTFT: 1, Flagged: true},
	}}
	for _, c := range []struct {
		kappa float64
		warm  int
		want  [3]float64
	}{
		{1, -1, [3]float64{1.5, 1.9, 3}}, {3, -1, [3]float64{3, 3.9, 6}}, {1, 1, [3]float64{2, 1.9, 4}}, {3, 0, [3]float64{4, 3.9, 8}},
	} {
		p := remake{tier: &record, kappa: c.kappa}
		p.s.more, p.s.n = make([]option, 3), 3
		p.weigh(c.warm)
		for i := range p.s.more {
			if got := p.s.more[i].r; !near(got, c.want[i], 1e-12) {
				t.Errorf("kappa %v, warm at %d: %d costs %v, want %v", c.kappa, c.warm, i, got, c.want[i])
			}
		}
	}
	for _, strange := range []hearth.RoutedTerms{{Price: 1, Later: -9}, {Price: 1, Later: 1}, {Later: -1}, {Price: 1, Later: math.NaN()}} {
		if k := keepsOf(&strange); k != map[bool]float64{true: 1, false: 0}[strange.Price == 1 && strange.Later == -9] {
			t.Errorf("%+v keeps %v", strange, k)
		}
	}
}
