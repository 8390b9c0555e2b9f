package routing

import (
	"math"
	"strconv"
	"testing"

	"myip.co.kr/hearth"
)

// stormy is a world with all that a choice depends on: prices, room, queues, errors, broken tools, sessions.
func stormy(t testing.TB, seed uint64) *world {
	errs := func(_ float64, d *draws) mood {
		if d.next() < 0.1 {
			return breaks
		}
		return fine
	}
	w := newWorld(t, seed,
		&site{offer: offer{in: 1, out: 3, cached: 0.1}, ttft: 1.2, speed: 45, places: 6, hit: 0.9},
		&site{offer: offer{in: 0.9, out: 3.2}, ttft: 0.8, speed: 60, places: 5, queue: true},
		&site{offer: offer{in: 0.7, out: 2.4}, ttft: 1.5, speed: 30, mood: errs},
		&site{offer: offer{in: 1.1, out: 2.9, cached: 0.2}, ttft: 0.6, hit: 0.8, speed: 80, places: 3, tools: func(float64) float64 { return 0.2 }},
		&site{offer: offer{in: 1.02, out: 3}, ttft: 1, speed: 50},
		&site{offer: offer{in: 0.5, out: 2}, ttft: 1, speed: 50, mood: func(at float64, _ *draws) mood {
			if at > 60 && at < 120 {
				return breaks
			}
			return fine
		}})
	w.tools, w.sticky = true, 20
	return w
}

// recordOf is the tier as a record has it, in its final order.
func (w *world) recordOf(a *Ask) (*hearth.Routed, []Terms) {
	tier := w.tier(0)
	why := make([]Terms, len(tier))
	d := w.Order(a, tier, why, w.time())
	t := &hearth.Routed{Endpoint: strconv.Itoa(d.Endpoint), Reason: string(d.Reason), Share: d.Share, Kappa: d.Kappa}
	for i := range why {
		t.Candidates = append(t.Candidates, why[i].Recorded(strconv.Itoa(why[i].Endpoint)))
	}
	return t, why
}

// byEndpoint are shares by endpoint, whatever the order.
func byEndpoint(why []Terms) map[string]float64 {
	m := map[string]float64{}
	for i := range why {
		m[strconv.Itoa(why[i].Endpoint)] = why[i].Share
	}
	return m
}

// A record remade under another value of time is what the router itself chooses under it, in the same moment.
func TestReplay_AsTheRouterChooses(t *testing.T) {
	checked := map[string]int{}
	for seed := range uint64(4) {
		w := stormy(t, seed+1)
		switch w.bare = seed > 0; seed {
		case 2, 3:
			for _, s := range w.sites { // too little room for all
				s.places, s.queue = 2, false
			}
		}
		w.each = func(at float64) {
			if seed == 1 { // one that has just come back
				w.edit(func(v *view) { v.rows[4].ramp = 0.3 })
			}
			for _, tools := range []bool{false, true} {
				for _, session := range []uint64{0, uint64(at*4)%20 + 1, 1000} {
					a := w.bazaar.ask()
					a.Out, a.Tools, a.Session, a.NoExplore = 0, tools, session, w.d.next() < 0.5
					compareReplay(t, w, &a, checked)
				}
			}
		}
		w.run(4, 240)
	}
	if checked["another endpoint to explore"] > checked["explored"]/10 {
		t.Errorf("what is explored depends on kappa too often: %v", checked)
	}
	for _, what := range []string{"share", "stick", "warm", "explored", "flagged", "failed", "ramp", "later turns", "later turns, flagged", "crowded", "full", "cooling", "forced", "moved by kappa"} {
		if checked[what] == 0 {
			t.Errorf("the world has no %s in it: %v", what, checked)
		}
	}
}

