package chain

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"myip.co.kr/hearth"
)

// drawn is a random world in a random state with a random request.
type drawn struct {
	*rapid.T
	defaults bool // priorities are 0 and 50
}

// flip is true in about so many of ten cases, and rather in fewer, for small numbers are drawn more often.
func (d drawn) flip(label string, ofTen int) bool {
	return rapid.IntRange(0, 9).Draw(d.T, label) >= 10-ofTen
}

func pick[V any](d drawn, label string, from ...V) V { return rapid.SampledFrom(from).Draw(d.T, label) }

func some[V any](d drawn, label string, most int, from ...V) []V {
	return rapid.SliceOfN(rapid.SampledFrom(from), 0, most).Draw(d.T, label)
}

// catalog has up to three nodes that may run each of up to four models, and up to four providers with up to two variants.
func (d drawn) catalog() *hearth.Catalog {
	c := &hearth.Catalog{Currency: "KRW", Aliases: map[string]string{"alias": "m/0"}}
	for i := range pick(d, "models", 2, 3, 4, 1) {
		m := &hearth.Model{ID: fmt.Sprintf("m/%d", i)}
		if !d.defaults {
			m.TierMode, m.SpillAfter = pick(d, "tier mode", hearth.TierStrict, hearth.TierSpill, hearth.TierCost, ""), pick(d, "spill after", 3*time.Second, time.Second)
		}
		c.Models = append(c.Models, m)
	}
	c.Providers = []*hearth.Provider{{Slug: hearth.LocalSlug, Name: "Own", Kind: hearth.Local, Currency: "KRW"}}
	for i := range 4 {
		c.Providers = append(c.Providers, &hearth.Provider{Slug: fmt.Sprintf("p%d", i), Name: fmt.Sprintf("Provider %d", i), Kind: hearth.External, Currency: "KRW"})
	}
	for i := range pick(d, "nodes", 2, 1, 3, 0) {
		n := &hearth.Node{Name: fmt.Sprintf("n%d", i), Exclusive: d.flip("exclusive", 9)}
		c.Nodes = append(c.Nodes, n)
		for _, m := range c.Models {
			if d.flip("own", 8) {
				s := &hearth.Slot{Name: n.Name + m.ID, Node: n, Model: m, Concurrency: rapid.IntRange(1, 2).Draw(d.T, "places"), Engine: pick(d, "engine", "", "llama-server", "vllm", "ollama")}
				c.Slots = append(c.Slots, s)
				d.endpoint(c, m, c.Providers[0], "local-gpu/"+n.Name, s)
			}
		}
	}
	for _, m := range c.Models {
		for _, p := range c.Providers[1:] {
			for v := range pick(d, "variants", 1, 1, 2, 0) {
				d.endpoint(c, m, p, fmt.Sprintf("%s/v%d", p.Slug, v), nil)
			}
		}
	}
	c.Endpoints = rapid.Permutation(c.Endpoints).Draw(d.T, "configured in this order")
	return c
}

func (d drawn) endpoint(c *hearth.Catalog, m *hearth.Model, p *hearth.Provider, tag string, s *hearth.Slot) {
	e := &hearth.Endpoint{Model: m, Provider: p, Tag: tag, Slot: s, Context: pick(d, "context", 0, 1000, 4000, 32000), ImageTokens: 100,
		MaxOutput: pick(d, "max output", 0, 100, 4000), Quantization: pick(d, "quantization", "", "fp8", "mxfp8", "int4"), Disabled: d.flip("disabled", 1),
		NoCollection: d.flip("no collection", 5), ZDR: d.flip("zdr", 3), ToolQuality: pick(d, "grade", 0, 0, 0.5, 1),
		Params: pick(d, "params", 0, 0, toolParams, noToolParams), Input: pick(d, "input", nil, nil, []string{"text"}, []string{"text", "image"}),
		List: hearth.Price{Prompt: decimal.NewFromInt(pick[int64](d, "price", 0, 10, 20)), Completion: decimal.NewFromInt(pick[int64](d, "out price", 10, 20, 90))}}
	if s == nil {
		e.Priority = 50
	}
	if !d.defaults {
		e.Priority = pick(d, "priority", 0, 50, 50, 70)
	}
	c.Endpoints = append(c.Endpoints, e)
}

