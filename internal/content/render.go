package content

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// render makes the document that is kept: input {messages}, output {completion, reasoning, tool_calls}, error (what the caller was told, or
// null) and truncated (it is not all of it). Texts in it are redacted.
func (d *Draft) render() []byte {
	w := writer{redactor: d.rules.Redactor, left: d.rules.MaxBytes}
	w.enc = jsontext.NewEncoder(&w.buf, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	w.begin('{')
	w.key("input")
	w.begin('{')
	w.key("messages")
	w.copy(d.input, d.cut)
	w.end('}')
	w.left = d.rules.MaxBytes
	w.key("output")
	w.begin('{')
	w.field("completion", d.out.Completion, d.out.Cut)
	w.field("reasoning", d.out.Reasoning, d.out.Cut)
	if len(d.out.Calls) > 0 {
		w.calls(d.out.Calls, d.out.Cut)
	}
	w.end('}')
	w.key("error")
	w.left = margin
	if d.out.Error == "" {
		w.token(jsontext.Null)
	} else {
		w.text(d.out.Error, false)
	}
	w.key("truncated")
	w.token(jsontext.Bool(w.cut || d.cut || d.out.Cut))
	w.end('}')
	return bytes.TrimSuffix(w.buf.Bytes(), []byte("\n"))
}

// writer writes JSON whose texts are redacted, and only so many bytes of it.
type writer struct {
	buf      bytes.Buffer
	enc      *jsontext.Encoder
	redactor *Redactor
	left     int  // bytes that may still come
	cut      bool // some did not come
}

// token writes a token. What is written here is well-formed, and a buffer takes everything: there is no error.
func (w *writer) token(t jsontext.Token) { _ = w.enc.WriteToken(t) }

func (w *writer) begin(c byte) {
	if c == '{' {
		w.token(jsontext.BeginObject)
		return
	}
	w.token(jsontext.BeginArray)
}

func (w *writer) end(c byte) {
	if c == '}' {
		w.token(jsontext.EndObject)
		return
	}
	w.token(jsontext.EndArray)
}

func (w *writer) key(name string) { w.token(jsontext.String(name)) }

// text writes a text. Of one that was cut off where it came from, the last bytes only serve to recognise what begins before
// them.
func (w *writer) text(s string, cutOff bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	keep := len(s)
	if cutOff {
		w.cut = true
		keep = whole(s, max(len(s)-margin, 0))
	}
	s = w.redactor.prefix(s, keep)
	if len(s) > w.left {
		w.cut = true
		s = s[:whole(s, w.left)]
	}
	w.left -= len(s)
	w.token(jsontext.String(s))
}

// whole is the largest number of bytes up to n that ends between two characters.
func whole(s string, n int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// field writes a member whose value is the inside of a JSON string, null if it is empty.
func (w *writer) field(name string, inside []byte, cutOff bool) {
	w.key(name)
	if len(inside) == 0 {
		w.token(jsontext.Null)
		return
	}
	w.text(unescape(inside), cutOff)
}

// unescape reads the inside of a JSON string, which may end within an escape.
func unescape(b []byte) string {
	quoted := make([]byte, 0, len(b)+2)
	quoted = append(append(append(quoted, '"'), b...), '"')
	s, err := jsontext.AppendUnquote(nil, quoted)
	for cut := 1; err != nil && !utf8Only(err) && cut <= 12 && cut < len(b); cut++ {
		s, err = jsontext.AppendUnquote(nil, append(append(append(quoted[:0], '"'), b[:len(b)-cut]...), '"'))
	}
	return string(s)
}

// utf8Only says whether the only thing wrong with a string is its encoding, which is mended.
func utf8Only(err error) bool { return strings.Contains(err.Error(), "invalid UTF-8") }

// calls writes the tool calls of an answer.
func (w *writer) calls(list []Call, cutOff bool) {
	w.key("tool_calls")
	w.begin('[')
	for i := range list {
		w.begin('{')
		w.field("name", list[i].Name, false)
		w.field("arguments", list[i].Arguments, cutOff)
		w.end('}')
	}
	w.end(']')
}

// copy writes the beginning of a valid JSON text. What it lacks at its end is closed.
func (w *writer) copy(raw []byte, cutOff bool) {
	depth := w.enc.StackDepth()
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for w.left > 0 {
		t, err := dec.ReadToken()
		if err != nil {
			if rest := raw[dec.InputOffset():]; cutOff {
				w.rest(rest, isName(dec))
			}
			break
		}
		w.one(t)
		if dec.StackDepth() == 0 {
			break
		}
	}
	for w.enc.StackDepth() > depth {
		w.cut = w.cut || w.left <= 0 || cutOff
		w.close()
	}
	if kind, n := w.enc.StackIndex(depth); kind == '{' && n%2 == 1 { // nothing came at all
		w.token(jsontext.Null)
	}
}

// one writes a token of a copied text.
func (w *writer) one(t jsontext.Token) {
	w.left-- // even brackets take place
	switch t.Kind() {
	case '"':
		w.text(t.String(), false)
	case '0':
		n := t.String()
		if s := w.redactor.Text(n); s != n { // a card's number
			w.text(n, false)
			return
		}
		w.left -= len(n)
		_ = w.enc.WriteValue(jsontext.Value(n))
	default:
		w.token(t)
	}
}

// isName says whether the next string would be the name of a member.
func isName(dec *jsontext.Decoder) bool {
	kind, n := dec.StackIndex(dec.StackDepth())
	return kind == '{' && n%2 == 0
}

// rest writes what is there of a string that was cut off.
func (w *writer) rest(b []byte, name bool) {
	b = bytes.TrimLeft(b, " \t\r\n,:")
	if name || len(b) < 2 || b[0] != '"' {
		return
	}
	w.text(unescape(b[1:]), true)
}

// close ends the innermost object or array.
func (w *writer) close() {
	kind, n := w.enc.StackIndex(w.enc.StackDepth())
	if kind == '[' {
		w.end(']')
		return
	}
	if n%2 == 1 { // a name without its value
		w.token(jsontext.Null)
	}
	w.end('}')
}