func compareReplay(t *testing.T, w *world, a *Ask, checked map[string]int) {
	t.Helper()
	record, was := w.recordOf(a)
	note(record, checked)
	session := -1
	for i := range record.Candidates {
		if record.Candidates[i].Warm {
			session = i
		}
	}
	for _, kappa := range []float64{0.02, 0.35, 3} {
		other := *a
		other.Kappa = kappa
		_, why := w.recordOf(&other)
		if explored(why) != explored(was) {
			checked["another endpoint to explore"]++ // of two that were never tried the cheaper
			continue
		}
		want := byEndpoint(why)
		if session >= 0 { // the choice by itself, with the cache where it is
			p := remake{tier: record, kappa: kappa}
			p.s.more, p.s.n = make([]option, len(why)), len(why)
			got := make([]float64, len(why))
			p.choose(session, record.Candidates[session].Holds, got)
			sameShares(t, record, got, want)
			continue
		}
		chances := make([]Chance, len(why))
		Replay(record, kappa, nil, chances)
		got := make([]float64, len(why))
		for i := range got {
			got[i] = chances[i].Share
			if chances[i].Warm != 0 {
				t.Fatalf("a cache without a session: %+v", chances)
			}
		}
		sameShares(t, record, got, want)
		if math.Abs(want[record.Candidates[0].Endpoint]-byEndpoint(was)[record.Candidates[0].Endpoint]) > 0.05 {
			checked["moved by kappa"]++
		}
	}
}

// explored is the endpoint that is tried for the sake of knowing it, -1 = none.
func explored(why []Terms) int {
	for i := range why {
		if why[i].Explored > 0 {
			return why[i].Endpoint
		}
	}
	return -1
}

func note(record *hearth.Routed, checked map[string]int) {
	checked[record.Reason]++
	for i := range record.Candidates {
		c := &record.Candidates[i]
		for what, is := range map[string]bool{
			"warm": c.Warm, "explored": c.Explored > 0, "flagged": c.Flagged, "failed": c.Fixed > 0, "ramp": c.Ramp > 0, "later turns": c.Later < -0.01*c.Price, "later turns, flagged": c.Later < 0 && c.Flagged,
			"crowded": c.Cap > 0 && float64(c.InFlight) > crowded*c.Cap, "full": c.Cap > 0 && float64(c.InFlight+1) > c.Cap, "cooling": c.State == string(Cooling),
		} {
			if is {
				checked[what]++
			}
		}
	}
}

func sameShares(t *testing.T, record *hearth.Routed, got []float64, want map[string]float64) {
	t.Helper()
	for i := range got {
		if e := record.Candidates[i].Endpoint; math.Abs(got[i]-want[e]) > 1e-6 {
			t.Fatalf("endpoint %s: %v, the router chooses it with %v\n%+v", e, got[i], want[e], record)
		}
	}
}

// With the session's cache elsewhere, a record remade is what the router chooses when it is there.
func TestReplay_TheCacheElsewhere(t *testing.T) {
	moved := 0
	for seed := range uint64(3) {
		w := stormy(t, seed+11)
		w.each = func(at float64) {
			a := w.bazaar.ask()
			a.Out, a.NoExplore, a.Explicit = 0, true, true
			a.Session = uint64(at*4)%20 + 1
			known, ok := w.sessions.find(a.Session, w.secs(w.time()))
			if !ok {
				return
			}
			record, _ := w.recordOf(&a)
			chances, want := make([]Chance, len(record.Candidates)), make([]Chance, len(record.Candidates))
			warm := make([]float64, len(want))
			for i := range warm {
				warm[i] = w.d.next() / float64(len(warm))
			}
			Replay(record, 1.5, warm, chances)
			place := map[string]int{}
			for i := range record.Candidates {
				place[record.Candidates[i].Endpoint] = i
			}
			nowhere := 1.0
			add := func(often float64, at int) {
				_, why := w.recordOf(&a)
				for e, share := range byEndpoint(why) {
					i := place[e]
					want[i].Share += often * share
					if i == at {
						want[i].Warm += often * share
					}
				}
			}
			a.Kappa = 1.5
			for at, often := range warm {
				there := known
				i, _ := strconv.Atoi(record.Candidates[at].Endpoint)
				there.end = w.markets[0].ends[w.find(i).row]
				w.sessions.put(a.Session, there)
				add(often, at)
				nowhere -= often
			}
			there := known // as long an answer is expected, but the cache is at none of them
			there.end = new(end)
			there.armed = false
			w.sessions.put(a.Session, there)
			add(nowhere, -1)
			w.sessions.put(a.Session, known)
			for i := range want {
				if math.Abs(chances[i].Share-want[i].Share) > 1e-6 || math.Abs(chances[i].Warm-want[i].Warm) > 1e-6 {
					t.Fatalf("endpoint %s: %+v, want %+v\n%+v", record.Candidates[i].Endpoint, chances[i], want[i], record)
				}
				if chances[i].Share > 0.1 && !record.Candidates[i].Warm {
					moved++
				}
			}
		}
		w.run(4, 120)
	}
	if moved < 100 {
		t.Errorf("the session is elsewhere only %d times", moved)
	}
}

