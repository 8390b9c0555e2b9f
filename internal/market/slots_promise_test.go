package market

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"myip.co.kr/hearth/internal/slot"
)

// player tries every schedule of a tiny instance that keeps the promise, second by second as it were: all times are whole
// numbers and every load takes its least.
type player struct {
	*promise
	known map[begun]int
}

// begun is a load that begins, and how many of each model's requests were let in before.
type begun struct {
	at    time.Duration
	model int
	let   [2]int
}

// fewestTurns is the loads of the best schedule, impossible if there is none that serves all.
func fewestTurns(p *promise) int {
	e := &player{p, map[begun]int{}}
	best := impossible
	for m := range p.models {
		first := p.to
		if list := p.models[m].list; len(list) > 0 {
			first = list[0].at
		}
		for at := time.Duration(0); at <= first; at++ {
			best = min(best, e.begin(begun{at: at, model: m}))
		}
	}
	return best
}

// begin is the fewest loads from a load on, itself one of them. Those after the end do not count, but serve who is left.
func (e *player) begin(b begun) int {
	if n, ok := e.known[b]; ok {
		return n
	}
	n := e.stay(b)
	if b.at > e.from && b.at <= e.to {
		n++
	}
	n = min(n, impossible)
	e.known[b] = n
	return n
}

// premises are an engine and its queue.
type premises struct {
	list  []visit
	n     int // of the list have been let in
	cap   int
	until []time.Duration // of those who are in it
	used  time.Duration   // when it was last
}

// tick lets out who is done, and in whoever may be; false = somebody has waited too long.
func (r *premises) tick(now, budget time.Duration, may func(visit) bool) bool {
	var in []time.Duration
	for _, t := range r.until {
		if t > now {
			in = append(in, t)
		} else {
			r.used = max(r.used, t)
		}
	}
	for r.until = in; r.waits(now) && len(r.until) < r.cap && may(r.list[r.n]); r.n++ {
		if now > r.list[r.n].at+budget {
			return false
		}
		r.until = append(r.until, now+r.list[r.n].takes)
		r.used = now + r.list[r.n].takes
	}
	return true
}

func (r *premises) waits(now time.Duration) bool { return r.n < len(r.list) && r.list[r.n].at <= now }

// empty is when the last of those who are in it is done.
func (r *premises) empty(now time.Duration) time.Duration {
	for _, t := range r.until {
		now = max(now, t)
	}
	return now
}

// stay tries every time at which the engine may be left.
func (e *player) stay(b begun) int {
	m, other := &e.models[b.model], &e.models[1-b.model]
	ready := b.at + m.least
	asked := never
	if n := b.let[1-b.model]; n < len(other.list) {
		asked = other.list[n].at
	}
	r := &premises{list: m.list, n: b.let[b.model], cap: m.places, used: ready}
	best := impossible
	if r.n < len(r.list) && ready > r.list[r.n].at+e.budget {
		return best
	}
	nobody, anybody := func(visit) bool { return false }, func(visit) bool { return true }
	for now := ready; ; now++ {
		r.tick(now, e.budget, nobody)
		if asked < never && !e.owes(r, m, other, ready, now, asked) {
			best = min(best, e.leave(b, *r, now, asked)) // at the very moment at which somebody comes
		}
		if !r.tick(now, e.budget, anybody) {
			return best
		}
		if asked == never {
			if r.n == len(r.list) {
				return 0 // nobody asks for anything any more
			}
			continue
		}
		if !e.owes(r, m, other, ready, now, asked) {
			best = min(best, e.leave(b, *r, now, asked))
		}
		if now >= e.must(r, m, ready, now, asked) {
			return best
		}
	}
}

// owes says whether somebody waits who came before the engine was ready, and is to be let in before it is left.
func (e *player) owes(r *premises, m, other *promised, ready, now, asked time.Duration) bool {
	if r.n == len(r.list) || r.list[r.n].at >= ready || now >= ready+turnLoads*m.least {
		return false
	}
	rest := *r
	rest.until = append([]time.Duration(nil), r.until...)
	last := ready + turnLoads*m.least
	for t := now; t <= last && rest.n < len(rest.list) && rest.list[rest.n].at < ready; t++ {
		rest.tick(t, 1<<40, func(v visit) bool { return v.at < ready })
	}
	done := max(rest.used, rest.empty(now))
	return asked+e.budget > done+e.stop+other.least
}

