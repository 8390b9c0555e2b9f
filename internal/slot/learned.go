package slot

import (
	"math"
	"slices"
	"time"

	"myip.co.kr/hearth"
)

const (
	// memory is how many measurements of one kind are remembered.
	memory = 64
	// halfLife is after how many further measurements one counts half.
	halfLife = 16
)

// weights are what a measurement counts, by how many came after it: 1 for the last, half of it after halfLife more.
var weights = func() (w [memory]float64) {
	for i := range w {
		w[i] = math.Exp2(-float64(i) / halfLife)
	}
	return w
}()

// learned are the last measurements of a duration and their quantiles, in which old ones count less: the nearest-rank
// quantile of a sample with weights. The zero value has measured nothing.
type learned struct {
	values   []measured // shortest first
	count    uint64     // of all measurements ever
	p50, p95 time.Duration
	mean     time.Duration // with the same weights
}

// measured is one measurement, nth the count by then.
type measured struct {
	d   time.Duration
	nth uint64
}

// add notes a measurement; one below zero counts as zero.
func (l *learned) add(d time.Duration) {
	d = max(0, d)
	l.count++
	if len(l.values) == memory {
		old := l.count - memory
		l.values = slices.DeleteFunc(l.values, func(m measured) bool { return m.nth == old })
	} else if l.values == nil {
		l.values = make([]measured, 0, memory)
	}
	at, _ := slices.BinarySearchFunc(l.values, d, func(m measured, d time.Duration) int {
		if m.d <= d {
			return -1
		}
		return 1
	})
	l.values = slices.Insert(l.values, at, measured{d, l.count})
	l.weigh()
}

// weigh finds the figures.
func (l *learned) weigh() {
	var sum, below, total float64
	for i := range l.values {
		sum += weights[i]
	}
	l.p50, l.p95 = -1, -1
	for _, m := range l.values {
		w := weights[l.count-m.nth]
		below += w
		total += w * float64(m.d)
		if l.p50 < 0 && below >= 0.5*sum {
			l.p50 = m.d
		}
		if l.p95 < 0 && below >= 0.95*sum {
			l.p95 = m.d
		}
	}
	l.mean = time.Duration(math.Round(total / sum))
}

// N is how many measurements the figures are made of, at most 64.
func (l *learned) N() int { return len(l.values) }

// P50 is the median, 0 = nothing was measured.
func (l *learned) P50() time.Duration { return l.p50 }

// P95 is what 95 of 100 do not exceed, 0 = nothing was measured.
func (l *learned) P95() time.Duration { return l.p95 }

// Min is the shortest of the measurements that are remembered, 0 = there are none.
func (l *learned) Min() time.Duration {
	if len(l.values) == 0 {
		return 0
	}
	return l.values[0].d
}

// fastestLoad is the shortest time in which the slot's engine was seen to come up, 0 = it never was.
func (p *place) fastestLoad() time.Duration { return p.loading.Min() }

// fastestDrain is the shortest time that those who used the slot's engine were seen to take when it was to go, 0 = none was.
func (p *place) fastestDrain() time.Duration { return p.draining.Min() }

// figures are what may be known of what was learned.
func (l *learned) figures() hearth.Figures {
	return hearth.Figures{P50: l.p50, P95: l.p95, Min: l.Min(), N: l.N()}
}
