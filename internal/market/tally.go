package market

import (
	"math"
	"slices"
)

// Figures are what a policy came to. Times count from a request's arrival, failed tries included, over answered requests.
type Figures struct {
	Requests int `json:"requests"`
	Answered int `json:"answered"`

	TTFT    float64 `json:"ttft"`     // mean seconds to the first token
	TTFTP50 float64 `json:"ttft_p50"` // its percentiles
	TTFTP95 float64 `json:"ttft_p95"`
	E2E     float64 `json:"e2e"`       // mean of output tokens per second, end to end
	E2ESum  float64 `json:"e2e_sum"`   // all output tokens over all seconds
	Decode  float64 `json:"decode"`    // median output tokens per second after the first token
	Rate429 float64 `json:"rate_429"`  // 429s per request
	Failed  float64 `json:"failed"`    // other failed tries per request
	Lost    float64 `json:"user_fail"` // requests whose caller got an error, per request
	BadCall float64 `json:"bad_tools"` // answers with broken tool calls, per request with tools
	Cost    float64 `json:"cost"`      // $ per 1,000 answered requests
	Cached  float64 `json:"cached"`    // share of the prompt tokens that came from a cache
	// UserCost is what a request costs its user in all, in prices of a typical request: price, time, errors.
	UserCost  float64   `json:"user_cost"`
	Parts     Parts     `json:"parts"` // of UserCost
	Shares    []float64 `json:"-"`     // of the answered requests, by endpoint
	Endpoints []Part    `json:"shares"`

	over [][]float64 // shares of the answered requests by part of the time, warm-up included, and endpoint
	wait []float64   // percentiles of the time to the first token
}

// Part is what an endpoint got of the answered requests, 0 to 1.
type Part struct {
	Endpoint string  `json:"endpoint"`
	Share    float64 `json:"share"`
	// Over is its share in each twelfth of the time, warm-up included, with the first seed; 0 where nothing was answered.
	Over []float64 `json:"over"`
}

// Parts are what UserCost is made of.
type Parts struct {
	Price  float64 `json:"price"`
	First  float64 `json:"first"` // the wait for the first token
	Rest   float64 `json:"rest"`  // and for the rest of the answer
	Lost   float64 `json:"lost"`  // callers who got an error
	Limits float64 `json:"limits"`
	Tools  float64 `json:"tools"` // broken tool calls
}

func (p *Parts) sum() float64 { return p.Price + p.First + p.Rest + p.Lost + p.Limits + p.Tools }

// What errors weigh in UserCost, in typical requests, and what time does.
const (
	weighLost    = 10.0
	weigh429     = 0.5
	weighBadCall = 2.0
	weighKappa   = 0.5
	weighFirst   = 1.5 // a second before the first token against one after it
)

// tally counts what happens to requests that come after the warm-up.
type tally struct {
	arrivals []Arrival
	from     float64 // seconds
	open     int     // requests under way, warm-up included

	price, lambda float64 // $ per typical request; $ per second

	requests, done, limits, fails, lost, tools, bad, prompt, cached int
	first, speed, decode                                            []float64
	tokens, seconds, wait, rest, cost                               float64
	shares                                                          []int
	over                                                            [][]float64
	end                                                             float64
}

// What is kept for charts.
const (
	overParts   = 120 // of the time
	printedOver = 12  // likewise
	curvePoints = 200
)

// newTally counts in a market of these lists, for these arrivals.
func newTally(list []Listing, arrivals []Arrival, seconds float64) *tally {
	in, out := means(arrivals)
	t := &tally{arrivals: arrivals, from: seconds / 10, end: seconds, shares: make([]int, len(list))}
	t.price = median(list, func(l *Listing) float64 { return (in*l.In + out*l.Out) / 1e6 })
	_, ttft, tps := typical(list)
	t.price = max(t.price, 1e-12)
	t.lambda = weighKappa * t.price / (ttft + out/tps)
	t.over = make([][]float64, overParts)
	for i := range t.over {
		t.over[i] = make([]float64, len(list))
	}
	return t
}

func (t *tally) counts(n int) bool { return t.arrivals[n].At >= t.from }

func (t *tally) begin(n int) {
	t.open++
	if t.counts(n) {
		t.requests++
		if t.arrivals[n].Tools {
			t.tools++
		}
	}
}

// tried counts a try that is over.
func (t *tally) tried(q *try, e ending) {
	if !t.counts(q.request) {
		return
	}
	switch e {
	case limited:
		t.limits++
	case failed, broken:
		t.fails++
	}
}

