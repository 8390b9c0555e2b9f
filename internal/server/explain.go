package server

import (
	"math"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/chain"
	"myip.co.kr/hearth/internal/relay"
)

// Explanation is the answer of POST /api/v1/chain.
type Explanation struct {
	Data Chain `json:"data"`
}

// Chain is the chain that a request would get now, every drop and its reason.
type Chain struct {
	Candidates []Candidate `json:"candidates"` // in the order in which they will be tried
	Dropped    []Dropped   `json:"dropped"`
	Notes      []string    `json:"notes"`           // what was accepted and ignored
	Estimate   int         `json:"estimate_tokens"` // generous size of the prompt, images not included
	Error      *Refusal    `json:"error,omitempty"` // what the caller gets because no candidate is left
}

// Candidate is one endpoint in a chain.
type Candidate struct {
	Model        string    `json:"model"`
	ProviderSlug string    `json:"provider_slug"`
	Provider     string    `json:"provider"` // display name
	Endpoint     string    `json:"endpoint"`
	Priority     int       `json:"priority"`
	Local        bool      `json:"local"`
	Slot         *SlotView `json:"slot,omitempty"`
	Context      *int      `json:"context_length"`      // window in tokens, null = not known
	MaxTokens    int       `json:"max_tokens,omitzero"` // what the output cap is lowered to for this endpoint
	Share        *float64  `json:"share"`               // of its tier's traffic, null = the order is not drawn
	Cost         Cost      `json:"cost"`
	Routing      *Routing  `json:"routing,omitempty"` // what its tier is ordered by, if that is routing cost
	Speed        *Speed    `json:"speed"`             // of the last 5 minutes, null = nothing was measured
	Flagged      string    `json:"flagged,omitempty"` // why the quality of its answers is in doubt
	Reason       string    `json:"reason"`            // why it stands where it stands
}

