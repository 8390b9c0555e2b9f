package dialect

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

const messageTokens = 8 // what a chat template puts around one message

// messages walks the conversation: it checks roles, counts the text, and looks at media.
func (d *decoding) messages() error {
	if d.dec.PeekKind() != '[' {
		return d.wrongKind("messages", "messages must be an array")
	}
	_, _ = d.dec.ReadToken() // PeekKind saw it
	n, begin := 0, uint32(d.dec.InputOffset())
	for ; d.dec.PeekKind() != ']'; n++ {
		if d.dec.PeekKind() != '{' {
			return d.wrongKind(fmt.Sprintf("messages[%d]", n), "every message must be an object")
		}
		if err := d.message(n); err != nil {
			return err
		}
		if d.said && d.chat.opening[1] == 0 {
			d.chat.opening = [2]uint32{begin, uint32(d.dec.InputOffset())}
		}
	}
	if n == 0 {
		return hearth.Invalid("messages", "messages must not be empty")
	}
	d.extra(n * messageTokens)
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// wrongKind is the error for a value of a wrong kind, or for one that is no JSON at all.
func (d *decoding) wrongKind(param, text string) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	return hearth.Invalid(param, "%s", text)
}

func (d *decoding) orSyntax(err error) error {
	if err != nil {
		return d.syntax(err)
	}
	return nil
}

// message reads one message.
func (d *decoding) message(n int) error {
	_, _ = d.dec.ReadToken() // PeekKind saw it
	role, content := false, false
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadValue()
		if err != nil {
			return d.syntax(err)
		}
		switch key := unquote(name); {
		case string(key) == "role":
			err = d.role(n, role)
			role = true
		case string(key) == "content" && content:
			err = hearth.Invalid(fmt.Sprintf("messages[%d].content", n), "content stands more than once in a message")
		case string(key) == "content":
			content = true
			err = d.content(n)
		case string(key) == "images" && d.dec.PeekKind() == '[':
			err = d.parts(n, "images")
		case foldsTo(key, "role"), foldsTo(key, "content"):
			err = hearth.Invalid(fmt.Sprintf("messages[%d].%s", n, cleanKey(key)), "%s is not a field of a message; write %q", cleanKey(key), strings.ToLower(cleanKey(key)))
		case string(key) == "annotations":
			err = d.annotations()
		default:
			if kind, ok := thoughtsOf(key); ok {
				err = d.sealedList(kind)
			} else {
				_, err = d.read()
			}
		}
		if err != nil {
			return err
		}
	}
	if !role {
		return hearth.Invalid(fmt.Sprintf("messages[%d].role", n), "every message needs a role")
	}
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

func (d *decoding) content(n int) error {
	switch d.dec.PeekKind() {
	case '[':
		return d.parts(n, "content")
	case '"', 'n':
		_, err := d.read()
		return err
	}
	return d.wrongKind(fmt.Sprintf("messages[%d].content", n), "content must be a string, an array of parts or null")
}

func (d *decoding) role(n int, again bool) error {
	val, err := d.dec.ReadValue()
	switch {
	case err != nil:
		return d.syntax(err)
	case again:
		return hearth.Invalid(fmt.Sprintf("messages[%d].role", n), "role stands more than once in a message")
	case val.Kind() != '"' || len(val) == 2:
		return hearth.Invalid(fmt.Sprintf("messages[%d].role", n), "role must be a string and not empty")
	}
	if role := string(val); role != `"system"` && role != `"developer"` {
		d.said = true
	}
	return nil
}

// parts reads a list of content parts, of the message with number n.
func (d *decoding) parts(n int, list string) error {
	_, _ = d.dec.ReadToken() // PeekKind saw it
	from := int(d.dec.InputOffset()) - 1
	d.thinks = false
	for at := (place{n, list, 0}); d.dec.PeekKind() != ']'; at.part++ {
		var err error
		if d.dec.PeekKind() == '{' {
			err = d.part(at)
		} else {
			_, err = d.read()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.dec.ReadToken()
	if to := int(d.dec.InputOffset()); err == nil && d.thinks {
		d.thought(d.raw[from:to], to, listContent)
	}
	return d.orSyntax(err)
}

// sealedList reads a list of a message in which there may be sealed parts.
func (d *decoding) sealedList(kind thoughtsKind) error {
	val, err := d.read()
	if err == nil {
		d.thought(val, int(d.dec.InputOffset()), kind)
	}
	return err
}

// annotations reads what an answer was annotated with: files among it, as data URLs.
func (d *decoding) annotations() error {
	val, err := d.read()
	base := int(d.dec.InputOffset()) - len(val)
	for i := 0; i < len(val); i++ {
		if val[i] != '"' {
			continue
		}
		end := stringEnd(val, i)
		if isData(val[i+1 : end-1]) {
			d.cut(source{from: base + i, to: base + end})
		}
		i = end - 1
	}
	return err
}

// read reads a value inside of messages or tools.
func (d *decoding) read() (jsontext.Value, error) {
	val, err := d.dec.ReadValue()
	if err != nil {
		return nil, d.syntax(err)
	}
	return val, d.checkDepth(val)
}
