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

// pictures are the images of a delta or message: those of its own list, and those that stood among the parts of its
// content, which go where OpenRouter's clients look for them.
type pictures struct {
	end   int    // where the list ends in what is written, 0 = there is none
	empty bool   // the list
	more  []byte // each behind a comma
}

// note looks at a member that was written up to n.
func (p *pictures) note(word, v []byte, n int) {
	if string(word) == "images" && v[0] == '[' {
		p.end, p.empty = n-1, len(bytes.TrimSpace(v[1:len(v)-1])) == 0
	}
}

// addPictures writes the images that stood among the parts of the content.
func (r *rewriter) addPictures(dst []byte, p *pictures) []byte {
	switch {
	case len(p.more) == 0:
		return dst
	case p.end == 0:
		dst = append(append(comma(dst), `"images":[`...), p.more[1:]...)
		dst = append(dst, ']')
	default:
		if p.empty {
			p.more = p.more[1:]
		}
		dst = slices.Insert(dst, p.end, p.more...)
		if r.callsEnd > p.end {
			r.callsEnd += len(p.more)
		}
	}
	r.fact.Content = true
	return dst
}
