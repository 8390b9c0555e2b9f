package dialect

import (
	"strconv"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// tokenCounts are the counts of a usage object as they stand there; -1 is absent.
type tokenCounts struct {
	prompt, completion, total  int64
	input, output              int64 // in the words of Anthropic and of OpenAI's newer API
	cached, written, reasoning int64
	read, created              int64 // Anthropic's words for cached and written; its input does not include them
	candidates, thoughts, tool int64 // Google's words for what was made, thought, and given to tools; none includes another
}

var noCounts = tokenCounts{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// usage reads the usage object that comes next. Without usable counts it returns before.
func (s *scan) usage(before hearth.Usage) hearth.Usage {
	if s.kind() != '{' {
		s.value()
		return before
	}
	t := noCounts
	var p price
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch word := name(key); string(word) {
		case "prompt_tokens_details", "prompt_token_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details":
			s.details(&t)
		case "cost":
			p.said = s.cost()
		case "estimated_cost": // DeepInfra
			p.estimated = money(s.value())
		case "cost_in_usd_ticks": // xAI
			p.ticks = money(s.value())
		case "cost_details":
			p.details(s)
		case "is_byok":
			p.own = string(s.value()) == "true"
		default:
			if n := t.named(word); n != nil {
				s.count(n)
			} else {
				s.value()
			}
		}
	}
	u, ok := t.usage()
	if !ok || s.bad {
		return before
	}
	u.Cost = p.text()
	return u
}

// named is the count that a key of a usage object stands for, nil for none.
func (t *tokenCounts) named(key []byte) *int64 {
	switch string(key) {
	case "prompt_tokens", "promptTokenCount":
		return &t.prompt
	case "completion_tokens":
		return &t.completion
	case "total_tokens", "totalTokenCount":
		return &t.total
	case "input_tokens":
		return &t.input
	case "output_tokens":
		return &t.output
	case "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cachedContentTokenCount": // DeepSeek; Moonshot; Mistral; Google
		return &t.cached
	case "cache_read_input_tokens":
		return &t.read
	case "cache_creation_input_tokens":
		return &t.created
	case "reasoning_tokens": // Perplexity
		return &t.reasoning
	case "candidatesTokenCount":
		return &t.candidates
	case "thoughtsTokenCount":
		return &t.thoughts
	case "toolUsePromptTokenCount":
		return &t.tool
	}
	return nil
}

func (s *scan) details(t *tokenCounts) {
	if s.kind() != '{' {
		s.value()
		return
	}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(name(key)) {
		case "cached_tokens":
			s.count(&t.cached)
		case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens": // OpenRouter; others; Alibaba
			s.count(&t.written)
		case "reasoning_tokens":
			s.count(&t.reasoning)
		default:
			s.value()
		}
	}
}

// maxCount is more than any answer has, and little enough that sums cannot overflow.
const maxCount = 1 << 53

// count reads a number into n, which keeps its value if the number is none, or absurd.
func (s *scan) count(n *int64) {
	if v, ok := count(s.value()); ok && v <= maxCount {
		*n = v
	}
}

// usage brings the counts into Hearth's one meaning. Details that contradict the totals are dropped: the tokens
// then count at the full price of a prompt or completion.
func (t *tokenCounts) usage() (hearth.Usage, bool) {
	t.translate()
	if t.prompt < 0 || t.completion < 0 {
		return hearth.Usage{}, false
	}
	u := hearth.Usage{PromptTokens: t.prompt, CompletionTokens: t.completion, Reported: true}
	full := u
	u.CachedTokens, u.CacheWriteTokens = max(t.cached, 0), max(t.written, 0)
	if !u.Valid() {
		u = full
	}
	full = u
	u.ReasoningTokens = max(t.reasoning, 0)
	if !u.Valid() {
		u = full
	}
	return u, true
}

// translate fills prompt, completion, cached, written and reasoning from the vendors' words, so that prompt holds all
// tokens of the prompt and completion all that were made.
func (t *tokenCounts) translate() {
	t.google()
	apart := t.prompt < 0 && (t.read >= 0 || t.created >= 0)
	if t.prompt < 0 {
		t.prompt = t.input
	}
	if t.completion < 0 {
		t.completion = t.output
	}
	if t.cached < 0 {
		t.cached = t.read
	}
	if t.written < 0 {
		t.written = t.created
	}
	if apart && t.prompt >= 0 {
		t.prompt += max(t.cached, 0) + max(t.written, 0)
		return
	}
	if t.completion < 0 && t.prompt >= 0 && t.total >= t.prompt {
		t.completion = t.total - t.prompt
	}
	rest := t.total - t.prompt - t.completion
	if t.prompt < 0 || t.completion < 0 || rest <= 0 {
		return
	}
	switch {
	case rest == t.reasoning: // xAI counts them apart
		t.completion += rest
	case rest == t.cached || rest == max(t.cached, 0)+max(t.written, 0): // of the prompt, but not in it
		t.prompt += rest
	case t.reasoning < 0: // Google counts thoughts in the total only
		t.reasoning = rest
		t.completion += rest
	}
}

