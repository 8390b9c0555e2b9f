package dialect

import (
	"bytes"
	"strconv"
)

// body rewrites a delta or a message.
func (r *rewriter) body(dst []byte, choice int) []byte {
	if r.kind() != '{' {
		r.value()
		if r.chunk {
			return append(dst, "{}"...)
		}
		return append(dst, `{"role":"assistant","content":null,"refusal":null}`...)
	}
	var content, refusal, details bool
	var thought []byte
	dst = append(dst, '{')
	if !r.chunk {
		dst = append(dst, `"role":"assistant"`...)
	}
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		word := name(key)
		if string(word) == "tool_calls" {
			dst = r.toolCalls(dst, choice)
			continue
		}
		v := r.value()
		if r.bad {
			return dst
		}
		switch string(word) {
		case "role":
			if !r.chunk || string(v) != `"assistant"` {
				continue
			}
		case "content":
			if v[0] == '[' {
				var more []byte
				if v, more = joinParts(v, true); thought == nil && more != nil {
					thought = more
					dst = appendMember(dst, []byte(`"reasoning"`), more)
				}
			}
			content = true
		case "refusal":
			refusal = true
		case "reasoning", "reasoning_content":
			if text(v) && thought == nil {
				thought = v
			}
		case "reasoning_details":
			details = len(v) > 2 && v[0] == '['
		}
		r.contentful(word, v)
		dst = appendMember(dst, key, v)
	}
	return r.endBody(dst, thought, content, refusal, details)
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
		r.fact.Content = r.fact.Content || text(v)
	case "reasoning_details", "images", "audio", "function_call":
		r.fact.Content = r.fact.Content || len(v) > 2 && (v[0] == '[' || v[0] == '{')
	}
}

// toolCalls rewrites the tool calls of a delta or a message. None, or null, is left out.
func (r *rewriter) toolCalls(dst []byte, choice int) []byte {
	if r.kind() != '[' {
		r.value()
		return dst
	}
	base := len(dst)
	dst = append(comma(dst), `"tool_calls":[`...)
	n := 0
	r.open()
	for r.elem() {
		if r.kind() != '{' {
			r.value()
			continue
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		n++
		dst = r.toolCall(dst, choice)
	}
	if n == 0 {
		return dst[:base]
	}
	r.fact.Content = true
	if choice >= 0 && choice < 64 {
		r.stamp.called |= 1 << choice
	}
	return append(dst, ']')
}

// toolCall rewrites one call. In a stream it gets a number: many upstreams send 0 for every call, or none.
func (r *rewriter) toolCall(dst []byte, choice int) []byte {
	theirs, numbered := 0, false
	var id []byte
	at := len(dst)
	dst = append(dst, '{')
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(name(key)) {
		case "index":
			if n, ok := count(r.value()); ok {
				theirs, numbered = int(n), true
			}
			continue
		case "id":
			v := r.value()
			if text(v) {
				id = v
			}
			dst = appendMember(dst, key, v)
		case "function":
			dst = append(append(comma(dst), key...), ':')
			dst = r.function(dst)
		default:
			dst = appendMember(dst, key, r.value())
		}
	}
	if r.bad {
		return dst[:at]
	}
	if r.chunk {
		dst = appendIndex(dst, r.stamp.number(choice, theirs, numbered, id))
	}
	return append(dst, '}')
}

// function makes arguments a string: some upstreams send the object itself. A whole answer's empty arguments
// become an empty object, which every client can parse.
func (r *rewriter) function(dst []byte) []byte {
	if r.kind() != '{' {
		return append(dst, r.value()...)
	}
	dst = append(dst, '{')
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		v := r.value()
		if string(name(key)) == "arguments" && !r.bad {
			switch {
			case v[0] == '{':
				v = appendQuoted(nil, string(v))
			case !r.chunk && (isNull(v) || string(v) == `""`):
				v = []byte(`"{}"`)
			case isNull(v):
				v = []byte(`""`)
			}
		}
		dst = appendMember(dst, key, v)
	}
	return append(dst, '}')
}

// number is the place of a tool call in its choice. A new id is a new call; a delta without an id goes on with
// the call that was last begun under the upstream's own number.
func (s *Stamp) number(choice, theirs int, numbered bool, id []byte) int {
	const limit = 256 // beyond it the upstream's numbers stand
	next := 0
	var same *call
	for i := range s.calls {
		c := &s.calls[i]
		if c.choice != choice {
			continue
		}
		next++
		if id != nil && c.id == string(id) {
			return c.ours
		}
		if c.theirs == theirs || !numbered {
			same = c
		}
	}
	if id == nil && same != nil {
		return same.ours
	}
	if len(s.calls) == limit {
		return theirs
	}
	s.calls = append(s.calls, call{choice: choice, theirs: theirs, ours: next, id: string(id)})
	return next
}

// joinParts makes text of content given as a list of parts, and of the thinking parts among them; each is a JSON
// string, the second nil if there is none. Parts inside of a thinking part are looked into once, no deeper.
func joinParts(v []byte, outer bool) (content, thought []byte) {
	content = []byte{'"'}
	s := scan{b: v}
	s.open()
	for s.elem() {
		if s.kind() != '{' {
			s.value()
			continue
		}
		s.open()
		for key, ok := s.key(); ok; key, ok = s.key() {
			word, val := string(name(key)), s.value()
			switch {
			case word == "text" && val[0] == '"':
				content = append(content, val[1:len(val)-1]...)
			case word == "thinking" && val[0] == '[' && outer:
				inner, _ := joinParts(val, false)
				thought = joinStrings(thought, inner)
			case word == "thinking" && val[0] == '"':
				thought = joinStrings(thought, val)
			}
		}
	}
	return append(content, '"'), thought
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
