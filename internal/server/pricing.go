package server

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// pricingJSON is an endpoint's price list, and under which conditions another one holds.
type pricingJSON struct {
	pricesJSON
	Currency string `json:"currency"`
	// Overrides are further lists as OpenRouter writes them: of those whose conditions hold, the last counts.
	Overrides []overrideJSON `json:"overrides,omitempty"`
	// Reported: the cost of an answer is what the provider says of it; the lists only tell about what to expect.
	Reported bool `json:"reported,omitzero"`
}

// pricesJSON is per token, per image and per request, as decimal strings in the currency that is shown.
type pricesJSON struct {
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
	Request    string `json:"request"`
	Image      string `json:"image"`
	CacheRead  string `json:"input_cache_read"`
	CacheWrite string `json:"input_cache_write"`
	Reasoning  string `json:"internal_reasoning"`
}

// overrideJSON is a price list that holds for prompts of more than so many tokens, within hours of the day.
type overrideJSON struct {
	MinPrompt int  `json:"min_prompt_tokens,omitzero"`
	Start     *int `json:"utc_start,omitempty"` // the clock in UTC as a number, 1630 is 16:30
	End       *int `json:"utc_end,omitempty"`   // not included; before Start, it is on the next day
	pricesJSON
	Name string `json:"name"` // the condition as it was configured, which is by the clock of its own zone
}

// pricing is what an endpoint asks for. Hours of a zone with summer time are told as they are now.
func pricing(e *hearth.Endpoint, shown hearth.Money, now time.Time) pricingJSON {
	j := pricingJSON{pricesJSON: prices(&e.Price, shown), Currency: shown.Currency, Reported: e.Reported}
	for _, t := range slices.Backward(e.Steps) {
		o := overrideJSON{MinPrompt: t.Above, pricesJSON: prices(&t.Price, shown), Name: t.Name}
		if t.Hours.From != t.Hours.To {
			o.Start, o.End = utcClock(t.Hours.From, t.Hours.Zone, now), utcClock(t.Hours.To, t.Hours.Zone, now)
		}
		j.Overrides = append(j.Overrides, o)
	}
	return j
}

func prices(p *hearth.Price, shown hearth.Money) pricesJSON {
	perToken := func(d decimal.Decimal) string { return shown.Of(d).Shift(-6).String() }
	return pricesJSON{
		Prompt: perToken(p.Prompt), Completion: perToken(p.Completion), Request: shown.Of(p.Request).String(), Image: shown.Of(p.Image).String(),
		CacheRead: perToken(p.CacheRead), CacheWrite: perToken(p.CacheWrite), Reasoning: perToken(p.Reasoning),
	}
}

// utcClock is a time of day in a zone by the clock of UTC, as hours × 100 + minutes.
func utcClock(at time.Duration, zone *time.Location, now time.Time) *int {
	if zone != nil {
		_, offset := now.In(zone).Zone()
		at -= time.Duration(offset) * time.Second
	}
	const day = 24 * time.Hour
	at = (at%day + day) % day
	n := int(at/time.Hour)*100 + int(at%time.Hour/time.Minute)
	return &n
}
