package llm

import (
	"errors"
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// batchTokens are decoded at once.
const batchTokens = 512

// Sequence makes one answer at a time. It keeps what it decoded, so that a prompt with the same beginning is
// decoded from where it differs.
type Sequence struct {
	model *Model
	ctx   llama.Context
	mem   llama.Memory
	batch llama.Batch

	kept    []Token // what the context holds
	next    Token   // chosen, but not decoded yet; llama.TokenNull = none
	sampler llama.Sampler
}

func (m *Model) sequence(threads int) (*Sequence, error) {
	p := llama.ContextDefaultParams()
	p.NCtx, p.NBatch, p.NUbatch, p.NSeqMax = uint32(m.window), batchTokens, batchTokens, 1
	p.NThreads, p.NThreadsBatch = int32(threads), int32(threads)
	ctx, err := llama.InitFromModel(m.model, p)
	if err != nil {
		return nil, fmt.Errorf("make a context: %w", err)
	}
	mem, err := llama.GetMemory(ctx)
	if err != nil {
		return nil, fmt.Errorf("make a context: %w", err)
	}
	return &Sequence{model: m, ctx: ctx, mem: mem, batch: llama.BatchInit(batchTokens, 0, 1)}, nil
}

// Sampling says how the next token is chosen.
type Sampling struct {
	Temperature, TopP, MinP float32 // temperature 0 = the likeliest token
	TopK                    int32   // 0 = all
	Seed                    uint32
	IgnoreEnd               bool // tokens that end an answer are never chosen
}

// Begin decodes a prompt of fewer tokens than the window has and returns how many of them were known from before.
func (s *Sequence) Begin(prompt []Token, c Sampling) (cached int, err error) {
	if len(prompt) == 0 || len(prompt) >= s.model.window {
		return 0, fmt.Errorf("begin an answer: a prompt of %d tokens in a window of %d", len(prompt), s.model.window)
	}
	for cached < len(s.kept) && cached < len(prompt)-1 && s.kept[cached] == prompt[cached] {
		cached++
	}
	if ok, err := llama.MemorySeqRm(s.mem, 0, llama.Pos(cached), -1); err != nil || !ok {
		return 0, errors.Join(errors.New("begin an answer: the context cannot be cut"), err)
	}
	s.kept, s.next = s.kept[:cached], llama.TokenNull
	if s.sampler != 0 {
		llama.SamplerFree(s.sampler)
	}
	s.sampler = s.model.chain(c)
	for i := cached; i < len(prompt); i += batchTokens {
		if err := s.decode(prompt[i:min(i+batchTokens, len(prompt))]); err != nil {
			return 0, err
		}
	}
	return cached, nil
}

// Next chooses a token. end says that it ends the answer; it has no text then.
func (s *Sequence) Next() (text string, end bool, err error) {
	if s.next != llama.TokenNull {
		if err := s.decode([]Token{s.next}); err != nil {
			return "", false, err
		}
	}
	t := llama.SamplerSample(s.sampler, s.ctx, -1)
	if t == llama.TokenNull {
		return "", false, errors.New("choose a token: the model gave none")
	}
	if llama.VocabIsEOG(s.model.vocab, t) {
		return "", true, nil
	}
	s.next = t
	return s.model.text(t), false, nil
}

// Full says whether the window has no room for another token.
func (s *Sequence) Full() bool {
	n := len(s.kept)
	if s.next != llama.TokenNull {
		n++
	}
	return n >= s.model.window
}

func (s *Sequence) decode(tokens []Token) error {
	_ = s.batch.Clear() // never fails
	for i, t := range tokens {
		if err := s.batch.Add(t, llama.Pos(len(s.kept)+i), []llama.SeqId{0}, i == len(tokens)-1); err != nil {
			return fmt.Errorf("fill a batch: %w", err)
		}
	}
	if code, err := llama.Decode(s.ctx, s.batch); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("decode %d tokens: code %d", len(tokens), code), err)
	}
	s.kept = append(s.kept, tokens...)
	return nil
}

// chain makes the samplers in llama-server's order.
func (m *Model) chain(c Sampling) llama.Sampler {
	chain := llama.SamplerChainInit(llama.SamplerChainDefaultParams())
	if c.IgnoreEnd {
		bias := m.noEnd()
		llama.SamplerChainAdd(chain, llama.SamplerInitLogitBias(llama.VocabNTokens(m.vocab), int32(len(bias)), &bias[0]))
	}
	if c.Temperature <= 0 {
		llama.SamplerChainAdd(chain, llama.SamplerInitGreedy())
		return chain
	}
	if c.TopK > 0 {
		llama.SamplerChainAdd(chain, llama.SamplerInitTopK(c.TopK))
	}
	llama.SamplerChainAdd(chain, llama.SamplerInitTopP(c.TopP, 1))
	llama.SamplerChainAdd(chain, llama.SamplerInitMinP(c.MinP, 1))
	llama.SamplerChainAdd(chain, llama.SamplerInitTemp(c.Temperature))
	llama.SamplerChainAdd(chain, llama.SamplerInitDist(c.Seed))
	return chain
}

// noEnd makes every token that ends an answer as unlikely as can be.
func (m *Model) noEnd() []llama.LogitBias {
	var bias []llama.LogitBias
	for t := range llama.Token(llama.VocabNTokens(m.vocab)) {
		if llama.VocabIsEOG(m.vocab, t) {
			bias = append(bias, llama.LogitBias{Token: t, Bias: -1e9})
		}
	}
	return append(bias, llama.LogitBias{}) // changes nothing, and makes the list never empty
}

// text of a token; special ones have none.
func (m *Model) text(t Token) string {
	buf := make([]byte, 64)
	n := llama.TokenToPiece(m.vocab, t, buf, 0, false)
	if n < 0 { // the room it needs
		buf = make([]byte, -n)
		n = llama.TokenToPiece(m.vocab, t, buf, 0, false)
	}
	return string(buf[:max(n, 0)])
}
