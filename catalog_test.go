package hearth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func sealed(t *testing.T, edit func(*hearth.Catalog)) (*hearth.Catalog, error) {
	t.Helper()
	local := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	acme := &hearth.Provider{Slug: "acme", Kind: hearth.External, Currency: "USD", Margin: dec("0.05")}
	m := &hearth.Model{ID: "google/gemma"}
	c := &hearth.Catalog{
		Currency: "KRW", Rates: map[string]decimal.Decimal{"USD": dec("1390")},
		Aliases: map[string]string{"gpt-4o-mini": "google/gemma"},
		Models:  []*hearth.Model{m}, Providers: []*hearth.Provider{local, acme},
		Endpoints: []*hearth.Endpoint{
			{Model: m, Provider: acme, Tag: "acme", Priority: 50, List: hearth.Price{Prompt: dec("0.06"), Completion: dec("0.24"), Request: dec("0.001")}},
			{Model: m, Provider: local, Tag: "local-gpu/gpu-1", Slot: &hearth.Slot{}, List: hearth.Price{Prompt: dec("30"), Completion: dec("150")}},
		},
	}
	if edit != nil {
		edit(c)
	}
	return c, c.Seal()
}

func TestSeal(t *testing.T) {
	c, err := sealed(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := c.Resolve("gpt-4o-mini")
	if m == nil || m != c.Model("google/gemma") || c.Model("gpt-4o-mini") != nil || c.Resolve("nobody") != nil {
		t.Fatal("aliases and ids are not kept apart")
	}
	var got []string
	for _, e := range m.Endpoints {
		got = append(got, e.ID, e.Price.Prompt.String(), e.Price.Completion.String(), e.Price.Request.String(), e.Rate.String())
	}
	// The local price is what it is; the external one is list × rate × (1 + margin), exactly.
	want := []string{
		"local-gpu/gpu-1:google/gemma", "30", "150", "0", "1",
		"acme:google/gemma", "87.57", "350.28", "1.4595", "1390",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if e := m.Endpoints[1]; e.Expected(time.Time{}, 1_000_000, 1_000_000, 0) < 439.30 || e.Expected(time.Time{}, 1_000_000, 1_000_000, 0) > 439.32 {
		t.Errorf("expected price %v", e.Expected(time.Time{}, 1_000_000, 1_000_000, 0))
	}
	for name, tc := range map[string]struct {
		edit func(*hearth.Catalog)
		says string
	}{
		"no exchange rate":         {func(c *hearth.Catalog) { c.Rates = nil }, "no exchange rate from USD to KRW"},
		"a model twice":            {func(c *hearth.Catalog) { c.Models = append(c.Models, &hearth.Model{ID: "google/gemma"}) }, "stands twice"},
		"an endpoint twice":        {func(c *hearth.Catalog) { c.Endpoints[1].Tag, c.Endpoints[0].Tag = "x", "x" }, "stands twice"},
		"a local one without slot": {func(c *hearth.Catalog) { c.Endpoints[1].Slot = nil }, "needs a slot"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := sealed(t, tc.edit); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

func TestSlotViewStatus(t *testing.T) {
	for want, views := range map[int][]hearth.SlotView{
		0:  {{State: hearth.SlotReady}},
		-1: {{State: hearth.SlotStarting}},
		-2: {{State: hearth.SlotAsleep}, {State: hearth.SlotStopping}},
		-3: {{State: hearth.SlotAsleep, OtherBusy: true}, {State: hearth.SlotDraining}, {State: hearth.SlotAsleep, Foreign: true}},
		-5: {{State: hearth.SlotFailed}, {State: hearth.SlotFailed, OtherBusy: true}, {State: hearth.SlotReady, Unknown: true, Disabled: true}},
		-10: {
			{State: hearth.SlotReady, Disabled: true}, {State: hearth.SlotFailed, Drained: true},
			{State: hearth.SlotAsleep, OtherBusy: true, Paused: time.Unix(1, 0)}, {State: hearth.SlotReady, Shut: time.Unix(1, 0)},
		},
	} {
		for _, v := range views {
			if got := v.Status(); got != want {
				t.Errorf("%s, other busy %v: status %d, want %d", v.State, v.OtherBusy, got, want)
			}
		}
	}
}

func TestExpected_CountsThePricesPerRequestAndImage(t *testing.T) {
	m := &hearth.Model{ID: "a/b"}
	p := &hearth.Provider{Slug: "acme", Kind: hearth.External, Currency: "KRW"}
	e := &hearth.Endpoint{Model: m, Provider: p, Tag: "acme", List: hearth.Price{Prompt: decimal.NewFromInt(30), Request: decimal.NewFromInt(5), Image: decimal.NewFromInt(7)}}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{p}, Endpoints: []*hearth.Endpoint{e}}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	if got := e.Expected(time.Time{}, 1_000_000, 0, 0); got != 35 {
		t.Errorf("a request of a million tokens is expected to cost %v", got)
	}
	if got := e.Expected(time.Time{}, 1_000_000, 0, 2); got != 49 {
		t.Errorf("a request of a million tokens and two images is expected to cost %v", got)
	}
}

func TestWorst_TakesTheDearestKindOfToken(t *testing.T) {
	m := &hearth.Model{ID: "a/b"}
	p := &hearth.Provider{Slug: "acme", Kind: hearth.External, Currency: "KRW"}
	e := &hearth.Endpoint{Model: m, Provider: p, Tag: "acme", List: hearth.Price{
		Prompt: dec("30"), CacheWrite: dec("40"), Completion: dec("100"), Reasoning: dec("120"), Image: dec("7"), Request: dec("5"),
	}}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{p}, Endpoints: []*hearth.Endpoint{e}}
	for _, cheap := range []bool{false, true} {
		want := 40.0 + 120 + 2*7 + 5
		if cheap { // cache writes and reasoning below the ordinary kinds, or not given
			e.List.CacheWrite, e.List.Reasoning = dec("1"), dec("0")
			want = 30.0 + 100 + 2*7 + 5
		}
		if err := c.Seal(); err != nil {
			t.Fatal(err)
		}
		if got := e.Worst(time.Time{}, 1_000_000, 1_000_000, 2); got != want {
			t.Errorf("the worst case is %v, want %v", got, want)
		}
	}
}
