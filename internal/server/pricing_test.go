package server

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

func TestPricing(t *testing.T) {
	for _, c := range []struct{ per1M, perToken string }{
		{"0", "0"}, {"30", "0.00003"}, {"150", "0.00015"}, {"0.06", "0.00000006"}, {"0.000000000000000001", "0.000000000000000000000001"},
		{"1000000", "1"}, {"123456789012", "123456.789012"}, {"2.50", "0.0000025"},
	} {
		p := decimal.RequireFromString(c.per1M)
		got := pricing(&hearth.Endpoint{Price: hearth.Price{Prompt: p, Completion: p, CacheRead: p, CacheWrite: p, Reasoning: p, Image: p, Request: p}}, hearth.Money{Currency: "KRW"}, time.Time{})
		for _, g := range []string{got.Prompt, got.Completion, got.CacheRead, got.CacheWrite, got.Reasoning} {
			if g != c.perToken {
				t.Errorf("%s per 1M = %s per token, want %s", c.per1M, g, c.perToken)
			}
		}
		if d := decimal.RequireFromString(got.Image); !d.Equal(p) || got.Request != got.Image {
			t.Errorf("image %s, request %s, want %s", got.Image, got.Request, c.per1M)
		}
	}
}

// stepped is an endpoint whose provider asks in dollars, at 1000 to one, with ten per cent on top.
func stepped(t testing.TB, reported bool, steps ...hearth.Tariff) *hearth.Endpoint {
	t.Helper()
	m := &hearth.Model{ID: "a/b"}
	p := &hearth.Provider{Slug: "acme", Kind: hearth.External, Currency: "USD", Margin: decimal.New(1, -1)}
	e := &hearth.Endpoint{Model: m, Provider: p, Tag: "acme", Reported: reported, Steps: steps, List: hearth.Price{Prompt: decimal.NewFromInt(3)}}
	c := &hearth.Catalog{Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": decimal.NewFromInt(1000)}, Models: []*hearth.Model{m}, Endpoints: []*hearth.Endpoint{e}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return e
}

func at(n int64) hearth.Price { return hearth.Price{Prompt: decimal.NewFromInt(n)} }

func TestPricing_Overrides(t *testing.T) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	const rest = `"completion":"0","request":"0","image":"0","input_cache_read":"0","input_cache_write":"0","internal_reasoning":"0"`
	e := stepped(t, true,
		hearth.Tariff{Name: "night", Hours: hearth.Hours{From: 22 * time.Hour, To: 8*time.Hour + 30*time.Minute, Zone: seoul}, List: at(1)},
		hearth.Tariff{Name: "evening", Hours: hearth.Hours{From: 18 * time.Hour, To: 24 * time.Hour}, List: at(2)},
		hearth.Tariff{Name: "above 200000", Above: 200_000, List: at(6)})
	b, err := json.Marshal(pricing(e, hearth.Money{Currency: "KRW"}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"prompt":"0.0033",` + rest + `,"currency":"KRW","overrides":[` +
		`{"utc_start":1800,"utc_end":0,"prompt":"0.0022",` + rest + `,"name":"evening"},` +
		`{"utc_start":1300,"utc_end":2330,"prompt":"0.0011",` + rest + `,"name":"night"},` +
		`{"min_prompt_tokens":200000,"prompt":"0.0066",` + rest + `,"name":"above 200000"}],"reported":true}`
	if d := cmp.Diff(want, string(b)); d != "" {
		t.Error(d)
	}
	b, err = json.Marshal(pricing(stepped(t, false), hearth.Money{Currency: "KRW"}, time.Time{}))
	if want := `{"prompt":"0.0033",` + rest + `,"currency":"KRW"}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
}

// Whoever reads the overrides by OpenRouter's rule (all conditions of one must hold; of those that do, the last counts)
// comes to the price that is charged.
func TestPricing_OverridesMeanWhatIsCharged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var steps []hearth.Tariff
		for i := range rapid.IntRange(0, 6).Draw(rt, "steps") {
			s := hearth.Tariff{Above: rapid.SampledFrom([]int{0, 10, 20}).Draw(rt, "above"), List: at(int64(i + 10))}
			if s.Above == 0 || rapid.Bool().Draw(rt, "hours") {
				from := rapid.IntRange(0, 47).Draw(rt, "from")
				to := (from + rapid.IntRange(1, 47).Draw(rt, "length")) % 48
				s.Hours = hearth.Hours{From: time.Duration(from) * 30 * time.Minute, To: time.Duration(to) * 30 * time.Minute}
				s.Hours.Zone = rapid.SampledFrom([]*time.Location{nil, time.UTC, time.FixedZone("east", 9*3600), time.FixedZone("half west", -5*3600-1800)}).Draw(rt, "zone")
			}
			steps = append(steps, s)
		}
		e := stepped(t, false, steps...)
		now := time.Date(2026, 3, 1, 0, rapid.IntRange(0, 24*60-1).Draw(rt, "minute"), 59, 0, time.UTC)
		tokens := rapid.IntRange(0, 30).Draw(rt, "tokens")
		j := pricing(e, hearth.Money{Currency: "KRW"}, now)
		charged, clock := j.Prompt, now.Hour()*100+now.Minute()
		for _, o := range j.Overrides {
			if tokens <= o.MinPrompt && o.MinPrompt > 0 {
				continue
			}
			if o.Start != nil && *o.Start < *o.End && (clock < *o.Start || clock >= *o.End) {
				continue
			}
			if o.Start != nil && *o.Start > *o.End && clock < *o.Start && clock >= *o.End {
				continue
			}
			charged = o.Prompt
		}
		if want := e.TariffAt(tokens, now).Price.Prompt.Shift(-6).String(); charged != want {
			rt.Fatalf("%d tokens at %s: the list says %s, charged are %s", tokens, now, charged, want)
		}
	})
}

// A model whose first endpoint cannot be billed is listed at the price of the next.
func TestLists_StaleRates(t *testing.T) {
	s := listServer(t)
	first := s.Catalog.Model("a/b").Endpoints[1] // the one before it is disabled
	first.Stale = true
	if got := top(s.Catalog.Model("a/b")); got == first || got.Disabled {
		t.Errorf("%s leads", got.Tag)
	}
	_, _, raw := s.list(t, "a/b")
	if !strings.Contains(raw, `"tag":"`+first.Tag+`","status":-5`) {
		t.Error(raw)
	}
}
