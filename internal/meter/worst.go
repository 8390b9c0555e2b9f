package meter

import (
	"fmt"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Worst is the most that a request can cost at the endpoint, in the billing currency: so many prompt tokens at the dearest
// of the prompt and the cache prices, so many choices of so many completion tokens at the dearer of the completion and the
// reasoning price, its images and the price per request. It is rounded up to 10⁻⁹. The error is hearth.ErrMoneyRange.
func Worst(e *hearth.Endpoint, prompt, choices, completion, images int) (hearth.Nano, error) {
	p := &e.Price
	tokens := decimal.Max(p.Prompt, p.CacheWrite, p.CacheRead).Mul(decimal.NewFromInt(int64(prompt))).
		Add(decimal.Max(p.Completion, p.Reasoning).Mul(decimal.NewFromInt(int64(completion))).Mul(decimal.NewFromInt(int64(choices))))
	sum := tokens.Shift(-6).Add(p.Image.Mul(decimal.NewFromInt(int64(images)))).Add(p.Request)
	n, err := hearth.NanoFromDecimal(sum.RoundUp(9))
	if err != nil {
		return 0, fmt.Errorf("worst case of %s: %w", e.ID, err)
	}
	return n, nil
}
