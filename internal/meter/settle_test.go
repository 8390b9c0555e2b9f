package meter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

// endpoint makes a sealed endpoint with the given list prices per million tokens.
func endpoint(currency, rate, margin string, list hearth.Price) *hearth.Endpoint {
	return sealed(&hearth.Endpoint{List: list, Provider: &hearth.Provider{Currency: currency, Margin: dec(margin)}}, rate)
}

// sealed seals an endpoint in a catalog of its own, whose billing currency is KRW.
func sealed(e *hearth.Endpoint, rate string) *hearth.Endpoint {
	e.Model, e.Tag = &hearth.Model{ID: "a/b"}, "test"
	e.Provider.Kind = hearth.External
	c := &hearth.Catalog{
		Currency: "KRW", Rates: map[string]decimal.Decimal{e.Provider.Currency: dec(rate)},
		Models: []*hearth.Model{e.Model}, Providers: []*hearth.Provider{e.Provider}, Endpoints: []*hearth.Endpoint{e},
	}
	if err := c.Seal(); err != nil {
		panic(err)
	}
	return e
}

// simple is a price without cache or reasoning kinds of its own.
func simple(prompt, completion string) hearth.Price {
	p, c := dec(prompt), dec(completion)
	return hearth.Price{Prompt: p, CacheRead: p, CacheWrite: p, Completion: c, Reasoning: c}
}

func TestSettle(t *testing.T) {
	local := endpoint("KRW", "1", "0", simple("30", "150"))
	acme := endpoint("USD", "1391.5", "0.055", hearth.Price{
		Prompt: dec("3"), CacheRead: dec("0.3"), CacheWrite: dec("3.75"), Completion: dec("15"), Reasoning: dec("20"),
		Request: dec("0.001"), Image: dec("0.0025"),
	})
	seeing := simple("30", "150")
	seeing.Image = dec("0.5")
	eyes := endpoint("KRW", "1", "0", seeing)
	thousand := hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true}
	for _, c := range []struct {
		name             string
		e                *hearth.Endpoint
		u                hearth.Usage
		o                Outcome
		cost, prompt, up string
	}{
		{"local price", local, thousand, Outcome{Finish: "stop"}, "0.045", "0.03", "0.045"},
		{"external, every kind", acme,
			hearth.Usage{PromptTokens: 1000, CachedTokens: 400, CacheWriteTokens: 100, CompletionTokens: 50, ReasoningTokens: 20, Reported: true},
			Outcome{Finish: "stop"},
			// List: 500×3 + 400×0.3 + 100×3.75 = 1995, 30×15 + 20×20 = 850 per million, and 0.001 → 0.003845 USD;
			// × 1391.5 × 1.055 = 5.6445849625 KRW
			"5.644584962", "4.396757338", "0.003845"},
		{"images, each at list, rate and margin", acme, thousand, Outcome{Finish: "stop", Images: 2},
			// List: 1000×3 per million + 0.001 + 2×0.0025 = 0.009, 100×15 per million = 0.0015 → 0.0105 USD
			"15.41434125", "13.2122925", "0.0105"},
		{"images at a local price", eyes, thousand, Outcome{Finish: "stop", Images: 3}, "1.545", "1.53", "1.545"},
		{"no price per image", local, thousand, Outcome{Finish: "stop", Images: 3}, "0.045", "0.03", "0.045"},
		{"more images than can be", endpoint("KRW", "1", "0", hearth.Price{Image: dec("0.000000000000001")}),
			hearth.Usage{CompletionTokens: 1, Reported: true}, Outcome{Images: math.MaxInt64}, "9223.372036855", "9223.372036855", "9223.372036854775807"},
		{"fewer than no images", eyes, thousand, Outcome{Finish: "stop", Images: -3}, "0.045", "0.03", "0.045"},
		{"images of a request without usage", eyes, hearth.Usage{}, Outcome{Finish: "stop", Images: 3}, "0", "0", "0"},
		{"images of a failed chain", eyes, thousand, Outcome{Failed: true, Images: 3}, "0", "0", "0"},
		{"images, finish reason error", eyes, thousand, Outcome{Finish: "error", Images: 3}, "0", "0", "0"},
		{"images, no completion tokens", eyes, hearth.Usage{PromptTokens: 1000, Reported: true}, Outcome{Finish: "stop", Images: 3}, "0", "0", "0"},
		{"cancelled caller pays what was reported", local, thousand, Outcome{}, "0.045", "0.03", "0.045"},
		{"no usage reported", local, hearth.Usage{}, Outcome{Finish: "stop"}, "0", "0", "0"},
		{"counts without a report", local, hearth.Usage{PromptTokens: 5, CompletionTokens: 5}, Outcome{Finish: "stop"}, "0", "0", "0"},
		{"no completion tokens", acme, hearth.Usage{PromptTokens: 1000, Reported: true}, Outcome{Finish: "stop"}, "0", "0", "0"},
		{"finish reason error", local, thousand, Outcome{Finish: "error"}, "0", "0", "0"},
		{"failed chain", local, thousand, Outcome{Failed: true}, "0", "0", "0"},
		{"a margin of its own", sealed(&hearth.Endpoint{List: simple("1", "1"), OwnMargin: new(dec("0.5")), Provider: &hearth.Provider{Currency: "USD", Margin: dec("0.055")}}, "1000"), thousand,
			Outcome{Finish: "stop"}, "1.65", "1.5", "0.0011"},
		{"half rounds down to even", endpoint("KRW", "1", "0", simple("0", "0.0005")),
			hearth.Usage{CompletionTokens: 1, Reported: true}, Outcome{}, "0", "0", "0.0000000005"},
		{"half rounds up to even", endpoint("KRW", "1", "0", simple("0", "0.0015")),
			hearth.Usage{CompletionTokens: 1, Reported: true}, Outcome{}, "0.000000002", "0", "0.0000000015"},
		{"rounded once, not per part", endpoint("KRW", "1", "0", simple("0.0005", "0.0005")),
			hearth.Usage{PromptTokens: 1, CompletionTokens: 1, Reported: true}, Outcome{}, "0.000000001", "0", "0.000000001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Currency = "KRW"
			b, err := Settle(c.e, c.u, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if b.Cost.String() != c.cost || b.PromptCost.String() != c.prompt || b.CompletionCost != b.Cost-b.PromptCost {
				t.Errorf("cost %s = %s + %s, want %s, prompt %s", b.Cost, b.PromptCost, b.CompletionCost, c.cost, c.prompt)
			}
			if !b.Upstream.Equal(dec(c.up)) {
				t.Errorf("upstream cost %s, want %s", b.Upstream, c.up)
			}
			if b.Currency != "KRW" || b.ListIn != c.e.Provider.Currency || *b.List != c.e.List ||
				!b.Rate.Equal(c.e.Rate) || !b.Margin.Equal(c.e.Margin) {
				t.Errorf("bill does not carry how it was made: %+v", b)
			}
		})
	}
}

