package meter

import (
	"cmp"
	"fmt"
	"math/bits"
	"time"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Worst is the most that a request can cost at the endpoint, in the billing currency: so many prompt tokens at the dearest
// of the prompt and the cache prices, so many choices of so many completion tokens at the dearer of the completion and the
// reasoning price, its images and the price per request. Of the price lists that may rule the bill of a prompt of up to so
// many tokens at that time, the dearest counts. It is rounded up to 10⁻⁹. The error is hearth.ErrMoneyRange.
func Worst(e *hearth.Endpoint, at time.Time, prompt, choices, completion, images int) (hearth.Nano, error) {
	var worst hearth.Nano
	var err error
	e.Reach(prompt, at, func(t *hearth.Tariff) {
		n, fault := worstBy(&t.Price, prompt, choices, completion, images)
		worst, err = max(worst, n), cmp.Or(err, fault)
	})
	if err != nil {
		return 0, fmt.Errorf("worst case of %s: %w", e.ID, err)
	}
	return worst, nil
}

// worstBy is the worst case by one price list.
func worstBy(p *hearth.Price, prompt, choices, completion, images int) (hearth.Nano, error) {
	dearest := hearth.Price{
		Prompt: decimal.Max(p.Prompt, p.CacheWrite, p.CacheRead), Completion: decimal.Max(p.Completion, p.Reasoning),
		Image: p.Image, Request: p.Request,
	}
	if hi, answer := bits.Mul64(uint64(choices), uint64(completion)); hi == 0 && answer <= maxInt64 && min(prompt, choices, completion, images) >= 0 {
		if _, total, exp, ok := integerSum(&dearest, tokens{prompt: int64(prompt), completion: int64(answer), images: int64(images)}); ok {
			if n, ok := roundNano(total, exp, up); ok {
				return n, nil
			}
		}
	}
	tokens := dearest.Prompt.Mul(decimal.NewFromInt(int64(prompt))).
		Add(dearest.Completion.Mul(decimal.NewFromInt(int64(completion))).Mul(decimal.NewFromInt(int64(choices))))
	sum := tokens.Shift(-6).Add(p.Image.Mul(decimal.NewFromInt(int64(images)))).Add(p.Request)
	return hearth.NanoFromDecimal(sum.RoundUp(9))
}
