package chain

import (
	"cmp"

	"myip.co.kr/hearth"
)

// Expect is the size, in tokens, that the sort by price expects of the prompt and of the answer at a candidate.
func Expect(in Input, c hearth.Candidate) (prompt, answer int) {
	b := builder{Input: in}
	return b.size(&c)
}

// size is what is expected of the prompt and of the answer: the request's output cap, as lowered for this candidate, else
// the model's mean.
func (b *builder) size(c *hearth.Candidate) (prompt, answer int) {
	prompt, _ = b.prompt(c.Endpoint)
	answer = cmp.Or(c.MaxTokens, b.Request.MaxTokens)
	if answer == 0 {
		answer = b.meanOutput(c.Endpoint.Model)
	}
	return prompt, answer
}

// mean is how long a model's answers are.
type mean struct {
	of     *hearth.Model
	tokens int
}

// meanWeight is how many answers DefaultOutput weighs as much as: a few of one token, sent to wake a slot, do not tell how
// long the answers of a model are.
const meanWeight = 10

// meanOutput is how long the model's answers were lately, over all of its endpoints, shrunk towards DefaultOutput. A
// length does not go stale as a speed does: the last that was measured counts, however old it is.
func (b *builder) meanOutput(m *hearth.Model) int {
	if b.mean.of == m {
		return b.mean.tokens
	}
	tokens, answers := meanWeight*DefaultOutput, meanWeight
	for _, e := range m.Endpoints {
		if e.Index < len(b.Views.Speeds) {
			s := &b.Views.Speeds[e.Index]
			tokens += s.Output
			answers += s.Counted
		}
	}
	b.mean = mean{m, tokens / answers}
	return b.mean.tokens
}

// expected is what the request is expected to cost at the candidate.
func (b *builder) expected(c *hearth.Candidate) float64 {
	prompt, answer := b.size(c)
	return c.Endpoint.Expected(b.priced(), prompt, answer, b.Request.Images)
}

// compareSlugs orders endpoints of one price or speed.
func compareSlugs(x, y *hearth.Endpoint) int {
	return cmp.Or(cmp.Compare(x.Provider.Slug, y.Provider.Slug), cmp.Compare(x.Tag, y.Tag))
}

// sortByPrice sorts by the expected price of this request, ties by slug. Prices are computed once each. What is sorted is
// a list of numbers and not the candidates: these hold pointers, and each move of one costs a write barrier while the
// collector runs. It is an insertion sort because tiers are short; up to 32 candidates it allocates nothing.
func (b *builder) sortByPrice(cs []hearth.Candidate) {
	var fewPrices [32]float64
	var fewPlaces [32]int
	price, place := fewPrices[:0], fewPlaces[:0]
	for i := range cs {
		e := cs[i].Endpoint
		p := b.expected(&cs[i])
		price, place = append(price, p), append(place, i)
		j := i
		for ; j > 0 && (p < price[j-1] || p == price[j-1] && compareSlugs(e, cs[place[j-1]].Endpoint) < 0); j-- {
			price[j], place[j] = price[j-1], place[j-1]
		}
		price[j], place[j] = p, i
	}
	for i := range place { // each cycle of the permutation in turn
		if place[i] == i {
			continue
		}
		first, to := cs[i], i
		for place[to] != i {
			from := place[to]
			cs[to], place[to] = cs[from], to
			to = from
		}
		cs[to], place[to] = first, to
	}
}
