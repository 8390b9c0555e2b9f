package meter

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// ErrUsage is returned when an upstream's token counts cannot be true. The bill is then 0.
var ErrUsage = errors.New("token counts of the upstream cannot be true")

// Outcome is what Settle needs to know of how a request ended.
type Outcome struct {
	Currency string    // the billing currency
	At       time.Time // when the chain was built: the price lists of that instant hold
	Finish   string    // finish reason of the answer, "" if it has none
	Failed   bool      // the chain failed as a whole: no endpoint answered
	Images   int       // images in the request; fewer than 0 count as none
}

// charged says whether there is an answer to pay for.
func (o Outcome) charged(u hearth.Usage) bool {
	return u.Reported && !o.Failed && o.Finish != "error" && u.CompletionTokens > 0
}

// Settle computes what an answer costs: the token counts at the prices of the endpoint that gave it, exactly,
// rounded once, half to even, to 10⁻⁹ of the billing currency. The price list is the one that holds for the reported
// prompt tokens at o.At. Cached tokens are charged at the cache-read price,
// cache writes at the write price, the rest of the prompt at the prompt price, reasoning tokens at the reasoning
// price, the rest of the completion at the completion price; the prices per image of the
// request and per request are part of the prompt cost. At an endpoint whose price is reported, the cost is what the
// upstream says it is, times exchange rate and margin, and its parts stand to each other as at the list price.
// Without reported usage, without completion tokens or after a failure the cost is 0. PromptCost and
// CompletionCost add up to Cost.
//
// The bill carries list price, rate and margin in any case. The error is ErrUsage, ErrCost, or hearth.ErrMoneyRange if
// the cost does not fit; the cost is then 0.
func Settle(e *hearth.Endpoint, u hearth.Usage, o Outcome) (hearth.Bill, error) {
	t := e.TariffAt(int(min(u.PromptTokens, math.MaxInt32)), o.At) // no step begins above that
	b := hearth.Bill{
		Currency: o.Currency,
		Tariff:   t.Name, List: &t.List, ListIn: e.Provider.Currency,
		Rate: e.Rate, Margin: e.Margin, Reported: e.Reported,
	}
	if u.Reported && !u.Valid() {
		return b, fmt.Errorf("settle %s: %w", e.ID, ErrUsage)
	}
	if !o.charged(u) {
		return b, nil
	}
	c := countTokens(u, o.Images)
	if e.Reported {
		if err := settleReported(&b, u.Cost, c); err != nil {
			return b, fmt.Errorf("settle %s: %w", e.ID, err)
		}
		return b, nil
	}
	prompt, total, ok := fastCost(&t.Price, c)
	if !ok {
		var err error
		if prompt, total, err = exactCost(&t.Price, c); err != nil {
			return b, fmt.Errorf("settle %s: %w", e.ID, err)
		}
	}
	b.Cost, b.PromptCost, b.CompletionCost = total, prompt, total-prompt
	b.Upstream = upstreamCost(&t.List, c)
	return b, nil
}

// tokens are the counts by the price they are charged at, with the images of the request.
type tokens struct {
	prompt, cacheRead, cacheWrite int64
	completion, reasoning         int64
	images                        int64
}

func countTokens(u hearth.Usage, images int) tokens {
	return tokens{
		prompt:    u.PromptTokens - u.CachedTokens - u.CacheWriteTokens,
		cacheRead: u.CachedTokens, cacheWrite: u.CacheWriteTokens,
		completion: u.CompletionTokens - u.ReasoningTokens, reasoning: u.ReasoningTokens,
		images: int64(max(0, images)),
	}
}

// exactSum is the prompt part and the whole of the cost, in the currency of p, not rounded.
func exactSum(p *hearth.Price, c tokens) (prompt, total decimal.Decimal) {
	const perMillion = -6
	at := func(price decimal.Decimal, n int64) decimal.Decimal { return price.Mul(decimal.NewFromInt(n)) }
	prompt = at(p.Prompt, c.prompt).Add(at(p.CacheRead, c.cacheRead)).Add(at(p.CacheWrite, c.cacheWrite)).
		Shift(perMillion).Add(p.Request).Add(at(p.Image, c.images))
	answer := at(p.Completion, c.completion).Add(at(p.Reasoning, c.reasoning)).Shift(perMillion)
	return prompt, prompt.Add(answer)
}

// exactCost is the cost by arithmetic on decimals of any length.
func exactCost(p *hearth.Price, c tokens) (prompt, total hearth.Nano, err error) {
	promptSum, totalSum := exactSum(p, c)
	if prompt, err = hearth.NanoFromDecimal(promptSum); err != nil {
		return 0, 0, err
	}
	if total, err = hearth.NanoFromDecimal(totalSum); err != nil {
		return 0, 0, err
	}
	return prompt, total, nil
}

// upstreamCost is the same tokens and images at the list price, exact.
func upstreamCost(list *hearth.Price, c tokens) decimal.Decimal {
	if _, total, exp, ok := integerSum(list, c); ok && total.hi == 0 && total.lo <= maxInt64 {
		return decimal.New(int64(total.lo), exp)
	}
	_, total := exactSum(list, c)
	return total
}
