package chain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

const (
	gemma  = "google/gemma-4-26b-a4b"
	exaone = "lgai/exaone-4.0-32b"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func price(prompt, completion string) hearth.Price {
	return hearth.Price{Prompt: decimal.RequireFromString(prompt), Completion: decimal.RequireFromString(completion)}
}

// world is the seeds' world, and one more external-only model: Gemma on our GPU slot and at two external providers,
// EXAONE only on our GPU slot.
func world(t testing.TB) *hearth.Catalog {
	local := &hearth.Provider{Slug: hearth.LocalSlug, Name: "MyIP Local GPU", Kind: hearth.Local, Currency: "KRW"}
	acme := &hearth.Provider{Slug: "acme", Name: "Acme AI", Kind: hearth.External, Currency: "USD"}
	beta := &hearth.Provider{Slug: "beta", Name: "Beta", Kind: hearth.External, Currency: "USD"}
	g, x, o := &hearth.Model{ID: gemma}, &hearth.Model{ID: exaone}, &hearth.Model{ID: "acme/other"}
	node := &hearth.Node{Name: "gpu-1", Exclusive: true}
	sg := &hearth.Slot{Name: "gemma", Node: node, Model: g, Concurrency: 1}
	sx := &hearth.Slot{Name: "exaone", Node: node, Model: x, Concurrency: 1}
	c := &hearth.Catalog{
		Currency: "KRW", DefaultModel: gemma, Aliases: map[string]string{"gpt-4o-mini": gemma},
		Rates:     map[string]decimal.Decimal{"USD": decimal.NewFromInt(1390)},
		Models:    []*hearth.Model{g, x, o},
		Providers: []*hearth.Provider{local, acme, beta},
		Nodes:     []*hearth.Node{node},
		Slots:     []*hearth.Slot{sg, sx},
		Endpoints: []*hearth.Endpoint{
			{Model: g, Provider: beta, Tag: "beta", Priority: 50, Context: 131072, List: price("0.10", "0.40"), ImageTokens: 4096},
			{Model: g, Provider: acme, Tag: "acme/fp8", Priority: 50, Context: 131072, List: price("0.01", "0.02"), ImageTokens: 4096},
			{Model: g, Provider: local, Tag: "local-gpu/gpu-1", Priority: 0, Context: 32768, List: price("30", "150"), Slot: sg, ImageTokens: 4096},
			{Model: x, Provider: local, Tag: "local-gpu/gpu-1", Priority: 0, Context: 32768, List: price("30", "150"), Slot: sx, ImageTokens: 4096},
			{Model: o, Provider: acme, Tag: "acme", Priority: 50, List: price("1", "2"), ImageTokens: 4096},
		},
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	return c
}

func views(t testing.TB, states ...hearth.SlotState) Views {
	v := Views{Catalog: world(t)}
	v.Slots = make([]hearth.SlotView, len(v.Catalog.Slots))
	v.Health = make([]hearth.EndpointHealth, len(v.Catalog.Endpoints))
	for i, s := range states {
		v.Slots[i].State = s
	}
	return v
}

func lines(c hearth.Chain) []string {
	var out []string
	for _, k := range c.Candidates {
		out = append(out, k.Endpoint.Tag+" "+k.Endpoint.Model.ID)
	}
	return out
}

const (
	localGemma  = "local-gpu/gpu-1 " + gemma
	localExaone = "local-gpu/gpu-1 " + exaone
	acmeGemma   = "acme/fp8 " + gemma
	betaGemma   = "beta " + gemma
)

func TestBuild(t *testing.T) {
	const asleep, ready, starting, draining = hearth.SlotAsleep, hearth.SlotReady, hearth.SlotStarting, hearth.SlotDraining
	list := func(models ...string) hearth.Request { return hearth.Request{Models: models, FromList: true} }
	prefs := func(r hearth.Request, p hearth.Preferences) hearth.Request { r.Prefs = p; return r }
	for name, tc := range map[string]struct {
		req   hearth.Request
		slots []hearth.SlotState
		want  []string
	}{
		"the seed's example: the local slot leads within each model, the caller's order is the outer loop": {
			req: prefs(list(gemma, exaone), hearth.Preferences{Ignore: []string{"beta"}}), want: []string{localGemma, acmeGemma, localExaone}},
		"no model goes to the default model":            {req: hearth.Request{}, want: []string{localGemma, acmeGemma, betaGemma}},
		"an alias is its model":                         {req: hearth.Request{Models: []string{"gpt-4o-mini"}}, want: []string{localGemma, acmeGemma, betaGemma}},
		"the same model twice changes nothing":          {req: list(exaone, exaone, exaone), want: []string{localExaone}},
		"a model and its alias are one":                 {req: list(gemma, "gpt-4o-mini"), want: []string{localGemma, acmeGemma, betaGemma}},
		"an unknown id in a list is no candidate":       {req: list("no/such", exaone), want: []string{localExaone}},
		"A with two endpoints and B with one are three": {req: prefs(list(gemma, "acme/other"), hearth.Preferences{Ignore: []string{"beta"}}), want: []string{localGemma, acmeGemma, "acme acme/other"}},
		"only local-gpu":                                {req: prefs(list(gemma, exaone), hearth.Preferences{Only: []string{"local-gpu"}}), want: []string{localGemma, localExaone}},
		"only takes a display name":                     {req: prefs(list(gemma), hearth.Preferences{Only: []string{"MyIP Local GPU"}}), want: []string{localGemma}},
		"only takes one node":                           {req: prefs(list(gemma), hearth.Preferences{Only: []string{"local-gpu/gpu-1"}}), want: []string{localGemma}},
		"only a variant by its tag":                     {req: prefs(list(gemma), hearth.Preferences{Only: []string{"acme/fp8"}}), want: []string{acmeGemma}},
		"ignore local-gpu":                              {req: prefs(list(gemma), hearth.Preferences{Ignore: []string{"local-gpu"}}), want: []string{acmeGemma, betaGemma}},
		"order puts the named first within each model":  {req: prefs(list(gemma, exaone), hearth.Preferences{Order: []string{"beta", "acme"}}), want: []string{betaGemma, acmeGemma, localGemma, localExaone}},
		"sort price re-sorts everything, local included": {req: prefs(hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 100},
			hearth.Preferences{Sort: "price"}), want: []string{acmeGemma, localGemma, betaGemma}},
		"no fallbacks cuts the whole chain to its first": {req: prefs(list(gemma, exaone), hearth.Preferences{NoFallbacks: true}), want: []string{localGemma}},
		"no fallbacks cuts before the resident is looked for: the first stays": {req: prefs(list(exaone, gemma), hearth.Preferences{NoFallbacks: true}),
			slots: []hearth.SlotState{ready, asleep}, want: []string{localExaone}},
		"names of providers in another case":                {req: prefs(list(gemma), hearth.Preferences{Only: []string{"ACME", "Local-GPU"}}), want: []string{localGemma, acmeGemma}},
		"a prompt past the window leaves the slot out":      {req: hearth.Request{Models: []string{gemma}, Estimate: 32769}, want: []string{acmeGemma, betaGemma}},
		"a prompt of exactly the window stays":              {req: hearth.Request{Models: []string{gemma}, Estimate: 32768}, want: []string{localGemma, acmeGemma, betaGemma}},
		"images count at the endpoint's own weight":         {req: hearth.Request{Models: []string{gemma}, Estimate: 10, Images: 8}, want: []string{acmeGemma, betaGemma}},
		"of two adjacent local slots the resident is first": {req: list(exaone, gemma), slots: []hearth.SlotState{ready, asleep}, want: []string{localGemma, localExaone, acmeGemma, betaGemma}},
		"a starting slot counts when none is ready":         {req: list(exaone, gemma), slots: []hearth.SlotState{starting, asleep}, want: []string{localGemma, localExaone, acmeGemma, betaGemma}},
		"a ready slot beats a starting one":                 {req: list(gemma, exaone), slots: []hearth.SlotState{starting, ready}, want: []string{localGemma, acmeGemma, betaGemma, localExaone}},
		"a draining slot is never preferred":                {req: list(exaone, gemma), slots: []hearth.SlotState{draining, asleep}, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
		"resident first never crosses an external one":      {req: list(gemma, exaone), slots: []hearth.SlotState{asleep, ready}, want: []string{localGemma, acmeGemma, betaGemma, localExaone}},
		"resident first does not apply under order":         {req: prefs(list(exaone, gemma), hearth.Preferences{Order: []string{"local-gpu"}}), slots: []hearth.SlotState{ready, asleep}, want: []string{localExaone, localGemma, acmeGemma, betaGemma}},
		"nor under sort": {req: prefs(list(exaone, gemma), hearth.Preferences{Sort: "price", Only: []string{"local-gpu"}}), slots: []hearth.SlotState{ready, asleep}, want: []string{localExaone, localGemma}},
	} {
		t.Run(name, func(t *testing.T) {
			v := views(t, tc.slots...)
			got, err := Build(Input{Request: &tc.req, Views: v, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, lines(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestBuild_SortsByThePricePerImage(t *testing.T) {
	v := views(t)
	v.Catalog.Endpoints[1].List.Image = decimal.NewFromInt(1) // of acme/fp8, else the cheapest
	if err := v.Catalog.Seal(); err != nil {
		t.Fatal(err)
	}
	for images, want := range map[int][]string{
		0: {acmeGemma, localGemma, betaGemma},
		1: {localGemma, betaGemma, acmeGemma},
	} {
		req := hearth.Request{Models: []string{gemma}, Estimate: 1000, MaxTokens: 100, Images: images, Prefs: hearth.Preferences{Sort: "price"}}
		got, err := Build(Input{Request: &req, Views: v, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, lines(got)); d != "" {
			t.Errorf("%d images: %s", images, d)
		}
	}
}

func TestBuildEmpty(t *testing.T) {
	cool := func(v Views, skip hearth.SkipReason, until time.Duration, endpoints ...int) Views {
		for _, i := range endpoints {
			v.Health[i] = hearth.EndpointHealth{Skip: skip, Until: now.Add(until)}
		}
		return v
	}
	for name, tc := range map[string]struct {
		req      hearth.Request
		views    Views
		wantType hearth.ErrorType
		wantText string
		retry    time.Duration
	}{
		"a single unknown model":     {req: hearth.Request{Models: []string{"google/gema-4-26b-a4b"}}, views: views(t), wantType: hearth.ErrModelNotFound, wantText: "did you mean google/gemma-4-26b-a4b"},
		"a list of unknown models":   {req: hearth.Request{Models: []string{"a/b", "c/d"}, FromList: true}, views: views(t), wantType: hearth.ErrNoEndpoints, wantText: "a/b (no such model), c/d (no such model)"},
		"conditions nothing meets":   {req: hearth.Request{Models: []string{exaone}, Prefs: hearth.Preferences{Ignore: []string{"local-gpu"}}}, views: views(t), wantType: hearth.ErrNoEndpoints, wantText: "in provider.ignore"},
		"a prompt past every window": {req: hearth.Request{Models: []string{exaone}, Estimate: 40000}, views: views(t), wantType: hearth.ErrContextLength, wantText: "40000 tokens and the largest context window that may serve it holds 32768"},
		"everything in cooldown":     {req: hearth.Request{Models: []string{gemma}}, views: cool(views(t), hearth.SkipCooldown, 41500*time.Millisecond, 0, 1, 2), wantType: hearth.ErrCoolingDown, wantText: "retry in 42s", retry: 41500 * time.Millisecond},
		"the last stage names the error": {req: hearth.Request{Models: []string{gemma}, Estimate: 40000, Prefs: hearth.Preferences{Ignore: []string{"beta"}}},
			views: cool(views(t), hearth.SkipRateLimited, 3*time.Second, 1), wantType: hearth.ErrCoolingDown, wantText: "rate limited by its provider; retry in 3s", retry: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Build(Input{Request: &tc.req, Views: tc.views, Now: now})
			if err == nil {
				t.Fatalf("chain %v, want an error", lines(c))
			}
			if err.Type != tc.wantType || !strings.Contains(err.Message, tc.wantText) || err.RetryAfter != tc.retry {
				t.Errorf("got %s %q retry %s\nwant %s %q retry %s", err.Type, err.Message, err.RetryAfter, tc.wantType, tc.wantText, tc.retry)
			}
		})
	}
}

func TestNames(t *testing.T) {
	req := &hearth.Request{Models: []string{gemma}, Prefs: hearth.Preferences{Ignore: []string{"local-gup", "beta"}, Order: []string{"ACME/fp8"}}}
	c, err := Build(Input{Request: req, Views: views(t), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`provider.ignore: there is no provider "local-gup", did you mean local-gpu?`}, c.Notes); d != "" {
		t.Error(d)
	}
	_, err = Build(Input{Request: &hearth.Request{Models: []string{gemma}, Prefs: hearth.Preferences{Only: []string{"acmee"}}}, Views: views(t), Now: now})
	if err == nil || !strings.Contains(err.Message, `there is no provider "acmee", did you mean acme?`) {
		t.Errorf("got %v", err)
	}
}

func TestDisabledMappingIs404(t *testing.T) {
	v := views(t)
	v.Catalog.Endpoints[2].Disabled = true
	_, err := Build(Input{Request: &hearth.Request{Models: []string{gemma}, Prefs: hearth.Preferences{Only: []string{"local-gpu"}}}, Views: v, Now: now})
	if err == nil || err.Type != hearth.ErrNoEndpoints || err.HTTPStatus() != 404 {
		t.Errorf("got %v, want 404 no_endpoints_found", err)
	}
}

func TestCooldownIsSkipped(t *testing.T) {
	v := views(t)
	v.Health[2] = hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(time.Second)}
	req := &hearth.Request{Models: []string{gemma}}
	c, _ := Build(Input{Request: req, Views: v, Now: now})
	if d := cmp.Diff([]string{acmeGemma, betaGemma}, lines(c)); d != "" {
		t.Error(d)
	}
	if len(c.Drops) != 1 || c.Drops[0].Skip != hearth.SkipCooldown {
		t.Errorf("drops %+v", c.Drops)
	}
	c, _ = Build(Input{Request: req, Views: v, Now: now.Add(time.Second)})
	if d := cmp.Diff([]string{localGemma, acmeGemma, betaGemma}, lines(c)); d != "" {
		t.Error("after the cooldown: " + d)
	}
}

// Local tiers follow slot state: the same model on six nodes in every state.
func TestLocalTier(t *testing.T) {
	local := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	m := &hearth.Model{ID: gemma}
	cat := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}}
	var v Views
	for _, sv := range []hearth.SlotView{
		{State: hearth.SlotFailed}, {State: hearth.SlotAsleep, OtherBusy: true}, {State: hearth.SlotAsleep},
		{State: hearth.SlotStarting}, {State: hearth.SlotReady, Inflight: 1}, {State: hearth.SlotReady},
	} {
		n := &hearth.Node{Name: fmt.Sprintf("n%d", len(cat.Nodes)), Exclusive: true}
		s := &hearth.Slot{Name: n.Name, Node: n, Model: m, Concurrency: 1}
		cat.Nodes, cat.Slots = append(cat.Nodes, n), append(cat.Slots, s)
		cat.Endpoints = append(cat.Endpoints, &hearth.Endpoint{Model: m, Provider: local, Tag: "local-gpu/" + n.Name, Slot: s})
		v.Slots = append(v.Slots, sv)
	}
	if err := cat.Seal(); err != nil {
		t.Fatal(err)
	}
	v.Catalog = cat
	c, _ := Build(Input{Request: &hearth.Request{Models: []string{gemma}}, Views: v, Now: now})
	var got []string
	for _, k := range c.Candidates {
		got = append(got, k.Endpoint.Slot.Name)
	}
	if d := cmp.Diff([]string{"n5", "n4", "n3", "n2", "n1", "n0"}, got); d != "" {
		t.Error(d)
	}
}

// Whatever is asked: every endpoint of the models asked for is exactly once either a candidate or a drop, and without
// order and sort no external endpoint of a model stands before a local one of that model.
func TestBuildProperties(t *testing.T) {
	ids := []string{gemma, exaone, "acme/other", "gpt-4o-mini", "no/such"}
	names := []string{"local-gpu", "acme", "beta", "acme/fp8", "nobody"}
	rapid.Check(t, func(rt *rapid.T) {
		v := views(t, hearth.SlotState(rapid.IntRange(0, 5).Draw(rt, "s0")), hearth.SlotState(rapid.IntRange(0, 5).Draw(rt, "s1")))
		req := &hearth.Request{
			Models: rapid.SliceOfN(rapid.SampledFrom(ids), 1, 6).Draw(rt, "models"), FromList: true,
			Estimate: rapid.SampledFrom([]int{1, 32768, 32769, 200000}).Draw(rt, "estimate"),
			Prefs: hearth.Preferences{
				Only:   rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(rt, "only"),
				Ignore: rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(rt, "ignore"),
			},
		}
		c, err := Build(Input{Request: req, Views: v, Now: now})
		if (err == nil) != (len(c.Candidates) > 0) {
			rt.Fatalf("error %v with %d candidates", err, len(c.Candidates))
		}
		count := map[string]int{}
		external := map[string]bool{}
		for _, k := range c.Candidates {
			count[k.Endpoint.ID]++
			if m := k.Endpoint.Model.ID; !k.Endpoint.Local() {
				external[m] = true
			} else if external[m] {
				rt.Fatalf("a local candidate of %s stands behind an external one", m)
			}
		}
		for _, d := range c.Drops {
			if d.Endpoint != "" {
				count[d.Endpoint]++
			}
		}
		for _, id := range req.Models {
			if m := v.Catalog.Resolve(id); m != nil {
				for _, e := range m.Endpoints {
					if count[e.ID] != 1 {
						rt.Fatalf("endpoint %s stands %d times", e.ID, count[e.ID])
					}
				}
			}
		}
	})
}

// The same model on several own nodes: the one that answers soonest comes first, whatever stands first in the
// configuration.
func TestBuild_SeveralNodes(t *testing.T) {
	m := &hearth.Model{ID: "a/b"}
	local := &hearth.Provider{Slug: hearth.LocalSlug, Kind: hearth.Local, Currency: "KRW"}
	c := &hearth.Catalog{Currency: "KRW", Models: []*hearth.Model{m}, Providers: []*hearth.Provider{local}}
	views := []hearth.SlotView{ // from last to first
		{State: hearth.SlotFailed},
		{State: hearth.SlotAsleep, OtherBusy: true},
		{State: hearth.SlotAsleep},
		{State: hearth.SlotStarting},
		{State: hearth.SlotReady, Inflight: 1},
		{State: hearth.SlotReady},
	}
	var want []string
	for i := range views {
		n := &hearth.Node{Name: fmt.Sprint("gpu-", i), Exclusive: true}
		s := &hearth.Slot{Name: n.Name, Node: n, Model: m, Concurrency: 1}
		c.Nodes, c.Slots = append(c.Nodes, n), append(c.Slots, s)
		c.Endpoints = append(c.Endpoints, &hearth.Endpoint{Model: m, Provider: local, Tag: "local-gpu/" + n.Name, Slot: s})
		want = append([]string{"local-gpu/" + n.Name + " a/b"}, want...)
	}
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	req := hearth.Request{Models: []string{"a/b"}}
	got, err := Build(Input{Request: &req, Views: Views{Catalog: c, Slots: views}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, lines(got)); d != "" {
		t.Error(d)
	}
}

func TestBuildEmpty_RetryAfterIsTheEarliestEnd(t *testing.T) {
	v := views(t)
	for i, s := range []time.Duration{40, 25, 30} {
		v.Health[i] = hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(s * time.Second)}
	}
	req := hearth.Request{Models: []string{gemma}}
	_, err := Build(Input{Request: &req, Views: v, Now: now})
	if err == nil || err.Type != hearth.ErrCoolingDown || err.RetryAfter != 25*time.Second {
		t.Errorf("got %+v", err)
	}
}
