package hearth

import (
	"time"

	"github.com/shopspring/decimal"
)

// Generation is the record of one request: what was asked, the chain, every attempt, tokens, cost and timing.
// Its JSON is what the journal and the store keep. It holds no prompt and no answer.
type Generation struct {
	ID        string    `json:"id"` // prefix + ULID
	KeyID     string    `json:"key_id"`
	CreatedAt time.Time `json:"created_at"`
	APIType   string    `json:"api_type"` // "completions"
	Streamed  bool      `json:"streamed,omitzero"`

	Requested []string  `json:"requested"`       // the models asked for, aliases not followed
	Estimate  int       `json:"estimate"`        // prompt estimate in tokens
	Images    int       `json:"images,omitzero"` // images in the request; an answer is charged for each
	Attempts  []Attempt `json:"attempts,omitzero"`
	Drops     []Drop    `json:"drops,omitzero"`
	Local     int       `json:"local,omitzero"`   // candidates of the chain that were own slots
	Routing   []Routed  `json:"routing,omitzero"` // the tiers that were ordered by routing cost, in turn
	Notes     []string  `json:"notes,omitzero"`

	// The endpoint that answered; empty when none did.
	Model        string `json:"model,omitzero"`
	Slug         string `json:"slug,omitzero"`
	Provider     string `json:"provider,omitzero"`
	Endpoint     string `json:"endpoint,omitzero"`
	UpstreamID   string `json:"upstream_id,omitzero"`
	FinishReason string `json:"finish_reason,omitzero"`
	NativeFinish string `json:"native_finish,omitzero"`

	Usage Usage `json:"usage"`
	Bill  Bill  `json:"bill"`
	// Unbilled is how many content-bearing pieces of the answer went to the caller that no usage of the upstream covers.
	Unbilled int    `json:"unbilled,omitzero"`
	HTTP     int    `json:"http"`           // status the caller got; 499 when the caller left before one was sent
	Error    string `json:"error,omitzero"` // error type, if the request failed
	// Cancelled: the caller left before the answer was complete.
	Cancelled bool `json:"cancelled,omitzero"`

	FirstToken time.Duration `json:"first_token,omitzero,format:nano"` // from arrival to the first content-bearing event
	Duration   time.Duration `json:"duration,format:nano"`             // from arrival to the end of the answer
	Generating time.Duration `json:"generating,omitzero,format:nano"`  // from dispatch to the end of the upstream's answer

	Origin    string `json:"origin,omitzero"`
	Referer   string `json:"referer,omitzero"`
	Title     string `json:"title,omitzero"`
	User      string `json:"user,omitzero"` // the caller's own user, by the user field of the request
	UserAgent string `json:"user_agent,omitzero"`
}

// Bill is the cost of a generation with everything needed to compute it again.
type Bill struct {
	Cost Nano `json:"cost"` // what the caller pays, in the billing currency
	// PromptCost and CompletionCost are the parts of Cost, and add up to it: the prompt with its cache and image prices and
	// the price per request, and the completion.
	PromptCost     Nano `json:"prompt_cost,omitzero"`
	CompletionCost Nano `json:"completion_cost,omitzero"`

	Currency string          `json:"currency"`          // the billing currency
	Reported bool            `json:"reported,omitzero"` // Upstream is what the upstream itself says, and rules Cost
	Tariff   string          `json:"tariff,omitzero"`   // the name of the step that List is, "" = the base list
	List     *Price          `json:"list,omitzero"`
	ListIn   string          `json:"list_currency,omitzero"`
	Rate     decimal.Decimal `json:"rate,omitzero"`
	Margin   decimal.Decimal `json:"margin,omitzero"`
	Upstream decimal.Decimal `json:"upstream,omitzero"` // the same tokens at the list price, in ListIn
}