func TestSettleRefuses(t *testing.T) {
	e := endpoint("KRW", "1", "0", simple("30", "150"))
	for name, u := range map[string]hearth.Usage{
		"negative":              {PromptTokens: -1, CompletionTokens: 1},
		"more cached than all":  {PromptTokens: 1, CachedTokens: 2, CompletionTokens: 1},
		"more reasoned than":    {PromptTokens: 1, CompletionTokens: 1, ReasoningTokens: 2},
		"past what can be true": {PromptTokens: math.MaxInt64, CompletionTokens: 1},
	} {
		t.Run(name, func(t *testing.T) {
			u.Reported = true
			b, err := Settle(e, u, Outcome{Currency: "KRW"})
			if !errors.Is(err, ErrUsage) || b.Cost != 0 || b.Currency != "KRW" {
				t.Errorf("Settle = %+v, %v, want a bill of 0 and ErrUsage", b, err)
			}
		})
	}
	t.Run("cost out of range", func(t *testing.T) {
		dear := endpoint("KRW", "1", "0", simple("30000000", "1"))
		b, err := Settle(dear, hearth.Usage{PromptTokens: math.MaxInt64 / 8, CompletionTokens: 1, Reported: true}, Outcome{})
		if !errors.Is(err, hearth.ErrMoneyRange) || b.Cost != 0 || b.PromptCost != 0 {
			t.Errorf("Settle = %+v, %v, want a bill of 0 and ErrMoneyRange", b, err)
		}
	})
}

// drawPrice draws prices from free to absurdly long.
func drawPrice(t *rapid.T) hearth.Price {
	one := func(name string) decimal.Decimal {
		digits := rapid.SampledFrom([]int64{9, 9999, 999_999_999, math.MaxInt64}).Draw(t, name+" size")
		return decimal.New(rapid.Int64Range(0, digits).Draw(t, name), int32(rapid.IntRange(-22, 4).Draw(t, name+" exp")))
	}
	return hearth.Price{
		Prompt: one("prompt"), Completion: one("completion"), CacheRead: one("read"), CacheWrite: one("write"),
		Reasoning: one("reasoning"), Image: one("image"), Request: one("request"),
	}
}

func drawUsage(t *rapid.T) hearth.Usage {
	most := rapid.SampledFrom([]int64{10, 5000, 2_000_000, math.MaxInt64 / 4}).Draw(t, "most")
	u := hearth.Usage{
		PromptTokens:     rapid.Int64Range(0, most).Draw(t, "prompt tokens"),
		CompletionTokens: rapid.Int64Range(1, most).Draw(t, "completion tokens"),
		Reported:         true,
	}
	u.CachedTokens = rapid.Int64Range(0, u.PromptTokens).Draw(t, "cached")
	u.CacheWriteTokens = rapid.Int64Range(0, u.PromptTokens-u.CachedTokens).Draw(t, "written")
	u.ReasoningTokens = rapid.Int64Range(0, u.CompletionTokens).Draw(t, "reasoned")
	return u
}