func TestReplay_OfStrangeRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		of   hearth.Routed
		want []Chance
	}{
		{"nothing costs anything: seconds are worth what they are by the hour", hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{{Wait: 1, TTFT: 1}, {Wait: 0.9, TTFT: 0.9, Failed: 0.1, Fixed: 0.1}}}, []Chance{{Share: 0.5}, {Share: 0.5}}},
		{"no value of time", hearth.Routed{Candidates: []hearth.RoutedTerms{{Price: 1}, {Price: 3}}}, []Chance{{Share: 1}, {}}},
		{"one candidate", hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{{Price: 1, State: "open"}}}, []Chance{{Share: 1}}},
		{"all open", hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{{Price: 2, State: "open"}, {Price: 1, State: "open"}}}, []Chance{{}, {Share: 1}}},
		{"the flagged one is better than the full one", hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{{Price: 1, Cap: 2, InFlight: 2}, {Price: 9, Flagged: true}}}, []Chance{{}, {Share: 1}}},
		{"the full ones by the square of their load", hearth.Routed{Kappa: 1, Candidates: []hearth.RoutedTerms{{Price: 1, Cap: 1, InFlight: 3}, {Price: 8, Cap: 2, InFlight: 2}}}, []Chance{{Share: 1}, {}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make([]Chance, len(c.want))
			Replay(&c.of, 20, nil, got)
			for i := range got {
				if math.Abs(got[i].Share-c.want[i].Share) > 1e-9 {
					t.Errorf("%+v, want %+v", got, c.want)
				}
			}
		})
	}
	Replay(&hearth.Routed{}, 1, nil, nil)
	Replay(&hearth.Routed{Candidates: make([]hearth.RoutedTerms, 2)}, 1, nil, make([]Chance, 1))
}

func TestExpected(t *testing.T) {
	c := hearth.RoutedTerms{Price: 1, TTFT: 2, OtherPrice: 3}
	for _, warm := range []bool{false, true} {
		for _, here := range []bool{false, true} {
			c.Warm = here
			price, ttft := Expected(&c, warm)
			if want := map[bool]float64{true: 1, false: 3}[warm == here]; price != want || ttft != 2 {
				t.Errorf("warm %v, recorded %v: %v, %v", warm, here, price, ttft)
			}
		}
	}
	if !Usable(&hearth.RoutedTerms{State: "closed"}) || Usable(&hearth.RoutedTerms{State: "cooling"}) {
		t.Error("only a closed breaker without a rate limit is usable")
	}
}

// TestBasis: what is recorded besides the terms, by hand.
func TestBasis(t *testing.T) {
	r := plain()
	r.lists = append([]list{{above: 5000, prompt: 2e-6, completion: 6e-6}}, r.lists...)
	q := query{in: 3000, out: 400, images: 2}
	r.lists[1].image, r.lists[1].request = 0.001, 0.002
	if got := r.list(&q); !near(got, 0.003+0.0012+0.002+0.002, 1e-9) {
		t.Errorf("by the list %v", got)
	}
	if q.in = 6000; !near(r.list(&q), 0.012+0.0024, 1e-9) {
		t.Errorf("by the list of long prompts %v", r.list(&q))
	}
	b := calm(t, 2)
	queued := func(knee float64) Terms {
		b.edit(func(v *view) { v.rows[0].knee, v.rows[0].perQueued, v.rows[0].ramp = knee, 2, 0.3 })
		a, why := b.ask(), make([]Terms, 2)
		b.Order(&a, b.tier(0), why, b.now)
		if why[0].Endpoint != 0 {
			return why[1]
		}
		return why[0]
	}
	with, without := queued(0.5), queued(1)
	if with.Queue != 4 || without.Queue != 0 || !near(with.TTFT-without.TTFT, with.Queue, 1e-9) || with.Ramp != 0.3 {
		t.Errorf("%+v\n%+v", with, without)
	}
}

func BenchmarkReplay(b *testing.B) {
	w := stormy(b, 1)
	w.run(4, 60)
	a := w.bazaar.ask()
	a.Session = 1
	record, _ := w.recordOf(&a)
	chances := make([]Chance, len(record.Candidates))
	b.ReportAllocs()
	for b.Loop() {
		Replay(record, 1, nil, chances)
	}
}
