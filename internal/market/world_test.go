package market

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"myip.co.kr/hearth/internal/routing"
)

// tried is a try as a watcher has seen it.
type tried struct {
	request, endpoint, number int
	sent, ended               float64
	how                       ending
	cached                    int
	cost                      float64
	tools, bad                bool
}

// watcher keeps what a buyer does.
type watcher struct {
	buyer
	tries []tried
	beats func(now float64)
}

func (p *watcher) ended(a *Arrival, q *try, e ending, bad bool, cost, now float64) {
	p.tries = append(p.tries, tried{q.request, q.endpoint, q.number, q.sent, now, e, q.cached, cost, a.Tools, bad})
	p.buyer.ended(a, q, e, bad, cost, now)
}

func (p *watcher) beat(now float64) {
	if p.beats != nil {
		p.beats(now)
	}
	p.buyer.beat(now)
}

// watched plays a world and returns all its tries in the order in which they were sent. look, unless nil, is called at
// every beat.
func watched(t *testing.T, w *bazaar, list []Listing, policy string, seed uint64, o routing.Options, look func(p buyer, now float64)) ([]tried, Figures) {
	t.Helper()
	w.tally = newTally(list, w.arrivals, w.end)
	b, err := newBuyer(policy, list[:w.known], len(w.arrivals), seed, o)
	if err != nil {
		t.Fatal(err)
	}
	p := &watcher{buyer: b}
	if look != nil {
		p.beats = func(now float64) { look(b, now) }
	}
	w.buyer = p
	if w.run(context.Background()); w.err != nil {
		t.Fatal(w.err)
	}
	slices.SortStableFunc(p.tries, func(a, b tried) int { return cmp.Compare(a.sent, b.sent) })
	return p.tries, w.tally.figures()
}

// twins is a market of n endpoints that are alike and in which nothing happens but by a script: 0.8 s to the first token,
// 60 tokens a second, room for so many requests at once.
func twins(n int, room float64, seed uint64, load Workload, seconds float64) (*bazaar, []Listing) {
	list := make([]Listing, n)
	for i := range list {
		list[i] = Listing{Name: string(rune('a' + i)), In: 0.6, Out: 1.8, Cache: 0.12, TTFT: 0.8, TPS: 60, Uptime: 1}
	}
	arrivals := load.Draw(seeded(seed), seconds)
	w := newBazaar(seed, list, arrivals, seconds, 1)
	for _, p := range w.places {
		p.calm, p.drift, p.other, p.errors, p.malformed = true, 0, 0, leastErrors, 0.005
		p.room, p.truth.queue, p.bucket, p.replica = room, int(room/10), 0, 0.8
	}
	return w, list
}

// brief are chats whose answers take some 5 s.
func brief(rate float64) Workload {
	w := Chats(rate)
	w.Output = 150
	return w
}

// cheaper makes the first endpoint a quarter cheaper than the others.
func cheaper(w *bazaar, list []Listing, i int) {
	l := &list[i]
	l.In, l.Out, l.Cache = 0.75*l.In, 0.75*l.Out, 0.75*l.Cache
	w.places[i].Listing = *l
}

// partOf is the part of the first tries sent from a to b that went to an endpoint; n counts them.
func partOf(tries []tried, endpoint int, a, b float64) (part float64, n int) {
	hits := 0
	for i := range tries {
		if q := &tries[i]; q.number == 0 && q.sent >= a && q.sent < b {
			if n++; q.endpoint == endpoint {
				hits++
			}
		}
	}
	return float64(hits) / math.Max(1, float64(n)), n
}

// reached is how many seconds after from an endpoint's share of a minute is first at least so much; infinite if never.
func reached(tries []tried, endpoint int, from, until, part float64) float64 {
	const step, width = 5.0, 60.0
	for at := from; at+width <= until; at += step {
		if p, n := partOf(tries, endpoint, at, at+width); n > 0 && p >= part {
			return at - from + width/2
		}
	}
	return math.Inf(1)
}

// stakes are what time is worth in a small test, and with how many seeds it is played.
type stakes struct {
	place int // in the list
	o     routing.Options
	seeds int
}

// atStakes plays a small test at the default value of time and, with fewer seeds unless -full is given, where time is
// cheap and where it is dear.
func atStakes(t *testing.T, play func(t *testing.T, v stakes)) {
	alone(t)
	t.Parallel()
	few := 3
	if *full {
		few = 9
	}
	for _, c := range []struct {
		name string
		v    stakes
	}{
		{"default", stakes{0, routing.Options{}, max(few, 5)}},
		{"kappa 0.2", stakes{1, routing.Options{Kappa: 0.2}, few}},
		{"kappa 3", stakes{2, routing.Options{Kappa: 3}, few}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			play(t, c.v)
		})
	}
}

// pick is what holds at the default value of time, where time is cheap, and where it is dear.
func (s *stakes) pick(usual, cheap, dear float64) float64 {
	return [...]float64{usual, cheap, dear}[s.place]
}

// middle is the median over the seeds.
func (s *stakes) middle(of func(seed uint64) float64) float64 {
	v := make([]float64, s.seeds)
	for i := range v {
		v[i] = of(uint64(i) + 1)
	}
	slices.Sort(v)
	return v[len(v)/2]
}
