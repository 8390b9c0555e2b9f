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
	UserCost float64   `json:"user_cost"`
	Shares   []float64 `json:"shares"` // of the answered requests, by endpoint
}

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
}

// newTally counts in a market of these lists, for these arrivals.
func newTally(list []Listing, arrivals []Arrival, seconds float64) *tally {
	in, out := means(arrivals)
	t := &tally{arrivals: arrivals, from: seconds / 10, shares: make([]int, len(list))}
	t.price = median(list, func(l *Listing) float64 { return (in*l.In + out*l.Out) / 1e6 })
	_, ttft, tps := typical(list)
	t.lambda = weighKappa * t.price / (ttft + out/tps)
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
	f.UserCost = (t.cost + t.lambda*(weighFirst*t.wait+t.rest)) / done / t.price
	f.UserCost += weighLost*f.Lost + weigh429*f.Rate429 + weighBadCall*float64(t.bad)/n
	for _, s := range t.shares {
		f.Shares = append(f.Shares, float64(s)/done)
	}
	return f
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
