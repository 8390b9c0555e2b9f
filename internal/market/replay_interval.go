package market

import "math"

// What a policy changes changes what the router would have known, and which caches would have been full: where requests go,
// they become cheaper, and where they leave, dearer. Records do not hold that. Estimates were held against what policies really
// came to in the markets of TestReplay_AgainstTheWorldItself, with three seeds and records of two values of time: chance
// explains a third of how far they were off. Of the change to what happened they mostly saw too little, by up to one and a half
// of its size; seldom too much, and then by less than a third. With that, and with what caches can do to the cost, the bounds
// held the truth in nine of ten cases.
const (
	replayFurther = 1.5
	replayBack    = 0.3
)

// within finds the bounds of an estimate. was is what happened, deviation that of the estimate by chance, times how many of
// them hold it in 19 of 20 cases, less and more by how much it may be off for another reason.
func (e *Estimate) within(was, deviation, times, less, more float64) {
	change := math.Abs(e.Value - was)
	if e.Value < was {
		less, more = less+replayFurther*change, more+replayBack*change
	} else {
		less, more = less+replayBack*change, more+replayFurther*change
	}
	low, high := max(e.Value-times*deviation-less, 0), e.Value+times*deviation+more
	e.Error, e.Low, e.High = &deviation, &low, &high
}

// jackknife finds the standard deviations of the figures by chance, and of how many groups: from how much the difference to
// what happened changes when one group of records after the other is left out. Nil = there are too few groups.
func jackknife(models []*replayModel, policy int) (*[allFigures]float64, int) {
	var by [][allFigures]float64
	for g := range replayGroups {
		some := false
		for _, m := range models {
			some = some || m.groups[g].chose[paid] > 0
		}
		if !some {
			continue
		}
		now, was := outcomeOf(models, policy, g), outcomeOf(models, -1, g)
		for f := range now {
			now[f] -= was[f]
		}
		by = append(by, now)
	}
	if len(by) < leastGroups {
		return nil, len(by)
	}
	k := float64(len(by))
	var out [allFigures]float64
	for f := range out {
		mean, square := 0.0, 0.0
		for _, x := range by {
			mean += x[f] / k
		}
		for _, x := range by {
			square += (x[f] - mean) * (x[f] - mean)
		}
		out[f] = math.Sqrt((k - 1) / k * square)
	}
	return &out, len(by)
}

// caches finds by how much the cost of all requests may be off for what becomes of the caches: those of endpoints that get
// more than they got may come to be as full as the fullest of the model's, and those of endpoints that get less to be empty
// for the part that they lose. Both are taken against the price lists.
func caches(models []*replayModel, policy int) (less, more float64) {
	for _, m := range models {
		var all basis
		sums := make([]basis, len(m.spots))
		most := 0.0 // of a list that was not paid
		for i, s := range m.spots {
			for g := range s.base {
				sums[i].add(&s.base[g])
			}
			all.add(&sums[i])
			if s.chosen >= leastTried && sums[i].listed > 0 {
				most = max(most, 1-sums[i].got[paid]/sums[i].listed)
			}
		}
		for i, s := range m.spots {
			if s.under[policy] == nil {
				continue
			}
			l := s.under[policy].sums(-1)
			saved := l.listed - sums[i].cameTrue(&all, paid)*l.direct[paid]
			if got, mass := float64(s.chosen), s.under[policy].mass; mass > got {
				less += max(most*l.listed-saved, 0) * (1 - got/mass)
			} else {
				more += max(saved, 0) * (1 - mass/got)
			}
		}
	}
	return less, more
}
