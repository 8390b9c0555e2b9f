package meter

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// rat is a decimal as a fraction, by way of its digits.
func rat(d decimal.Decimal) *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		panic(d.String())
	}
	return r
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func product(factors ...*big.Rat) *big.Rat {
	p := whole(1)
	for _, f := range factors {
		p.Mul(p, f)
	}
	return p
}

func sum(terms ...*big.Rat) *big.Rat {
	s := new(big.Rat)
	for _, t := range terms {
		s.Add(s, t)
	}
	return s
}

// nanos rounds a fraction, half to even, to whole nano-units.
func nanos(r *big.Rat) *big.Int {
	r = product(r, whole(1_000_000_000))
	quo, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	switch c := rem.Lsh(rem, 1).Cmp(r.Denom()); {
	case c > 0, c == 0 && quo.Bit(0) == 1:
		quo.Add(quo, big.NewInt(1))
	}
	return quo
}

// byHand is the prompt's part and the whole of what a price list asks, in its currency.
func byHand(p *hearth.Price, u hearth.Usage, images int) (prompt, total *big.Rat) {
	million := big.NewRat(1, 1_000_000)
	prompt = sum(
		product(rat(p.Prompt), whole(u.PromptTokens-u.CachedTokens-u.CacheWriteTokens), million),
		product(rat(p.CacheRead), whole(u.CachedTokens), million),
		product(rat(p.CacheWrite), whole(u.CacheWriteTokens), million),
		rat(p.Request), product(rat(p.Image), whole(int64(images))))
	return prompt, sum(prompt,
		product(rat(p.Completion), whole(u.CompletionTokens-u.ReasoningTokens), million),
		product(rat(p.Reasoning), whole(u.ReasoningTokens), million))
}

// listByHand is the list that holds: of the steps whose conditions are met the one for the longest prompts, with hours
// before without, then the first one; else the base list.
func listByHand(base hearth.Price, steps []hearth.Tariff, prompt int64, at time.Time) (string, *hearth.Price) {
	var best *hearth.Tariff
	for i := range steps {
		s := &steps[i]
		minute := at.UTC().Hour()*60 + at.UTC().Minute()
		from, to := int(s.Hours.From/time.Minute), int(s.Hours.To/time.Minute)
		within := from == to || from < to && minute >= from && minute < to || from > to && (minute >= from || minute < to)
		if !within || s.Above > 0 && prompt <= int64(s.Above) {
			continue
		}
		if best == nil || s.Above > best.Above || s.Above == best.Above && from != to && best.Hours.From == best.Hours.To {
			best = s
		}
	}
	if best == nil {
		return "", &base
	}
	return best.Name, &best.List
}

// usualPrice draws prices of common lengths, where integers are enough.
func usualPrice(t *rapid.T) hearth.Price {
	one := func(name string) decimal.Decimal {
		return decimal.New(rapid.Int64Range(0, 100_000).Draw(t, name), -int32(rapid.IntRange(0, 6).Draw(t, name+" scale")))
	}
	return hearth.Price{
		Prompt: one("prompt"), Completion: one("completion"), CacheRead: one("read"), CacheWrite: one("write"),
		Reasoning: one("reasoning"), Image: one("image"), Request: one("request"),
	}
}

func drawList(t *rapid.T) hearth.Price {
	if rapid.Bool().Draw(t, "long prices") {
		return drawPrice(t)
	}
	return usualPrice(t)
}

func drawSteps(t *rapid.T, most int, list func(*rapid.T) hearth.Price) []hearth.Tariff {
	var steps []hearth.Tariff
	for i := range rapid.IntRange(0, most).Draw(t, "steps") {
		s := hearth.Tariff{Name: string(rune('a' + i)), Above: rapid.SampledFrom([]int{0, 1, 10, 5000}).Draw(t, "above"), List: list(t)}
		if s.Above == 0 || rapid.Bool().Draw(t, "hours") {
			from := rapid.IntRange(0, 23).Draw(t, "from")
			s.Hours.From = time.Duration(from) * time.Hour
			s.Hours.To = time.Duration((from+rapid.IntRange(1, 23).Draw(t, "long"))%24) * time.Hour
		}
		steps = append(steps, s)
	}
	return steps
}

func drawTime(t *rapid.T) time.Time {
	return time.Date(2026, 3, 1, 0, rapid.IntRange(0, 24*60-1).Draw(t, "minute"), 0, 0, time.UTC)
}

