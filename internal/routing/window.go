package routing

import (
	"math"
	"slices"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// answer is the speed of one answer.
type answer struct {
	at         time.Duration // on the clock of the Windows
	latency    float64       // seconds, 0 = not known
	throughput float64       // tokens per second, 0 = not known
	calls, bad uint32
	tokens     uint32 // of output, 0 = not known
}

// measure takes the speed from a sample; what makes no sense is not known.
func measure(at time.Duration, s Sample) answer {
	a := answer{at: at, calls: count32(s.Calls), bad: count32(min(s.BadCalls, s.Calls)), tokens: count32(s.Tokens)}
	if s.Latency > 0 {
		a.latency = s.Latency.Seconds()
	}
	if s.Total > 0 && s.Tokens > 0 {
		a.throughput = float64(s.Tokens) / s.Total.Seconds()
	}
	return a
}

func count32(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// minute counts the outcomes of one minute.
type minute struct {
	number                    int64 // of the minute on the clock of the Windows
	answered, failed, limited uint32
}

// window is what is remembered of one endpoint.
type window struct {
	mu      sync.Mutex
	ring    []answer      // grows up to ringMax, then the oldest is overwritten
	next    int           // place of the next answer in a full ring
	minutes []minute      // by minute modulo dayLong, made with the first sample
	summed  time.Duration // when the speeds were last summed up
	held    int           // answers in that sum
	turn    uint64        // counts the sums

	place int    // in the newest windows, -1 = it is in older ones alone; guarded by the line's mu, as is shown
	shown uint64 // turn of the sum that is published
}

func (e *window) count(at time.Duration, o Outcome) {
	if e.minutes == nil {
		e.minutes = make([]minute, dayLong)
		for i := range e.minutes {
			e.minutes[i].number = math.MinInt64
		}
	}
	n := minuteOf(at)
	m := &e.minutes[((n%dayLong)+dayLong)%dayLong]
	if m.number != n {
		*m = minute{number: n}
	}
	switch o {
	case Answered:
		m.answered++
	case Failed:
		m.failed++
	case Limited:
		m.limited++
	}
}

// minuteOf numbers the minute of a time, rounded down.
func minuteOf(at time.Duration) int64 {
	n := int64(at / time.Minute)
	if at%time.Minute < 0 {
		n--
	}
	return n
}

func (e *window) outcomes(at, over time.Duration) Outcomes {
	last := minuteOf(at)
	span := min(int64((over+time.Minute-1)/time.Minute), dayLong)
	var o Outcomes
	for i := range e.minutes {
		if m := &e.minutes[i]; m.number <= last && m.number > last-span {
			o.Answered += int(m.answered)
			o.Failed += int(m.failed)
			o.Limited += int(m.limited)
		}
	}
	return o
}

func (e *window) put(a answer) {
	if len(e.ring) < ringMax {
		e.ring = append(e.ring, a)
		return
	}
	e.ring[e.next] = a
	e.next = (e.next + 1) % ringMax
}

// due says whether the speeds are to be summed up again: at each answer while these are few, else once in a while. A
// clock that went back is no reason to wait for it.
func (e *window) due(at, every time.Duration) bool {
	gap := at - e.summed
	return e.held < eager || gap >= every || gap <= -every
}

// sum counts a sum of the recent answers and copies them.
func (e *window) sum(at time.Duration) (recent []answer, turn uint64) {
	recent = e.since(at, hearth.SpeedWindow)
	e.summed, e.held = at, len(recent)
	e.turn++
	return recent, e.turn
}

// since copies the answers of the time up to at, oldest first.
func (e *window) since(at, over time.Duration) []answer {
	out := make([]answer, 0, len(e.ring))
	for i := range e.ring {
		a := &e.ring[(e.next+i)%len(e.ring)]
		if age := at - a.at; age >= 0 && age < over {
			out = append(out, *a)
		}
	}
	return out
}

// speed sums answers up.
func speed(answers []answer) hearth.EndpointSpeed {
	s := hearth.EndpointSpeed{Samples: len(answers)}
	latency, throughput := make([]float64, 0, len(answers)), make([]float64, 0, len(answers))
	for _, a := range answers {
		if a.latency > 0 {
			latency = append(latency, a.latency)
		}
		if a.throughput > 0 {
			throughput = append(throughput, a.throughput)
		}
		s.Calls += int(a.calls)
		s.BadCalls += int(a.bad)
		if a.tokens > 0 {
			s.Output += int(a.tokens)
			s.Counted++
		}
	}
	s.Latency = percentiles(latency)
	for i := range throughput { // the fewer the worse: as negative numbers they sort like a latency
		throughput[i] = -throughput[i]
	}
	t := percentiles(throughput)
	s.Throughput = hearth.Percentiles{P50: 0 - t.P50, P75: 0 - t.P75, P90: 0 - t.P90, P99: 0 - t.P99}
	return s
}

// percentiles are by the nearest rank: the smallest figure that so many of a hundred do not exceed. It sorts xs.
func percentiles(xs []float64) hearth.Percentiles {
	if len(xs) == 0 {
		return hearth.Percentiles{}
	}
	slices.Sort(xs)
	rank := func(p int) float64 { return xs[(p*len(xs)+99)/100-1] }
	return hearth.Percentiles{P50: rank(50), P75: rank(75), P90: rank(90), P99: rank(99)}
}
