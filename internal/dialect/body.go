package dialect

import (
	"bytes"
	"strconv"
)

// body rewrites a delta or a message.
func (r *rewriter) body(dst []byte, choice int) []byte {
	if r.kind() != '{' {
		return r.noBody(dst)
	}
	var content, refusal, details bool
	var m mind
	var pics pictures
	from, base, same := r.i, len(dst), !r.whole
	dst = r.openBody(dst)
	for key, ok := r.key(); ok; key, ok = r.key() {
		word := name(key)
		if string(word) == "tool_calls" {
			dst = r.toolCalls(dst, choice)
			same = false
			continue
		}
		v := r.value()
		switch {
		case r.bad:
			return dst
		case isNull(v) && leftOut(word), m.joined && string(word) == "reasoning", string(word) == "role" && !r.saysRole(v):
			same = false
			continue
		}
		switch string(word) {
		case "content":
			content = true
			if v[0] != '[' {
				break
			}
			same = false
			p := takeApart(v)
			v, pics.more = p.content, append(pics.more, p.images...)
			dst = r.addThought(dst, p.thought, &m, &pics)
		case "refusal":
			refusal = true
		case "reasoning", "reasoning_content":
			if text(v) && m.thought == nil {
				m.thought = v
			}
		case "reasoning_details":
			if details = string(v) != "[]"; !details { // made from the text, if there is any
				same = false
				continue
			}
		}
		r.contentful(word, v)
		r.keep(choice).note(word, v)
		dst = appendMember(dst, key, v)
		pics.note(word, v, len(dst))
		m.note(word, v, len(dst))
	}
	dst = r.addPictures(dst, &pics)
	r.keep(choice).think(m.thought)
	if same && !r.bad && (m.thought == nil || details) && len(dst) > base+1 {
		return append(dst[:base], r.b[from:r.i]...) // nothing had to change, so not even a blank does
	}
	return r.endBody(dst, m.thought, content, refusal, details)
}

// saysRole says whether a role is passed on: that of a whole message is written first, and any other word than
// assistant is none.
func (r *rewriter) saysRole(v []byte) bool { return !r.whole && string(v) == `"assistant"` }

// openBody begins a delta or message. The role of a whole message comes first.
func (r *rewriter) openBody(dst []byte) []byte {
	r.open()
	if r.whole {
		return append(dst, `{"role":"assistant"`...)
	}
	return append(dst, '{')
}

// noBody stands for a delta or message that is no object.
func (r *rewriter) noBody(dst []byte) []byte {
	r.value()
	if r.chunk {
		return append(dst, "{}"...)
	}
	return append(dst, `{"role":"assistant","content":null,"refusal":null}`...)
}

// leftOut says whether a field of a delta or message may be absent but not null: strictly typed clients refuse such an
// answer whole. vLLM sends most of these in every answer.
func leftOut(word []byte) bool {
	switch string(word) {
	case "audio", "images", "annotations", "function_call", "reasoning_details", "name", "model":
		return true
	}
	return false
}

// endBody adds to a delta or message what clients look for and the upstream left out.
func (r *rewriter) endBody(dst, thought []byte, content, refusal, details bool) []byte {
	if !r.chunk && !content {
		dst = append(dst, `,"content":null`...)
	}
	if !r.chunk && !refusal {
		dst = append(dst, `,"refusal":null`...)
	}
	if thought != nil && !details {
		r.fact.Content = true
		dst = append(comma(dst), `"reasoning_details":[{"type":"reasoning.text","text":`...)
		dst = append(dst, thought...)
		dst = append(dst, `,"format":"unknown","index":0}]`...)
	}
	return append(dst, '}')
}

// contentful notes whether a field of a delta or message is an answer, or a part of one.
func (r *rewriter) contentful(word, v []byte) {
	switch string(word) {
	case "content", "reasoning", "reasoning_content", "refusal":
		if text(v) {
			r.fact.Content = true
			r.fact.Size += len(v) - 2
		}
	case "reasoning_details", "images", "audio", "function_call":
		r.fact.Content = r.fact.Content || len(v) > 2 && (v[0] == '[' || v[0] == '{')
		if len(word) == len("reasoning_details") {
			r.stamp.seal(v, listDetails)
		}
	case "thinking_blocks":
		r.stamp.seal(v, listDetails)
	}
}

// joinStrings appends the text of the JSON string b to the JSON string a, which may be nil.
func joinStrings(a, b []byte) []byte {
	if a == nil {
		return bytes.Clone(b)
	}
	return append(a[:len(a)-1], b[1:]...)
}

// count reads a whole number that is not negative; 12.0 and 1.2e1 are 12.
func count(v []byte) (int64, bool) {
	if len(v) == 0 || len(v) > 32 {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, n >= 0
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 || f > 1<<53 || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}