// tariffed draws an endpoint, its steps as they were written, and what its amounts are multiplied with.
func tariffed(t *rapid.T, list func(*rapid.T) hearth.Price) (*hearth.Endpoint, []hearth.Tariff, *big.Rat) {
	currency := rapid.SampledFrom([]string{"USD", "KRW"}).Draw(t, "currency")
	rate := decimal.New(rapid.Int64Range(1, 2_000_000).Draw(t, "rate"), -3)
	margin := decimal.New(rapid.Int64Range(-1000, 3000).Draw(t, "margin"), -3)
	steps := drawSteps(t, 4, list)
	e := sealed(&hearth.Endpoint{List: list(t), Steps: slices.Clone(steps), Provider: &hearth.Provider{Currency: currency, Margin: margin}}, rate.String())
	by := sum(whole(1), rat(margin))
	if currency == "USD" {
		by = product(by, rat(rate))
	}
	return e, steps, by
}

// Whatever is charged is what fractions come to, rounded once, by the list that holds; and so says the record alone.
func TestSettle_ByHand(t *testing.T) {
	fast, long, stepped := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		e, steps, by := tariffed(t, drawList)
		u, images, at := drawUsage(t), drawImages(t), drawTime(t)
		b, err := Settle(e, u, Outcome{Currency: "KRW", Finish: "stop", Images: images, At: at})
		name, list := listByHand(e.List, steps, u.PromptTokens, at)
		prompt, total := byHand(list, u, images)
		cost := nanos(product(total, by))
		if !cost.IsInt64() {
			if !errors.Is(err, hearth.ErrMoneyRange) || b.Cost != 0 {
				t.Fatalf("%v and %v for %v", b.Cost, err, cost)
			}
			return
		}
		if err != nil || b.Cost != hearth.Nano(cost.Int64()) || b.PromptCost != hearth.Nano(nanos(product(prompt, by)).Int64()) {
			t.Fatalf("%v, %v of it the prompt's, %v; by hand %v nano-units", b.Cost, b.PromptCost, err, cost)
		}
		if b.Tariff != name || rat(b.Upstream).Cmp(total) != 0 || b.PromptCost+b.CompletionCost != b.Cost {
			t.Fatalf("%+v, want list %q and %v", b, name, total)
		}
		again, err := Recompute(&hearth.Generation{Usage: u, Bill: b, FinishReason: "stop", Images: images})
		if err != nil || again.Cost != b.Cost || again.PromptCost != b.PromptCost || again.CompletionCost != b.CompletionCost || !again.Upstream.Equal(b.Upstream) || again.Listed != b.Cost {
			t.Fatalf("by its record %+v, %v; billed %+v", again, err, b)
		}
		if _, _, ok := fastCost(&e.TariffAt(int(min(u.PromptTokens, math.MaxInt32)), at).Price, countTokens(u, images)); ok {
			fast++
		} else {
			long++
		}
		if name != "" {
			stepped++
		}
	})
	if fast == 0 || long == 0 || stepped == 0 {
		t.Errorf("%d times the fast way, %d times the long one, %d times a step", fast, long, stepped)
	}
}

// A reported cost is charged as it is said, with rate and margin, and divided as the list would divide it.
func TestSettle_ReportedByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, steps, by := tariffed(t, usualPrice)
		e.Reported = true
		u, images, at := drawUsage(t), rapid.IntRange(0, 9).Draw(t, "images"), drawTime(t)
		u.Cost = rapid.StringMatching(`[0-9]{1,6}(\.[0-9]{0,20})?`).Draw(t, "said")
		said, _ := new(big.Rat).SetString(strings.TrimSuffix(u.Cost, "."))
		cost := nanos(product(said, by))
		b, err := Settle(e, u, Outcome{Currency: "KRW", Images: images, At: at})
		if err != nil || b.Cost != hearth.Nano(cost.Int64()) || !b.Reported || rat(b.Upstream).Cmp(said) != 0 {
			t.Fatalf("%+v, %v; by hand %v nano-units", b, err, cost)
		}
		name, list := listByHand(e.List, steps, u.PromptTokens, at)
		prompt, total := byHand(list, u, images)
		share := new(big.Rat)
		if total.Sign() > 0 {
			share = product(whole(int64(b.Cost)), prompt, new(big.Rat).Inv(total))
		}
		if off := sum(share, whole(-int64(b.PromptCost))); off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 || b.PromptCost+b.CompletionCost != b.Cost || b.Tariff != name {
			t.Fatalf("%v + %v of %v by %q, the prompt's share is %v", b.PromptCost, b.CompletionCost, b.Cost, b.Tariff, share)
		}
		again, err := Recompute(&hearth.Generation{Usage: u, Bill: b, Images: images})
		listed := nanos(product(total, by))
		if err != nil || again.Cost != b.Cost || again.PromptCost != b.PromptCost || again.CompletionCost != b.CompletionCost || !again.Upstream.Equal(b.Upstream) ||
			listed.IsInt64() && again.Listed != hearth.Nano(listed.Int64()) {
			t.Fatalf("by its record %+v, %v; billed %+v, at the list %v", again, err, b, listed)
		}
	})
}

