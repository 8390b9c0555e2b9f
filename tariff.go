package hearth

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Tariff is one price list of an endpoint and when it holds. It holds for a prompt of more than Above tokens, within
// Hours.
type Tariff struct {
	Name  string // of a step, for people: "above 200000", "00:30-08:30 UTC"; "" = the base list
	Above int    // tokens; 0 = prompts of any length
	Hours Hours  // the zero value is all day
	List  Price  // in Provider.Currency, before rate and margin
	Price Price  // in the billing currency, exact; set by Seal

	rank ranks
}

// ranks are prices per token, image and request in the billing currency, for ordering only.
type ranks struct {
	prompt, completion, image, request float64
	worstPrompt, worstCompletion       float64 // of the dearest kind of token
}

func (t *Tariff) seal(factor decimal.Decimal) {
	p := t.List.Times(factor)
	t.Price = p
	t.rank = ranks{
		prompt: p.Prompt.Shift(-6).InexactFloat64(), completion: p.Completion.Shift(-6).InexactFloat64(),
		image: p.Image.InexactFloat64(), request: p.Request.InexactFloat64(),
	}
	t.rank.worstPrompt = max(t.rank.prompt, p.CacheWrite.Shift(-6).InexactFloat64(), p.CacheRead.Shift(-6).InexactFloat64())
	t.rank.worstCompletion = max(t.rank.completion, p.Reasoning.Shift(-6).InexactFloat64())
}

// Hours is a part of each day in a zone: from From (included) to To (not included), both since midnight by the clock on
// the wall. To before From spans midnight; From equal to To is the whole day.
type Hours struct {
	From, To time.Duration
	Zone     *time.Location // nil = UTC
}

// Contain says whether t lies within the hours.
func (h Hours) Contain(t time.Time) bool {
	if h.From == h.To {
		return true
	}
	zone := h.Zone
	if zone == nil {
		zone = time.UTC
	}
	hour, minute, second := t.In(zone).Clock()
	at := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
	if h.From < h.To {
		return h.From <= at && at < h.To
	}
	return at >= h.From || at < h.To
}

// TariffAt is the price list that holds for a prompt of so many tokens at an instant: of the steps that hold the one with
// the largest Above, of those one with hours before one without, then the first in the configuration; else the base list.
func (e *Endpoint) TariffAt(prompt int, at time.Time) *Tariff {
	for i := range e.Steps {
		if t := &e.Steps[i]; (t.Above == 0 || prompt > t.Above) && t.Hours.Contain(at) {
			return t
		}
	}
	return &e.base
}

// Expected is what a request of in prompt tokens (those of its images among them), out completion tokens and so many
// images is expected to cost at the endpoint, in the billing currency. It orders endpoints; a bill is never computed
// with it.
func (e *Endpoint) Expected(at time.Time, in, out, images int) float64 {
	r := &e.TariffAt(in, at).rank
	return float64(in)*r.prompt + float64(out)*r.completion + float64(images)*r.image + r.request
}

// Worst is what such a request may cost at most, in the billing currency: every prompt token is of the dearest kind, and
// every completion token too, under the dearest list that holds at the time for a prompt of up to in tokens. It is for
// skipping what cannot be paid; what is reserved is computed exactly.
func (e *Endpoint) Worst(at time.Time, in, out, images int) float64 {
	worst := 0.0
	e.Reach(in, at, func(t *Tariff) {
		r := &t.rank
		worst = max(worst, float64(in)*r.worstPrompt+float64(out)*r.worstCompletion+float64(images)*r.image+r.request)
	})
	return worst
}

// Reach calls fn for each list that a request may be billed by at an instant when its prompt is estimated at up to so
// many tokens: the count that rules the bill is the upstream's, and it is not more.
func (e *Endpoint) Reach(prompt int, at time.Time, fn func(*Tariff)) {
	last := -1
	for i := range e.Steps {
		t := &e.Steps[i]
		if t.Above == last || t.Above > 0 && prompt <= t.Above || !t.Hours.Contain(at) {
			continue // the one before goes first wherever this one would hold
		}
		fn(t)
		if last = t.Above; last == 0 {
			return // it takes every shorter prompt too
		}
	}
	fn(&e.base)
}

