package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// generationJSON has all keys of OpenRouter's generation object, present even when null, and ours behind them.
type generationJSON struct {
	ID                 string          `json:"id"`
	UpstreamID         *string         `json:"upstream_id"`
	RequestID          *string         `json:"request_id"`
	SessionID          *string         `json:"session_id"`
	CacheSourceID      *string         `json:"response_cache_source_id"`
	CreatedAt          string          `json:"created_at"`
	Model              *string         `json:"model"`
	Router             *string         `json:"router"`
	ProviderName       *string         `json:"provider_name"`
	ProviderResponses  []responseJSON  `json:"provider_responses"`
	PresetID           *string         `json:"preset_id"`
	APIType            string          `json:"api_type"`
	AppID              *int            `json:"app_id"`
	Origin             string          `json:"origin"`
	HTTPReferer        *string         `json:"http_referer"`
	UserAgent          *string         `json:"user_agent"`
	ExternalUser       *string         `json:"external_user"`
	WorkspaceID        *string         `json:"workspace_id"`
	DataRegion         string          `json:"data_region"`
	IsBYOK             bool            `json:"is_byok"`
	Streamed           bool            `json:"streamed"`
	Cancelled          bool            `json:"cancelled"`
	FinishReason       *string         `json:"finish_reason"`
	NativeFinishReason *string         `json:"native_finish_reason"`
	ServiceTier        *string         `json:"service_tier"`
	Latency            *int64          `json:"latency"`
	GenerationTime     *int64          `json:"generation_time"`
	ModerationLatency  *int64          `json:"moderation_latency"`
	TokensPrompt       int64           `json:"tokens_prompt"`
	TokensCompletion   int64           `json:"tokens_completion"`
	NativePrompt       int64           `json:"native_tokens_prompt"`
	NativeCompletion   int64           `json:"native_tokens_completion"`
	NativeReasoning    int64           `json:"native_tokens_reasoning"`
	NativeCached       int64           `json:"native_tokens_cached"`
	NativeImages       *int64          `json:"native_tokens_completion_images"`
	MediaPrompt        *int64          `json:"num_media_prompt"`
	MediaCompletion    *int64          `json:"num_media_completion"`
	AudioPrompt        *int64          `json:"num_input_audio_prompt"`
	SearchResults      *int64          `json:"num_search_results"`
	Fetches            *int64          `json:"num_fetches"`
	SearchEngine       *string         `json:"web_search_engine"`
	Usage              jsontext.Value  `json:"usage"`
	TotalCost          jsontext.Value  `json:"total_cost"`
	CacheDiscount      *jsontext.Value `json:"cache_discount"`
	UpstreamCost       jsontext.Value  `json:"upstream_inference_cost"`

	Currency    string    `json:"currency"`
	CostDetails costJSON  `json:"cost_details"`
	UsageSource string    `json:"usage_source"`    // "upstream", or "none": the upstream reported no usage
	Unbilled    int       `json:"unbilled_events"` // pieces of the answer that no reported usage covers
	Requested   []string  `json:"requested_models"`
	Endpoint    *string   `json:"endpoint_id"`
	Estimate    int       `json:"estimate_tokens"`
	Status      int       `json:"http_status"`
	Error       *string   `json:"error_type"`
	Duration    int64     `json:"duration"`
	Title       *string   `json:"title"`
	Notes       []string  `json:"notes"`
	Dropped     []Dropped `json:"dropped"`
	Routing     []Tier    `json:"routing"` // the tiers that were ordered by routing cost, in turn
}

// Tier is how a tier was ordered for a request. Of a tier that was ordered anew after a failure there is only the choice.
type Tier struct {
	Model      string      `json:"model"`
	Priority   int         `json:"priority"`
	Endpoint   string      `json:"endpoint"` // the one in the first place
	Reason     string      `json:"reason"`   // stick, share, explore, probe, retry, forced, only or flagged_overflow
	Share      float64     `json:"share"`    // how likely that choice was, 0 to 1
	Kappa      float64     `json:"kappa"`    // value of time it was made with
	Snapshot   uint64      `json:"snapshot"` // number of the model's figures that it was made from
	Candidates []TierTerms `json:"candidates"`
}

// TierTerms is a candidate of a tier, with the keys that an explanation has.
type TierTerms struct {
	Endpoint string   `json:"endpoint"`
	Share    float64  `json:"share"`
	Routing  *Routing `json:"routing"`
}

func tiers(g *hearth.Generation) []Tier {
	out := make([]Tier, len(g.Routing))
	for i := range g.Routing {
		r := &g.Routing[i]
		out[i] = Tier{r.Model, r.Priority, r.Endpoint, r.Reason, r.Share, r.Kappa, r.Snapshot, make([]TierTerms, len(r.Candidates))}
		for j := range r.Candidates {
			t := &r.Candidates[j]
			out[i].Candidates[j] = TierTerms{t.Endpoint, t.Share, routingOf(t)}
		}
	}
	return out
}

