package meter

import (
	"errors"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

func TestCostOf(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "0.5": "0.5", ".5": "0.5", "5.": "5", "007": "7", "0.00000000000000000001": "0.00000000000000000001",
		strings.Repeat("9", maxCostText): strings.Repeat("9", maxCostText),
	} {
		if got, err := costOf(text); err != nil || got.String() != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", ".", "-1", "+1", "1e9", "1e999999999", "1E5", "0x1", "NaN", "Inf", " 1", "1 ", "1,5", "1.2.3", "１", "1_0", strings.Repeat("9", maxCostText+1),
	} {
		if got, err := costOf(text); !errors.Is(err, ErrCost) {
			t.Errorf("%q is taken for %s, %v", text, got, err)
		}
	}
}

func TestSettle_Reported(t *testing.T) {
	e := endpoint("USD", "1000", "0.1", simple("3", "15"))
	e.Reported = true
	thousand := hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true, Cost: "0.009"}
	with := func(edit func(*hearth.Usage)) hearth.Usage {
		u := thousand
		edit(&u)
		return u
	}
	for _, c := range []struct {
		name         string
		u            hearth.Usage
		o            Outcome
		cost, prompt string
		up           string
		err          error
	}{
		// At the list price the prompt is two thirds.
		{"times rate and margin", thousand, Outcome{Finish: "stop"}, "9.9", "6.6", "0.009", nil},
		{"rounded once", with(func(u *hearth.Usage) { u.Cost = "0.0000000000022727272727" }), Outcome{}, "0.000000002", "0.000000001", "0.0000000000022727272727", nil},
		{"nothing said", with(func(u *hearth.Usage) { u.Cost = "" }), Outcome{Finish: "stop"}, "0", "0", "0", ErrCost},
		{"an exponent", with(func(u *hearth.Usage) { u.Cost = "1e3" }), Outcome{Finish: "stop"}, "0", "0", "0", ErrCost},
		{"more than money can say", with(func(u *hearth.Usage) { u.Cost = "99999999999" }), Outcome{Finish: "stop"}, "0", "0", "0", hearth.ErrMoneyRange},
		{"no usage", hearth.Usage{Cost: "0.009"}, Outcome{Finish: "stop"}, "0", "0", "0", nil},
		{"no answer", with(func(u *hearth.Usage) { u.CompletionTokens = 0 }), Outcome{Finish: "stop"}, "0", "0", "0", nil},
		{"finish reason error", thousand, Outcome{Finish: "error"}, "0", "0", "0", nil},
		{"failed chain", thousand, Outcome{Failed: true}, "0", "0", "0", nil},
		{"counts that cannot be true", with(func(u *hearth.Usage) { u.CachedTokens = 2000 }), Outcome{}, "0", "0", "0", ErrUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Settle(e, c.u, c.o)
			if !errors.Is(err, c.err) || b.Cost.String() != c.cost || b.PromptCost.String() != c.prompt || b.CompletionCost != b.Cost-b.PromptCost || b.Upstream.String() != c.up {
				t.Errorf("%+v, %v", b, err)
			}
			if !b.Reported || b.List == nil || b.ListIn != "USD" {
				t.Errorf("the bill does not carry how it was made: %+v", b)
			}
		})
	}
	t.Run("without a list the cost is not divided", func(t *testing.T) {
		e := endpoint("USD", "1000", "0.1", hearth.Price{})
		e.Reported = true
		if b, err := Settle(e, thousand, Outcome{}); err != nil || b.Cost.String() != "9.9" || b.PromptCost != 0 {
			t.Errorf("%+v, %v", b, err)
		}
	})
	t.Run("said where the list rules, it changes nothing", func(t *testing.T) {
		e := endpoint("USD", "1000", "0.1", simple("3", "15"))
		if b, err := Settle(e, thousand, Outcome{}); err != nil || b.Cost.String() != "4.95" || b.Reported || b.Upstream.String() != "0.0045" {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func TestRecompute(t *testing.T) {
	e := endpoint("USD", "1000", "0.1", simple("3", "15"))
	u := hearth.Usage{PromptTokens: 1000, CompletionTokens: 100, Reported: true}
	b, err := Settle(e, u, Outcome{Currency: "KRW", Finish: "stop"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(*hearth.Generation)
		cost string
		err  error
	}{
		{"as it was", func(*hearth.Generation) {}, "4.95", nil},
		{"whatever it says it cost", func(g *hearth.Generation) { g.Bill.Cost, g.Bill.Upstream = 7, dec("7") }, "4.95", nil},
		{"another rate", func(g *hearth.Generation) { g.Bill.Rate = dec("2000") }, "9.9", nil},
		{"another margin", func(g *hearth.Generation) { g.Bill.Margin = dec("0") }, "4.5", nil},
		{"more tokens", func(g *hearth.Generation) { g.Usage.CompletionTokens = 200 }, "6.6", nil},
		{"images", func(g *hearth.Generation) { p := *g.Bill.List; p.Image = dec("1"); g.Bill.List, g.Images = &p, 2 }, "2204.95", nil},
		{"ended by an error", func(g *hearth.Generation) { g.FinishReason = "error" }, "0", nil},
		{"never settled", func(g *hearth.Generation) { g.Bill = hearth.Bill{Currency: "KRW"} }, "0", nil},
		{"no usage", func(g *hearth.Generation) { g.Usage = hearth.Usage{} }, "0", nil},
		{"counts that cannot be true", func(g *hearth.Generation) { g.Usage.CachedTokens = 5000 }, "0", ErrUsage},
		{"more than money can say", func(g *hearth.Generation) { g.Bill.Rate = dec("1000000000000000000") }, "0", hearth.ErrMoneyRange},
		{"reported, and nothing said", func(g *hearth.Generation) { g.Bill.Reported = true }, "0", ErrCost},
		{"reported", func(g *hearth.Generation) { g.Bill.Reported, g.Usage.Cost = true, "0.01" }, "11", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &hearth.Generation{ID: "gen-1", Usage: u, Bill: b, FinishReason: "stop"}
			c.edit(g)
			got, err := Recompute(g)
			if !errors.Is(err, c.err) || got.Cost.String() != c.cost || got.PromptCost+got.CompletionCost != got.Cost {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