// must is by when the engine has to be left as things stand.
func (e *player) must(r *premises, m *promised, ready, now, asked time.Duration) time.Duration {
	since := max(ready, asked)
	if now < asked {
		return never
	}
	switch base := max(since+e.turn, ready+e.minResident, ready+returnLoads*m.least); {
	case len(r.until) == 0 && !r.waits(now):
		return max(min(since+e.turn, max(since, r.used+m.least)), ready+e.minResident)
	case r.waits(now) && r.list[r.n].at < since+e.turn:
		return max(base, ready+turnLoads*m.least)
	default:
		return base
	}
}

// leave drains the engine, and tries every time at which the other model's load may begin then.
func (e *player) leave(b begun, r premises, now, asked time.Duration) int {
	r.until = append([]time.Duration(nil), r.until...)
	end := r.empty(now)
	for t := now; t <= end; t++ {
		if !r.tick(t, e.budget, func(v visit) bool { return t > now && t+v.takes <= end }) {
			return impossible
		}
	}
	to := begun{at: end + e.stop, model: 1 - b.model, let: b.let}
	to.let[b.model] = r.n
	best := e.begin(to)
	for to.at++; to.at <= asked; to.at++ {
		best = min(best, e.begin(to))
	}
	return best
}

// drawPromise is any tiny instance.
func drawPromise(t *rapid.T) *promise {
	few := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, name))
	}
	p := &promise{
		turn: few("turn", 0, 6), minResident: few("min resident", 0, 9), stop: few("stop", 0, 1), budget: few("budget", 6, 40),
		grain: 1, from: few("from", 0, 8), to: 72 - few("to", 0, 60),
	}
	for i := range p.models {
		m := &p.models[i]
		m.least = few("load", 1, 4)
		m.most, m.places = m.least, rapid.IntRange(1, 2).Draw(t, "places")
		at := time.Duration(0)
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			at += few("after", 0, 12)
			m.list = append(m.list, visit{at, few("takes", 1, 7)})
		}
	}
	return p
}

func TestLeastTurns_Property(t *testing.T) {
	all, exact, some, looser := 0, 0, 0, 0
	check := func(t *rapid.T) {
		p := drawPromise(t)
		want := fewestTurns(p)
		got, ok := leastTurns(p)
		if want == impossible {
			return
		}
		if !ok || got > want {
			t.Fatalf("at least %d loads %t, the best schedule has %d", got, ok, want)
		}
		all++
		if got == want {
			exact++
		}
		if want > 1 {
			some++
		}
		for i := range p.models {
			p.models[i].most += time.Duration(rapid.IntRange(0, 2).Draw(t, "more"))
			p.models[i].least = max(1, p.models[i].least-time.Duration(rapid.IntRange(0, 2).Draw(t, "less")))
		}
		p.grain = time.Duration(rapid.IntRange(1, int(min(p.models[0].least, p.models[1].least))).Draw(t, "grain"))
		if got, ok := leastTurns(p); !ok || got > want {
			t.Fatalf("with less known there are at least %d loads %t, the best schedule has %d", got, ok, want)
		} else if got < want {
			looser++
		}
	}
	for range 10 { // most instances are easy
		rapid.Check(t, check)
	}
	t.Logf("%d instances, exact in %d, %d with several loads; lower in %d if less is known", all, exact, some, looser)
	if some*20 < all || all-exact > all/50 {
		t.Errorf("%d of %d instances have several loads, the bound is exact in %d", some, all, exact)
	}
}

// Of two models and one key it is known what a schedule that keeps the promise can do: hearth has more loads, but not many.
func TestClairvoyant(t *testing.T) {
	alone(t)
	for _, c := range []struct {
		name   string
		change func(*SlotScenario)
		known  bool
	}{
		{"one key", func(*SlotScenario) {}, true},
		{"short budgets", func(s *SlotScenario) { s.Budgets = []time.Duration{30 * time.Second} }, true},
		{"long loads", func(s *SlotScenario) {
			s.Models[0].LoadTime, s.Models[1].LoadTime, s.Budgets[0] = 15*time.Second, 15*time.Second, time.Minute
		}, false}, // too many states
		{"bursts", func(s *SlotScenario) { s.Burst, s.Load = 8, 0.3 }, true},
		{"two keys, which take turns", func(s *SlotScenario) { s.Keys = 2 }, false},
		{"somebody else serves too", func(s *SlotScenario) { s.Fallback = true }, false},
		{"two budgets", func(s *SlotScenario) { s.Budgets = append(s.Budgets, time.Minute) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pair(func(s *SlotScenario) {
				s.Keys, s.Budgets, s.Requests = 1, []time.Duration{2 * time.Minute}, 1000
				s.Models[0].LoadTime, s.Models[1].LoadTime = 5*time.Second, 5*time.Second
				c.change(s)
			})
			r, err := SimulateSlots(t.Context(), s, 1, 2, func() {})
			if err != nil {
				t.Fatal(err)
			}
			h, keeps := r.Policies[PolicyHearth].LoadsPer100, r.Policies[PolicyClairvoyant].LoadsPer100
			if keeps > h || c.known && keeps < h/1.5 {
				t.Errorf("%.2f loads, the bound is %.2f", h, keeps)
			}
			free, ok := r.Policies[PolicyFree]
			if ok != c.known || ok && free.LoadsPer100 > keeps {
				t.Errorf("free %.2f %t, keeping the promise %.2f", free.LoadsPer100, ok, keeps)
			}
			t.Logf("hearth %.2f, bound %.2f, free %.2f", h, keeps, free.LoadsPer100)
		})
	}
}

