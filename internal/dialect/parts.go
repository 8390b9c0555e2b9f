package dialect

import (
	"bytes"
	"slices"
)

// parts is what a list of content parts holds: JSON strings of its text and of its thoughts, the latter nil if there are
// none, and its images, each behind a comma.
type parts struct {
	content, thought, images []byte
}

// takeApart makes text of content that an upstream gave as a list of parts.
func takeApart(list []byte) parts {
	p := parts{content: []byte{'"'}}
	p.read(list, true)
	p.content = append(p.content, '"')
	return p
}

// read adds the parts of a list. Parts inside of a thinking part are looked into once, no deeper.
func (p *parts) read(list []byte, outer bool) {
	s := scan{b: list}
	s.open()
	for s.elem() {
		switch s.kind() {
		case '"':
			p.text(s.value())
		case '{':
			p.part(&s, outer)
		default:
			s.value()
		}
	}
}

func (p *parts) text(v []byte) { p.content = append(p.content, v[1:len(v)-1]...) }

func (p *parts) part(s *scan, outer bool) {
	from, image := s.i, false
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		word, val := string(name(key)), s.value()
		if s.bad {
			return
		}
		switch {
		case (word == "text" || word == "refusal") && val[0] == '"':
			p.text(val)
		case word == "thinking" && val[0] == '[' && outer:
			inner := parts{content: []byte{'"'}}
			inner.read(val, false)
			p.thought = joinStrings(p.thought, append(inner.content, '"'))
		case word == "thinking" && val[0] == '"':
			p.thought = joinStrings(p.thought, val)
		case word == "type" && val[0] == '"':
			image = image || kindOf(unquote(val)) == kindImage
		case kindOf([]byte(word)) == kindImage && !isNull(val):
			image = true
		}
	}
	if image && outer && !s.bad {
		p.images = append(append(p.images, ','), s.b[from:s.i]...)
	}
}

// mind is what a delta or message says of its thoughts.
type mind struct {
	thought  []byte // the text of them as a JSON string, nil = none
	joined   bool   // it was taken out of the content and written as its reasoning
	from, to int    // where an empty reasoning stands in what is written; to = 0: nowhere
}

// note looks at a member that was written up to n.
func (m *mind) note(word, v []byte, n int) {
	if string(word) == "reasoning" && !text(v) {
		m.from, m.to = n-len(v), n
	}
}

// addThought writes the thoughts that stood among the parts of the content, unless they were told already.
func (r *rewriter) addThought(dst, thought []byte, m *mind, pics *pictures) []byte {
	if m.thought != nil || thought == nil {
		return dst
	}
	m.thought, m.joined = thought, true
	if m.to == 0 {
		return appendMember(dst, []byte(`"reasoning"`), thought)
	}
	more := len(thought) - (m.to - m.from)
	if pics.to > m.to {
		pics.from += more
		pics.to += more
	}
	if r.callsEnd > m.to {
		r.callsEnd += more
	}
	return slices.Replace(dst, m.from, m.to, thought...)
}

// pictures are the images of a delta or message: those of its own list, and those that stood among the parts of its
// content, which go where OpenRouter's clients look for them.
type pictures struct {
	from, to int    // where the value of its own member stands in what is written; to = 0: nowhere
	keep     int    // how much of that stays: a list without its end, nothing of what is no list
	more     []byte // each behind a comma
}

// note looks at a member that was written up to n.
func (p *pictures) note(word, v []byte, n int) {
	if string(word) != "images" {
		return
	}
	p.from, p.to, p.keep = n-len(v), n, 0
	if v[0] == '[' && len(bytes.TrimSpace(v[1:len(v)-1])) > 0 {
		p.keep = len(v) - 1
	}
}

// addPictures writes the images that stood among the parts of the content.
func (r *rewriter) addPictures(dst []byte, p *pictures) []byte {
	if len(p.more) == 0 {
		return dst
	}
	r.fact.Content = true
	list := append(p.more, ']')
	if p.keep == 0 {
		list[0] = '['
	}
	if p.to == 0 {
		return append(append(comma(dst), `"images":`...), list...)
	}
	if r.callsEnd > p.to {
		r.callsEnd += p.keep + len(list) - (p.to - p.from)
	}
	return slices.Replace(dst, p.from+p.keep, p.to, list...)
}
