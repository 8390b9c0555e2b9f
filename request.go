package hearth

import "github.com/shopspring/decimal"

// Request is what the gateway needs to know of a chat request to route and bill it. The body itself is never
// rebuilt from it: it is forwarded byte for byte, but for the keys the gateway owns.
type Request struct {
	Models    []string    // as asked, in the caller's order, suffixes included; empty = the default model
	FromList  bool        // asked with models[]: an unknown id is no candidate instead of an error
	Stream    bool        // by body.stream alone, never by Accept
	MaxTokens int         // max_completion_tokens or max_tokens, 0 = not given
	Choices   int         // answers asked for with n, 0 = not given; each may be as long as MaxTokens
	Tools     bool        // the request offers tools
	Params    Params      // the parameters that the body sets to something other than null
	Images    int         // image parts in the messages, counted at the endpoint's ImageTokens
	Media     []string    // kinds of other input than text in the messages, each once: "image", "audio", "video", "file"
	MediaURLs int         // places in the messages where media stand as a web address instead of data
	Estimate  int         // generous prompt size in tokens, images not included; never used for billing
	Bytes     int         // of the text that the estimate counted, and its additions: no tokenizer makes more tokens of it
	Prefs     Preferences // the provider object
	Notes     []string    // what was accepted and ignored, for X-MyIP-Note
}

// Sort is what the caller wants a model's endpoints sorted by.
type Sort string

const (
	SortPrice      Sort = "price"      // what this request is expected to cost, ascending
	SortThroughput Sort = "throughput" // output tokens per second from dispatch to the end, descending
	SortLatency    Sort = "latency"    // time to the first token, ascending
	SortTools      Sort = "exacto"     // how well tool calls are made, best first
)

// Preferences is the caller's provider object. Names are slugs, tags or display names.
type Preferences struct {
	Only, Ignore, Order []string
	Sort                Sort
	AcrossModels        bool     // sort.partition "none": sort the endpoints of all models together
	NoFallbacks         bool     // allow_fallbacks: false
	RequireParams       bool     // only endpoints that take every parameter sent
	NoCollection        bool     // data_collection: "deny"
	ZDR                 bool     // only endpoints that retain nothing
	Quantizations       []string // the accepted ones, lower case; empty = all
	MaxPrice            MaxPrice
	MinThroughput       Percentiles // output tokens per second; an endpoint that misses a bar is tried last
	MaxLatency          Percentiles // seconds to the first token; likewise
}

// MaxPrice bounds the price list of an endpoint, in the currency that the caller sees until the chain is built, then in the
// billing currency: tokens per 1,000,000, images and requests
// each. What is not valid is not bounded.
type MaxPrice struct {
	Prompt, Completion, Image, Request decimal.NullDecimal
}

// Set says whether anything is bounded.
func (m *MaxPrice) Set() bool {
	return m.Prompt.Valid || m.Completion.Valid || m.Image.Valid || m.Request.Valid
}

// Percentiles are figures that half, 75, 90 and 99 per cent of the requests did at least as well as: the P90 of a
// latency is high, that of a throughput low. As a bar, 0 means none.
type Percentiles struct {
	P50, P75, P90, P99 float64
}