func (d drawn) input() Input {
	c := d.catalog()
	if err := c.Seal(); err != nil {
		d.Fatal(err)
	}
	in := Input{Now: now, Request: d.request(c), Views: Views{Catalog: c}, LastResort: d.flip("last resort", 3), FetchMedia: d.flip("fetch", 5)}
	for range c.Slots {
		in.Views.Slots = append(in.Views.Slots, d.slot())
	}
	for range c.Endpoints {
		var h hearth.EndpointHealth
		if d.flip("out", 3) {
			h = hearth.EndpointHealth{Skip: pick(d, "word", hearth.SkipCooldown, hearth.SkipRateLimited), Until: now.Add(pick(d, "until", -time.Second, 0, time.Second, time.Minute))}
		}
		in.Views.Health = append(in.Views.Health, h)
		s := hearth.EndpointSpeed{At: now.Add(-pick(d, "age", time.Second, time.Hour)), Samples: pick(d, "samples", 0, 5)}
		s.Latency.P50, s.Throughput.P50 = pick(d, "latency", 0, 0.5, 2), pick(d, "throughput", 0.0, 10, 90)
		s.Calls, s.BadCalls = 10, pick(d, "bad", 0, 0, 5)
		in.Views.Speeds = append(in.Views.Speeds, s)
	}
	if d.flip("key", 3) {
		in.Key = &hearth.Key{Models: some(d, "key models", 1, "m/0", "alias", "m/1"), Providers: some(d, "key providers", 2, "local-gpu", "p0", "p1/v0"), LocalOnly: d.flip("local only", 3)}
	}
	if d.flip("limit", 3) {
		left := hearth.Nano(pick(d, "left", 40_000_000, 10_000_000, 0))
		in.Left = &left
	}
	if d.flip("rank", 6) {
		in.Rank = backwards
	}
	if d.flip("outlook", 6) {
		in.Outlook = d.outlook(c)
	}
	return in
}

func (d drawn) slot() hearth.SlotView {
	return hearth.SlotView{State: hearth.SlotState(rapid.IntRange(0, 5).Draw(d.T, "state")), Inflight: pick(d, "inflight", 0, 1, 2),
		Waiting: pick(d, "waiting", 0, 3), OtherBusy: d.flip("other busy", 3), LoadRest: pick(d, "rest", 0, time.Second), WaitRest: pick(d, "wait rest", 0, 2*time.Second, 9*time.Second)}
}

func (d drawn) request(c *hearth.Catalog) *hearth.Request {
	ids := []string{"m/0", "m/1", "m/2", "m/3", "alias", "no/such"}
	if d.flip("suffixes", 3) {
		ids = append(ids, "m/0:nitro", "m/1:floor:exacto", "alias:exacto")
	}
	r := &hearth.Request{Models: rapid.SliceOfN(rapid.SampledFrom(ids), 1, 5).Draw(d.T, "ids"), FromList: true, Estimate: pick(d, "estimate", 1, 900, 3500, 40000),
		MaxTokens: pick(d, "max tokens", 0, 100, 3000), Tools: d.flip("tools", 2), Images: pick(d, "images", 0, 0, 2)}
	r.Bytes = 4 * r.Estimate
	if r.Images > 0 {
		r.Media, r.MediaURLs = []string{"image"}, pick(d, "addresses", 0, 1)
	}
	names := []string{"local-gpu", "own", "p0", "Provider 1", "p2/v1", "local-gpu/n1", "nobody"}
	p := &r.Prefs
	p.Only, p.Ignore, p.NoFallbacks = some(d, "only", 3, names...), some(d, "ignore", 2, names...), d.flip("no fallbacks", 2)
	if len(p.Only) == 1 {
		p.Only = nil
	}
	if d.flip("conditions", 2) {
		p.RequireParams, p.NoCollection, p.ZDR = d.flip("require", 5), d.flip("deny", 5), d.flip("retain nothing", 5)
		p.Quantizations = some(d, "quantizations", 2, "fp8", "unknown")
		r.Params = hearth.MustParams("top_k")
	}
	if d.flip("chosen", 6) {
		p.Order, p.Sort = some(d, "order", 2, names...), pick(d, "sort", "", hearth.SortPrice, hearth.SortThroughput, hearth.SortLatency, hearth.SortTools)
		p.AcrossModels, p.MinThroughput.P50, p.MaxLatency.P50 = d.flip("across", 4), pick(d, "least", 0, 0, 50.0), pick(d, "most", 0, 0, 1.0)
	}
	return r
}

