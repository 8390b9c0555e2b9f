package relay

import (
	"net/http"
	"strconv"
	"time"

	"myip.co.kr/hearth/internal/account"
	"myip.co.kr/hearth/internal/dialect"
)

// admit holds a request against the limits per minute of its key, and tells the caller what is left of them. What it refuses
// has no record.
func (r *Relay) admit(w http.ResponseWriter, x *exchange) error {
	if x.key.RequestsPerMinute <= 0 && x.key.TokensPerMinute <= 0 {
		return nil
	}
	use, left, err := r.minutes.Admit(x.key, mayUse(x.chat), time.Now())
	tellAllowances(w.Header(), &left)
	x.use = use
	x.gen.Estimate = x.chat.Estimate // for settleUse, if no chain is built
	return err
}

// mayUse is how many tokens are held for a request: the estimate of its prompt and, if it sets a cap, as many of output as the cap
// allows in all its choices. It is what Azure counts beforehand
// (https://learn.microsoft.com/en-us/azure/ai-services/openai/how-to/quota#understanding-rate-limits). An answer without a cap
// counts when it is known how long it was: to hold the longest possible one would let in next to nothing.
func mayUse(c *dialect.Chat) int64 {
	const most = 1 << 40 // more than any limit, and far from what overflows
	return int64(min(c.Estimate, most) + min(c.MaxTokens, most)*min(max(c.Choices, 1), 1<<20))
}

// settleUse puts the tokens that a request used in the place of those that were held, once: what the upstream reported. Of an
// answer, or a caller who left before it was whole, without a report the estimate of the prompt stands, for something worked
// at it. Nothing else used any.
func (x *exchange) settleUse() {
	if x.use.Settled() {
		return
	}
	g, used := &x.gen, int64(0)
	switch {
	case g.Usage.Reported:
		used = g.Usage.PromptTokens + g.Usage.CompletionTokens
	case g.Endpoint != "", g.Cancelled && x.tally.tried > 0:
		used = int64(g.Estimate)
	}
	x.use.Settle(used, time.Now())
}

// tellAllowances writes what is left of limits per minute into headers, in the form of OpenAI's
// (https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers).
func tellAllowances(h http.Header, a *account.Allowances) {
	if l := &a.Requests; l.Limit > 0 {
		h["X-RateLimit-Limit-Requests"] = []string{strconv.FormatInt(l.Limit, 10)}
		h["X-RateLimit-Remaining-Requests"] = []string{strconv.FormatInt(l.Left, 10)}
		h["X-RateLimit-Reset-Requests"] = []string{reset(l.Reset)}
	}
	if l := &a.Tokens; l.Limit > 0 {
		h["X-RateLimit-Limit-Tokens"] = []string{strconv.FormatInt(l.Limit, 10)}
		h["X-RateLimit-Remaining-Tokens"] = []string{strconv.FormatInt(l.Left, 10)}
		h["X-RateLimit-Reset-Tokens"] = []string{reset(l.Reset)}
	}
}

// reset is a time to come, such as 6m0s or 120ms, rounded up to a millisecond.
func reset(d time.Duration) string {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}
