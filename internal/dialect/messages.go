package dialect

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

const messageTokens = 8 // what a chat template puts around one message

// messages walks the conversation: it checks roles, counts images and leaves media data out of the token count.
func (d *decoding) messages() error {
	if d.dec.PeekKind() != '[' {
		return d.wrongKind("messages", "messages must be an array")
	}
	_, _ = d.dec.ReadToken() // PeekKind saw it
	n := 0
	for ; d.dec.PeekKind() != ']'; n++ {
		if d.dec.PeekKind() != '{' {
			return d.wrongKind(fmt.Sprintf("messages[%d]", n), "every message must be an object")
		}
		if err := d.message(n); err != nil {
			return err
		}
	}
	if n == 0 {
		return hearth.Invalid("messages", "messages must not be empty")
	}
	d.tokens += n * messageTokens
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
	role := false
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadValue()
		if err != nil {
			return d.syntax(err)
		}
		switch key := unquote(name); {
		case string(key) == "role":
			err = d.role(n, role)
			role = true
		case string(key) == "content" && d.dec.PeekKind() == '[':
			err = d.parts()
		case string(key) == "content" && d.dec.PeekKind() != '"' && d.dec.PeekKind() != 'n':
			err = d.wrongKind(fmt.Sprintf("messages[%d].content", n), "content must be a string, an array of parts or null")
		case foldsTo(key, "role"):
			err = hearth.Invalid(fmt.Sprintf("messages[%d].%s", n, cleanKey(key)), "%s is not a field of a message; write \"role\"", cleanKey(key))
		default:
			_, err = d.read(string(key) != "content")
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
	return nil
}

// parts reads the content of a message given as a list.
func (d *decoding) parts() error {
	_, _ = d.dec.ReadToken() // PeekKind saw it
	for d.dec.PeekKind() != ']' {
		var err error
		if d.dec.PeekKind() == '{' {
			err = d.part()
		} else {
			_, err = d.read(false)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// part reads one content part and counts it if it is an image.
func (d *decoding) part() error {
	_, _ = d.dec.ReadToken() // PeekKind saw it
	image := false
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadValue()
		if err != nil {
			return d.syntax(err)
		}
		key := unquote(name)
		// The key's bytes stand in the body and outlive the next read.
		val, err := d.read(string(key) != "text")
		if err != nil {
			return err
		}
		switch string(key) {
		case "image_url":
			image = true
		case "type":
			if t := string(val); t == `"image_url"` || t == `"input_image"` || t == `"image"` {
				image = true
			}
		case "input_audio":
			d.audio(val)
		}
	}
	if image {
		d.chat.Images++
	}
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// read reads a value inside of messages or tools. With media set, data URLs in it are left out of the count.
func (d *decoding) read(media bool) (jsontext.Value, error) {
	val, err := d.dec.ReadValue()
	if err != nil {
		return nil, d.syntax(err)
	}
	if err := d.checkDepth(val); err != nil {
		return nil, err
	}
	if media && bytes.Contains(val, []byte(";base64,")) {
		d.cutMedia(val, dataURL)
	}
	return val, nil
}

// cutMedia leaves the strings for which match holds out of the token count.
func (d *decoding) cutMedia(val []byte, match func([]byte) bool) {
	at := int(d.dec.InputOffset()) - len(val)
	for i := 0; i < len(val); i++ {
		if val[i] != '"' {
			continue
		}
		end := stringEnd(val, i)
		if at+i >= d.from && match(val[i+1:end-1]) {
			d.tokens += d.count(d.raw[d.from : at+i])
			d.from = at + end
		}
		i = end - 1
	}
}

// dataURL says whether a string holds its data in itself (RFC 2397).
func dataURL(s []byte) bool {
	return bytes.HasPrefix(s, []byte("data:")) && bytes.Contains(s[:min(len(s), 256)], []byte(";base64,"))
}

// audio counts sound by its length: 32 tokens for a second, of at least 16 kB a second uncompressed, 2 kB else.
func (d *decoding) audio(val []byte) {
	const tokens, plain, packed = 32, 16000, 2000
	rate := packed
	if bytes.Contains(val, []byte(`"wav"`)) || bytes.Contains(val, []byte(`"pcm16"`)) {
		rate = plain
	}
	d.cutMedia(val, func(s []byte) bool {
		if len(s) < 256 {
			return false
		}
		d.tokens += len(s) / 4 * 3 * tokens / rate
		return true
	})
}
