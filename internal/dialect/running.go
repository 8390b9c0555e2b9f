package dialect

import "myip.co.kr/hearth"

// running brings the counts of a chunk of one choice together with those of the other choices: an engine that tells in
// each chunk what was used so far tells it of that choice alone. The prompt is the same for all of them.
func (s *Stamp) running(choice int, u hearth.Usage) hearth.Usage {
	if choice == 0 && s.further == nil {
		s.zeroth = u
		return u
	}
	if s.further == nil {
		s.further = make(map[int]hearth.Usage)
	}
	if choice == 0 {
		s.zeroth = u
	} else {
		s.further[choice] = u
	}
	sum := s.zeroth
	for _, o := range s.further {
		sum.PromptTokens = max(sum.PromptTokens, o.PromptTokens)
		sum.CachedTokens = max(sum.CachedTokens, o.CachedTokens)
		sum.CacheWriteTokens = max(sum.CacheWriteTokens, o.CacheWriteTokens)
		sum.CompletionTokens += o.CompletionTokens
		sum.ReasoningTokens += o.ReasoningTokens
	}
	sum.Reported = true
	if !sum.Valid() {
		return u
	}
	return sum
}

// settleUsage falls back to counts found elsewhere than in the usage object, and says what those of a chunk cover.
// llama-server's timings are never an answer's where there is usage.
func (r *rewriter) settleUsage() {
	f, s := &r.fact, r.stamp
	before, counted := s.counted || s.timed, true
	switch {
	case f.Usage.Reported:
		if u := r.timed; u.Reported && f.Usage.CachedTokens == 0 && u.PromptTokens == f.Usage.PromptTokens {
			f.Usage.CachedTokens = u.CachedTokens // older ones say it there alone
		}
	case r.spare.Reported:
		f.Usage = r.spare
	case r.native.usage().Reported:
		f.Usage = r.native.usage()
	case r.timed.Reported && !s.counted:
		f.Usage, counted = r.timed, false
	}
	if !f.Usage.Reported {
		return
	}
	if counted {
		s.counted = true
	} else {
		s.timed = true
	}
	if !r.chunk || r.whole || r.choices == 0 {
		return
	}
	f.Running = f.Finish == "" && (s.Running != hearth.RunningNot || before || !counted)
	if r.choices == 1 && s.Running != hearth.RunningNot {
		f.Usage = s.running(f.Choice, f.Usage)
	}
}

// nativeCounts are the counts of Ollama's own API, which stand beside the answer, each one too high: 0 is absent.
type nativeCounts struct{ prompt, made int64 }

func (n *nativeCounts) note(key, v []byte) {
	c, ok := count(v)
	switch {
	case !ok || c > maxCount:
	case string(key) == "eval_count":
		n.made = c + 1
	default:
		n.prompt = c + 1
	}
}

// usage is known when both of them were there.
func (n *nativeCounts) usage() hearth.Usage {
	return hearth.Usage{PromptTokens: n.prompt - 1, CompletionTokens: n.made - 1, Reported: n.prompt > 0 && n.made > 0}
}

// appendCounts appends a running count for a caller who has asked for it, in the shape of vLLM's: it has no price.
func appendCounts(dst []byte, u hearth.Usage) []byte {
	dst = appendInt(comma(dst), `"usage":{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"total_tokens":`, u.PromptTokens+u.CompletionTokens)
	return append(appendInt(dst, `,"completion_tokens":`, u.CompletionTokens), '}')
}
