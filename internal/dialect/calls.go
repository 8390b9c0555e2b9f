package dialect

import (
	"crypto/rand"
	"slices"
	"strconv"
)

// call is one tool call of a stream: which number we gave it.
type call struct {
	choice, theirs, ours int
	id                   string
	args                 bool // a part of its arguments has come, and it was not empty
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
	r.fact.Size += len(dst) - base
	if choice >= 0 && choice < 64 {
		r.stamp.called |= 1 << choice
	}
	r.callsEnd = len(dst)
	return append(dst, ']')
}

// toolCall rewrites one call. In a stream it gets a number: many upstreams send 0 for every call, or none. Where a call
// begins, clients need its id and its type; further on they need neither, and take no null for them.
func (r *rewriter) toolCall(dst []byte, choice int) []byte {
	theirs, numbered, typed, args := 0, false, false, false
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
		case "id":
			if v := r.value(); id == nil && callID(v) != nil {
				id = callID(v)
				dst = appendMember(dst, key, id)
			}
		case "type":
			if v := r.value(); !typed && text(v) {
				typed = true
				dst = appendMember(dst, key, v)
			}
		case "function":
			dst = append(append(comma(dst), key...), ':')
			dst, args = r.function(dst)
		default:
			dst = appendMember(dst, key, r.value())
		}
	}
	if r.bad {
		return dst[:at]
	}
	begins := true
	if r.chunk {
		var n int
		n, begins = r.stamp.number(choice, theirs, numbered, id, args)
		dst = appendIndex(dst, n)
	}
	if begins && id == nil {
		dst = append(append(append(comma(dst), `"id":"call_`...), rand.Text()...), '"')
	}
	if begins && !typed {
		dst = append(comma(dst), `"type":"function"`...)
	}
	return append(dst, '}')
}

// callID is the id of a tool call as a JSON string; nil if there is none.
func callID(v []byte) []byte {
	switch {
	case text(v):
		return v
	case len(v) > 0 && digits(v, 0) == len(v):
		return appendQuoted(nil, string(v))
	}
	return nil
}

// function makes arguments a string: some upstreams send the object itself. A whole answer's empty arguments
// become an empty object, which every client can parse; a stream's do when it ends. args says whether there are any.
func (r *rewriter) function(dst []byte) (_ []byte, args bool) {
	if r.kind() != '{' {
		return append(dst, r.value()...), false
	}
	given := false
	dst = append(dst, '{')
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		v := r.value()
		word := string(name(key))
		if r.bad || word == "name" && isNull(v) {
			continue
		}
		if word == "arguments" {
			given = true
			switch {
			case v[0] == '{':
				v = appendQuoted(nil, string(v))
			case !r.chunk && (isNull(v) || string(v) == `""`):
				v = []byte(`"{}"`)
			case isNull(v):
				v = []byte(`""`)
			}
			args = text(v)
		}
		dst = appendMember(dst, key, v)
	}
	if !given && !r.chunk {
		dst = append(comma(dst), `"arguments":"{}"`...)
	}
	return append(dst, '}'), args
}

// number is the place of a tool call in its choice, and whether the call begins here. A new id is a new call; a delta
// without an id goes on with the call that was last begun under the upstream's own number.
func (s *Stamp) number(choice, theirs int, numbered bool, id []byte, args bool) (n int, begins bool) {
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
			c.args = c.args || args
			return c.ours, false
		}
		if c.theirs == theirs || !numbered {
			same = c
		}
	}
	if id == nil && same != nil {
		same.args = same.args || args
		return same.ours, false
	}
	if len(s.calls) == limit {
		return theirs, id != nil
	}
	s.calls = append(s.calls, call{choice: choice, theirs: theirs, ours: next, id: string(id), args: args})
	return next, true
}

// fillArguments gives the calls of a choice that ends here without a word of arguments an empty object: into the list
// of the delta just written if it has one, else into a list of its own.
func (r *rewriter) fillArguments(dst []byte, choice int) []byte {
	var list []byte
	for i := range r.stamp.calls {
		c := &r.stamp.calls[i]
		if c.choice != choice || c.args {
			continue
		}
		c.args = true
		list = append(list, `,{"index":`...)
		list = strconv.AppendInt(list, int64(c.ours), 10)
		list = append(list, `,"function":{"arguments":"{}"}}`...)
	}
	switch {
	case list == nil:
		return dst
	case r.callsEnd > 0:
		return slices.Insert(dst, r.callsEnd, list...)
	}
	head := `,"tool_calls":[`
	if dst[r.bodyEnd-1] == '{' {
		head = head[1:]
	}
	return slices.Insert(dst, r.bodyEnd, append(append([]byte(head), list[1:]...), ']')...)
}
