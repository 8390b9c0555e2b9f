package market

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Arrival is one request.
type Arrival struct {
	At      float64 // seconds from the start
	In, Out int     // tokens
	Session int     // requests with the same number belong together, 0 = to none
	Tools   bool    // it offers tools
	prefix  []block // the leading part of its prompt that others may have had too
}

// block is a run of prompt tokens that requests have in common.
type block struct {
	id     uint64
	tokens int
}

// Workload draws arrivals.
type Workload struct {
	Rate  float64 // requests per second
	Burst float64 // how much faster they come in bursts: 1 = not at all. Bursts take 40 s of every 280 s in the mean
	// Turns is the mean number of requests of a session, 1 = every request is one of its own.
	Turns  float64
	Think  float64 // median time in seconds between an answer and the next request of its session
	Prompt float64 // median tokens of a session's first prompt, besides what its app sends always
	Grow   float64 // median tokens that are added by each further turn, besides the last answer
	Output float64 // median tokens of an answer
	Apps   int     // programs that send two long blocks with every request
	Tools  float64 // share of the sessions that offer tools
}

// Chats are people who ask once.
func Chats(rate float64) Workload {
	return Workload{Rate: rate, Burst: 1, Turns: 1, Prompt: 700, Output: 350, Apps: 20, Tools: 0.1}
}

// Agents are programs that go on with a growing prompt.
func Agents(rate float64) Workload {
	return Workload{Rate: rate, Burst: 1, Turns: 8, Think: 5, Prompt: 1500, Grow: 400, Output: 250, Apps: 20, Tools: 0.7}
}

// Spreads of the logarithms.
const (
	promptSpread = 0.8
	outputSpread = 0.9
	growSpread   = 0.9
	thinkSpread  = 0.9
)

// Lengths of bursts and of the time between them in the mean, in seconds.
const (
	burstOn  = 40.0
	burstOff = 240.0
)

// Draw makes the arrivals of so many seconds, in their order.
func (w Workload) Draw(r *rand.Rand, seconds float64) []Arrival {
	apps := make([][2]int, max(w.Apps, 1))
	for i := range apps {
		apps[i] = [2]int{int(500 * logNormal(0.7, r.NormFloat64())), int(900 * logNormal(0.7, r.NormFloat64()))}
	}
	var list []Arrival
	session := 0
	for _, at := range w.starts(r, seconds) {
		session++
		list = w.session(r, list, session, at, seconds, apps[r.IntN(len(apps))])
	}
	slices.SortStableFunc(list, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return list
}

// starts are when sessions begin: a Poisson process whose rate has two levels.
func (w Workload) starts(r *rand.Rand, seconds float64) (list []float64) {
	rate := w.Rate / max(w.Turns, 1)
	burst := max(w.Burst, 1)
	calm := rate * (burstOn + burstOff) / (burst*burstOn + burstOff)
	on := r.Float64() < burstOn/(burstOn+burstOff)
	next := r.ExpFloat64() * mean(on)
	for at := 0.0; ; {
		now := calm
		if on {
			now = calm * burst
		}
		step := r.ExpFloat64() / now
		if at+step > next { // the process has no memory: draw anew from the change on
			at, on = next, !on
			next += r.ExpFloat64() * mean(on)
			if at > seconds {
				return list
			}
			continue
		}
		if at += step; at > seconds {
			return list
		}
		list = append(list, at)
	}
}

func mean(on bool) float64 {
	if on {
		return burstOn
	}
	return burstOff
}

// Numbers of blocks: those of apps come first.
const (
	appBlocks     = 1 << 20
	sessionBlocks = 1 << 12
)

// session appends the requests of one session. When its next request comes does not depend on how it is served: the same
// requests come to every policy.
func (w Workload) session(r *rand.Rand, list []Arrival, id int, at, seconds float64, app [2]int) []Arrival {
	which := uint64(app[0])*7919 + uint64(app[1])
	prefix := []block{{which % appBlocks, app[0]}, {appBlocks + which%appBlocks, app[1]}}
	own := int(w.Prompt * logNormal(promptSpread, r.NormFloat64()))
	tools := r.Float64() < w.Tools
	for turn := range sessionBlocks {
		out := max(1, int(w.Output*logNormal(outputSpread, r.NormFloat64())))
		prefix = append(slices.Clone(prefix), block{uint64(id)*sessionBlocks + uint64(turn) + 2*appBlocks, max(1, own)})
		in := 0
		for _, b := range prefix {
			in += b.tokens
		}
		a := Arrival{At: at, In: in, Out: out, Tools: tools, prefix: prefix}
		if w.Turns > 1 {
			a.Session = id
		}
		list = append(list, a)
		if w.Turns <= 1 || r.Float64() < 1/w.Turns || in > maxPrompt {
			return list
		}
		own = out + int(w.Grow*logNormal(growSpread, r.NormFloat64()))
		at += float64(out)/typicalSpeed + w.Think*logNormal(thinkSpread, r.NormFloat64())
		if at > seconds {
			return list
		}
	}
	return list
}

// maxPrompt ends a session whose prompt has grown so long, in tokens.
const maxPrompt = 120_000

// typicalSpeed is how fast answers are taken to come when a session's next request is placed, in tokens per second.
const typicalSpeed = 50.0

// means are the mean sizes of requests.
func means(list []Arrival) (in, out float64) {
	for i := range list {
		in += float64(list[i].In)
		out += float64(list[i].Out)
	}
	n := math.Max(1, float64(len(list)))
	return in / n, out / n
}
