package dialect

// Kept is the text of the first choice of an answer, for who wants to read it later. Its texts are the insides of JSON strings,
// with their escapes; one that was cut may end within an escape.
type Kept struct {
	// Room says how many of n further bytes are kept.
	Room func(n int) int

	Completion, Reasoning []byte
	Calls                 []KeptCall
	Cut                   bool // more came than there was room for
}

// KeptCall is a tool call of an answer.
type KeptCall struct{ Name, Arguments []byte }

// keptCalls bounds the calls that are kept of an answer.
const keptCalls = 64

// keep is what is kept of a choice, nil = nothing.
func (r *rewriter) keep(choice int) *Kept {
	if choice == 0 {
		return r.stamp.Keep
	}
	return nil
}

// think keeps a thought. It is kept apart since it may stand in several fields.
func (k *Kept) think(v []byte) {
	if k != nil && len(v) > 2 {
		k.add(&k.Reasoning, v)
	}
}

// note keeps a field of a delta or message.
func (k *Kept) note(word, v []byte) {
	if k == nil {
		return
	}
	switch string(word) {
	case "content", "refusal":
		if text(v) {
			k.add(&k.Completion, v)
		}
	}
}

// add keeps a JSON string, or its beginning. Once something was cut nothing more is kept: what is there has no gaps.
func (k *Kept) add(to *[]byte, v []byte) {
	if k.Cut || len(v) < 2 {
		return
	}
	v = v[1 : len(v)-1]
	n := k.Room(len(v))
	k.Cut = n < len(v)
	*to = append(*to, v[:n]...)
}

// call keeps what was said of call number n.
func (k *Kept) call(n int, p *piece) {
	if n < 0 || n >= keptCalls {
		k.Cut = true
		return
	}
	for len(k.Calls) <= n {
		k.Calls = append(k.Calls, KeptCall{})
	}
	c := &k.Calls[n]
	if c.Name == nil {
		k.add(&c.Name, p.name)
	}
	k.add(&c.Arguments, p.args)
}

// Reset forgets what was kept.
func (k *Kept) Reset() { *k = Kept{Room: k.Room} }
