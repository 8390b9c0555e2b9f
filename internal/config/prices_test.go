package config

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
	"pgregory.net/rapid"
)

// sealedCatalog is the catalog of a file that must be right.
func sealedCatalog(t testing.TB, text string) *hearth.Catalog {
	t.Helper()
	c, err := Parse("hearth.yaml", []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cat, err := c.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// list is a price list written in the order prompt, completion, cache read, cache write, reasoning, image, request.
func list(prices ...string) hearth.Price {
	var d [7]decimal.Decimal
	for i, p := range prices {
		d[i] = decimal.RequireFromString(p)
	}
	return hearth.Price{Prompt: d[0], Completion: d[1], CacheRead: d[2], CacheWrite: d[3], Reasoning: d[4], Image: d[5], Request: d[6]}
}

func TestPriceSteps(t *testing.T) {
	for _, tc := range []struct {
		name, price string
		base        hearth.Price
		steps       []hearth.Tariff
	}{
		{"a list alone", "{prompt: 3, completion: 15}", list("3", "15", "3", "3", "15"), nil},
		{"what a step does not name is as in the list", "{prompt: 3, completion: 15, cache_read: 0.3, image: 7, request: 8, steps: [{above: 200000, prompt: 6}]}",
			list("3", "15", "0.3", "3", "15", "7", "8"), []hearth.Tariff{{Name: "above 200000", Above: 200000, List: list("6", "15", "0.3", "6", "15", "7", "8")}}},
		{"every kind", "{prompt: 3, completion: 15, steps: [{above: 1, prompt: 10, completion: 11, cache_read: 12, cache_write: 13, reasoning: 14, image: 15, request: 16}]}",
			list("3", "15", "3", "3", "15"), []hearth.Tariff{{Name: "above 1", Above: 1, List: list("10", "11", "12", "13", "14", "15", "16")}}},
		{"a kind may become free", "{prompt: 3, completion: 15, request: 1, steps: [{above: 1, request: 0}]}",
			list("3", "15", "3", "3", "15", "0", "1"), []hearth.Tariff{{Name: "above 1", Above: 1, List: list("3", "15", "3", "3", "15")}}},
		{"hours", "{prompt: 3, completion: 15, steps: [{hours: 00:30-08:30, prompt: 1}, {hours: '22:00-24:00', zone: Asia/Seoul, prompt: 2}, {above: 9, hours: '23:00-07:30', prompt: 4}]}",
			list("3", "15", "3", "3", "15"), []hearth.Tariff{
				{Name: "above 9, 23:00-07:30 UTC", Above: 9, Hours: hearth.Hours{From: 23 * time.Hour, To: 7*time.Hour + 30*time.Minute, Zone: time.UTC}, List: list("4", "15", "4", "4", "15")},
				{Name: "00:30-08:30 UTC", Hours: hearth.Hours{From: 30 * time.Minute, To: 8*time.Hour + 30*time.Minute, Zone: time.UTC}, List: list("1", "15", "1", "1", "15")},
				{Name: "22:00-24:00 Asia/Seoul", Hours: hearth.Hours{From: 22 * time.Hour, To: 24 * time.Hour, Zone: zone(t, "Asia/Seoul")}, List: list("2", "15", "2", "2", "15")},
			}},
		{"from an anchor", "{<<: {prompt: 3, steps: [{above: 1, prompt: 1}]}, completion: 15}", list("3", "15", "3", "3", "15"),
			[]hearth.Tariff{{Name: "above 1", Above: 1, List: list("1", "15", "1", "1", "15")}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cat := sealedCatalog(t, "providers: [{slug: acme, base_url: 'https://acme.example', models: [{model: a/b, price: "+tc.price+"}]}]")
			e := cat.Endpoints[0]
			var got []hearth.Tariff
			for _, s := range e.Steps {
				got = append(got, hearth.Tariff{Name: s.Name, Above: s.Above, Hours: s.Hours, List: s.List})
			}
			opts := []cmp.Option{cmp.Comparer(decimalsEqual), cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })}
			opts = append(opts, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".rank" }, cmp.Ignore()))
			if d := cmp.Diff(tc.base, e.List, opts...) + cmp.Diff(tc.steps, got, opts...); d != "" {
				t.Error(d)
			}
			if e.Reported {
				t.Error("reported")
			}
		})
	}
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestPriceReported(t *testing.T) {
	const file = `
currency: KRW
exchange_rates: {USD: 1390}
providers:
  - slug: acme
    base_url: https://acme.example
    models:
      - {model: a/b, price: reported}
      - {model: a/c, price: "reported"}
      - {model: a/d, price: {reported: true, prompt: 1, completion: 2, steps: [{above: 5, prompt: 2}]}}
      - {model: a/e, price: {prompt: 1, completion: 2}}
      - {model: a/f}
`
	var got []string
	for _, e := range sealedCatalog(t, file).Endpoints {
		if e.Reported {
			got = append(got, e.Model.ID+" "+e.Price.Prompt.String())
		}
	}
	if d := cmp.Diff([]string{"a/b 0", "a/c 0", "a/d 1390"}, got); d != "" {
		t.Error(d)
	}
}

// Whatever the exchange rates and margins are, own slots cost what the file says, in every list.
func TestLocalPricesAreUntouched(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := func(label string) string {
			return rapid.StringMatching(`[1-9][0-9]{0,3}(\.[0-9]{1,6})?`).Draw(rt, label)
		}
		prompt, step, margin := text("prompt"), text("step"), rapid.SampledFrom([]string{"0%", "5%", "-50%", "900%"}).Draw(rt, "margin")
		cat := sealedCatalog(t, `
currency: KRW
exchange_rates: {USD: `+text("rate")+`}
margin: `+margin+`
nodes: [{name: gpu-1, slots: [{name: a, model: a/b, command: [engine, "${port}"], price: {prompt: `+prompt+`, completion: 2, steps: [{above: 9, prompt: `+step+`}]}}]}]
providers: [{slug: acme, base_url: 'https://acme.example', models: [{model: a/b, price: {prompt: `+prompt+`, completion: 2}}]}]
`)
		own := cat.Endpoints[slices.IndexFunc(cat.Endpoints, (*hearth.Endpoint).Local)]
		for tokens, want := range map[int]string{9: prompt, 10: step} {
			if got := own.TariffAt(tokens, time.Time{}); !got.Price.Prompt.Equal(decimal.RequireFromString(want)) || !got.Price.Completion.Equal(decimal.NewFromInt(2)) {
				rt.Fatalf("%d tokens at %s and %s, written %s and 2", tokens, got.Price.Prompt, got.Price.Completion, want)
			}
		}
		if one := decimal.NewFromInt(1); !own.Rate.Equal(one) || !own.Provider.Margin.IsZero() || own.Provider.Currency != "KRW" {
			rt.Fatalf("rate %s, margin %s, in %s", own.Rate, own.Provider.Margin, own.Provider.Currency)
		}
	})
}
