package chain

import (
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// out says at which stage an endpoint was dropped, why, and the word it has in provider_responses if it has one. An empty
// reason means that it stays.
type out struct {
	stage  hearth.Stage
	reason string
	skip   hearth.SkipReason
}

// filter puts an endpoint through the stages. The first that fails names the drop.
func (b *builder) filter(c *hearth.Candidate) *out {
	e := c.Endpoint
	if b.policy {
		if why := b.keyBars(e); why != "" {
			return &out{stage: hearth.StageKey, reason: why}
		}
	}
	if e.Disabled {
		return &out{stage: hearth.StageConditions, reason: "the endpoint is disabled"}
	}
	if v := b.slot(e); v != nil && v.Disabled {
		return &out{stage: hearth.StageConditions, reason: "its slot is disabled by the operator"}
	}
	if b.strict {
		if why := b.conditionsBar(e); why != "" {
			return &out{stage: hearth.StageConditions, reason: why}
		}
	}
	if why := b.incapable(c); why != nil {
		return why
	}
	if e.Stale {
		return &out{stage: hearth.StageHealth, reason: "the exchange rate from " + e.Provider.Currency + " to " + b.Views.Catalog.Currency + " is older than allowed"}
	}
	if h := b.health(e); h != nil && h.Out(b.Now) {
		if !b.lastResort(e, h) {
			return &out{hearth.StageHealth, healthReason(h, b.Now), h.Skip}
		}
		c.LastResort, b.cooled = true, true
	}
	if b.Left != nil || b.LeftExternal != nil && !e.Local() {
		return b.unaffordable(c)
	}
	return nil
}

// unaffordable compares what the request may cost at the candidate with what the limits leave.
func (b *builder) unaffordable(c *hearth.Candidate) *out {
	worst, than := b.worst(c), ""
	switch {
	case b.Left != nil && worst > left(*b.Left):
		than = "the key has left"
	case b.LeftExternal != nil && !c.Endpoint.Local() && worst > left(*b.LeftExternal):
		than = "may still be spent at external providers"
	default:
		return nil
	}
	b.failed.unaffordable(worst)
	return &out{hearth.StageCredits, "could cost up to " + b.amount(worst) + ", more than what " + than, hearth.SkipOverBudget}
}

// keyBars says why the API key may not use the endpoint.
func (b *builder) keyBars(e *hearth.Endpoint) string {
	k := b.Key
	switch {
	case len(k.Models) > 0 && !slices.ContainsFunc(k.Models, func(name string) bool {
		return name == e.Model.ID || b.Views.Catalog.Resolve(name) == e.Model
	}):
		return "the key may not use this model"
	case len(k.Providers) > 0 && !matchesAny(e, k.Providers):
		return "the key may not use this provider"
	case k.LocalOnly && !e.Local():
		return "the key is for own machines only"
	}
	return ""
}

// conditionsBar says which hard condition of the caller's provider object the endpoint fails.
func (b *builder) conditionsBar(e *hearth.Endpoint) string {
	p := &b.Request.Prefs
	external := !e.Local()
	switch {
	case len(p.Only) > 0 && !matchesAny(e, p.Only):
		return "not in provider.only"
	case len(p.Ignore) > 0 && matchesAny(e, p.Ignore):
		return "in provider.ignore"
	case p.NoCollection && external && !e.NoCollection && !e.ZDR:
		return "does not declare that prompts are not collected, provider.data_collection is deny"
	case p.ZDR && external && !e.ZDR:
		return "does not declare that nothing is retained, provider.zdr is true"
	case len(p.Quantizations) > 0 && !quantized(e.Quantization, p.Quantizations):
		return "its quantization is " + quantization(e.Quantization) + ", not in provider.quantizations"
	}
	if p.RequireParams {
		if missing := b.Request.Params &^ takes(e); missing != 0 {
			return "does not take " + strings.Join(missing.Names(), ", ") + ", provider.require_parameters is true"
		}
	}
	if p.MaxPrice.Set() {
		return b.tooDear(e)
	}
	return ""
}

// priced is the instant whose price lists hold.
func (b *builder) priced() time.Time {
	if b.Priced.IsZero() {
		return b.Now
	}
	return b.Priced
}

// tooDear says which bound of max_price the endpoint passes by one of the price lists that may rule the bill: the prompt
// is estimated generously, so that a list for shorter ones may hold in the end.
func (b *builder) tooDear(e *hearth.Endpoint) (why string) {
	tokens, _ := b.prompt(e)
	e.Reach(tokens, b.priced(), func(t *hearth.Tariff) {
		if why == "" {
			why = tooDear(t, &b.Request.Prefs.MaxPrice, b.shown())
		}
	})
	return why
}

func tooDear(t *hearth.Tariff, most *hearth.MaxPrice, shown hearth.Money) string {
	for _, k := range [...]struct {
		name, unit string
		price      decimal.Decimal
		most       decimal.NullDecimal
	}{
		{"prompt", " per 1M prompt tokens", t.Price.Prompt, most.Prompt},
		{"completion", " per 1M completion tokens", t.Price.Completion, most.Completion},
		{"image", " per image", t.Price.Image, most.Image},
		{"request", " per request", t.Price.Request, most.Request},
	} {
		if k.most.Valid && k.price.GreaterThan(k.most.Decimal) {
			list := ""
			if t.Name != "" {
				list = " (" + t.Name + ")"
			}
			return "costs " + shown.Of(k.price).String() + " " + shown.Currency + k.unit + list + ", more than provider.max_price." + k.name
		}
	}
	return ""
}

// outputCaps are two names of one parameter.
var outputCaps = hearth.MustParams("max_tokens", "max_completion_tokens")

// takes are the parameters the endpoint takes. The gateway writes the output cap under the one name that a provider
// knows, so there either name will do.
func takes(e *hearth.Endpoint) hearth.Params {
	p := e.Takes()
	if p&outputCaps != 0 && e.Provider.MaxTokensKey != "" {
		p |= outputCaps
	}
	return p
}

// quantized says whether the endpoint's quantization is among the accepted ones. fp8 accepts mxfp8 too, fp4 accepts mxfp4
// and nvfp4; what is not declared is "unknown".
func quantized(q string, accepted []string) bool {
	q = quantization(q)
	return slices.ContainsFunc(accepted, func(a string) bool {
		switch {
		case strings.EqualFold(a, q):
			return true
		case a == "fp8":
			return q == "mxfp8"
		case a == "fp4":
			return q == "mxfp4" || q == "nvfp4"
		}
		return false
	})
}

func quantization(q string) string {
	if q == "" {
		return "unknown"
	}
	return strings.ToLower(q)
}

func (b *builder) health(e *hearth.Endpoint) *hearth.EndpointHealth {
	if e.Index < len(b.Views.Health) && b.Views.Health[e.Index].Skip != "" {
		return &b.Views.Health[e.Index]
	}
	return nil
}

// lastResort says whether an endpoint that is out is tried all the same, behind everything else: it is in cooldown
// itself, and not the only one of its tier that could serve the request.
func (b *builder) lastResort(e *hearth.Endpoint, h *hearth.EndpointHealth) bool {
	if !b.LastResort || e.Local() || h.Skip != hearth.SkipCooldown || h.Account {
		return false
	}
	return slices.ContainsFunc(e.Model.Endpoints, func(o *hearth.Endpoint) bool {
		if o == e || o.Priority != e.Priority || o.Local() || o.Disabled || o.Stale || b.policy && b.keyBars(o) != "" || b.strict && b.conditionsBar(o) != "" {
			return false
		}
		try := *b // what is found out about o here must not be kept
		return try.incapable(&hearth.Candidate{Endpoint: o}) == nil
	})
}

func healthReason(h *hearth.EndpointHealth, now time.Time) string {
	word := "cooling down after failures"
	if h.Account {
		word = "out because the provider refused our key"
	}
	if h.Skip == hearth.SkipRateLimited {
		word = "rate limited by the provider"
	}
	return word + ", back in " + wholeSeconds(h.Until.Sub(now))
}

// wholeSeconds prints a duration rounded up to seconds.
func wholeSeconds(d time.Duration) string {
	return ((d + time.Second - 1) / time.Second * time.Second).String()
}

// worst is what the request may cost at most at a candidate, in the billing currency. Its output is bounded by the
// request's cap, else by what the endpoint can give, else by DefaultOutput.
func (b *builder) worst(c *hearth.Candidate) float64 {
	e, most := c.Endpoint, b.Request.MaxTokens
	switch {
	case c.MaxTokens > 0:
		most = c.MaxTokens
	case most > 0:
	case e.MaxOutput > 0:
		most = e.MaxOutput
	default:
		most = DefaultOutput
	}
	tokens, _ := b.prompt(e)
	return e.Worst(b.priced(), tokens, most*max(b.Request.Choices, 1), b.Request.Images)
}

// left is an amount a worst case may reach. It is generous by a billionth, for a float is not exact; the reservation
// before dispatch is. An overspent key may still use what is free.
func left(n hearth.Nano) float64 {
	return max(0, float64(n)/1e9) * (1 + 1e-9)
}

// amount prints money that was reckoned in floats in the currency that the key sees: rounded up to 10⁻⁶ of the billing
// currency, never in exponent form.
func (b *builder) amount(x float64) string {
	return b.shown().Of(decimal.NewFromFloat(x).RoundUp(6)).String()
}

// shown is the currency that the key sees.
func (b *builder) shown() hearth.Money { return b.Views.Catalog.Money(b.Key) }

// matchesAny says whether one of the names means the endpoint: a provider's slug or display name (all of its
// endpoints), or a tag such as "acme/fp8" or "local-gpu/gpu-1" (one of them).
func matchesAny(e *hearth.Endpoint, names []string) bool { return matchIndex(e, names) < len(names) }

func matchIndex(e *hearth.Endpoint, names []string) int {
	i := slices.IndexFunc(names, func(n string) bool {
		return strings.EqualFold(n, e.Provider.Slug) || strings.EqualFold(n, e.Tag) || strings.EqualFold(n, e.Provider.Name)
	})
	if i < 0 {
		return len(names)
	}
	return i
}
