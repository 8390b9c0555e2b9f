package hearth

import (
	"slices"
	"time"
)

// Stage is where in the building of a chain a candidate was dropped. When a stage empties the chain, it names the error.
type Stage string

const (
	StageUnknown    Stage = "unknown_model"
	StageKey        Stage = "key_policy" // what the API key may use
	StageConditions Stage = "conditions" // the caller's provider object, disabled endpoints
	StageCapability Stage = "capability" // context window, features
	StageHealth     Stage = "health"     // cooldown, rate limit, stale exchange rate
	StageCredits    Stage = "credits"    // the key cannot pay for it
	StageCut        Stage = "cut"        // allow_fallbacks: false
)

// Order is how far the building of a chain has come at the stage; -1 = it is none.
func (s Stage) Order() int {
	return slices.Index([]Stage{StageUnknown, StageKey, StageConditions, StageCapability, StageHealth, StageCredits, StageCut}, s)
}

// Candidate is one endpoint in a chain.
type Candidate struct {
	Endpoint *Endpoint
	Reason   string // why it stands where it stands
	// MaxTokens > 0: the output cap is lowered to it, because the endpoint's engine refuses one that is larger than the
	// rest of its window.
	MaxTokens int
	// LastResort: the endpoint is in cooldown and is tried all the same, behind everything else.
	LastResort bool
	// Spilled: it is an own slot that stands behind external endpoints only because it is not up: that it were is wanted.
	Spilled bool
}

// Drop is one endpoint that was left out of a chain, and why.
type Drop struct {
	Model    string     `json:"model"`
	Provider string     `json:"provider_slug,omitzero"` // slug; empty for an unknown model
	Endpoint string     `json:"endpoint,omitzero"`      // endpoint id
	Stage    Stage      `json:"stage"`
	Reason   string     `json:"reason"`
	Skip     SkipReason `json:"skip_reason,omitzero"` // the word it has in provider_responses, if it has one
	Before   int        `json:"before,omitzero"`      // place in the chain: it would have stood before this candidate
}

// Chain is the ordered candidates for one request. It is fixed when built.
type Chain struct {
	Candidates []Candidate
	Drops      []Drop
	Notes      []string
}

// EndpointHealth is what stands against trying an endpoint: the zero value is a healthy one.
type EndpointHealth struct {
	Skip  SkipReason // SkipCooldown or SkipRateLimited while Until is ahead
	Until time.Time  // from then on it may be tried again
	Since time.Time  // when that began
	// Account: the provider refused our key, so that every endpoint of the account is out.
	Account bool
}

// Out says whether the endpoint must not be tried at now.
func (h EndpointHealth) Out(now time.Time) bool {
	return h.Skip != "" && now.Before(h.Until) && h.Since.Sub(now) <= time.Second // else the clock was set back
}

// EndpointSpeed is what was measured at an endpoint lately. The zero value means that nothing was, and a figure of 0 that
// this one was not: not every answer tells both.
type EndpointSpeed struct {
	At         time.Time   // of the last sample
	Samples    int         // that the figures are made of
	Latency    Percentiles // seconds to the first token
	Throughput Percentiles // output tokens per second, from dispatch to the end of the answer
	Calls      int         // tool calls in the answers
	BadCalls   int         // of them those whose arguments are not JSON, or not what the tool's schema asks for, or that name no tool of the request
	Output     int         // output tokens in the answers that tell how many they have
	Counted    int         // of the samples, those answers
}

// SpeedWindow is how old a measurement may be and still count when endpoints are sorted by speed.
const SpeedWindow = 5 * time.Minute

// Fresh says whether the figures may be used at now.
func (s EndpointSpeed) Fresh(now time.Time) bool { return s.Samples > 0 && now.Sub(s.At) < SpeedWindow }
