package dialect

import (
	"bytes"
	"hash/maphash"
)

// Bounds on the sealed parts that are told apart. What is beyond them goes to everybody, and nobody is remembered for it.
const (
	maxSealed = 4096 // of a request
	maxSeals  = 64   // of an answer
)

// sealed is a part of a conversation that only the provider which made it can use: encrypted reasoning, or a signature.
type sealed struct {
	from, to   int // what is left out for others: an element of a list or a member of an object, without commas
	seal, last int // the opaque string that it is told by, with its quotes
}

// thoughts is a list in the history that has sealed parts, or may have.
type thoughts struct {
	from, to uint32
	kind     thoughtsKind
}

type thoughtsKind uint8

const (
	listDetails thoughtsKind = iota // reasoning_details, or thinking_blocks
	listContent                     // content parts
	listCalls                       // tool calls
)

// thoughtsOf is what kind of list a message, or a delta, has under a key; ok is false if nothing is sealed there.
func thoughtsOf(key []byte) (kind thoughtsKind, ok bool) {
	switch string(key) {
	case "reasoning_details", "thinking_blocks":
		return listDetails, true
	case "tool_calls":
		return listCalls, true
	}
	return 0, false
}

const thoughtSignature = `thought_signature"`

// mayBeSealed says whether a list can have sealed parts at all.
func mayBeSealed(list []byte, kind thoughtsKind) bool {
	if len(list) == 0 || list[0] != '[' {
		return false
	}
	if kind == listCalls {
		return bytes.Contains(list, []byte(thoughtSignature))
	}
	return bytes.Contains(list, []byte(`"data"`)) || bytes.Contains(list, []byte(`"signature"`))
}

// thought notes a list of the history, which ends at to.
func (d *decoding) thought(val []byte, to int, kind thoughtsKind) {
	if c := d.chat; len(c.thoughts) < maxSealed && mayBeSealed(val, kind) {
		c.thoughts = append(c.thoughts, thoughts{uint32(to - len(val)), uint32(to), kind})
	}
}

// Seals are marks of the sealed parts of the history, in its order: the same as those of the answer that a part came in,
// under the same seed.
func (c *Chat) Seals(seed maphash.Seed) []uint64 {
	if len(c.thoughts) == 0 {
		return nil
	}
	c.sealed = c.sealed[:0]
	for _, t := range c.thoughts {
		c.sealed = appendSealed(c.sealed, c.raw[:t.to], int(t.from), t.kind, maxSealed)
	}
	marks := make([]uint64, len(c.sealed))
	for i, p := range c.sealed {
		marks[i] = maphash.Bytes(seed, unquote(c.raw[p.seal:p.last]))
	}
	return marks
}

// Seals are marks of the sealed parts of the answer.
func (s *Stamp) Seals() []uint64 { return s.seals }

// seal remembers the sealed parts of a list in an answer.
func (s *Stamp) seal(list []byte, kind thoughtsKind) {
	if s.Seed == (maphash.Seed{}) || len(s.seals) >= maxSeals || !mayBeSealed(list, kind) {
		return
	}
	var some [4]sealed
	for _, p := range appendSealed(some[:0], list, 0, kind, maxSeals-len(s.seals)) {
		s.seals = append(s.seals, maphash.Bytes(s.Seed, unquote(list[p.seal:p.last])))
	}
}

// sealCall remembers what is sealed of one member of a tool call in an answer.
func (s *Stamp) sealCall(key, val []byte) {
	if s.Seed == (maphash.Seed{}) || len(s.seals) >= maxSeals || string(key) != extraContent {
		return
	}
	if at, end := thoughtSignatureOf(val); end > 0 {
		s.seals = append(s.seals, maphash.Bytes(s.Seed, unquote(val[at:end])))
	}
}

// appendSealed appends the sealed parts of the list that begins at b[from]; there are most of them in dst at the end.
func appendSealed(dst []sealed, b []byte, from int, kind thoughtsKind, most int) []sealed {
	s := scan{b: b, i: from}
	s.open()
	for s.elem() && len(dst) < most {
		if s.kind() != '{' {
			s.value()
			continue
		}
		var p sealed
		var ok bool
		if kind == listCalls {
			p, ok = s.call()
		} else {
			p, ok = s.detail(kind == listContent)
		}
		if ok && !s.bad {
			dst = append(dst, p)
		}
	}
	return dst
}

// member steps to the next member of an object and over its value: where both stand, and the key.
func (s *scan) member() (key []byte, from, val int, ok bool) {
	at := s.i
	quoted, ok := s.key()
	if !ok {
		return nil, 0, 0, false
	}
	from = at + bytes.IndexByte(s.b[at:], '"') // white space and a comma stand before the key
	if val = s.here(); s.kind() == '"' {       // it was read before, and is long
		s.i = stringEnd(s.b, val)
	} else {
		s.value()
	}
	return name(quoted), from, val, !s.bad
}

// detail reads one entry of the reasoning, or one content part: whether it is sealed, and what of it. Encrypted reasoning
// is nothing without its data, and no API takes a thinking block without its signature; text with a signature is text yet.
func (s *scan) detail(part bool) (p sealed, ok bool) {
	var whole, thinking, says bool
	var data, sign sealed
	start := s.here()
	s.open()
	for {
		key, from, val, more := s.member()
		if !more {
			break
		}
		v := s.b[val:s.i]
		switch string(key) {
		case "type":
			if text(v) {
				switch string(unquote(v)) {
				case "reasoning.encrypted", "redacted_thinking":
					whole = true
				case "thinking":
					thinking = true
				}
			}
		case "text", "summary":
			says = says || text(v)
		case "data":
			if text(v) {
				data = sealed{from, s.i, val, s.i}
			}
		case "signature":
			if text(v) {
				sign = sealed{from, s.i, val, s.i}
			}
		}
	}
	switch {
	case whole && data.last > 0:
		return sealed{start, s.i, data.seal, data.last}, true
	case sign.last == 0, part && !whole && !thinking:
		return p, false
	case whole || thinking || !says:
		return sealed{start, s.i, sign.seal, sign.last}, true
	}
	return sign, true
}

// extraContent is the member of a tool call in which Google's API has the signature of the thought before it.
const extraContent = "extra_content"

// call reads one tool call: whether it has a signature.
func (s *scan) call() (p sealed, ok bool) {
	s.open()
	for {
		key, from, val, more := s.member()
		if !more {
			return p, ok
		}
		if string(key) != extraContent {
			continue
		}
		if at, end := thoughtSignatureOf(s.b[val:s.i]); end > 0 {
			p, ok = sealed{from, s.i, val + at, val + end}, true
		}
	}
}

// thoughtSignatureOf is where the signature of a thought stands in the extra content of a tool call; end is 0 if there is
// none.
func thoughtSignatureOf(v []byte) (at, end int) {
	for i := 0; ; {
		n := bytes.Index(v[i:], []byte(`"`+thoughtSignature))
		if n < 0 {
			return 0, 0
		}
		i += n + 1 + len(thoughtSignature)
		s := scan{b: v, i: i}
		if s.kind() != ':' {
			continue
		}
		s.i++
		if at = s.here(); s.kind() == '"' {
			if end = stringEnd(v, at); end > at+2 {
				return at, end
			}
		}
	}
}