func (e *Endpoint) sealTariffs(factor decimal.Decimal) {
	e.base = Tariff{List: e.List}
	e.base.seal(factor)
	e.Price = e.base.Price
	for i := range e.Steps {
		e.Steps[i].seal(factor)
	}
	slices.SortStableFunc(e.Steps, func(a, b Tariff) int {
		if c := cmp.Compare(b.Above, a.Above); c != 0 {
			return c
		}
		return cmp.Compare(allDay(a), allDay(b))
	})
}

func allDay(t Tariff) int {
	if t.Hours.From == t.Hours.To {
		return 1
	}
	return 0
}

// Money is a currency in which amounts are shown.
type Money struct {
	Currency string          // ISO code
	Rate     decimal.Decimal // billing currency per one unit of it; zero = it is the billing currency
}

// shownDigits is how finely a converted amount is shown: 10⁻¹², rounded half to even. Amounts in the billing currency
// are never rounded.
const shownDigits = 12

// Of converts an amount of the billing currency.
func (m Money) Of(d decimal.Decimal) decimal.Decimal {
	if m.Rate.IsZero() {
		return d
	}
	q, rest := d.QuoRem(m.Rate, shownDigits)
	half := rest.Abs().Mul(decimal.New(2, 0)).Cmp(m.Rate.Abs().Shift(-shownDigits))
	if half > 0 || half == 0 && q.Coefficient().Bit(0) == 1 {
		q = q.Add(decimal.New(int64(d.Sign()*m.Rate.Sign()), -shownDigits))
	}
	return q
}

// units is an amount in 10⁻¹² of the currency, rounded as Of does it, without its sign; false = that takes more than 64
// bits.
func (m Money) units(n Nano) (uint64, bool) {
	power := 3 - int(m.Rate.Exponent()) // n is 10⁻⁹
	if m.Rate.NumDigits() > 18 || !m.Rate.IsPositive() || power < 0 || power > 19 {
		return 0, false
	}
	amount := uint64(n)
	if n < 0 {
		amount = -amount
	}
	by, scale := uint64(m.Rate.CoefficientInt64()), uint64(1)
	for range power {
		scale *= 10
	}
	hi, lo := bits.Mul64(amount, scale)
	if hi >= by {
		return 0, false
	}
	q, rest := bits.Div64(hi, lo, by)
	if up := rest > by-rest || rest == by-rest && q&1 == 1; up {
		q++
	}
	return q, q != 0 // rare enough: 0, or one too many
}

// Append appends an amount as a decimal number without exponent.
func (m Money) Append(dst []byte, n Nano) []byte {
	if m.Rate.IsZero() {
		return n.append(dst)
	}
	if u, ok := m.units(n); ok {
		if n < 0 {
			dst = append(dst, '-')
		}
		return appendUnits(dst, u, shownDigits)
	}
	return append(dst, m.Of(n.Decimal()).String()...)
}

// Money is the currency in which a key sees amounts: its own, else the one that the configuration shows to all. nil = a
// caller without a key. One without an exchange rate cannot be shown: it is the billing currency then.
func (c *Catalog) Money(k *Key) Money {
	shown := c.Shown
	if k != nil && k.Currency != "" {
		shown = k.Currency
	}
	m, _ := c.In(shown)
	return m
}

// In is a currency by its ISO code; false = it has no exchange rate, and the billing currency takes its place.
func (c *Catalog) In(currency string) (Money, bool) {
	if rate := c.Rates[currency]; currency != c.Currency && rate.IsPositive() {
		return Money{currency, rate}, true
	}
	return Money{Currency: c.Currency}, currency == c.Currency
}

// Times is the bound in a currency of which one unit is worth so much in another.
func (m *MaxPrice) Times(rate decimal.Decimal) MaxPrice {
	of := func(d decimal.NullDecimal) decimal.NullDecimal {
		if d.Valid {
			d.Decimal = d.Decimal.Mul(rate)
		}
		return d
	}
	return MaxPrice{of(m.Prompt), of(m.Completion), of(m.Image), of(m.Request)}
}
