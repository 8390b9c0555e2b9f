package routing

import "time"

// Ask is what the router needs to know of a request.
type Ask struct {
	// Draw is Seed of the generation id. The same draw over the same snapshot gives the same order, so that an explanation
	// can repeat it.
	Draw      uint64
	Session   uint64  // from SessionKey, 0 = the request belongs to none
	Explicit  bool    // the caller named the session; else it holds only once a cache hit was seen in it
	In        int     // prompt in tokens as estimated, images not included
	Images    int     // images in the prompt
	Out       int     // expected length of the answer in tokens, 0 = the mean of the session, else of the model
	MaxTokens int     // output cap in tokens, 0 = none
	Stream    bool    // the first token is seen when it comes; else only the whole answer is
	Tools     bool    // the request offers tools
	Kappa     float64 // value of time of the request's key, 0 = the model's
	// NoExplore: no endpoint is tried for the sake of knowing it. It is so for every tier but the first of a chain, and
	// for keys that do not want it.
	NoExplore bool
	// Retry: candidates of the tier have failed, what is ordered is the rest. The cheapest goes first, nothing is drawn.
	Retry bool
}

// Reason says why an endpoint has the first place of its tier.
type Reason string

const (
	Stick           Reason = "stick"            // the session's cache is warm there and it costs no more than a little more
	Share           Reason = "share"            // drawn by weight from those near the lowest cost
	Explore         Reason = "explore"          // it was not tried for long
	Probe           Reason = "probe"            // the breaker lets one request through to see whether it has recovered
	Retry           Reason = "retry"            // the cheapest of those left after a failure
	Forced          Reason = "forced"           // all are at their load caps or cooling
	Only            Reason = "only"             // there is no other
	FlaggedOverflow Reason = "flagged_overflow" // its quality is flagged, but all others are at their load caps
)

// Ascending is why the candidates behind the first place of a tier stand where they stand.
const Ascending = "ascending routing cost"

// Decision is what was chosen for the first place of a tier.
type Decision struct {
	Place    int     // in the tier as it was given, -1 = the router knows none of it
	Endpoint int     // Endpoint.Index, -1 likewise
	Reason   Reason  // "" likewise
	Share    float64 // how likely this choice was, 0 to 1: 1 when nothing was drawn
	Kappa    float64 // value of time it was made with
	Snapshot uint64  // number of the model's snapshot it was made from
}

// Cost is the routing cost of a request at an endpoint by its terms, each in the billing currency per good answer.
type Cost struct {
	Price   float64 // what it charges, its own cache hits and mix of tokens reckoned in
	Wait    float64 // the wait for the first token, at the model's value of time; such a second counts four times
	Decode  float64 // the wait for the rest of the answer
	Failed  float64 // failed tries and rate limits
	Quality float64 // broken tool calls
	Later   float64 // 0 or less: what its cache is expected to save in the later turns of a conversation, where this request opens one
	R       float64 // the sum; doubled while the endpoint is flagged for a quality that the request needs
}

// Standing is whether the router sends requests to an endpoint.
type Standing string

const (
	InUse    Standing = "closed"    // the breaker is closed
	Cooling  Standing = "cooling"   // it met a rate limit
	Open     Standing = "open"      // the breaker is open: no requests
	HalfOpen Standing = "half_open" // one request at a time finds out whether it has recovered
)

// Terms explains one candidate of a tier.
type Terms struct {
	Endpoint int // Endpoint.Index
	Cost
	Share    float64  // how likely it is to have the first place, 0 to 1
	Cached   float64  // tokens expected from the endpoint's cache
	TTFT     float64  // seconds to the first token as expected
	Rest     float64  // seconds from there to the end of the answer as expected
	Tries    float64  // tries per good answer
	InFlight int      // requests under way there
	Cap      float64  // of requests under way, learned from rate limits; 0 = none is known
	Knee     float64  // requests that are served at once, learned from waits; 0 = not known
	Load     float64  // InFlight with this request over Cap, 0 = no cap is known
	Errors   float64  // rate of failed tries, 0 to 1
	Limits   float64  // rate of 429s
	BadTools float64  // rate of broken tool calls
	Standing Standing // of the endpoint
	Flagged  bool     // for a quality that the request needs
	New      bool     // nothing was measured: the figures are typical ones of the model
	Basis
}

// Result is how a try ended. Times are not in it: the router measures them from Begin, First and Done.
type Result struct {
	Outcome Outcome // Unjudged if it says nothing of the endpoint
	// Tokens as the upstream says; 0 = it does not say. In holds Cached and Written.
	In, Cached, Written, Out int
	// Paced: the caller took the answer so slowly that the time between First and Done is not the endpoint's.
	Paced bool
	// Cost is what the answer costs the caller, in the billing currency; 0 = not known. It corrects the price lists.
	Cost float64
	// RetryAfter is how long a Limited endpoint asks to be left alone, 0 = it does not say.
	RetryAfter time.Duration
	Calls      int // tool calls in the answer, if they are judged already; else Router.Judge tells later
	BadCalls   int // of them those that are not well formed
}
