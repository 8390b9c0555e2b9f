package hearth

import "time"

// Verdict is what the walk does after an attempt.
type Verdict uint8

const (
	TryNext Verdict = iota // nothing was sent to the caller: go on with the next candidate
	Served                 // the answer is complete
	Broken                 // the answer had begun and then failed: it is never restarted
	Gone                   // the caller left
)

func (v Verdict) String() string {
	return [...]string{"try_next", "served", "broken", "gone"}[v]
}

// Blame says who pays for a failed attempt.
type Blame uint8

const (
	BlameNobody    Blame = iota // the request's own fault, or the caller left
	BlameEndpoint               // counts to the three consecutive failures
	BlameRateLimit              // out for its Retry-After, not counted
	BlameAccount                // the provider refused our key: every endpoint of the account is out
)

// SkipReason is the word that stands in provider_responses where a tried upstream has its HTTP code.
type SkipReason string

const (
	SkipLoading     SkipReason = "slot_loading"    // asleep or starting, not ready in time
	SkipBusy        SkipReason = "slot_busy"       // held by another model, or no place came free
	SkipFailed      SkipReason = "slot_failed"     // cannot be started now
	SkipQueueFull   SkipReason = "slot_queue_full" // too many are waiting already
	SkipCooldown    SkipReason = "cooldown"
	SkipRateLimited SkipReason = "rate_limited"
	SkipContext     SkipReason = "context_length"
	SkipOverBudget  SkipReason = "over_budget"
	SkipCancelled   SkipReason = "cancelled"
)

// Slot says whether the word speaks of a slot rather than of an upstream's error.
func (s SkipReason) Slot() bool {
	switch s {
	case SkipLoading, SkipBusy, SkipFailed, SkipQueueFull:
		return true
	}
	return false
}

// Attempt is what happened when a candidate was tried, or why it was skipped.
type Attempt struct {
	Model      string        `json:"model"`
	Provider   string        `json:"provider"` // display name
	Slug       string        `json:"slug"`     // provider slug
	Endpoint   string        `json:"endpoint"` // endpoint id
	Status     int           `json:"status,omitzero"`
	Skip       SkipReason    `json:"skip,omitzero"`
	Latency    time.Duration `json:"latency,format:nano"` // from the turn of this candidate to its verdict or first token
	SlotWait   time.Duration `json:"slot_wait,omitzero,format:nano"`
	TimedOut   bool          `json:"timed_out,omitzero"`
	Message    string        `json:"message,omitzero"`
	UpstreamID string        `json:"upstream_id,omitzero"`
	Verdict    Verdict       `json:"verdict"`
	Blame      Blame         `json:"blame,omitzero"`
	RetryAfter time.Duration `json:"retry_after,omitzero,format:nano"`
}
