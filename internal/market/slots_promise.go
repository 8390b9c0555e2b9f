package market

import (
	"math"
	"time"
)

// promise is what a schedule keeps that swaps two models on one GPU as their callers are told it will be. It is the rules of
// nodes, with the most that they permit:
//
//   - Requests for a model are let into its engine in the order in which they came, as soon as it is ready and one of its
//     places is free. Each is let in within its budget.
//   - An engine that has begun to load gets ready. It is left for the other model only. Then it drains: nobody is let in any
//     more, but whoever is next and will be done before those who are in it when the drain begins. When they are done it is
//     stopped, and the other model's load begins at once or, if nobody asks for it yet, until somebody does.
//   - Whoever came before it was ready at r is let in before it is left, at least until r + 10 loads; unless somebody who waits
//     for the other model would then be late.
//   - Let somebody wait for the other model since a. The engine is left by max(a, r) + turn or, if that is later,
//     by r + minResident or r + 2 loads; but not before nobody waits any more who came before max(a, r) + turn, or by
//     r + 10 loads. Nothing has to be made good to a model of which no request is lost.
//     While nobody uses it and nobody asks for it, it is left a load after it was last used, if that is earlier than
//     max(a, r) + turn, or by r + minResident.
//
// A schedule that keeps it may know the future: it is free in when it leaves an engine within these limits, and who it lets in
// while the engine drains is done in time indeed.
type promise struct {
	models            [2]promised
	turn, minResident time.Duration
	stop, budget      time.Duration
	grain             time.Duration // to which times at which loads begin are told apart; no load is shorter
	from, to          time.Duration // loads count that begin after from and not after to
}

// promised is a model and its requests, in the order in which they came.
type promised struct {
	least, most time.Duration // that a load takes
	places      int
	list        []visit
}

// visit is a request: when it comes, and for how long it is in the engine.
type visit struct{ at, takes time.Duration }

// Bounds of a turn in load times, as nodes have them.
const (
	turnLoads   = 10
	returnLoads = 2
)

// turns finds a number of loads that no schedule falls short of which keeps the promise and serves all requests. It goes
// through all that a schedule can have come to when a load begins: the model, how many of each model's requests were let in,
// and the time, to the grain. The queues are in order, so all that may follow depends on these, and on how long the load takes.
// The last two are only known within limits, so of every turn the earliest and the latest course are played:
//
// If an engine is ready earlier, none of its requests is let in or done later, as each place comes free no later. So
// each is let in, and done, between the two times that follow from the earliest readiness and the latest. A turn in which n are
// let in is possible only if the n-th can be, by the earliest, before the turn has to end by the latest; and one in
// which more were owed a place by all means is not. The next load then begins between the earliest and the latest
// time at which the n are done and the engine may be left. All of these times are gone through, so the true one is among
// them, whatever the schedule; and the fewest loads of any way through is the bound. It is exact if loads always take the same
// time and the grain is that of the times.
type turns struct {
	*promise
	states []map[come]int // by when a load begins, in grains: the fewest loads until then
	count  int            // of the states so far
	best   int            // the fewest loads of a way through so far
	// of one turn, by how many are let in: when the last of them is at the earliest and at the latest, when all are done, and
	// when the turn ends at the latest
	in, late, done, gone, end []time.Duration
	early, tardy              places
}

// come is what a schedule has come to when a load begins.
type come struct {
	model int32    // that is loaded
	let   [2]int32 // how many of each model's requests were let in
}

// mostStates is after how many states leastTurns gives up, each as often as it is reached: a matter of seconds.
const mostStates = 20_000_000

// leastTurns is the bound for schedules that keep the promise. ok is false if it is not known: none does that serves all, or
// there are too many to go through.
func leastTurns(p *promise) (loads int, ok bool) {
	if p.to/p.grain > mostStates {
		return 0, false
	}
	t := &turns{promise: p, best: math.MaxInt, states: make([]map[come]int, p.to/p.grain+2)}
	for m := range p.models {
		first := p.to
		if list := p.models[m].list; len(list) > 0 {
			first = list[0].at
		}
		t.reach(0, first, come{model: int32(m)}, 0)
	}
	for k := range t.states {
		for s, loads := range t.states[k] {
			if loads < t.best {
				t.play(time.Duration(k)*p.grain, s, loads)
			}
			if t.count > mostStates {
				return 0, false
			}
		}
		t.states[k] = nil
	}
	return t.best, t.best < math.MaxInt
}

// reach notes that a load may begin at any time between two.
func (t *turns) reach(low, high time.Duration, s come, loads int) {
	if high > t.to {
		t.best = min(t.best, loads) // what begins later does not count
		high = t.to
	}
	for k := low / t.grain; k <= high/t.grain; k++ {
		t.count++
		n := loads
		if k*t.grain > t.from && k*t.grain <= t.to {
			n++
		}
		if t.states[k] == nil {
			t.states[k] = map[come]int{}
		}
		if old, ok := t.states[k][s]; !ok || n < old {
			t.states[k][s] = n
		}
	}
}

// play goes through the turns that may follow a load that begins within a grain from low on.
func (t *turns) play(low time.Duration, s come, loads int) {
	m, other := &t.models[s.model], &t.models[1-s.model]
	list := m.list[s.let[s.model]:]
	asked := never // for the other model
	if n := s.let[1-s.model]; int(n) < len(other.list) {
		asked = other.list[n].at
	}
	first, last := low+m.least, low+t.grain-1+m.most // when the engine is ready
	n := t.letIn(m, list, first, last, asked)
	switch {
	case asked == never && n == len(list):
		t.best = min(t.best, loads)
		return
	case asked == never, n == 0 && len(list) > 0 && first > list[0].at+t.budget:
		return // somebody is served too late
	}
	for i := t.owed(m, other, list, first, last, asked); i <= n; i++ {
		high := max(t.leftBy(m, list, i, last, asked), t.gone[i]) + t.stop
		low := t.done[i] + t.stop
		for b := i; ; b++ { // the others are let in while the engine drains
			more := b+1 < len(t.in)
			if !more || t.late[b+1]+list[b].takes > t.done[i] {
				to := s
				to.model = 1 - s.model
				to.let[s.model] += int32(b)
				t.reach(low, max(high, asked), to, loads)
			}
			if !more || t.in[b+1]+list[b].takes > t.gone[i] {
				break
			}
		}
	}
}