// google adds up what Google's own API counts apart. What nothing was made of yet has no count of candidates.
func (t *tokenCounts) google() {
	if t.completion < 0 && (t.candidates >= 0 || t.thoughts >= 0) {
		t.completion = max(t.candidates, 0) + max(t.thoughts, 0)
		t.reasoning = max(t.reasoning, t.thoughts)
		t.prompt += max(t.tool, 0)
		t.total = -1 // it has told everything
	}
}

// timings reads llama-server's timings, which come next, for the counts in them; ok is false for what another upstream
// means by that name.
func (s *scan) timings() (u hearth.Usage, ok bool) {
	prompt, cached, made := int64(-1), int64(0), int64(-1)
	if s.kind() != '{' {
		s.value()
		return u, false
	}
	s.open()
	for key, more := s.key(); more; key, more = s.key() {
		switch string(name(key)) {
		case "prompt_n":
			s.count(&prompt)
		case "cache_n":
			s.count(&cached)
		case "predicted_n":
			s.count(&made)
		default:
			s.value()
		}
	}
	if prompt < 0 || made < 0 || s.bad {
		return u, false
	}
	return hearth.Usage{PromptTokens: prompt + cached, CachedTokens: cached, CompletionTokens: made, Reported: true}, true
}

// groq looks into Groq's own member: older models give usage only there, and errors that end a stream.
func (r *rewriter) groq(v []byte) {
	s := scan{b: v}
	if s.kind() != '{' {
		return
	}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(name(key)) {
		case "usage":
			r.spare = s.usage(r.spare)
		case "error":
			r.fault(s.value())
		default:
			s.value()
		}
	}
}

// AppendUsage appends the usage object: the upstream's counts, and what they cost in the currency that is shown. Amounts
// are JSON numbers, never in exponent form; those of the billing currency are never rounded. The provider's cost and the
// exchange rate stay as they were reckoned with.
func AppendUsage(dst []byte, u hearth.Usage, b hearth.Bill, shown hearth.Money) []byte {
	dst = appendInt(dst, `{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"completion_tokens":`, u.CompletionTokens)
	dst = appendInt(dst, `,"total_tokens":`, u.PromptTokens+u.CompletionTokens)
	dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CachedTokens)
	dst = appendInt(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	dst = append(dst, `,"audio_tokens":0,"video_tokens":0}`...)
	dst = appendInt(dst, `,"completion_tokens_details":{"reasoning_tokens":`, u.ReasoningTokens)
	dst = append(dst, `,"image_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":null,"rejected_prediction_tokens":null}`...)
	dst = shown.Append(append(dst, `,"cost":`...), b.Cost)
	dst = append(dst, `,"is_byok":false,"cost_details":{"currency":`...)
	if shown.Rate.IsZero() {
		shown.Currency = b.Currency
	}
	dst = appendQuoted(dst, shown.Currency)
	dst = shown.Append(append(dst, `,"upstream_inference_cost":`...), b.Cost)
	dst = shown.Append(append(dst, `,"upstream_inference_prompt_cost":`...), b.PromptCost)
	dst = shown.Append(append(dst, `,"upstream_inference_completions_cost":`...), b.CompletionCost)
	dst = appendDecimal(dst, `,"provider_cost":`, b.Upstream)
	dst = append(dst, `,"provider_currency":`...)
	if b.ListIn == "" {
		dst = appendQuoted(dst, b.Currency)
	} else {
		dst = appendQuoted(dst, b.ListIn)
	}
	rate := b.Rate
	if rate.IsZero() {
		rate = one
	}
	dst = appendDecimal(dst, `,"exchange_rate":`, rate)
	dst = appendDecimal(dst, `,"margin":`, b.Margin)
	if b.Tariff != "" {
		dst = appendQuoted(append(dst, `,"tariff":`...), b.Tariff)
	}
	if b.Reported {
		dst = append(dst, `,"price_reported":true`...)
	}
	return append(dst, "}}"...)
}

var one = decimal.New(1, 0)

func appendInt(dst []byte, head string, n int64) []byte {
	return strconv.AppendInt(append(dst, head...), n, 10)
}

func appendDecimal(dst []byte, head string, d decimal.Decimal) []byte {
	return hearth.AppendDecimal(append(dst, head...), d)
}
