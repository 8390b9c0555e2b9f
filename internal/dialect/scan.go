package dialect

import "bytes"

// scan walks JSON text one level at a time and checks the grammar of what it passes: RFC 8259, with invalid UTF-8
// and duplicate keys let through. A broken text sets bad and makes every loop end; what was returned before is
// then of no use. It exists beside jsontext because a chunk of a stream is too small to pay for a decoder.
//
//	s.open()
//	for key, ok := s.key(); ok; key, ok = s.key() {
//		val := s.value()
//	}
type scan struct {
	b     []byte
	i     int
	depth int
	bad   bool
	fresh bool // nothing has been read since the opening bracket
}

// kind is the first byte of the next token, 0 at the end of the text.
func (s *scan) kind() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// open steps into the object or array that comes next.
func (s *scan) open() {
	s.kind()
	s.i++
	s.fresh = true
	if s.depth++; s.depth > maxDepth {
		s.bad = true
	}
}

// more steps to the next member or element, or out of the object or array.
func (s *scan) more(closing byte) bool {
	k := s.kind()
	switch {
	case s.bad:
		return false
	case k == closing:
		s.i++
		s.depth--
		s.fresh = false
		return false
	case s.fresh:
		s.fresh = false
		return true
	case k == ',':
		s.i++
		return true
	}
	s.bad = true
	return false
}

// key steps to the next member and returns its key, with the quotes; false at the end of the object.
func (s *scan) key() ([]byte, bool) {
	if !s.more('}') {
		return nil, false
	}
	key := s.str()
	if s.kind() != ':' {
		s.bad = true
	}
	s.i++
	return key, !s.bad
}

// elem steps to the next element; false at the end of the array.
func (s *scan) elem() bool { return s.more(']') }

// value passes over the next value and returns its text.
func (s *scan) value() []byte {
	k := s.kind()
	from := s.i
	switch k {
	case '"':
		return s.str()
	case '{':
		s.open()
		for _, ok := s.key(); ok; _, ok = s.key() {
			s.value()
		}
	case '[':
		s.open()
		for s.elem() {
			s.value()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
	if s.bad {
		return nil
	}
	return s.b[from:s.i]
}

// here is where the next value begins.
func (s *scan) here() int {
	s.kind()
	return s.i
}

// since is the text of the values passed over from there on.
func (s *scan) since(from int) []byte {
	if s.bad || from > s.i || s.i > len(s.b) {
		return nil
	}
	return s.b[from:s.i]
}

func (s *scan) literal(word string) {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		s.bad = true
		return
	}
	s.i += len(word)
}

// str passes over a string and returns it with its quotes.
func (s *scan) str() []byte {
	if s.kind() != '"' {
		s.bad = true
		return nil
	}
	b, from := s.b, s.i
	for i := from + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return b[from:s.i]
		case c < ' ':
			s.bad = true
			return nil
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				s.bad = true
				return nil
			}
			i += n - 1
		}
	}
	s.bad = true
	return nil
}

// escape is the length of the escape sequence at the start of b, 0 if it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// number passes over a number.
func (s *scan) number() {
	b, i := s.b, s.i
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digits(b, i)
	if whole == i || whole > i+1 && b[i] == '0' {
		s.bad = true
		return
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		frac := digits(b, i+1)
		if frac == i+1 {
			s.bad = true
			return
		}
		i = frac
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exp := digits(b, i)
		if exp == i {
			s.bad = true
			return
		}
		i = exp
	}
	s.i = i
}

func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// stringEnd is the offset behind the string that starts at b[i], in text that is known to be valid.
func stringEnd(b []byte, i int) int {
	for i++; ; i++ {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b)
		}
		i += j
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}
