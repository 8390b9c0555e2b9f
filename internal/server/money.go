package server

import (
	"encoding/hex"
	"math"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/store"
)

// What was spent, in the shapes of OpenRouter's API
// (https://openrouter.ai/docs/api-reference/api-keys/get-current-api-key and its neighbours). There are no keys of callers'
// own here (BYOK), so what was used with them is always 0.

// Spent is what a key has spent in the billing currency, today and so on in the configured time zone.
type Spent struct {
	Ever, Day, Week, Month hearth.Nano
	External               hearth.Nano // of Ever, at external providers
	Period                 hearth.Nano // in the period of the key's limits
	PeriodExternal         hearth.Nano // of Period, at external providers
}

// usageJSON is what a key has spent, and its limits.
type usageJSON struct {
	Currency       string         `json:"currency"`
	Limit          jsontext.Value `json:"limit"` // null = none
	LimitRemaining jsontext.Value `json:"limit_remaining"`
	LimitReset     *string        `json:"limit_reset"`
	IncludeBYOK    bool           `json:"include_byok_in_limit"`
	Usage          jsontext.Value `json:"usage"`
	UsageDaily     jsontext.Value `json:"usage_daily"`
	UsageWeekly    jsontext.Value `json:"usage_weekly"`
	UsageMonthly   jsontext.Value `json:"usage_monthly"`
	BYOK           jsontext.Value `json:"byok_usage"`
	BYOKDaily      jsontext.Value `json:"byok_usage_daily"`
	BYOKWeekly     jsontext.Value `json:"byok_usage_weekly"`
	BYOKMonthly    jsontext.Value `json:"byok_usage_monthly"`
	ExpiresAt      *time.Time     `json:"expires_at"`
	Creator        *string        `json:"creator_user_id"`

	External          jsontext.Value `json:"external_usage"` // of usage, at external providers
	ExternalLimit     jsontext.Value `json:"external_limit"`
	ExternalRemaining jsontext.Value `json:"external_limit_remaining"`
}

// usage is what a key has spent, in a currency.
func (s *Server) usage(k *hearth.Key, shown hearth.Money) usageJSON {
	x := s.Spent(k, time.Now())
	zero := amountIn(shown, 0)
	j := usageJSON{
		Currency: shown.Currency, LimitReset: orNull(string(k.LimitReset)), ExpiresAt: orNullTime(k.ExpiresAt), Creator: orNull(k.Owner),
		Usage: amountIn(shown, x.Ever), UsageDaily: amountIn(shown, x.Day), UsageWeekly: amountIn(shown, x.Week), UsageMonthly: amountIn(shown, x.Month),
		BYOK: zero, BYOKDaily: zero, BYOKWeekly: zero, BYOKMonthly: zero, External: amountIn(shown, x.External),
	}
	j.Limit, j.LimitRemaining = left(shown, k.Limit, x.Period)
	j.ExternalLimit, j.ExternalRemaining = left(shown, k.ExternalLimit, x.PeriodExternal)
	return j
}

// left is a limit and what is left of it, both null if there is none.
func left(shown hearth.Money, limit, spent hearth.Nano) (of, rest jsontext.Value) {
	if limit <= 0 {
		return jsontext.Value("null"), jsontext.Value("null")
	}
	return amountIn(shown, limit), amountIn(shown, max(limit-spent, 0))
}

// keyJSON is the key that asks.
type keyJSON struct {
	Label string `json:"label"`
	usageJSON
	FreeTier     bool          `json:"is_free_tier"`
	Management   bool          `json:"is_management_key"`
	Provisioning bool          `json:"is_provisioning_key"` // the word of before for the same
	RateLimit    rateLimitJSON `json:"rate_limit"`

	Name      string   `json:"name"`
	LocalOnly bool     `json:"local_only"`
	Models    []string `json:"models"`    // empty = all
	Providers []string `json:"providers"` // empty = all
}

// rateLimitJSON is what the key may send in a minute. For a key without such a limit it is kept for clients that read it.
type rateLimitJSON struct {
	Requests int64  `json:"requests"` // -1 = any number
	Tokens   *int64 `json:"tokens,omitempty"`
	Interval string `json:"interval"`
	Note     string `json:"note"`
}

func rateLimit(k *hearth.Key) rateLimitJSON {
	requests, tokens := orNoLimit(k.RequestsPerMinute), orNoLimit(k.TokensPerMinute)
	if requests == nil && tokens == nil {
		return rateLimitJSON{Requests: -1, Interval: "10s", Note: "This field is deprecated and safe to ignore."}
	}
	j := rateLimitJSON{Requests: -1, Tokens: tokens, Interval: "1m", Note: "What this key may use in a minute. It comes back evenly: a half of it in half a minute."}
	if requests != nil {
		j.Requests = *requests
	}
	return j
}