func drawImages(t *rapid.T) int {
	most := rapid.SampledFrom([]int{0, 20, 1_000_000, math.MaxInt}).Draw(t, "most images")
	return rapid.IntRange(0, most).Draw(t, "images")
}

func TestCostProperties(t *testing.T) {
	t.Run("integers and decimals agree", func(t *testing.T) {
		fast := 0
		rapid.Check(t, func(t *rapid.T) {
			p, c := drawPrice(t), countTokens(drawUsage(t), drawImages(t))
			prompt, total, ok := fastCost(&p, c)
			if !ok {
				return
			}
			fast++
			wantPrompt, wantTotal, err := exactCost(&p, c)
			if err != nil || prompt != wantPrompt || total != wantTotal {
				t.Fatalf("fast %s, %s; exact %s, %s, %v", prompt, total, wantPrompt, wantTotal, err)
			}
		})
		if fast == 0 {
			t.Error("the fast way was never taken")
		}
	})
	t.Run("upstream cost agrees with decimals", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p, c := drawPrice(t), countTokens(drawUsage(t), drawImages(t))
			if _, want := exactSum(&p, c); !upstreamCost(&p, c).Equal(want) {
				t.Fatalf("%s, want %s", upstreamCost(&p, c), want)
			}
		})
	})
	t.Run("parts add up, none is negative", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			e := endpoint("USD", "1391.123", "0.05", drawPrice(t))
			u := drawUsage(t)
			images := drawImages(t)
			b, err := Settle(e, u, Outcome{Currency: "KRW", Images: images})
			if err != nil {
				if !errors.Is(err, hearth.ErrMoneyRange) {
					t.Fatal(err)
				}
				return
			}
			if b.Cost < 0 || b.PromptCost < 0 || b.CompletionCost < 0 || b.PromptCost+b.CompletionCost != b.Cost {
				t.Fatalf("cost %s = %s + %s", b.Cost, b.PromptCost, b.CompletionCost)
			}
			prompt, total := exactSum(&e.Price, countTokens(u, images))
			nano := decimal.New(1, -9)
			if b.CompletionCost.Decimal().Sub(total.Sub(prompt)).Abs().GreaterThan(nano) {
				t.Fatalf("completion cost %s, exact %s", b.CompletionCost, total.Sub(prompt))
			}
			if b.Cost.Decimal().Sub(total).Abs().Mul(decimal.NewFromInt(2)).GreaterThan(nano) {
				t.Fatalf("cost %s, exact %s", b.Cost, total)
			}
		})
	})
	t.Run("more tokens or images never cost less", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			e := endpoint("KRW", "1", "0", drawPrice(t))
			u := drawUsage(t)
			more := u
			more.PromptTokens += rapid.Int64Range(0, 1000).Draw(t, "more prompt")
			more.CompletionTokens += rapid.Int64Range(0, 1000).Draw(t, "more completion")
			images := drawImages(t)
			moreImages := images + rapid.IntRange(0, min(10, math.MaxInt-images)).Draw(t, "more images")
			a, errA := Settle(e, u, Outcome{Images: images})
			b, errB := Settle(e, more, Outcome{Images: moreImages})
			if errB == nil && (errA != nil || b.Cost < a.Cost || b.PromptCost < a.PromptCost) {
				t.Fatalf("%+v and %d images cost %s, %+v and %d cost %s", u, images, a.Cost, more, moreImages, b.Cost)
			}
		})
	})
}

func BenchmarkSettle(b *testing.B) {
	u := hearth.Usage{PromptTokens: 1234, CachedTokens: 1000, CompletionTokens: 321, Reported: true}
	usual, long := simple("0.15", "0.6"), simple("0.1234567890123456789", "0.9876543210987654321")
	abroad := func() *hearth.Provider { return &hearth.Provider{Currency: "USD", Margin: dec("0.055")} }
	said := u
	said.Cost = "0.0003777"
	for _, c := range []struct {
		name string
		e    *hearth.Endpoint
		u    hearth.Usage
	}{
		{"local", endpoint("KRW", "1", "0", simple("30", "150")), u},
		{"external", endpoint("USD", "1391.5", "0.055", usual), u},
		{"price steps", sealed(&hearth.Endpoint{List: usual, Provider: abroad(), Steps: []hearth.Tariff{
			{Name: "above 200000", Above: 200_000, List: simple("0.3", "0.9")},
			{Name: "00:30-08:30 CST", Hours: hearth.Hours{From: 30 * time.Minute, To: 8*time.Hour + 30*time.Minute, Zone: time.FixedZone("CST", 8*3600)}, List: simple("0.07", "0.3")},
		}}, "1391.5"), u},
		{"reported", sealed(&hearth.Endpoint{List: usual, Provider: abroad(), Reported: true}, "1391.5"), said},
		{"long prices", endpoint("USD", "1391.123456789", "0.0555555", long), u},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			at := time.Now()
			for b.Loop() {
				if _, err := Settle(c.e, c.u, Outcome{Currency: "KRW", Finish: "stop", At: at}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