// costJSON is what the bill was computed from: the provider's own price and currency, the rate and the margin.
type costJSON struct {
	PromptCost     jsontext.Value `json:"prompt_cost"`
	CompletionCost jsontext.Value `json:"completion_cost"`
	ProviderCost   string         `json:"provider_cost"`
	ProviderIn     string         `json:"provider_currency"`
	Rate           string         `json:"exchange_rate"`
	Margin         string         `json:"margin"`
	ListPrompt     *string        `json:"list_price_prompt"`     // per 1M tokens
	ListCompletion *string        `json:"list_price_completion"` // per 1M tokens
	ListCacheRead  *string        `json:"list_price_cache_read"` // per 1M tokens
	ListCacheWrite *string        `json:"list_price_cache_write"`
	ListReasoning  *string        `json:"list_price_reasoning"`
	ListImage      *string        `json:"list_price_image"` // of one
	ListRequest    *string        `json:"list_price_request"`
	Tariff         *string        `json:"tariff"`         // the condition under which this list holds, null = it is the usual one
	Reported       bool           `json:"price_reported"` // provider_cost is what the provider itself says, whatever the list
}

// responseJSON is one candidate that was tried or skipped. Status is the upstream's HTTP code, the word of a skipped
// candidate, or null.
type responseJSON struct {
	Status       any     `json:"status"`
	SkipReason   *string `json:"skip_reason"`
	ProviderName string  `json:"provider_name"`
	EndpointID   string  `json:"endpoint_id"`
	Model        string  `json:"model_permaslug"`
	ID           *string `json:"id"`
	IsBYOK       bool    `json:"is_byok"`
	Latency      int64   `json:"latency"`   // ms
	SlotWait     int64   `json:"slot_wait"` // ms, part of latency
	Message      *string `json:"message"`
}

func (s *Server) generation(w http.ResponseWriter, r *http.Request) error {
	g, key, err := s.recordOf(w, r)
	if err != nil {
		return err
	}
	numeric := r.URL.Query().Get("status") == "numeric" || strings.Contains(strings.ToLower(r.UserAgent()), "openrouter")
	return writeJSON(w, http.StatusOK, struct {
		Data generationJSON `json:"data"`
	}{s.generationJSON(g, s.shownBy(key, &g.Bill), numeric)})
}

// recordOf finds the record that a request asks for, if it is the caller's own or the caller an admin.
func (s *Server) recordOf(w http.ResponseWriter, r *http.Request) (*hearth.Generation, *hearth.Key, error) {
	key, err := s.authorise(w, r)
	if err != nil {
		return nil, nil, err
	}
	id := r.URL.Query().Get("id")
	if id == "" {
		return nil, nil, hearth.Invalid("id", "add ?id= and the value of the X-Generation-Id header of the answer")
	}
	g, err := s.recordUnder(r.Context(), key, id)
	return g, key, err
}

// recordUnder finds the record of an id, if it is the key's own or the key an admin's.
func (s *Server) recordUnder(ctx context.Context, key *hearth.Key, id string) (*hearth.Generation, error) {
	g, err := s.Relay.Generation(ctx, id)
	var he *hearth.Error
	if err != nil && !(errors.As(err, &he) && he.Type == hearth.ErrNotFound) {
		return nil, err
	}
	if g == nil || g.KeyID != key.ID && !key.Admin {
		return nil, hearth.Errorf(hearth.ErrNotRecorded, "no record of a generation \"%s\" under this key: requests refused with 400, 401 or 413 are not recorded, and of those that no candidate could serve only ten a second", printable(id))
	}
	return g, nil
}

// shownBy is the currency in which a key sees a bill: at the bill's own exchange rate if it has that of the currency, else
// at today's.
func (s *Server) shownBy(key *hearth.Key, b *hearth.Bill) hearth.Money {
	shown := s.Catalog.Money(key)
	switch {
	case shown.Currency == b.Currency || shown.Rate.IsZero(): // of a time when another currency was billed, perhaps
		return hearth.Money{Currency: b.Currency}
	case b.ListIn == shown.Currency && b.Rate.IsPositive():
		shown.Rate = b.Rate
	case b.Currency != s.Catalog.Currency:
		return hearth.Money{Currency: b.Currency}
	}
	return shown
}

