package meter

import (
	"fmt"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Again is what a recorded answer costs, computed from its record alone.
type Again struct {
	Cost, PromptCost, CompletionCost hearth.Nano
	Upstream                         decimal.Decimal // as Bill.Upstream
	// Listed is what the same tokens cost at the list price, with rate and margin. It is Cost but where the price is what
	// the upstream reports.
	Listed hearth.Nano
}

// Recompute computes the bill of a recorded generation anew by the rule of Settle, but from the record's own list price,
// rate, margin and token counts, and in decimals of any length throughout. A record without a list price was never
// settled and costs nothing. The errors are those of Settle; all amounts are then 0, as Settle leaves them.
func Recompute(g *hearth.Generation) (Again, error) {
	b := g.Bill
	if b.List == nil || !(Outcome{Finish: g.FinishReason}).charged(g.Usage) {
		return Again{}, nil
	}
	if !g.Usage.Valid() {
		return Again{}, fmt.Errorf("recompute %s: %w", g.ID, ErrUsage)
	}
	c := countTokens(g.Usage, g.Images)
	price := b.List.Times(factor(&b))
	prompt, total, err := exactCost(&price, c)
	if b.Reported {
		listed := total // 0 if it does not fit, which is no fault of what is reported
		if err := settleReported(&b, g.Usage.Cost, c); err != nil {
			return Again{}, fmt.Errorf("recompute %s: %w", g.ID, err)
		}
		return Again{b.Cost, b.PromptCost, b.CompletionCost, b.Upstream, listed}, nil
	}
	if err != nil {
		return Again{}, fmt.Errorf("recompute %s: %w", g.ID, err)
	}
	_, up := exactSum(b.List, c)
	return Again{total, prompt, total - prompt, up, total}, nil
}

// Said is what the upstream says that a recorded answer cost, in the billing currency with rate and margin, whether the
// bill goes by it or not. ok is false if it says nothing that can be true, or if the answer costs nothing in any case.
func Said(g *hearth.Generation) (said hearth.Nano, ok bool) {
	if g.Bill.List == nil || !(Outcome{Finish: g.FinishReason}).charged(g.Usage) {
		return 0, false
	}
	up, err := costOf(g.Usage.Cost)
	if err != nil {
		return 0, false
	}
	said, err = hearth.NanoFromDecimal(up.Mul(factor(&g.Bill)))
	return said, err == nil
}