func (s *Server) key(w http.ResponseWriter, r *http.Request) error {
	k, err := s.authorise(w, r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Data keyJSON `json:"data"`
	}{keyJSON{
		Label: k.Label, usageJSON: s.usage(k, s.Catalog.Money(k)), Management: k.Admin, Provisioning: k.Admin,
		RateLimit: rateLimit(k),
		Name:      k.Name, LocalOnly: k.LocalOnly, Models: append([]string{}, k.Models...), Providers: append([]string{}, k.Providers...),
	}})
}

// credits are what all keys together may spend and have spent. Nobody buys credits here: what was granted are the limits of
// the keys that have one and never begin anew; what other keys spent was granted to them as they went.
func (s *Server) credits(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.Accounts.List(r.Context())
	if err != nil {
		return err
	}
	var granted, used hearth.Nano
	now, shown := time.Now(), s.shown(r)
	for i := range keys {
		spent := s.Spent(&keys[i], now).Ever
		used = upTo(used, spent)
		if keys[i].Limit > 0 && keys[i].LimitReset == hearth.Forever && !keys[i].Deleted {
			spent = max(spent, keys[i].Limit)
		}
		granted = upTo(granted, spent)
	}
	type creditsJSON struct {
		Total    jsontext.Value `json:"total_credits"`
		Used     jsontext.Value `json:"total_usage"`
		Currency string         `json:"currency"`
	}
	return writeJSON(w, http.StatusOK, struct {
		Data creditsJSON `json:"data"`
	}{creditsJSON{amountIn(shown, granted), amountIn(shown, used), shown.Currency}})
}

func upTo(a, b hearth.Nano) hearth.Nano {
	if sum, err := a.Add(b); err == nil {
		return sum
	}
	return math.MaxInt64
}

// activityJSON is what was used in a day of one model at one provider.
type activityJSON struct {
	Date             string         `json:"date"`
	Model            string         `json:"model"`
	Permaslug        string         `json:"model_permaslug"`
	EndpointID       string         `json:"endpoint_id"`
	ProviderName     string         `json:"provider_name"`
	Usage            jsontext.Value `json:"usage"`
	Currency         string         `json:"currency"`
	BYOK             jsontext.Value `json:"byok_usage_inference"`
	Requests         int64          `json:"requests"`
	PromptTokens     int64          `json:"prompt_tokens"`
	CompletionTokens int64          `json:"completion_tokens"`
	ReasoningTokens  int64          `json:"reasoning_tokens"`
}

// activityDays is how many completed days are shown.
const activityDays = 30

func (s *Server) activity(w http.ResponseWriter, r *http.Request) error {
	today := time.Now().In(s.Zone)
	from, to := today.AddDate(0, 0, -activityDays).Format(time.DateOnly), today.AddDate(0, 0, -1).Format(time.DateOnly)
	q := r.URL.Query()
	if date := q.Get("date"); date != "" {
		if day, err := time.Parse(time.DateOnly, date); err != nil || day.Format(time.DateOnly) < from || date > to {
			return hearth.Invalid("date", "must be one of the last %d completed days, %s to %s", activityDays, from, to)
		}
		from, to = date, date
	}
	keyID := ""
	if h := q.Get("api_key_hash"); h != "" {
		keys, err := s.Accounts.List(r.Context())
		if err != nil {
			return err
		}
		if keyID = idOf(keys, h); keyID == "" {
			return hearth.Errorf(hearth.ErrNotFound, "no key has this api_key_hash; GET /keys lists those there are")
		}
	}
	list, err := s.Activity(r.Context(), keyID, from, to)
	if err != nil {
		return err
	}
	shown := s.shown(r)
	rows := make([]activityJSON, 0, len(list))
	for i := range list {
		rows = append(rows, s.activityJSON(&list[i], shown))
	}
	return writeJSON(w, http.StatusOK, struct {
		Data []activityJSON `json:"data"`
	}{rows})
}

func (s *Server) activityJSON(a *store.Activity, shown hearth.Money) activityJSON {
	if a.Currency != s.Catalog.Currency { // of a time when another currency was billed
		shown = hearth.Money{Currency: a.Currency}
	}
	return activityJSON{
		Date: a.Day, Model: a.Model, Permaslug: a.Model, EndpointID: a.Provider + ":" + a.Model, ProviderName: s.providerName(a.Provider),
		Usage: amountIn(shown, a.Cost), Currency: shown.Currency, BYOK: amountIn(shown, 0), Requests: a.Requests,
		PromptTokens: a.PromptTokens, CompletionTokens: a.CompletionTokens, ReasoningTokens: a.ReasoningTokens,
	}
}

// idOf finds a key by the hex of its hash.
func idOf(keys []hearth.Key, hash string) string {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) != len(hearth.KeyHash{}) {
		return ""
	}
	for i := range keys {
		if keys[i].Hash == hearth.KeyHash(b) {
			return keys[i].ID
		}
	}
	return ""
}

// amountIn is an amount as a JSON number.
func amountIn(shown hearth.Money, n hearth.Nano) jsontext.Value { return shown.Append(nil, n) }
