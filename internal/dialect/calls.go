package dialect

import (
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// call is one tool call of an answer: which number we gave it, and what was said of it.
type call struct {
	choice, theirs, ours int
	id                   string
	named                bool   // it has the name of a function
	unknown              bool   // and the request knows none of that name
	name                 string // of a request that offers functions
	args                 []byte // its arguments up to now, without the quotes and escapes they come in
	long                 bool   // more have come than are kept
}

// piece is what one delta, or a whole answer, says of a call; its texts are JSON strings, nil = none or empty.
type piece struct {
	theirs         int
	numbered       bool // theirs was given
	id, name, args []byte
}

const (
	maxCalls     = 256      // beyond these the upstream's numbers stand
	maxArguments = 64 << 10 // bytes kept of the arguments of a call
	maxAllArgs   = 1 << 20  // of all calls of an answer
)

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
	var p piece
	typed := false
	at := len(dst)
	dst = append(dst, '{')
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(name(key)) {
		case "index":
			if n, ok := count(r.value()); ok {
				p.theirs, p.numbered = int(n), true
			}
		case "id":
			if v := r.value(); p.id == nil && callID(v) != nil {
				p.id = callID(v)
				dst = appendMember(dst, key, p.id)
			}
		case "type":
			if v := r.value(); !typed && text(v) {
				typed = true
				dst = appendMember(dst, key, v)
			}
		case "function":
			dst = append(append(comma(dst), key...), ':')
			dst = r.function(dst, &p)
		default:
			v := r.value()
			r.stamp.sealCall(name(key), v)
			dst = appendMember(dst, key, v)
		}
	}
	if r.bad {
		return dst[:at]
	}
	n, begins := r.stamp.number(choice, &p, r.whole)
	if k := r.stamp.Keep; k != nil && choice == 0 {
		k.call(n, &p)
	}
	if r.chunk {
		dst = appendIndex(dst, n)
	}
	if begins && p.id == nil {
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
// become an empty object, which every client can parse; a stream's do when it ends.
func (r *rewriter) function(dst []byte, p *piece) []byte {
	if r.kind() != '{' {
		return append(dst, r.value()...)
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
		switch word {
		case "name":
			if p.name == nil && text(v) {
				p.name = v
			}
		case "arguments":
			given = true
			switch {
			case r.whole && (isNull(v) || string(v) == `""`):
				v = []byte(`"{}"`)
			case isNull(v):
				v = []byte(`""`)
			case v[0] != '"':
				v = appendQuoted(nil, string(v))
			}
			if text(v) {
				p.args = v
			}
		}
		dst = appendMember(dst, key, v)
	}
	if !given && r.whole {
		dst = append(comma(dst), `"arguments":"{}"`...)
	}
	return append(dst, '}')
}

// number is the place of a tool call in its choice, and whether the call begins here. A new id is a new call; a delta
// without an id goes on with the call that was last begun under the upstream's own number. In a whole answer each is new.
func (s *Stamp) number(choice int, p *piece, whole bool) (n int, begins bool) {
	next := 0
	var same *call
	for i := range s.calls {
		c := &s.calls[i]
		if c.choice != choice {
			continue
		}
		next++
		if p.id != nil && c.id == string(p.id) && (c.theirs == p.theirs || !p.numbered) && !whole {
			s.add(c, p)
			return c.ours, false
		}
		if c.theirs == p.theirs || !p.numbered {
			same = c
		}
	}
	if p.id == nil && same != nil && !whole && !same.beginsAnother(p) {
		s.add(same, p)
		return same.ours, false
	}
	if len(s.calls) == maxCalls {
		return p.theirs, p.id != nil
	}
	s.calls = append(s.calls, call{choice: choice, theirs: p.theirs, ours: next, id: string(p.id)})
	s.add(&s.calls[len(s.calls)-1], p)
	return next, true
}

// beginsAnother says whether a delta without an id is a call of its own all the same: Google's gives every call the
// number 0 and no id, but the name and all of its arguments.
func (c *call) beginsAnother(p *piece) bool {
	return c.named && p.name != nil && p.args != nil && complete(c.args)
}

// add notes what a delta says of a call.
func (s *Stamp) add(c *call, p *piece) {
	if !c.named && p.name != nil {
		c.named = true
		if len(s.Tools) > 0 {
			c.name = string(unquote(p.name))
			c.unknown = !slices.Contains(s.Tools, c.name)
		}
	}
	if p.args == nil || c.long {
		return
	}
	if n := len(p.args); len(c.args)+n > maxArguments || s.kept+n > maxAllArgs {
		c.long, c.args = true, nil
		return
	}
	before := len(c.args)
	c.args, _ = jsontext.AppendUnquote(c.args, p.args) // the error tells of invalid UTF-8, which is replaced
	s.kept += len(c.args) - before
}

// ToolCalls counts the tool calls of a complete answer, and those among them that no client can carry out: without a
// name, with the name of a function that Tools does not have, or with arguments that are not JSON. Arguments that ended
// with the output limit, and those of more than 64 KiB, are not held against the upstream.
func (s *Stamp) ToolCalls() (made, bad int) {
	for i := range s.calls {
		made++
		if s.broken(&s.calls[i]) {
			bad++
		}
	}
	return made, bad
}

func (s *Stamp) broken(c *call) bool {
	return !c.named || c.unknown || len(c.args) > 0 && !s.open(c) && !complete(c.args)
}

// open says whether a call ended before it was complete.
func (s *Stamp) open(c *call) bool {
	return c.choice >= 0 && c.choice < 64 && s.cut&(1<<c.choice) != 0
}

// ToolCall is a tool call of an answer.
type ToolCall struct {
	Name string // of a function that the request offers
	Args []byte // JSON, nothing = there are none; not to be written to
	Bad  bool   // no client can carry it out: see [Stamp.ToolCalls]
	Open bool   // its arguments are not complete, or more than are kept
}

// Made lists the tool calls that ToolCalls counts, of a request whose functions are known.
func (s *Stamp) Made() []ToolCall {
	if len(s.Tools) == 0 || len(s.calls) == 0 {
		return nil
	}
	list := make([]ToolCall, len(s.calls))
	for i := range s.calls {
		c := &s.calls[i]
		list[i] = ToolCall{Name: c.name, Args: c.args, Bad: s.broken(c), Open: c.long || s.open(c)}
	}
	return list
}

// complete says whether b is one JSON value.
func complete(b []byte) bool {
	s := scan{b: b}
	s.value()
	return !s.bad && s.kind() == 0 && s.i == len(b)
}

// withoutArguments lists the calls of a choice for which not one word of arguments has come, each with an empty object
// for them, behind a comma; nil = there are none.
func (s *Stamp) withoutArguments(choice int) (list []byte) {
	for i := range s.calls {
		c := &s.calls[i]
		if c.choice != choice || len(c.args) > 0 || c.long {
			continue
		}
		c.args = append(c.args, "{}"...)
		list = append(list, `,{"index":`...)
		list = strconv.AppendInt(list, int64(c.ours), 10)
		list = append(list, `,"function":{"arguments":"{}"}}`...)
	}
	return list
}

// fillArguments gives the calls of a choice that ends here without a word of arguments an empty object: into the list
// of the delta just written if it has one, else into a list of its own.
func (r *rewriter) fillArguments(dst []byte, choice int) []byte {
	list := r.stamp.withoutArguments(choice)
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