func (s *Server) generationJSON(g *hearth.Generation, shown hearth.Money, numeric bool) generationJSON {
	responses, dropped := s.responses(g, numeric)
	j := generationJSON{
		ID: g.ID, UpstreamID: orNull(g.UpstreamID), CreatedAt: g.CreatedAt.UTC().Format(time.RFC3339Nano), Model: orNull(g.Model),
		ProviderName: orNull(g.Provider), ProviderResponses: responses, APIType: g.APIType, Origin: g.Origin,
		HTTPReferer: orNull(g.Referer), ExternalUser: orNull(g.User), UserAgent: orNull(g.UserAgent), DataRegion: "global", Streamed: g.Streamed,
		Cancelled: g.Cancelled, FinishReason: orNull(g.FinishReason), NativeFinishReason: orNull(g.NativeFinish),
		Latency: orNull(g.FirstToken.Milliseconds()), GenerationTime: orNull(g.Generating.Milliseconds()),
		TokensPrompt: g.Usage.PromptTokens, TokensCompletion: g.Usage.CompletionTokens,
		NativePrompt: g.Usage.PromptTokens, NativeCompletion: g.Usage.CompletionTokens,
		NativeReasoning: g.Usage.ReasoningTokens, NativeCached: g.Usage.CachedTokens,
		MediaPrompt: orNull(int64(g.Images)),
		Usage:       amountIn(shown, g.Bill.Cost), TotalCost: amountIn(shown, g.Bill.Cost), UpstreamCost: amountIn(shown, g.Bill.Cost), Currency: shown.Currency,
		UsageSource: "upstream", Unbilled: g.Unbilled, Requested: g.Requested, Endpoint: orNull(g.Endpoint), Estimate: g.Estimate, Status: g.HTTP,
		Error: orNull(g.Error), Duration: g.Duration.Milliseconds(), Title: orNull(g.Title),
		Notes: append([]string{}, g.Notes...), Dropped: dropped, Routing: tiers(g),
		CostDetails: costJSON{
			PromptCost: amountIn(shown, g.Bill.PromptCost), CompletionCost: amountIn(shown, g.Bill.CompletionCost),
			ProviderCost: g.Bill.Upstream.String(), ProviderIn: g.Bill.ListIn,
			Rate: g.Bill.Rate.String(), Margin: g.Bill.Margin.String(),
		},
	}
	if !g.Usage.Reported {
		j.UsageSource = "none"
	}
	j.CostDetails.listed(&g.Bill)
	return j
}

// listed adds the price list of a bill.
func (j *costJSON) listed(b *hearth.Bill) {
	j.Tariff, j.Reported = orNull(b.Tariff), b.Reported
	p := b.List
	if p == nil {
		return
	}
	text := func(d decimal.Decimal) *string { return orNull(d.String()) }
	j.ListPrompt, j.ListCompletion = text(p.Prompt), text(p.Completion)
	j.ListCacheRead, j.ListCacheWrite, j.ListReasoning = text(p.CacheRead), text(p.CacheWrite), text(p.Reasoning)
	j.ListImage, j.ListRequest = text(p.Image), text(p.Request)
}

// responses are all candidates tried or skipped up to the winner, in chain order, and the drops that do not stand among
// them: what the caller excluded, and what would have stood behind the winner.
func (s *Server) responses(g *hearth.Generation, numeric bool) ([]responseJSON, []Dropped) {
	out, rest := []responseJSON{}, []Dropped{}
	drops := slices.Clone(g.Drops)
	slices.SortStableFunc(drops, func(a, b hearth.Drop) int { return cmp.Compare(a.Before, b.Before) })
	skipped := func(upTo int) {
		for len(drops) > 0 && drops[0].Before <= upTo {
			if d := drops[0]; d.Skip == "" {
				rest = append(rest, dropped(d))
			} else {
				out = append(out, responseJSON{
					Status: word(d.Skip, numeric), SkipReason: orNull(string(d.Skip)), ProviderName: s.providerName(d.Provider),
					EndpointID: d.Endpoint, Model: d.Model, Message: orNull(d.Reason),
				})
			}
			drops = drops[1:]
		}
	}
	for i, a := range g.Attempts {
		skipped(i)
		j := responseJSON{
			SkipReason: orNull(string(a.Skip)), ProviderName: a.Provider, EndpointID: a.Endpoint, Model: a.Model,
			ID: orNull(a.UpstreamID), Latency: a.Latency.Milliseconds(), SlotWait: a.SlotWait.Milliseconds(), Message: orNull(a.Message),
		}
		switch {
		case a.Status != 0:
			j.Status = a.Status
		case a.Skip != "":
			j.Status = word(a.Skip, numeric)
		}
		out = append(out, j)
	}
	if g.Endpoint == "" && !g.Cancelled { // the chain was walked to its end
		skipped(len(g.Attempts))
	}
	for _, d := range drops {
		rest = append(rest, dropped(d))
	}
	return out, rest
}

// Dropped is one candidate that was left out, and why.
type Dropped struct {
	Model    string            `json:"model"`
	Provider string            `json:"provider_slug,omitzero"`
	Endpoint string            `json:"endpoint,omitzero"`
	Stage    hearth.Stage      `json:"stage"`
	Reason   string            `json:"reason"`
	Skip     hearth.SkipReason `json:"skip_reason,omitzero"`
}

func dropped(d hearth.Drop) Dropped {
	return Dropped{d.Model, d.Provider, d.Endpoint, d.Stage, d.Reason, d.Skip}
}

// word is a skip word as a status: null for clients that can only read numbers.
func word(r hearth.SkipReason, numeric bool) any {
	if numeric {
		return nil
	}
	return string(r)
}

func (s *Server) providerName(slug string) string {
	for _, p := range s.Catalog.Providers {
		if p.Slug == slug {
			return p.Name
		}
	}
	return slug
}