// chosenOrder says whether the caller chose an order for a model at least.
func chosenOrder(in Input) bool {
	return slices.ContainsFunc(in.Request.Models, func(n string) bool {
		m := resolve(in.Views.Catalog, n).model
		return m != nil && chosen(&in, m)
	})
}

// Whatever is asked: every endpoint of the models asked for is exactly once a candidate or a drop, and nothing else is.
func TestBuild_EveryEndpointOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawn{T: rt}.input()
		c, err := Build(in)
		if (err == nil) != (len(c.Candidates) > 0) {
			rt.Fatalf("error %v with %d candidates", err, len(c.Candidates))
		}
		count := map[string]int{}
		for _, k := range c.Candidates {
			count[k.Endpoint.ID]++
		}
		place := 0
		for _, dr := range c.Drops {
			count[dr.Endpoint]++
			if dr.Stage == hearth.StageCut {
				place = 0
			}
			if dr.Before < place || !in.Request.Prefs.NoFallbacks && dr.Before > len(c.Candidates) {
				rt.Fatalf("places %v of %d candidates", dropLines(c.Drops), len(c.Candidates))
			}
			if place = dr.Before; dr.Reason == "" || dr.Stage == "" {
				rt.Fatalf("a drop without a reason: %+v", dr)
			}
		}
		want := map[string]int{}
		for _, id := range in.Request.Models {
			m := resolve(in.Views.Catalog, id).model
			if m == nil {
				want[""]++ // unknown models are drops without an endpoint
				continue
			}
			for _, e := range m.Endpoints {
				want[e.ID] = 1
			}
		}
		if d := cmp.Diff(want, count); d != "" {
			rt.Fatal("how often each endpoint stands: " + d)
		}
		if in.Request.Prefs.NoFallbacks && len(c.Candidates) > 1 {
			rt.Fatalf("not cut: %v", lines(c.Candidates))
		}
	})
}

// The same inputs make the same chain, and what is passed in is left as it was.
func TestBuild_IsPure(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawn{T: rt}.input()
		slots, health, models := slices.Clone(in.Views.Slots), slices.Clone(in.Views.Health), slices.Clone(in.Request.Models)
		a, ea := Build(in)
		b, eb := Build(in)
		if d := cmp.Diff(lines(a.Candidates), lines(b.Candidates)) + cmp.Diff(a.Drops, b.Drops) + cmp.Diff(a.Notes, b.Notes) + cmp.Diff(ea, eb); d != "" {
			rt.Fatal(d)
		}
		if d := cmp.Diff(slots, in.Views.Slots) + cmp.Diff(health, in.Views.Health) + cmp.Diff(models, in.Request.Models); d != "" {
			rt.Fatal("written to: " + d)
		}
	})
}

// In the default path no external endpoint of a model stands before a local one of it, models keep the caller's order
// among the external ones, and nothing leaves the house under a key that forbids it.
func TestBuild_LocalFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawn{T: rt, defaults: true}.input()
		in.LastResort = false
		p := &in.Request.Prefs
		c, _ := Build(in)
		if in.Key != nil && in.Key.LocalOnly || len(p.Only) > 0 && !slices.ContainsFunc(p.Only, func(n string) bool { return n != "local-gpu" && n != "own" && n != "local-gpu/n1" }) {
			for _, k := range c.Candidates {
				if !k.Endpoint.Local() {
					rt.Fatalf("%s leaves the house", k.Endpoint.ID)
				}
			}
		}
		if chosenOrder(in) || p.MinThroughput.P50 > 0 || p.MaxLatency.P50 > 0 {
			return
		}
		external := map[string]bool{}
		last := -1
		for _, k := range c.Candidates {
			m := k.Endpoint.Model
			if k.Endpoint.Local() {
				if external[m.ID] {
					rt.Fatalf("a local candidate of %s stands behind an external one: %v", m.ID, lines(c.Candidates))
				}
				continue
			}
			external[m.ID] = true
			at := slices.IndexFunc(in.Request.Models, func(id string) bool { return in.Views.Catalog.Resolve(id) == m })
			if at < last {
				rt.Fatalf("asked for %v, got %v", in.Request.Models, lines(c.Candidates))
			}
			last = at
		}
	})
}

