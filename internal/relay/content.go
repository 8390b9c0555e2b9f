package relay

import (
	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/content"
	"myip.co.kr/hearth/internal/dialect"
)

// keeping is what is kept of a request's prompt and answer. A nil one is of a request of which nothing is.
type keeping struct {
	draft  *content.Draft
	answer dialect.Kept
	fault  string // what the caller was told instead of an answer, or of the rest of one
}

// keepContent begins to keep the content of a request, if that is wanted.
func (r *Relay) keepContent(x *exchange) {
	if !r.opt.Content.Wants(x.key) {
		return
	}
	if d := r.contents.Begin(r.opt.Content, x.gen.ID, x.gen.CreatedAt, x.chat.Messages()); d != nil {
		x.kept = &keeping{draft: d, answer: dialect.Kept{Room: d.Room}}
	}
}

// again is where the answer of another attempt is kept.
func (k *keeping) again() *dialect.Kept {
	if k == nil {
		return nil
	}
	k.draft.Again()
	k.answer.Reset()
	return &k.answer
}

// failed notes what the caller is told.
func (k *keeping) failed(e *hearth.Error) {
	if k != nil {
		k.fault = e.Message
	}
}

// offer hands the content over, once its generation has a record; without one it is not kept.
func (k *keeping) offer(recorded bool) {
	switch {
	case k == nil:
	case !recorded:
		k.draft.Discard()
	default:
		a := content.Answer{Completion: k.answer.Completion, Reasoning: k.answer.Reasoning, Cut: k.answer.Cut, Error: k.fault}
		for _, c := range k.answer.Calls {
			a.Calls = append(a.Calls, content.Call(c))
		}
		k.draft.Offer(a)
	}
}
