package chain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// night is from 23:00 to 07:30 in Seoul; the scenes play at 09:00 there.
func night() hearth.Hours {
	return hearth.Hours{From: 23 * time.Hour, To: 7*time.Hour + 30*time.Minute, Zone: time.FixedZone("KST", 9*60*60)}
}

// stepped gives an endpoint price steps.
func stepped(name string, steps ...hearth.Tariff) func(*scene) {
	return func(s *scene) { s.at(name).Steps = steps }
}

var (
	byNight = now.Add(15 * time.Hour) // midnight in Seoul
	long    = hearth.Tariff{Name: "above 20000", Above: 20000, List: price("0.05", "0.10")}
	cheap   = hearth.Tariff{Name: "23:00-07:30 KST", Hours: night(), List: price("0.002", "0.003")}
)

func TestBuild_Tariffs(t *testing.T) {
	sorted := hearth.Preferences{Sort: hearth.SortPrice, Only: []string{"acme", "beta"}}
	bounded := hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: null("50")}, Only: []string{"acme"}}
	of := func(estimate int, p hearth.Preferences) hearth.Request {
		return hearth.Request{Models: []string{gemma}, Estimate: estimate, MaxTokens: 10, Prefs: p}
	}
	beta := func(steps ...hearth.Tariff) func(*scene) { return stepped(betaGemma, steps...) }
	at := func(when time.Time, given ...func(*scene)) func(*scene) {
		return func(s *scene) {
			s.Now = when
			for _, g := range given {
				g(s)
			}
		}
	}
	run(t, []buildCase{
		{name: "a short prompt by the base list", req: of(20000, sorted), given: stepped(acmeGemma, hearth.Tariff{Above: 20000, List: price("0.5", "1")}), want: []string{acmeGemma, betaGemma}},
		{name: "a long one by the step", req: of(20001, sorted), given: stepped(acmeGemma, hearth.Tariff{Above: 20000, List: price("0.5", "1")}), want: []string{betaGemma, acmeGemma}},
		{name: "by day", req: of(1000, sorted), given: beta(cheap), want: []string{acmeGemma, betaGemma}},
		{name: "by night", req: of(1000, sorted), given: at(byNight, beta(cheap)), want: []string{betaGemma, acmeGemma}},
		{name: "the instant of the price is not now", req: of(1000, sorted), given: func(s *scene) { beta(cheap)(s); s.Priced = byNight }, want: []string{betaGemma, acmeGemma}},
		{name: "not even when that is night", req: of(1000, sorted), given: at(byNight, beta(cheap), func(s *scene) { s.Priced = now }), want: []string{acmeGemma, betaGemma}},

		{name: "max_price: the base list is within it", req: of(20000, bounded), given: stepped(acmeGemma, long), want: []string{acmeGemma}},
		{name: "max_price: by night, a list within it", req: of(1000, bounded), given: at(byNight, stepped(acmeGemma, cheap), func(s *scene) { s.at(acmeGemma).List = price("9", "9") }), want: []string{acmeGemma}},
		{name: "what may be paid for: the dearest list that may hold", req: of(20001, hearth.Preferences{Only: []string{"acme"}}),
			given: func(s *scene) { stepped(acmeGemma, long)(s); credits(1_400_000_000)(s) }, want: []string{acmeGemma}}, // 1.3900695 + 0.00139
		{name: "and not more", req: of(20001, hearth.Preferences{Only: []string{"acme", "local-gpu"}}),
			given: func(s *scene) {
				stepped(acmeGemma, long)(s)
				credits(1_391_000_000)(s)
			}, want: []string{localGemma}},
		{name: "a cheaper list for long prompts", req: of(20001, hearth.Preferences{Only: []string{"acme", "local-gpu"}}),
			given: func(s *scene) {
				stepped(acmeGemma, hearth.Tariff{Above: 20000, List: price("0.001", "0.001")})(s)
				s.at(localGemma).List = hearth.Price{}
				credits(270_000_000)(s) // 0.0278 by the step, 0.2783 by the base list, which may rule the bill yet
			}, want: []string{localGemma},
			drops: []string{"acme/fp8:" + gemma + " @1 credits over_budget: could cost up to 0.278292, more than what the key has left",
				"beta:" + gemma + " @1 conditions: not in provider.only"}},
	})
	for _, tc := range []struct {
		name, says string
		req        hearth.Request
		given      func(*scene)
	}{
		{"a step past it", "costs 69.5 KRW per 1M prompt tokens (above 20000), more than provider.max_price.prompt", of(20001, bounded), stepped(acmeGemma, long)},
		{"the base list past it, and a cheaper step", "costs 139 KRW per 1M prompt tokens, more than provider.max_price.prompt", of(20001, bounded),
			func(s *scene) {
				s.at(acmeGemma).List = price("0.1", "0.1")
				stepped(acmeGemma, hearth.Tariff{Name: "above 20000", Above: 20000, List: price("0.001", "0.001")})(s)
			}},
		{"a step of the hour", "costs 69.5 KRW per 1M prompt tokens (by night), more than provider.max_price.prompt", of(1, bounded),
			at(byNight, stepped(acmeGemma, hearth.Tariff{Name: "by night", Hours: night(), List: price("0.05", "0.1")}))},
	} {
		t.Run("max_price: "+tc.name, func(t *testing.T) {
			s := newScene()
			tc.given(s)
			if _, err := Build(s.input(t, &tc.req)); err == nil || !strings.Contains(err.Message, tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

// However many of the estimated tokens the upstream counts in the end, no candidate is billed over max_price.
func TestBuild_MaxPriceHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn{T: rt}
		in := d.input()
		for _, e := range in.Views.Catalog.Endpoints {
			for range rapid.IntRange(0, 3).Draw(rt, "steps") {
				e.Steps = append(e.Steps, hearth.Tariff{
					Above: pick(d, "above", 0, 1, 900, 3000), List: hearth.Price{Prompt: decimal.NewFromInt(pick[int64](d, "step price", 0, 10, 30))},
					Hours: pick(d, "hours", hearth.Hours{}, hearth.Hours{To: time.Hour}, hearth.Hours{From: time.Hour, To: 2 * time.Hour}, night()),
				})
			}
		}
		if err := in.Views.Catalog.Seal(); err != nil {
			rt.Fatal(err)
		}
		most := decimal.NewFromInt(pick[int64](d, "most", 0, 10, 20))
		in.Request.Prefs.MaxPrice.Prompt = decimal.NewNullDecimal(most)
		c, _ := Build(in)
		for _, k := range c.Candidates {
			e := k.Endpoint
			estimate := in.Request.Estimate + in.Request.Images*e.ImageTokens
			actual := rapid.IntRange(0, estimate).Draw(rt, "actual")
			if p := e.TariffAt(actual, in.Now).Price.Prompt; p.GreaterThan(most) {
				rt.Fatalf("%s of at most %s costs %s for %d of %d tokens", e.ID, most, p, actual, estimate)
			}
		}
	})
}

func stale(currency string) func(*scene) {
	return func(s *scene) { s.Views.Catalog.Stale = map[string]bool{currency: true} }
}

const staleUSD = "the exchange rate from USD to KRW is older than allowed"

func TestBuild_StaleRates(t *testing.T) {
	run(t, []buildCase{
		{name: "own slots go on", req: ask(gemma), given: stale("USD"), want: []string{localGemma},
			drops: []string{"acme/fp8:" + gemma + " @1 health: " + staleUSD, "beta:" + gemma + " @1 health: " + staleUSD}},
		{name: "other currencies go on", req: ask(gemma), given: func(s *scene) { stale("USD")(s); s.serve("won", "9") }, want: []string{localGemma, "won " + gemma}},
		{name: "the billing currency has no rate", req: ask(gemma), given: func(s *scene) { stale("KRW")(s); s.serve("won", "9") },
			want: []string{localGemma, "won " + gemma, acmeGemma, betaGemma}},
		{name: "a stale one is no other of its tier", req: ask(gemma), given: func(s *scene) {
			stale("USD")(s)
			s.serve("won", "9")
			s.cool("won " + gemma)
			s.LastResort = true
		}, want: []string{localGemma}},
		{name: "under the caller's own order", req: with(ask(gemma), hearth.Preferences{Order: []string{"beta", "local-gpu"}}), given: stale("USD"), want: []string{localGemma}},
	})
	for _, tc := range []struct {
		name  string
		given func(*scene)
		retry time.Duration
		says  []string
	}{
		{"nobody else is there", stale("USD"), time.Minute, []string{"priced in USD", "its exchange rate to KRW is older than allowed", "exchange_sources", "acme:acme/other (" + staleUSD + ")"}},
		{"and it is out as well", func(s *scene) { stale("USD")(s); s.cool(acmeOther) }, time.Minute, []string{"priced in USD"}},
		{"and another one is out", func(s *scene) {
			stale("USD")(s)
			e := s.serve("won", "9")
			e.Model = s.Views.Catalog.Models[2]
			s.out(hearth.SkipRateLimited, 7*time.Second, "won "+other)
		}, 7 * time.Second, []string{"rate limited by its provider; retry in 7s", staleUSD}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.given(s)
			req := ask(other)
			_, err := Build(s.input(t, &req))
			if err == nil || err.Type != hearth.ErrCoolingDown || err.HTTPStatus() != 503 || err.RetryAfter != tc.retry {
				t.Fatalf("got %+v", err)
			}
			if i := slices.IndexFunc(tc.says, func(s string) bool { return !strings.Contains(err.Message, s) }); i >= 0 {
				t.Errorf("%q does not say %q", err.Message, tc.says[i])
			}
		})
	}
}