// No answer within the counts that were held back for costs more than what was held back, whichever list it ends under.
func TestWorst_Steps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, _, _ := tariffed(t, usualPrice)
		n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		prompt, completion, images, at := n("prompt tokens", 10_000), n("cap", 10_000), n("images", 8), drawTime(t)
		u := hearth.Usage{Reported: true, PromptTokens: int64(n("used", prompt)), CompletionTokens: int64(n("made", completion))}
		u.CachedTokens = int64(n("cached", int(u.PromptTokens)))
		u.CacheWriteTokens = int64(n("written", int(u.PromptTokens-u.CachedTokens)))
		u.ReasoningTokens = int64(n("reasoned", int(u.CompletionTokens)))
		worst, err := Worst(e, at, prompt, 1, completion, images)
		if err != nil {
			t.Fatal(err)
		}
		bill, err := Settle(e, u, Outcome{Currency: "KRW", Images: images, At: at})
		if err != nil || bill.Cost > worst {
			t.Fatalf("cost %v by %q of at most %v, %v", bill.Cost, bill.Tariff, worst, err)
		}
		if short := e.TariffAt(prompt, at); len(e.Steps) == 0 || short.Name != "" && short.Above == 0 {
			full := hearth.Usage{Reported: true, PromptTokens: int64(prompt), CompletionTokens: int64(completion)}
			p := short.Price
			if p.Prompt.LessThan(decimal.Max(p.CacheRead, p.CacheWrite)) || p.Completion.LessThan(p.Reasoning) || completion == 0 {
				return
			}
			if bill, err = Settle(e, full, Outcome{Currency: "KRW", Images: images, At: at}); err != nil || worst-bill.Cost > 1 {
				t.Fatalf("%v are held back for what costs %v, %v", worst, bill.Cost, err)
			}
		}
	})
}

// What is held back is the dearest that the request could come to, by any list that may hold for its prompt, rounded up.
func TestWorst_ByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, steps, by := tariffed(t, drawList)
		n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		prompt, choices, completion, images, at := n("prompt", 10_000), n("choices", 4), n("cap", 10_000), n("images", 8), drawTime(t)
		worst := new(big.Rat)
		for _, count := range []int{0, 1, 2, 10, 11, 5000, 5001, prompt} {
			if count > prompt {
				continue
			}
			_, list := listByHand(e.List, steps, int64(count), at)
			p := hearth.Price{
				Prompt: decimal.Max(list.Prompt, list.CacheRead, list.CacheWrite), Completion: decimal.Max(list.Completion, list.Reasoning),
				Image: list.Image, Request: list.Request,
			}
			if _, total := byHand(&p, hearth.Usage{PromptTokens: int64(prompt), CompletionTokens: int64(choices * completion)}, images); total.Cmp(worst) > 0 {
				worst = total
			}
		}
		up := product(worst, by, whole(1_000_000_000))
		want := new(big.Int).Add(up.Num(), new(big.Int).Sub(up.Denom(), big.NewInt(1)))
		want.Quo(want, up.Denom())
		got, err := Worst(e, at, prompt, choices, completion, images)
		if !want.IsInt64() {
			if !errors.Is(err, hearth.ErrMoneyRange) {
				t.Fatalf("%v, %v for %v", got, err, want)
			}
			return
		}
		if err != nil || int64(got) != want.Int64() {
			t.Fatalf("%d, %v; by hand %v nano-units", int64(got), err, want)
		}
	})
}

// The prompt's share of a reported cost is the same in integers and in decimals.
func TestShare(t *testing.T) {
	fast := 0
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawList(t), countTokens(drawUsage(t), rapid.IntRange(0, 9).Draw(t, "images"))
		cost := hearth.Nano(rapid.Int64Range(0, math.MaxInt64).Draw(t, "cost"))
		got, ok := fastShare(cost, &p, c)
		if !ok {
			return
		}
		fast++
		if want := exactShare(cost, &p, c); got != want || got > cost {
			t.Fatalf("%d of %d, want %d", got, cost, want)
		}
	})
	if fast == 0 {
		t.Error("the fast way was never taken")
	}
}
