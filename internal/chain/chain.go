// Package chain turns a request into its ordered candidates. It is a pure function of the request, plain views of
// the present state and the time: no I/O, no locks, no clock. Same inputs, same chain.
//
// The building, step by step: resolve the models asked for (resolve.go), expand each into its endpoints and order them
// within their tiers (order.go), filter in stages (filter.go, capability.go), reorder as the caller wishes (sort.go),
// take out what was filtered with the place it would have had, cut, and put the resident model first (place.go). An empty
// chain is an error named by the stage that emptied it (empty.go).
package chain

import (
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
	Priced  time.Time // the price lists of that instant hold; zero = Now
	Rank    Rank      // orders a tier of external endpoints; nil = by expected price
	Stays   Stays     // where a session is; nil = nowhere
	Maker   Maker     // who goes first in its tier, for only it can read all of the history; zero = nobody
	Outlook Outlook   // what models with a tier mode other than strict go by
	// LastResort: in an external tier of two or more, endpoints in cooldown are tried behind everything else instead of
	// not at all.
	LastResort bool
	// Exact is the prompt's size in tokens as an endpoint's own engine counted it, by Endpoint.Index. It takes the place
	// of the estimate and of the weight of images.
	Exact map[int]int
	// Left is what the key may still spend, in the billing currency; nil = no limit. LeftExternal is what may still be
	// spent at external providers.
	Left, LeftExternal *hearth.Nano
	// FetchMedia: media behind web addresses is downloaded for own engines; else no own engine gets a request with them.
	FetchMedia bool
}

// Rank orders the candidates of one external tier in place: same model, same priority. It may say why in their Reason.
// It is not asked under the caller's own order or sort, nor about endpoints that stand behind others of their tier because
// they do not declare to take what the request needs.
type Rank func(tier []hearth.Candidate)

// Stays is the place of the candidate at which the request's session is, and is to stay for the sake of the cache there, -1 =
// none. The candidates are of one model, in the caller's own order.
type Stays func(cs []hearth.Candidate) int

// DefaultOutput is the completion length, in tokens, assumed when a request sets no limit and nothing else tells one.
const DefaultOutput = 500

// Build makes the chain of a request. An empty chain is an error named by the stage that emptied it; the chain is
// returned with the error too: its drops say what happened to every candidate.
func Build(in Input) (hearth.Chain, *hearth.Error) {
	b := builder{Input: in}
	wanted, err := b.resolve()
	if err != nil {
		return b.chain, err
	}
	n := 0
	for _, w := range wanted {
		n += len(w.model.Endpoints)
	}
	b.prepare(wanted)
	b.chain.Candidates = make([]hearth.Candidate, 0, n)
	for _, w := range wanted {
		b.expand(w)
	}
	b.acrossModels()
	if b.dropAt != nil {
		b.takeOut()
	}
	if len(b.chain.Candidates) == 0 {
		return b.chain, b.empty()
	}
	if b.cooled {
		b.lastResortsLast()
	}
	if b.Request.Prefs.NoFallbacks {
		b.cut()
	}
	if !b.sorted {
		residentFirst(b.chain.Candidates, b.Views.Slots)
	}
	b.noteAtTheEnd()
	return b.chain, nil
}

// builder is one chain in the making. Until takeOut, chain.Candidates holds the endpoints that were filtered out too, so
// that each keeps the place it would have had.
type builder struct {
	Input
	chain hearth.Chain
	seen  bitset

	// What the request asks for, found once.
	policy bool // the key is bounded
	strict bool // the provider object has hard conditions
	needs  bool // tools, a response format or media
	sorted bool // order or a sort is in force, for one of the models at least
	bars   bool // endpoints that miss a bar go behind the others

	// What came up on the way.
	measured bool // a bar met something that was measured
	cooled   bool // an endpoint is a last resort
	lowered  bool // a candidate has a lowered output cap
	mean     mean // of the model whose answers were last asked about
	unmeant  []string

	drops  []hearth.Drop // of endpoints, in the order in which they were met
	dropAt []int32       // by Endpoint.Index: 1 + place in drops, 0 = not dropped; nil = nothing was dropped
	failed failure       // what the error of an empty chain tells
}

// expand appends the model's endpoints in the order in which they are to be tried.
func (b *builder) expand(w wanted) {
	start := len(b.chain.Candidates)
	for _, e := range w.model.Endpoints {
		if !b.seen.add(e.Index) {
			continue
		}
		c := hearth.Candidate{Endpoint: e, Reason: reasonPriority}
		if why := b.filter(&c); why != nil {
			b.leaveOut(e, why)
		}
		b.chain.Candidates = append(b.chain.Candidates, c)
	}
	mine := b.chain.Candidates[start:]
	by, chosen := b.sortOf(w)
	for rest := mine; len(rest) > 0; {
		tier := rest[:tierLen(rest)]
		rest = rest[len(tier):]
		b.orderTier(tier, chosen)
	}
	if chosen {
		b.reorder(mine, by, w.sort != "")
	} else {
		b.tierMode(w.model, mine)
	}
	if b.bars && !b.Request.Prefs.AcrossModels {
		b.demote(mine)
	}
	b.makerFirst(mine, chosen)
}

// tierLen is how many of the first candidates share a priority.
func tierLen(cs []hearth.Candidate) int {
	n := 1
	for n < len(cs) && cs[n].Endpoint.Priority == cs[0].Endpoint.Priority {
		n++
	}
	return n
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