func (t *tally) answered(q *try, a *Arrival, bad bool, cost, now float64) {
	t.open--
	t.over[min(max(int(a.At/max(t.end, 1e-9)*overParts), 0), overParts-1)][q.endpoint]++
	if !t.counts(q.request) {
		return
	}
	t.done++
	wait, rest := q.first-a.At, now-q.first
	t.first, t.speed = append(t.first, wait), append(t.speed, float64(a.Out)/(now-a.At))
	t.decode = append(t.decode, float64(a.Out)/math.Max(rest, 1e-6))
	t.tokens, t.seconds = t.tokens+float64(a.Out), t.seconds+now-a.At
	t.wait, t.rest, t.cost = t.wait+wait, t.rest+rest, t.cost+cost
	t.prompt, t.cached = t.prompt+a.In, t.cached+q.cached
	t.shares[q.endpoint]++
	if bad {
		t.bad++
	}
}

// lose counts a request whose caller got an error.
func (t *tally) lose(n int) {
	t.open--
	if t.counts(n) {
		t.lost++
	}
}

// figures sums up.
func (t *tally) figures() Figures {
	n, done := math.Max(1, float64(t.requests)), math.Max(1, float64(t.done))
	f := Figures{Requests: t.requests, Answered: t.done}
	f.TTFT, f.E2E = meanOf(t.first), meanOf(t.speed)
	f.TTFTP50, f.TTFTP95, f.Decode = percentile(t.first, 0.5), percentile(t.first, 0.95), percentile(t.decode, 0.5)
	f.E2ESum = t.tokens / math.Max(t.seconds, 1e-9)
	f.Rate429, f.Failed, f.Lost = float64(t.limits)/n, float64(t.fails)/n, float64(t.lost)/n
	f.BadCall = float64(t.bad) / math.Max(1, float64(t.tools))
	f.Cost, f.Cached = 1000*t.cost/done, float64(t.cached)/math.Max(1, float64(t.prompt))
	f.Parts = Parts{
		Price: t.cost / done / t.price, First: t.lambda * weighFirst * t.wait / done / t.price, Rest: t.lambda * t.rest / done / t.price,
		Lost: weighLost * f.Lost, Limits: weigh429 * f.Rate429, Tools: weighBadCall * float64(t.bad) / n,
	}
	f.UserCost = f.Parts.sum()
	for _, s := range t.shares {
		f.Shares = append(f.Shares, float64(s)/done)
	}
	f.over = t.over
	first := slices.Sorted(slices.Values(t.first))
	for p := range curvePoints + 1 {
		if len(first) > 0 {
			f.wait = append(f.wait, first[min(len(first)-1, p*len(first)/curvePoints)])
		}
	}
	return f
}

// average is the mean of several runs of the same scenario; what is kept for charts is that of the first.
func average(runs []Figures) Figures {
	var f Figures
	if len(runs) == 0 {
		return f
	}
	n := float64(len(runs))
	f.over, f.wait = runs[0].over, runs[0].wait
	f.Shares = make([]float64, len(runs[0].Shares))
	for i := range runs {
		r := &runs[i]
		f.Requests, f.Answered = f.Requests+r.Requests, f.Answered+r.Answered
		for to, v := range map[*float64]float64{
			&f.TTFT: r.TTFT, &f.TTFTP50: r.TTFTP50, &f.TTFTP95: r.TTFTP95, &f.E2E: r.E2E, &f.E2ESum: r.E2ESum, &f.Decode: r.Decode,
			&f.Rate429: r.Rate429, &f.Failed: r.Failed, &f.Lost: r.Lost, &f.BadCall: r.BadCall, &f.Cost: r.Cost, &f.Cached: r.Cached, &f.UserCost: r.UserCost,
			&f.Parts.Price: r.Parts.Price, &f.Parts.First: r.Parts.First, &f.Parts.Rest: r.Parts.Rest, &f.Parts.Lost: r.Parts.Lost,
			&f.Parts.Limits: r.Parts.Limits, &f.Parts.Tools: r.Parts.Tools,
		} {
			*to += v / n
		}
		for k, s := range r.Shares {
			f.Shares[k] += s / n
		}
	}
	return f
}

// name says what each endpoint got.
func (f *Figures) name(endpoints []string) {
	f.Endpoints = make([]Part, len(endpoints))
	for e, name := range endpoints {
		f.Endpoints[e] = Part{name, f.Shares[e], make([]float64, printedOver)}
	}
	const each = overParts / printedOver
	for p := range len(f.over) / each {
		all := 0.0
		for _, counts := range f.over[p*each : (p+1)*each] {
			for e, n := range counts {
				f.Endpoints[e].Over[p] += n
				all += n
			}
		}
		for e := range f.Endpoints {
			f.Endpoints[e].Over[p] /= math.Max(all, 1)
		}
	}
}

func meanOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / math.Max(1, float64(len(v)))
}

// percentile is the value that a share p of v does not exceed.
func percentile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(p*float64(len(s))))]
}
