package meter

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Worst is the most that a request can cost at the endpoint, in the billing currency: so many prompt tokens at the dearest
// of the prompt and the cache prices, so many choices of so many completion tokens at the dearer of the completion and the
// reasoning price, its images and the price per request. Of the price lists that may rule the bill of a prompt of up to so
// many tokens at that time, the dearest counts. It is rounded up to 10⁻⁹. The error is hearth.ErrMoneyRange.
func Worst(e *hearth.Endpoint, at time.Time, prompt, choices, completion, images int) (hearth.Nano, error) {
	var worst decimal.Decimal
	e.Reach(prompt, at, func(t *hearth.Tariff) {
		worst = decimal.Max(worst, worstAt(&t.Price, prompt, choices, completion, images))
	})
	n, err := hearth.NanoFromDecimal(worst.RoundUp(9))
	if err != nil {
		return 0, fmt.Errorf("worst case of %s: %w", e.ID, err)
	}
	return n, nil
}

// worstAt is the worst case by one price list, exact.
func worstAt(p *hearth.Price, prompt, choices, completion, images int) decimal.Decimal {
	tokens := decimal.Max(p.Prompt, p.CacheWrite, p.CacheRead).Mul(decimal.NewFromInt(int64(prompt))).
		Add(decimal.Max(p.Completion, p.Reasoning).Mul(decimal.NewFromInt(int64(completion))).Mul(decimal.NewFromInt(int64(choices))))
	return tokens.Shift(-6).Add(p.Image.Mul(decimal.NewFromInt(int64(images)))).Add(p.Request)
}
