// Package chain turns a request into its ordered candidates. It is a pure function of the request, plain views of
// the present state and the time: no I/O, no locks, no clock. Same inputs, same chain.
package chain

import (
	"slices"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// Views is the present state as plain values. Nothing in it is written to.
type Views struct {
	Catalog *hearth.Catalog
	Slots   []hearth.SlotView       // by Slot.Index
	Health  []hearth.EndpointHealth // by Endpoint.Index
	Speeds  []hearth.EndpointSpeed  // by Endpoint.Index; nil = nothing was measured
}

// Input is what a chain is made from.
type Input struct {
	Request *hearth.Request
	Key     *hearth.Key // whose request it is; nil = a key that may do everything
	Views   Views
	Now     time.Time
	Rank    Rank // orders a tier of external endpoints; nil = by expected price
	// LastResort: in an external tier of two or more, endpoints in cooldown are tried behind everything else instead of
	// not at all.
	LastResort bool
	// Exact is the prompt's size in tokens as an endpoint's own engine counted it, by Endpoint.Index. It takes the place
	// of the estimate and of the weight of images.
	Exact map[int]int
	// Left is what the key may still spend, in the billing currency; nil = no limit.
	Left *hearth.Nano
	// FetchMedia: media behind web addresses is downloaded for own engines; else no own engine gets a request with them.
	FetchMedia bool
}

// Rank orders the candidates of one external tier in place: same model, same priority.
type Rank func(tier []hearth.Candidate)

// DefaultOutput is the completion length, in tokens, assumed when a request sets no limit.
const DefaultOutput = 500

// ByPrice ranks a tier by what the request is expected to cost at each endpoint, ties by tag.
func ByPrice(req *hearth.Request) Rank {
	return func(tier []hearth.Candidate) { sortByPrice(tier, req) }
}

// Build makes the chain of a request: expand each model into its endpoints by priority, concatenate in the caller's order,
// keep each endpoint once, filter in stages, reorder. An empty chain is an error named by the stage that emptied it.
// The chain is returned with the error too: its drops say what happened to every candidate.
func Build(in Input) (hearth.Chain, *hearth.Error) {
	req, v := in.Request, in.Views
	rank := in.Rank
	if rank == nil {
		rank = ByPrice(req)
	}
	b := builder{req: req, views: v, now: in.Now}
	models, err := b.resolve()
	if err != nil {
		return b.chain, err
	}
	n := 0
	for _, m := range models {
		n += len(m.Endpoints)
	}
	b.noteNames()
	b.chain.Candidates = make([]hearth.Candidate, 0, n)
	for _, m := range models {
		b.expand(m, rank)
	}
	if len(b.chain.Candidates) == 0 {
		return b.chain, b.empty()
	}
	if req.Prefs.NoFallbacks {
		b.cut()
	}
	if len(req.Prefs.Order) == 0 && req.Prefs.Sort == "" {
		residentFirst(b.chain.Candidates, v.Slots)
	}
	return b.chain, nil
}

type builder struct {
	req   *hearth.Request
	views Views
	now   time.Time
	chain hearth.Chain
	seen  bitset
}

// resolve finds the models asked for. In a list an unknown id is simply no candidate; alone it is an error.
func (b *builder) resolve() ([]*hearth.Model, *hearth.Error) {
	cat := b.views.Catalog
	names := b.req.Models
	if len(names) == 0 {
		if cat.DefaultModel == "" {
			return nil, hearth.Invalid("model", "no model was named and no default_model is configured; send \"model\" or \"models\"")
		}
		names = []string{cat.DefaultModel}
	}
	models := make([]*hearth.Model, 0, len(names))
	for _, name := range names {
		if m := cat.Resolve(name); m != nil {
			models = append(models, m)
			continue
		}
		if !b.req.FromList {
			return nil, b.unknownModel(name)
		}
		b.chain.Notes = append(b.chain.Notes, "unknown model "+name+" is no candidate")
		b.chain.Drops = append(b.chain.Drops, hearth.Drop{Model: name, Stage: hearth.StageUnknown, Reason: "no such model"})
	}
	if len(models) == 0 {
		return nil, b.empty()
	}
	return models, nil
}

// expand appends the model's usable endpoints in the order in which they are to be tried.
func (b *builder) expand(m *hearth.Model, rank Rank) {
	start := len(b.chain.Candidates)
	for _, e := range m.Endpoints {
		if !b.seen.add(e.Index) {
			continue
		}
		if d, drop := b.filter(e); drop {
			b.chain.Drops = append(b.chain.Drops, d)
			continue
		}
		b.chain.Candidates = append(b.chain.Candidates, hearth.Candidate{Endpoint: e, Reason: reasonPriority})
	}
	mine := b.chain.Candidates[start:]
	for len(mine) > 0 {
		tier := mine[:tierLen(mine)]
		mine = mine[len(tier):]
		b.orderTier(tier, rank)
	}
	b.reorder(b.chain.Candidates[start:])
}

// tierLen is how many of the first candidates share a priority.
func tierLen(cs []hearth.Candidate) int {
	n := 1
	for n < len(cs) && cs[n].Endpoint.Priority == cs[0].Endpoint.Priority {
		n++
	}
	return n
}

// filter says whether an endpoint is out, at which stage and why.
func (b *builder) filter(e *hearth.Endpoint) (hearth.Drop, bool) {
	p := &b.req.Prefs
	switch {
	case e.Disabled:
		return b.drop(e, hearth.StageConditions, "the endpoint is disabled", ""), true
	case len(p.Only) > 0 && !matchesAny(e, p.Only):
		return b.drop(e, hearth.StageConditions, "not in provider.only", ""), true
	case len(p.Ignore) > 0 && matchesAny(e, p.Ignore):
		return b.drop(e, hearth.StageConditions, "in provider.ignore", ""), true
	case e.Context > 0 && b.prompt(e) > e.Context:
		return b.drop(e, hearth.StageCapability, windowReason(b.prompt(e), e.Context), hearth.SkipContext), true
	}
	if h := b.health(e); h.Out(b.now) {
		return b.drop(e, hearth.StageHealth, healthReason(h, b.now), h.Skip), true
	}
	return hearth.Drop{}, false
}

func (b *builder) drop(e *hearth.Endpoint, s hearth.Stage, reason string, skip hearth.SkipReason) hearth.Drop {
	return hearth.Drop{Model: e.Model.ID, Provider: e.Provider.Slug, Endpoint: e.ID, Stage: s, Reason: reason, Skip: skip,
		Before: len(b.chain.Candidates)}
}

// prompt is the prompt estimate as the endpoint counts it: images weigh differently at each.
func (b *builder) prompt(e *hearth.Endpoint) int { return b.req.Estimate + b.req.Images*e.ImageTokens }

func (b *builder) health(e *hearth.Endpoint) hearth.EndpointHealth {
	if e.Index < len(b.views.Health) {
		return b.views.Health[e.Index]
	}
	return hearth.EndpointHealth{}
}

// cut keeps the first candidate only: allow_fallbacks is false.
func (b *builder) cut() {
	for _, c := range b.chain.Candidates[1:] {
		b.chain.Drops = append(b.chain.Drops, b.drop(c.Endpoint, hearth.StageCut, "provider.allow_fallbacks is false", ""))
	}
	b.chain.Candidates = b.chain.Candidates[:1]
}

// matchesAny says whether one of the names means the endpoint: a provider's slug or display name (all of its
// endpoints), or a tag such as "acme/fp8" or "local-gpu/gpu-1" (one of them).
func matchesAny(e *hearth.Endpoint, names []string) bool { return matchIndex(e, names) < len(names) }

func matchIndex(e *hearth.Endpoint, names []string) int {
	i := slices.IndexFunc(names, func(n string) bool {
		return strings.EqualFold(n, e.Provider.Slug) || strings.EqualFold(n, e.Tag) || strings.EqualFold(n, e.Provider.Name)
	})
	if i < 0 {
		return len(names)
	}
	return i
}

// bitset remembers endpoint indexes; the first 512 cost no allocation.
type bitset struct {
	low  [8]uint64
	high map[int]bool
}

// add returns false if i was there already.
func (s *bitset) add(i int) bool {
	if i < len(s.low)*64 {
		w, bit := i/64, uint64(1)<<(i%64)
		had := s.low[w]&bit != 0
		s.low[w] |= bit
		return !had
	}
	if s.high[i] {
		return false
	}
	if s.high == nil {
		s.high = make(map[int]bool)
	}
	s.high[i] = true
	return true
}