// Cost is the price list of a candidate, per 1M tokens, and what this request is expected to cost there, all in the
// billing currency.
type Cost struct {
	Prompt     string         `json:"prompt"`
	Completion string         `json:"completion"`
	Currency   string         `json:"currency"`
	Expected   jsontext.Value `json:"expected"`
	// The tokens that the expectation is for: the estimate with its images, and the output cap or what is usual.
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Routing is the routing cost of a candidate by its terms, each per good answer and in the billing currency, and what it is
// made of.
type Routing struct {
	Price    float64 `json:"price"`         // what it charges, with its cache hits
	Wait     float64 `json:"wait"`          // for the first token; such a second counts four times
	Decode   float64 `json:"decode"`        // for the rest of the answer
	Failed   float64 `json:"failed_tries"`  // failed tries and rate limits
	Quality  float64 `json:"quality"`       // broken tool calls
	Later    float64 `json:"later_turns"`   // 0 or less: what its cache is expected to save in the later turns of a conversation, where this request opens one
	Total    float64 `json:"total"`         // what the tier is ordered by
	TTFT     float64 `json:"ttft_seconds"`  // as expected
	Rest     float64 `json:"rest_seconds"`  // from there to the end of the answer
	Cached   float64 `json:"cached_tokens"` // as expected
	Tries    float64 `json:"tries"`         // per good answer
	InFlight int     `json:"in_flight"`
	Cap      float64 `json:"cap,omitzero"`  // of requests under way, learned from rate limits
	Knee     float64 `json:"knee,omitzero"` // of requests that are served at once, learned from waits
	Errors   float64 `json:"error_rate"`    // 0 to 1
	Limits   float64 `json:"rate_429"`      // likewise
	BadTools float64 `json:"bad_tool_rate"` // likewise
	State    string  `json:"state"`         // closed, cooling, open or half_open
	Flagged  bool    `json:"flagged"`       // for its quality
	New      bool    `json:"new"`           // nothing was measured: these are the typical figures of the model
}

func routingOf(t *hearth.RoutedTerms) *Routing {
	return &Routing{
		Price: t.Price, Wait: t.Wait, Decode: t.Decode, Failed: t.Failed, Quality: t.Quality, Later: t.Later, Total: t.Total, TTFT: t.TTFT, Rest: t.Rest,
		Cached: t.Cached, Tries: t.Tries, InFlight: t.InFlight, Cap: t.Cap, Knee: t.Knee, Errors: t.Errors, Limits: t.Limits,
		BadTools: t.BadTools, State: t.State, Flagged: t.Flagged, New: t.New,
	}
}

// Refusal is the error of a chain without candidates.
type Refusal struct {
	Code       int              `json:"code"` // HTTP status
	Type       hearth.ErrorType `json:"type"`
	Message    string           `json:"message"`
	RetryAfter int              `json:"retry_after,omitzero"` // seconds
}

// explain answers with the chain of a request and calls nobody. ?generation= and the id of a record that the caller may
// see draws the first places of tiers as for that request.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	key, err := s.authorise(w, r)
	if err != nil {
		return err
	}
	raw, free, err := s.Relay.ReadBody(w, r)
	if err != nil {
		return err
	}
	defer free()
	generation, err := s.drawnAs(r, key)
	if err != nil {
		return err
	}
	x, err := s.explainedAs(raw, key, generation, r.Header.Get("X-Session-Id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, x)
}

// Explain is the answer of POST /api/v1/chain for a request body under a key; nil = one that may do everything.
func (s *Server) Explain(raw []byte, key *hearth.Key) (Explanation, error) {
	return s.explainedAs(raw, key, "", "")
}

// drawnAs is the generation whose draws are wanted, "" = none.
func (s *Server) drawnAs(r *http.Request, key *hearth.Key) (string, error) {
	ids, ok := r.URL.Query()["generation"]
	if !ok {
		return "", nil
	}
	id := ids[0]
	strange := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case len(ids) > 1:
		return "", hearth.Invalid("generation", "generation is there %d times; draw as one generation at a time", len(ids))
	case id == "":
		return "", hearth.Invalid("generation", "generation is empty; give the value of the X-Generation-Id header of an answer, or leave it out")
	case len(id) > maxGenerationID:
		return "", hearth.Invalid("generation", "this is no generation id: they have at most %d characters", maxGenerationID)
	case strings.ContainsFunc(id, strange):
		return "", hearth.Invalid("generation", "\"%s\" is no generation id: it is the value of the X-Generation-Id header of an answer", printable(id))
	}
	_, err := s.recordUnder(r.Context(), key, id)
	return id, err
}

// maxGenerationID is how long a generation id is at most, in bytes: a prefix of the configuration's and an ULID.
const maxGenerationID = 256

func (s *Server) explainedAs(raw []byte, key *hearth.Key, generation, session string) (Explanation, error) {
	x, err := s.Relay.Explain(raw, key, generation, session)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{s.explained(&x)}, nil
}

func (s *Server) explained(x *relay.Explained) Chain {
	j := Chain{
		Candidates: []Candidate{}, Dropped: []Dropped{},
		Notes: append([]string{}, x.Chain.Notes...), Estimate: x.In.Request.Estimate,
	}
	for _, d := range x.Chain.Drops {
		j.Dropped = append(j.Dropped, dropped(d))
	}
	for _, c := range x.Chain.Candidates {
		j.Candidates = append(j.Candidates, s.candidate(x, c))
	}
	if e := x.Err; e != nil {
		j.Error = &Refusal{Code: e.HTTPStatus(), Type: e.Type, Message: e.Message, RetryAfter: wholeSeconds(e.RetryAfter)}
		if c := chain.Recount(x.In, x.Chain); c != nil {
			j.Notes = append(j.Notes, "before the request is refused, the engine of "+c.ID+" is asked how many tokens the prompt has")
		}
	}
	return j
}

func (s *Server) candidate(x *relay.Explained, c hearth.Candidate) Candidate {
	e := c.Endpoint
	j := Candidate{
		Model: e.Model.ID, ProviderSlug: e.Provider.Slug, Provider: e.Provider.Name, Endpoint: e.ID, Priority: e.Priority,
		Local: e.Local(), Context: orNull(e.Context), MaxTokens: c.MaxTokens, Reason: c.Reason,
		Cost: s.expected(&x.In, c), Speed: speedOf(e, x.In.Views.Speeds, x.In.Now), Flagged: s.why(e),
	}
	if t, ok := x.Terms[e.Index]; ok {
		terms := t.Recorded(e.ID)
		j.Share, j.Routing = &t.Share, routingOf(&terms)
	}
	if e.Slot != nil && e.Slot.Index < len(x.In.Views.Slots) {
		v := &x.In.Views.Slots[e.Slot.Index]
		j.Slot, j.Context = slotView(e.Slot, *v), orNull(chain.Window(e, v))
	}
	return j
}

// expected is what the request is expected to cost at a candidate, as the sort by price sees it.
func (s *Server) expected(in *chain.Input, c hearth.Candidate) Cost {
	q, e := in.Request, c.Endpoint
	shown := s.Catalog.Money(in.Key)
	j := Cost{Currency: shown.Currency}
	j.PromptTokens, j.CompletionTokens = chain.Expect(*in, c)
	p := &e.TariffAt(j.PromptTokens, in.Now).Price
	j.Prompt, j.Completion = shown.Of(p.Prompt).String(), shown.Of(p.Completion).String()
	tokens := p.Prompt.Mul(decimal.NewFromInt(int64(j.PromptTokens))).Add(p.Completion.Mul(decimal.NewFromInt(int64(j.CompletionTokens))))
	expected, err := hearth.NanoFromDecimal(tokens.Shift(-6).Add(p.Image.Mul(decimal.NewFromInt(int64(q.Images)))).Add(p.Request))
	if err != nil {
		expected = math.MaxInt64 // more than money can say
	}
	j.Expected = amountIn(shown, expected)
	return j
}
