package chain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

const (
	gemma  = "google/gemma-4-26b-a4b"
	exaone = "lgai/exaone-4.0-32b"
	other  = "acme/other"

	localGemma  = "local-gpu/gpu-1 " + gemma
	localExaone = "local-gpu/gpu-1 " + exaone
	acmeGemma   = "acme/fp8 " + gemma
	betaGemma   = "beta " + gemma
	acmeOther   = "acme " + other
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func price(prompt, completion string) hearth.Price {
	return hearth.Price{Prompt: decimal.RequireFromString(prompt), Completion: decimal.RequireFromString(completion)}
}

// world is the seeds' world, and one more external-only model: Gemma on our GPU slot and at two external providers,
// EXAONE only on our GPU slot. In the billing currency acme is the cheapest for Gemma, then our slot, then beta.
func world() *hearth.Catalog {
	local := &hearth.Provider{Slug: hearth.LocalSlug, Name: "MyIP Local GPU", Kind: hearth.Local, Currency: "KRW"}
	acme := &hearth.Provider{Slug: "acme", Name: "Acme AI", Kind: hearth.External, Currency: "USD"}
	beta := &hearth.Provider{Slug: "beta", Name: "Beta", Kind: hearth.External, Currency: "USD"}
	g, x, o := &hearth.Model{ID: gemma}, &hearth.Model{ID: exaone}, &hearth.Model{ID: other}
	node := &hearth.Node{Name: "gpu-1", Exclusive: true}
	sg := &hearth.Slot{Name: "gemma", Node: node, Model: g, Concurrency: 1}
	sx := &hearth.Slot{Name: "exaone", Node: node, Model: x, Concurrency: 1}
	return &hearth.Catalog{
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
}

// scene is a world with a present state, on the way to an Input.
type scene struct {
	Input
	slots  map[string]hearth.SlotView // by slot name
	health map[string]hearth.EndpointHealth
	speeds map[string]hearth.EndpointSpeed // both by "tag model"
}

func newScene() *scene {
	return &scene{
		Input: Input{Now: now, Views: Views{Catalog: world()}}, slots: map[string]hearth.SlotView{},
		health: map[string]hearth.EndpointHealth{}, speeds: map[string]hearth.EndpointSpeed{},
	}
}

// at is the endpoint named "tag model".
func (s *scene) at(name string) *hearth.Endpoint {
	for _, e := range s.Views.Catalog.Endpoints {
		if line(e) == name {
			return e
		}
	}
	panic("no endpoint " + name)
}

func (s *scene) slot(name string, st hearth.SlotState) {
	v := s.slots[name]
	v.State = st
	s.slots[name] = v
}

func (s *scene) out(skip hearth.SkipReason, d time.Duration, names ...string) {
	for _, n := range names {
		s.health[n] = hearth.EndpointHealth{Skip: skip, Until: now.Add(d)}
	}
}

func (s *scene) cool(names ...string) { s.out(hearth.SkipCooldown, time.Minute, names...) }

// measured gives an endpoint fresh figures.
func (s *scene) measured(name string, latency, throughput float64) {
	s.speeds[name] = hearth.EndpointSpeed{
		At: now.Add(-time.Minute), Samples: 9, Latency: hearth.Percentiles{P50: latency, P90: 2 * latency},
		Throughput: hearth.Percentiles{P50: throughput, P90: throughput / 2},
	}
}

// serve adds one more external endpoint for Gemma, of a provider of its own.
func (s *scene) serve(slug, prompt string) *hearth.Endpoint {
	p := &hearth.Provider{Slug: slug, Name: strings.ToUpper(slug), Kind: hearth.External, Currency: "KRW"}
	e := &hearth.Endpoint{Model: s.Views.Catalog.Models[0], Provider: p, Tag: slug, Priority: 50, Context: 131072, List: price(prompt, "0")}
	s.Views.Catalog.Providers = append(s.Views.Catalog.Providers, p)
	s.Views.Catalog.Endpoints = append(s.Views.Catalog.Endpoints, e)
	return e
}

// node adds one more own node that runs Gemma.
func (s *scene) node(name string, v hearth.SlotView) *hearth.Endpoint {
	c := s.Views.Catalog
	n := &hearth.Node{Name: name, Exclusive: true}
	sl := &hearth.Slot{Name: "gemma-" + name, Node: n, Model: c.Models[0], Concurrency: 1}
	e := &hearth.Endpoint{Model: c.Models[0], Provider: c.Providers[0], Tag: "local-gpu/" + name, Slot: sl, Context: 32768, List: price("30", "150")}
	c.Nodes, c.Slots, c.Endpoints = append(c.Nodes, n), append(c.Slots, sl), append(c.Endpoints, e)
	s.slots[sl.Name] = v
	return e
}

// input seals the world and lays the present state out by index.
func (s *scene) input(t testing.TB, req *hearth.Request) Input {
	t.Helper()
	c := s.Views.Catalog
	if err := c.Seal(); err != nil {
		t.Fatal(err)
	}
	in := s.Input
	in.Request = req
	in.Views.Slots = make([]hearth.SlotView, len(c.Slots))
	in.Views.Health = make([]hearth.EndpointHealth, len(c.Endpoints))
	in.Views.Speeds = make([]hearth.EndpointSpeed, len(c.Endpoints))
	for _, sl := range c.Slots {
		in.Views.Slots[sl.Index] = s.slots[sl.Name]
	}
	for _, e := range c.Endpoints {
		in.Views.Health[e.Index], in.Views.Speeds[e.Index] = s.health[line(e)], s.speeds[line(e)]
	}
	return in
}

func line(e *hearth.Endpoint) string { return e.Tag + " " + e.Model.ID }

func lines(cs []hearth.Candidate) []string {
	var out []string
	for _, k := range cs {
		out = append(out, line(k.Endpoint))
	}
	return out
}

// dropLines are "tag:model @place stage word: reason".
func dropLines(ds []hearth.Drop) []string {
	var out []string
	for _, d := range ds {
		what := d.Endpoint
		if what == "" {
			what = d.Model
		}
		l := fmt.Sprintf("%s @%d %s", what, d.Before, d.Stage)
		if d.Skip != "" {
			l += " " + string(d.Skip)
		}
		out = append(out, l+": "+d.Reason)
	}
	return out
}

// buildCase is one line of the table: a request in a scene, and its chain. What is nil is not looked at; notes and drops
// are compared whole.
type buildCase struct {
	name    string
	req     hearth.Request
	given   func(*scene)
	want    []string
	reasons []string
	notes   []string
	drops   []string
}

func run(t *testing.T, table []buildCase) {
	seen := map[string]bool{}
	for _, tc := range table {
		if seen[tc.name] {
			t.Errorf("two cases are named %q", tc.name)
		}
		seen[tc.name] = true
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			if tc.given != nil {
				tc.given(s)
			}
			got, err := Build(s.input(t, &tc.req))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, lines(got.Candidates)); d != "" {
				t.Error("candidates " + d)
			}
			var reasons []string
			for _, c := range got.Candidates {
				reasons = append(reasons, c.Reason)
			}
			if d := cmp.Diff(tc.reasons, reasons); tc.reasons != nil && d != "" {
				t.Error("reasons " + d)
			}
			if d := cmp.Diff(tc.notes, got.Notes, cmpopts.EquateEmpty()); tc.notes != nil && d != "" {
				t.Error("notes " + d)
			}
			if d := cmp.Diff(tc.drops, dropLines(got.Drops), cmpopts.EquateEmpty()); tc.drops != nil && d != "" {
				t.Error("drops " + d)
			}
		})
	}
}

// ask is a request for models; more than one is a list.
func ask(models ...string) hearth.Request {
	return hearth.Request{Models: models, FromList: len(models) > 1}
}

func with(r hearth.Request, p hearth.Preferences) hearth.Request { r.Prefs = p; return r }

// without takes an endpoint out of the world.
func without(name string) func(*scene) {
	return func(s *scene) {
		c := s.Views.Catalog
		e := s.at(name)
		c.Endpoints = slices.DeleteFunc(c.Endpoints, func(o *hearth.Endpoint) bool { return o == e })
	}
}
