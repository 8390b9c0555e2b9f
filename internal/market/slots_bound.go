package market

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// window is what one request that is served asks of a schedule: its model must be ready from the instant at which the
// request is let into the engine, not before it came and not after its time is up, until the engine is done with it.
type window struct {
	model    int
	done     time.Duration // when the engine is done with it at the earliest: when it came, and what it takes
	lastLoad time.Duration // when a load that is in time for it begins at the latest
}

// leastLoads is a number of loads that no schedule falls short of which serves all these requests on a GPU that holds one
// model at a time, of those loads that begin after from and not after to. Which model is there at from is left to the
// schedule. Nothing else is asked of it: it may know all requests, stop an engine in no time, give up a load, and have an
// engine work on any number of requests at once. So it is a bound for every scheduler, and every one that knows the future.
//
// It is what the following gives. Say that a model holds the GPU at an instant if it is ready or its load has begun: one
// does at most. Let a model m hold it at s. A request for another model j whose done is after s was not served
// before s and is not in an engine at s; so a load of j begins after s, and not after the request's lastLoad. Let
// x(j) be the earliest of these. Then between s and x there are at least as many loads as there are other models with
// x(j) ≤ x: exactly so many, and then one of these models holds the GPU at x, or at least one more, and then any may. From
// x on the same holds again. What must still be served at x though its done is before is forgotten, which makes the
// bound no greater. Of all x, that which gives most counts.
func leastLoads(models int, windows []window, from, to time.Duration) int {
	times := []time.Duration{from}
	windows = slices.Clone(windows)
	for _, w := range windows {
		if w.lastLoad > from && w.lastLoad <= to {
			times = append(times, w.lastLoad)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	slices.SortFunc(windows, func(a, b window) int { return cmp.Compare(b.done, a.done) }) // latest first
	b := bound{times: times, value: make([][]int, len(times)), next: make([]time.Duration, models)}
	for j := range b.next {
		b.next[j] = never
	}
	for i := len(times) - 1; i >= 0; i-- {
		for len(windows) > 0 && windows[0].done > times[i] {
			w := windows[0]
			b.next[w.model] = min(b.next[w.model], w.lastLoad)
			windows = windows[1:]
		}
		b.value[i] = make([]int, models)
		for m := range models {
			b.value[i][m] = b.from(i, m, to)
		}
	}
	return slices.Min(b.value[0])
}

// bound is the table of leastLoads, filled from the end on.
type bound struct {
	times []time.Duration // at which a window of the bound may begin
	value [][]int         // by time and the model that holds the GPU: how many loads there are afterwards at least
	next  []time.Duration // by model: x(j) for the present s
}

// impossible is more loads than there are: no schedule has the model hold the GPU at that time.
const impossible = math.MaxInt / 4

// from is the bound for the loads after times[i] if m holds the GPU there.
func (b *bound) from(i, m int, to time.Duration) int {
	most := 0
	if i+1 < len(b.times) { // nothing is asked of the time until then
		most = min(b.value[i+1][m], 1+slices.Min(b.value[i+1]))
	}
	for e, x := range b.next {
		if e == m || x > to {
			continue
		}
		if x <= b.times[i] {
			return impossible
		}
		at, _ := slices.BinarySearch(b.times, x)
		loads, last := 0, impossible
		for j, y := range b.next {
			if j != m && y <= x {
				loads++
				last = min(last, b.value[at][j])
			}
		}
		most = max(most, loads+min(last, 1+slices.Min(b.value[at])))
	}
	return min(most, impossible)
}

// clairvoyantFree is the bound for those requests that were served in a run.
func clairvoyantFree(w *world) int {
	var list []window
	for i, r := range w.requests {
		if o := w.outcomes[i]; o.granted && r.at >= w.from && r.at < w.to {
			list = append(list, window{r.model, r.at + r.service, r.at + r.budget - w.Models[r.model].leastLoad()})
		}
	}
	return leastLoads(len(w.Models), list, w.from, w.to)
}
