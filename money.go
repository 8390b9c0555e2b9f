package hearth

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/shopspring/decimal"
)

// Nano is an amount of money in 10⁻⁹ units of the billing currency. Sums are checked; it is never a float.
type Nano int64

// ErrMoneyRange is returned when an amount does not fit into int64 nano-units (about 9.2 × 10⁹ whole units).
var ErrMoneyRange = errors.New("amount out of range")

var nanoExp = int32(9)

// NanoFromDecimal rounds d once, half to even, to 10⁻⁹ and fails if it does not fit.
func NanoFromDecimal(d decimal.Decimal) (Nano, error) {
	r := d.Shift(nanoExp).RoundBank(0).BigInt()
	if !r.IsInt64() {
		return 0, fmt.Errorf("convert %s to nano-units: %w", d, ErrMoneyRange)
	}
	return Nano(r.Int64()), nil
}

// Add returns n + m, or ErrMoneyRange.
func (n Nano) Add(m Nano) (Nano, error) {
	s := n + m
	if (n > 0 && m > 0 && s <= 0) || (n < 0 && m < 0 && s >= 0) {
		return 0, ErrMoneyRange
	}
	return s, nil
}

// Decimal is the amount in whole units of the billing currency, exact.
func (n Nano) Decimal() decimal.Decimal { return decimal.New(int64(n), -nanoExp) }

// AppendText appends the amount as a decimal number: never rounded, never in exponent form, no trailing zeros.
func (n Nano) AppendText(b []byte) ([]byte, error) { return n.append(b), nil }

func (n Nano) append(b []byte) []byte {
	u := uint64(n)
	if n < 0 {
		b, u = append(b, '-'), -u
	}
	return appendUnits(b, u, uint64(nanoExp))
}

// appendUnits appends a number of units of 10^-digits without trailing zeros.
func appendUnits(b []byte, u, digits uint64) []byte {
	one := uint64(1)
	for range digits {
		one *= 10
	}
	whole, frac := u/one, u%one
	b = strconv.AppendUint(b, whole, 10)
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for frac > 0 {
		one /= 10
		b = append(b, byte('0'+frac/one))
		frac %= one
	}
	return b
}

func (n Nano) String() string { return string(n.append(make([]byte, 0, 24))) }

// MarshalJSON writes the amount as a JSON number.
func (n Nano) MarshalJSON() ([]byte, error) { return n.append(make([]byte, 0, 24)), nil }

// UnmarshalJSON reads what MarshalJSON wrote; more than nine decimals are refused.
func (n *Nano) UnmarshalJSON(b []byte) error {
	d, err := decimal.NewFromString(string(b))
	if err != nil {
		return fmt.Errorf("read amount: %w", err)
	}
	v, err := NanoFromDecimal(d)
	if err != nil {
		return err
	}
	if !v.Decimal().Equal(d) {
		return fmt.Errorf("read amount %s: finer than 10⁻⁹", b)
	}
	*n = v
	return nil
}

// Price is what an endpoint charges. Token prices are per 1,000,000 tokens, Image per image, Request per
// request, all in one currency. Absent kinds are resolved when the catalog is built: CacheRead and CacheWrite
// default to Prompt, Reasoning to Completion, Image and Request to 0. Records of earlier versions have the names of the
// fields as they stand here: Prompt, CacheRead.
type Price struct {
	Prompt     decimal.Decimal `json:"prompt,case:ignore"`
	Completion decimal.Decimal `json:"completion,case:ignore"`
	CacheRead  decimal.Decimal `json:"cache_read,case:ignore"`
	CacheWrite decimal.Decimal `json:"cache_write,case:ignore"`
	Reasoning  decimal.Decimal `json:"reasoning,case:ignore"`
	Image      decimal.Decimal `json:"image,case:ignore"`
	Request    decimal.Decimal `json:"request,case:ignore"`
}

// Times returns the price with every kind multiplied by f, exactly.
func (p Price) Times(f decimal.Decimal) Price {
	return Price{
		Prompt: p.Prompt.Mul(f), Completion: p.Completion.Mul(f),
		CacheRead: p.CacheRead.Mul(f), CacheWrite: p.CacheWrite.Mul(f),
		Reasoning: p.Reasoning.Mul(f), Image: p.Image.Mul(f), Request: p.Request.Mul(f),
	}
}

// Usage is the token count of one answer in Hearth's one meaning: PromptTokens includes CachedTokens and
// CacheWriteTokens, CompletionTokens includes ReasoningTokens. The counts are the upstream's, never ours.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CachedTokens     int64 `json:"cached_tokens,omitzero"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitzero"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitzero"`
	Reported         bool  `json:"reported"` // false: the upstream gave no usage, all counts are 0
	// Cost is what the upstream says the answer cost, in its own currency, as decimal digits; "" = it does not say.
	Cost string `json:"cost,omitzero"`
}

// Valid says whether every count could be true: none negative, none past what a sum can hold.
func (u Usage) Valid() bool {
	const limit = math.MaxInt64 / 4
	for _, n := range [...]int64{u.PromptTokens, u.CompletionTokens, u.CachedTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n < 0 || n > limit {
			return false
		}
	}
	return u.CachedTokens+u.CacheWriteTokens <= u.PromptTokens && u.ReasoningTokens <= u.CompletionTokens
}

// AppendDecimal appends d as its String method writes it, without allocations for numbers of up to 18 digits.
func AppendDecimal(b []byte, d decimal.Decimal) []byte {
	exp := int(d.Exponent())
	if exp > 0 || exp < -18 || d.NumDigits() > 18 {
		return append(b, d.String()...)
	}
	v := d.CoefficientInt64()
	if v < 0 {
		b, v = append(b, '-'), -v
	}
	for exp < 0 && v%10 == 0 { // no zeros at the end of the fraction
		v, exp = v/10, exp+1
	}
	var digits [40]byte
	s := strconv.AppendInt(digits[:0], v, 10)
	if exp == 0 {
		return append(b, s...)
	}
	whole := len(s) + exp // digits before the point
	if whole > 0 {
		b = append(b, s[:whole]...)
		s = s[whole:]
	} else {
		b = append(b, '0')
	}
	b = append(b, '.')
	for ; whole < 0; whole++ {
		b = append(b, '0')
	}
	return append(b, s...)
}
