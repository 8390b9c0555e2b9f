package dialect

import (
	"strconv"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// tokenCounts are the counts of a usage object as they stand there; -1 is absent.
type tokenCounts struct{ prompt, completion, total, cached, written, reasoning int64 }

// usage reads the usage object that comes next. Without usable counts it returns before.
func (s *scan) usage(before hearth.Usage) hearth.Usage {
	if s.kind() != '{' {
		s.value()
		return before
	}
	t := tokenCounts{-1, -1, -1, -1, -1, -1}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch string(name(key)) {
		case "prompt_tokens":
			s.count(&t.prompt)
		case "completion_tokens":
			s.count(&t.completion)
		case "total_tokens":
			s.count(&t.total)
		case "prompt_cache_hit_tokens": // DeepSeek
			s.count(&t.cached)
		case "prompt_tokens_details", "completion_tokens_details":
			s.details(&t)
		default:
			s.value()
		}
	}
	if u, ok := t.usage(); ok && !s.bad {
		return u
	}
	return before
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
		case "cache_write_tokens", "cache_creation_tokens":
			s.count(&t.written)
		case "reasoning_tokens":
			s.count(&t.reasoning)
		default:
			s.value()
		}
	}
}

// count reads a number into n, which keeps its value if the number is none.
func (s *scan) count(n *int64) {
	if v, ok := count(s.value()); ok {
		*n = v
	}
}

// usage brings the counts into Hearth's one meaning. Details that contradict the totals are dropped: the tokens
// then count at the full price of a prompt or completion.
func (t *tokenCounts) usage() (hearth.Usage, bool) {
	if t.prompt < 0 || t.completion < 0 {
		return hearth.Usage{}, false
	}
	u := hearth.Usage{PromptTokens: t.prompt, CompletionTokens: t.completion, Reported: true}
	if !u.Valid() {
		return hearth.Usage{}, false
	}
	full := u
	u.CachedTokens, u.CacheWriteTokens = max(t.cached, 0), max(t.written, 0)
	if !u.Valid() {
		u = full
	}
	full = u
	u.ReasoningTokens = max(t.reasoning, 0)
	if u.ReasoningTokens > 0 && t.total-t.prompt-t.completion == u.ReasoningTokens { // xAI counts them apart
		u.CompletionTokens += u.ReasoningTokens
	}
	if !u.Valid() {
		u = full
	}
	return u, true
}

// AppendUsage appends the usage object: the upstream's counts, and what they cost. Amounts are JSON numbers that
// are never rounded and never in exponent form.
func AppendUsage(dst []byte, u hearth.Usage, b hearth.Bill) []byte {
	dst = appendInt(dst, `{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"completion_tokens":`, u.CompletionTokens)
	dst = appendInt(dst, `,"total_tokens":`, u.PromptTokens+u.CompletionTokens)
	dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CachedTokens)
	dst = appendInt(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	dst = append(dst, `,"audio_tokens":0,"video_tokens":0}`...)
	dst = appendInt(dst, `,"completion_tokens_details":{"reasoning_tokens":`, u.ReasoningTokens)
	dst = append(dst, `,"image_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":null,"rejected_prediction_tokens":null}`...)
	dst = appendNano(dst, `,"cost":`, b.Cost)
	dst = append(dst, `,"is_byok":false,"cost_details":{"currency":`...)
	dst = appendQuoted(dst, b.Currency)
	dst = appendNano(dst, `,"upstream_inference_cost":`, b.Cost)
	dst = appendNano(dst, `,"upstream_inference_prompt_cost":`, b.PromptCost)
	dst = appendNano(dst, `,"upstream_inference_completions_cost":`, b.CompletionCost)
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
	return append(dst, "}}"...)
}

var one = decimal.New(1, 0)

func appendInt(dst []byte, head string, n int64) []byte {
	return strconv.AppendInt(append(dst, head...), n, 10)
}

func appendNano(dst []byte, head string, n hearth.Nano) []byte {
	dst, _ = n.AppendText(append(dst, head...)) // it never fails
	return dst
}

func appendDecimal(dst []byte, head string, d decimal.Decimal) []byte {
	return append(append(dst, head...), d.String()...)
}