// letIn finds when those on the list are let in and done, and how many are let in at most before the engine is left.
func (t *turns) letIn(m *promised, list []visit, first, last, asked time.Duration) (n int) {
	t.in, t.late, t.end = append(t.in[:0], first), append(t.late[:0], last), append(t.end[:0], t.turnEnd(m, last, asked))
	t.done, t.gone = append(t.done[:0], first), append(t.gone[:0], last)
	t.early.free(m.places, first)
	t.tardy.free(m.places, last)
	since := never
	if asked != never {
		since = max(last, asked) + t.turn
	}
	for i, r := range list {
		in, late, end := t.early.take(r), t.tardy.take(r), t.end[i]
		if in > r.at+t.budget || n < i && in > t.gone[n] {
			break
		}
		if r.at < since {
			end = max(end, min(late, last+turnLoads*m.most))
		}
		if n == i && in <= min(end, t.idleEnd(m, i, r.at, last, asked)) {
			n++
		}
		t.in, t.late, t.end = append(t.in, in), append(t.late, late), append(t.end, end)
		t.done, t.gone = append(t.done, max(t.done[i], in+r.takes)), append(t.gone, max(t.gone[i], late+r.takes))
	}
	return n
}

// owed is how many on the list are surely let in before the engine may be left. If it is ready late there may be more to whom
// that is owed, and it is owed to none of them if somebody would then be late for whom they all are waited for.
func (t *turns) owed(m, other *promised, list []visit, first, last, asked time.Duration) (n int) {
	for n+1 < len(t.in) && list[n].at < first && t.late[n+1] <= first+turnLoads*m.least {
		n++
	}
	all := n
	for all+1 < len(t.in) && list[all].at < last && t.in[all+1] <= last+turnLoads*m.most {
		all++
	}
	if asked+t.budget <= t.gone[all]+t.stop+other.most {
		return 0
	}
	return n
}

// turnEnd is when an engine is left that is ready since last, as far as nobody waits who came before that.
func (t *turns) turnEnd(m *promised, last, asked time.Duration) time.Duration {
	if asked == never {
		return never
	}
	return max(max(last, asked)+t.turn, last+t.minResident, last+returnLoads*m.most)
}

// leftBy is by when an engine is left into which the first i on the list were let, and nobody else.
func (t *turns) leftBy(m *promised, list []visit, i int, last, asked time.Duration) time.Duration {
	by := t.end[min(i+1, len(t.end)-1)]
	if i+1 < len(t.late) {
		by = min(by, t.late[i+1])
	}
	next := never
	if i < len(list) {
		next = list[i].at
	}
	return min(by, t.idleEnd(m, i, next, last, asked))
}

// idleEnd is when an engine into which i were let is left because nobody uses it before the next comes, never if somebody may.
func (t *turns) idleEnd(m *promised, i int, next, last, asked time.Duration) time.Duration {
	if asked == never || next <= t.gone[i] {
		return never
	}
	since := max(last, asked)
	return max(min(since+t.turn, max(since, t.gone[i]+m.most)), last+t.minResident)
}

// places are those of an engine: when each is free.
type places []time.Duration

func (p *places) free(n int, at time.Duration) {
	*p = (*p)[:0]
	for range n {
		*p = append(*p, at)
	}
}

// take lets in the next request, and returns when.
func (p places) take(r visit) time.Duration {
	next := 0
	for i, at := range p {
		if at < p[next] {
			next = i
		}
	}
	in := max(r.at, p[next])
	p[next] = in + r.takes
	return in
}

// promised is whether it is known what schedules that keep the promise can do in a scenario: the order within a model is
// that of arrival, and nobody else serves.
func (s *SlotScenario) promised() bool {
	return len(s.Models) == 2 && s.Keys == 1 && len(s.Budgets) == 1 && !s.Fallback
}

// promise is what schedules keep that serve the requests which were served in a run.
func (w *world) promise() *promise {
	p := &promise{turn: w.Turn, minResident: minResident, stop: stopTime, budget: w.Budgets[0], grain: time.Second, from: w.from, to: w.to}
	for i := range p.models {
		m := &w.Models[i]
		p.models[i] = promised{least: m.leastLoad(), most: 2*m.LoadTime - m.leastLoad(), places: m.Concurrency}
		p.grain = min(p.grain, m.LoadTime/5)
	}
	for i, r := range w.requests {
		if w.outcomes[i].granted {
			m := &p.models[r.model]
			m.list = append(m.list, visit{r.at, r.service})
		}
	}
	return p
}

// clairvoyant is the bound for those requests that were served in a run and schedules that keep the promise; free, for those
// that need not. Where only the latter is known it is both. The run itself keeps the promise: where requests were lost, and a
// model had longer turns to make that good, it may have got by with less than leastTurns knows of.
func clairvoyant(w *world) (keeps, free int) {
	free = clairvoyantFree(w)
	if keeps = free; w.promised() {
		if n, ok := leastTurns(w.promise()); ok {
			keeps = max(free, min(n, w.counted()))
		}
	}
	return keeps, free
}
