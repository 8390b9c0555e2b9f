package market

import (
	"math"
	"slices"
	"time"
)

// SlotFigures is what a policy made of a scenario, on average over the runs. Only the first is known of a bound.
type SlotFigures struct {
	// LoadsPer100 is how many engines were started for 100 requests that the GPU served.
	LoadsPer100 float64 `json:"loads_per_100"`
	// Served is the part of the requests that were let into an engine, or handed on to who else serves, within their
	// budget; MinModel is that of the model that fared worst.
	Served   *float64 `json:"served_within_budget,omitzero"`
	MinModel *float64 `json:"min_model_served_within_budget,omitzero"`
	// Waits of the requests that were served so, in seconds; the longest is that of all runs, and of the others too.
	WaitP50     *float64 `json:"wait_p50,omitzero"`
	WaitP95     *float64 `json:"wait_p95,omitzero"`
	WaitLongest *float64 `json:"wait_longest,omitzero"`
	// Jain is the least of Jain's indices of what part of their requests was served within the budget: over the models, and
	// over the keys whose requests wait equally long. 1 = the same for all.
	Jain *float64 `json:"jain,omitzero"`
	// LocalShare is the part of the requests that the GPU served.
	LocalShare *float64 `json:"local_share,omitzero"`
	// LoadingShare is the part of the time for which the GPU was loading a model.
	LoadingShare *float64 `json:"gpu_loading_share,omitzero"`
}

// run is what is measured of one run.
type run struct {
	loads, served, minModel, p50, p95, longest, jain, local, loading float64
}

// share counts of how many what part is so.
type share struct{ of, all float64 }

func (s *share) add(is bool) {
	s.all++
	if is {
		s.of++
	}
}

func (s share) part() float64 {
	if s.all == 0 {
		return 1
	}
	return s.of / s.all
}

func measure(w *world) run {
	var all, local share
	models, keys := make([]share, len(w.Models)), make([]share, w.Keys)
	var waits []float64
	longest := time.Duration(0)
	for i, r := range w.requests {
		if r.at < w.from || r.at >= w.to {
			continue
		}
		o := w.outcomes[i]
		wait := o.at - r.at
		served := (o.granted || w.Fallback) && wait <= r.budget
		all.add(served)
		local.add(o.granted)
		models[r.model].add(served)
		keys[r.key].add(served)
		longest = max(longest, wait)
		if served {
			waits = append(waits, wait.Seconds())
		}
	}
	slices.Sort(waits)
	m := run{
		served: all.part(), minModel: 1, p50: quantile(waits, 0.5), p95: quantile(waits, 0.95), longest: longest.Seconds(),
		jain: min(jain(models), w.jainOfKeys(keys)), local: local.part(),
	}
	for _, s := range models {
		m.minModel = min(m.minModel, s.part())
	}
	loading := time.Duration(0)
	for _, l := range w.loads {
		loading += max(0, min(l.until, w.to)-max(l.from, w.from))
	}
	m.loads = 100 * float64(w.counted()) / max(1, local.of)
	m.loading = loading.Seconds() / (w.to - w.from).Seconds()
	return m
}

// counts says whether a load is measured.
func (w *world) counts(l load) bool { return l.from > w.from && l.from <= w.to }

// counted is how many loads are measured.
func (w *world) counted() (n int) {
	for _, l := range w.loads {
		if w.counts(l) {
			n++
		}
	}
	return n
}

// jainOfKeys is the least of Jain's indices over keys whose requests wait equally long: who does not wait for a load
// cannot be served by it, which is nobody's unfairness.
func (t *trace) jainOfKeys(keys []share) float64 {
	least := 1.0
	for b := range t.Budgets {
		var alike []share
		for k := b; k < len(keys); k += len(t.Budgets) {
			alike = append(alike, keys[k])
		}
		least = min(least, jain(alike))
	}
	return least
}

// jain is Jain's index of fairness: 1 if all have the same part, 1/n if one has all.
func jain(list []share) float64 {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, s := range list {
		if s.all > 0 {
			sum, squares, n = sum+s.part(), squares+s.part()*s.part(), n+1
		}
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

// quantile is the value that the part q of a sorted list is not above.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// overRuns is the figures of several runs, and half the width of the interval in which their mean lies with 95 %.
func overRuns(runs []run) (mean, width SlotFigures) {
	of := func(f func(*run) float64) (m, w *float64) {
		sum, squares, n := 0.0, 0.0, float64(len(runs))
		for i := range runs {
			sum += f(&runs[i])
		}
		for i := range runs {
			squares += (f(&runs[i]) - sum/n) * (f(&runs[i]) - sum/n)
		}
		avg, half := sum/n, 0.0
		if n > 1 {
			half = student(len(runs)-1) * math.Sqrt(squares/(n-1)/n)
		}
		return &avg, &half
	}
	l, lw := of(func(r *run) float64 { return r.loads })
	mean.LoadsPer100, width.LoadsPer100 = *l, *lw
	mean.Served, width.Served = of(func(r *run) float64 { return r.served })
	mean.MinModel, width.MinModel = of(func(r *run) float64 { return r.minModel })
	mean.WaitP50, width.WaitP50 = of(func(r *run) float64 { return r.p50 })
	mean.WaitP95, width.WaitP95 = of(func(r *run) float64 { return r.p95 })
	mean.WaitLongest, width.WaitLongest = of(func(r *run) float64 { return r.longest })
	mean.Jain, width.Jain = of(func(r *run) float64 { return r.jain })
	mean.LocalShare, width.LocalShare = of(func(r *run) float64 { return r.local })
	mean.LoadingShare, width.LoadingShare = of(func(r *run) float64 { return r.loading })
	for _, r := range runs {
		*mean.WaitLongest = max(*mean.WaitLongest, r.longest)
	}
	return mean, width
}

// student is the 97.5 % quantile of Student's t distribution.
func student(freedom int) float64 {
	table := []float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	return 1.96 + 2.5/float64(freedom)
}
