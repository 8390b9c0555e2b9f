package meter

import (
	"errors"
	"math/bits"
	"strings"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// ErrCost is returned when an upstream whose own figure is the price of an answer gives none, or none that can be true.
// The bill is then 0: the list price is never taken in its place.
var ErrCost = errors.New("the upstream does not say what the answer cost, and its price is what it says")

// maxCostText bounds the figure an upstream gives for a cost, in bytes.
const maxCostText = 64

// costOf reads what an upstream says an answer cost: digits with a point, no sign, no exponent.
func costOf(text string) (decimal.Decimal, error) {
	digits := strings.Replace(text, ".", "", 1)
	if digits == "" || len(text) > maxCostText || strings.Trim(digits, "0123456789") != "" {
		return decimal.Decimal{}, ErrCost
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Decimal{}, ErrCost
	}
	return d, nil
}

// settleReported completes the bill of an answer whose price is what the upstream says. The list in the bill only says
// how the cost is divided.
func settleReported(b *hearth.Bill, said string, c tokens) error {
	up, err := costOf(said)
	if err != nil {
		return err
	}
	cost, err := hearth.NanoFromDecimal(up.Mul(factor(b)))
	if err != nil {
		return err
	}
	b.Upstream, b.Cost = up, cost
	b.PromptCost = share(cost, b.List, c)
	b.CompletionCost = cost - b.PromptCost
	return nil
}

// share is the part of a cost that is the prompt's, rounded to 10⁻⁹: as much as it would be at the list price. Where the
// list is free it is nothing.
func share(cost hearth.Nano, list *hearth.Price, c tokens) hearth.Nano {
	if n, ok := fastShare(cost, list, c); ok {
		return n
	}
	return exactShare(cost, list, c)
}

// fastShare is exactShare for prices of common length, without allocations.
func fastShare(cost hearth.Nano, list *hearth.Price, c tokens) (hearth.Nano, bool) {
	prompt, total, _, ok := integerSum(list, c)
	if !ok || cost < 0 || total.hi != 0 || total.lo == 0 || total.lo > maxInt64 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(cost), prompt.lo)
	quo, rem := bits.Div64(hi, lo, total.lo) // the prompt is a part of the total, so that the quotient is not more than cost
	if 2*rem >= total.lo {
		quo++
	}
	return hearth.Nano(quo), true
}

// exactShare is the share by arithmetic on decimals of any length.
func exactShare(cost hearth.Nano, list *hearth.Price, c tokens) hearth.Nano {
	prompt, total := exactSum(list, c)
	if total.IsZero() {
		return 0
	}
	n, err := hearth.NanoFromDecimal(cost.Decimal().Mul(prompt).DivRound(total, 9))
	if err != nil { // not more than cost, which fits
		return 0
	}
	return n
}

// factor turns amounts in the currency of a bill's list into what a caller pays.
func factor(b *hearth.Bill) decimal.Decimal { return b.Rate.Mul(one.Add(b.Margin)) }

var one = decimal.New(1, 0)