// What was dropped has no influence on the others: with the endpoint disabled, the candidates are the same.
func TestBuild_DropsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawn{T: rt}.input()
		in.LastResort = false // there the size of a tier counts
		before, _ := Build(in)
		for _, dr := range before.Drops {
			if i := slices.IndexFunc(in.Views.Catalog.Endpoints, func(e *hearth.Endpoint) bool { return e.ID == dr.Endpoint }); i >= 0 && dr.Stage != hearth.StageCut {
				in.Views.Catalog.Endpoints[i].Disabled = true
			}
		}
		after, _ := Build(in)
		if d := cmp.Diff(lines(before.Candidates), lines(after.Candidates)); d != "" {
			rt.Fatal(d)
		}
	})
}

// Resident first leaves every external candidate where it is, and moves at most one candidate of a run forward.
func TestResidentFirst_CrossesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn{T: rt}
		in := d.input()
		all := rapid.Permutation(in.Views.Catalog.Endpoints).Draw(rt, "in this order")
		var cs []hearth.Candidate
		for _, e := range all {
			cs = append(cs, hearth.Candidate{Endpoint: e})
		}
		was := slices.Clone(cs)
		residentFirst(cs, in.Views.Slots)
		node := func(c hearth.Candidate) *hearth.Node {
			if c.Endpoint.Slot == nil || !c.Endpoint.Slot.Node.Exclusive {
				return nil
			}
			return c.Endpoint.Slot.Node
		}
		for i := range cs {
			if node(cs[i]) != node(was[i]) || node(cs[i]) == nil && cs[i].Endpoint != was[i].Endpoint {
				rt.Fatalf("place %d: %s was %s", i, line(cs[i].Endpoint), line(was[i].Endpoint))
			}
			if i > 0 && node(cs[i]) != nil && node(cs[i]) == node(cs[i-1]) && in.Views.Slots[cs[i].Endpoint.Slot.Index].State == hearth.SlotReady &&
				!slices.ContainsFunc(cs[:i], func(c hearth.Candidate) bool {
					return node(c) == node(cs[i]) && in.Views.Slots[c.Endpoint.Slot.Index].State == hearth.SlotReady
				}) {
				rt.Fatalf("the resident at place %d of %v is not first", i, lines(cs))
			}
		}
	})
}

// Rerank moves nothing but the leading run of the failed candidate's tier, and loses nothing of it.
func TestRerank_TouchesNoOtherTier(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn{T: rt}
		in := d.input()
		c, err := Build(in)
		if err != nil {
			return
		}
		at := rapid.IntRange(0, len(c.Candidates)-1).Draw(rt, "failed")
		tried, rest := c.Candidates[at], c.Candidates[at+1:]
		was := slices.Clone(rest)
		for i := range in.Views.Slots {
			in.Views.Slots[i] = d.slot()
		}
		got := Rerank(in, tried, rest)
		n := 0
		for n < len(was) && was[n].Endpoint.Model == tried.Endpoint.Model && was[n].Endpoint.Priority == tried.Endpoint.Priority {
			n++
		}
		if d := cmp.Diff(lines(was[n:]), lines(got[n:])); d != "" {
			rt.Fatal("behind the tier: " + d)
		}
		if d := cmp.Diff(lines(was[:n]), lines(got[:n]), cmpopts.SortSlices(func(a, b string) bool { return a < b })); d != "" {
			rt.Fatal("of the tier: " + d)
		}
		if slices.ContainsFunc(in.Request.Models, func(id string) bool { return resolve(in.Views.Catalog, id).sort != "" }) {
			return
		}
		if (len(in.Request.Prefs.Order) > 0 || in.Request.Prefs.Sort != "") && !cmp.Equal(lines(was), lines(got)) {
			rt.Fatal("moved under the caller's own order")
		}
	})
}