// No run has fewer loads than its own bound, however many requests are lost and made good.
func TestClairvoyant_Lost(t *testing.T) {
	alone(t)
	tighter := 0
	for _, c := range []struct {
		loads   [2]time.Duration
		service time.Duration
		places  int
		budget  time.Duration
		load    float64
	}{
		{[2]time.Duration{22 * time.Second, 28 * time.Second}, 1600 * time.Millisecond, 4, 42 * time.Second, 0.6},
		{[2]time.Duration{6500 * time.Millisecond, 11 * time.Second}, 12 * time.Second, 8, 92 * time.Second, 0.8},
		{[2]time.Duration{5800 * time.Millisecond, 5800 * time.Millisecond}, 9300 * time.Millisecond, 8, 38 * time.Second, 0.4},
	} {
		for seed := range uint64(4) {
			s := pair(func(s *SlotScenario) {
				s.Keys, s.Burst, s.Load, s.Budgets, s.Requests = 1, 8, c.load, []time.Duration{c.budget}, 700
				for i := range s.Models {
					s.Models[i] = SlotModel{Share: 0.5, LoadTime: c.loads[i], Service: c.service, Concurrency: c.places}
				}
			})
			w := newWorld(newTrace(&s, seed))
			w.play(newScheduler(w, slot.VotesCount))
			keeps, free := clairvoyant(w)
			if n := w.counted(); keeps > n || free > keeps {
				t.Errorf("%v: %d loads, at least %d that keep the promise and %d", c.loads, n, keeps, free)
			}
			if n, ok := leastTurns(w.promise()); ok && n > w.counted() {
				tighter++
			}
		}
	}
	if tighter == 0 {
		t.Error("in no run was anything made good that the promise does not know of")
	}
}

// An engine may be ready later than at the earliest, more have come by then, and it is owed to none of them to be let in first if
// somebody would be late for whom they all are waited for: the schedule here leaves at once, and needs no second load.
func TestLeastTurns_OwedLate(t *testing.T) {
	for _, least := range []time.Duration{3, 2} {
		p := &promise{budget: 14, grain: 1, from: 4, to: 16, models: [2]promised{
			{least: least, most: 3, places: 1, list: []visit{{1, 4}, {3, 5}, {6, 1}, {6, 1}}},
			{least: 1, most: 1, places: 1, list: []visit{{0, 1}, {3, 1}}},
		}}
		if n, ok := leastTurns(p); !ok || n != 1 {
			t.Errorf("if a load takes from %d to 3: %d %t", least, n, ok)
		}
	}
}

// Loads count that begin after the beginning, and not after the end.
func TestLeastTurns_Counted(t *testing.T) {
	for _, c := range []struct {
		from, to time.Duration
		want     int
	}{{0, 2, 1}, {0, 1, 0}, {1, 9, 1}, {2, 9, 0}} {
		p := &promise{budget: 6, grain: 1, from: c.from, to: c.to}
		for i := range p.models {
			p.models[i] = promised{least: 1, most: 1, places: 1, list: []visit{{0, 1}}} // one is loaded at 0, the other at 2
		}
		if n, ok := leastTurns(p); !ok || n != c.want {
			t.Errorf("after %d and not after %d: %d loads %t, want %d", c.from, c.to, n, ok, c.want)
		}
	}
}

func TestLeastTurns_TooMany(t *testing.T) {
	p := &promise{grain: 1, to: 10 * mostStates}
	if n, ok := leastTurns(p); ok {
		t.Errorf("%d loads of more states than can be gone through", n)
	}
}
