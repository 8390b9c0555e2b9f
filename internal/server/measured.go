package server

import (
	"math"
	"time"

	"myip.co.kr/hearth"
)

// percentiles are what half, 75, 90 and 99 per cent of the answers did at least as well as.
type percentiles struct {
	P50 float64 `json:"p50"`
	P75 float64 `json:"p75"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// scaled are the percentiles in another unit, to a thousandth of it; nil = nothing was measured.
func scaled(p hearth.Percentiles, by float64) *percentiles {
	if p == (hearth.Percentiles{}) {
		return nil
	}
	round := func(x float64) float64 { return math.Round(x*by*1000) / 1000 }
	return &percentiles{round(p.P50), round(p.P75), round(p.P90), round(p.P99)}
}

// Speed is what was measured at an endpoint in the last 5 minutes.
type Speed struct {
	Samples    int          `json:"samples"`
	Latency    *percentiles `json:"latency"`    // milliseconds to the first token
	Throughput *percentiles `json:"throughput"` // output tokens per second, end to end
	Calls      int          `json:"tool_calls,omitzero"`
	BadCalls   int          `json:"malformed_tool_calls,omitzero"`
}

// speedOf is the speed of an endpoint as a chain is sorted by it; nil = nothing was measured lately.
func speedOf(e *hearth.Endpoint, speeds []hearth.EndpointSpeed, now time.Time) *Speed {
	if e.Index >= len(speeds) || !speeds[e.Index].Fresh(now) {
		return nil
	}
	v := speeds[e.Index]
	return &Speed{
		Samples: v.Samples, Latency: scaled(v.Latency, 1000), Throughput: scaled(v.Throughput, 1), Calls: v.Calls, BadCalls: v.BadCalls,
	}
}

// measured writes what was measured at an endpoint into its place in the list. What was not is null.
func (s *Server) measured(j *endpointJSON, e *hearth.Endpoint, now time.Time) {
	if s.Windows == nil {
		return
	}
	const halfHour, day = 30 * time.Minute, 24 * time.Hour
	uptime := func(over time.Duration) *float64 {
		percent, ok := s.Windows.Outcomes(e.Index, over, now).Uptime()
		if !ok {
			return nil
		}
		percent = math.Round(percent*1000) / 1000
		return &percent
	}
	j.Uptime5m, j.Uptime30m, j.Uptime1d = uptime(5*time.Minute), uptime(halfHour), uptime(day)
	v := s.Windows.Stats(e.Index, halfHour, now)
	j.Latency, j.Throughput = scaled(v.Latency, 1000), scaled(v.Throughput, 1)
	if j.Attempts = v.Answered + v.Failed + v.Limited; j.Attempts > 0 {
		rate := func(n int) *float64 {
			r := math.Round(float64(n)/float64(j.Attempts)*1e5) / 1e5
			return &r
		}
		j.Errors, j.Limits = rate(v.Failed), rate(v.Limited)
	}
}

// toolChoiceOf says which forms of tool_choice are understood where these parameters are taken. "auto" is what happens
// without any.
func toolChoiceOf(p hearth.Params) toolChoice {
	tools := p&hearth.ParamTools != 0
	choice := tools && p&paramToolChoice != 0
	return toolChoice{Auto: tools, None: choice, Required: choice, Function: choice}
}

var paramToolChoice = hearth.MustParams("tool_choice")
