package dialect

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// tools reads the list of tools. Its form is the upstream's business; only server tools are refused.
func (d *decoding) tools() error {
	if d.dec.PeekKind() != '[' {
		_, err := d.read(false)
		return err
	}
	_, _ = d.dec.ReadToken() // PeekKind saw it
	for n := 0; d.dec.PeekKind() != ']'; n++ {
		d.chat.Tools = true
		val, err := d.read(false)
		if err != nil {
			return err
		}
		if val.Kind() != '{' || !bytes.Contains(val, []byte("openrouter")) && bytes.IndexByte(val, '\\') < 0 {
			continue
		}
		s := scan{b: val}
		s.open()
		for key, ok := s.key(); ok; key, ok = s.key() {
			v := s.value()
			if string(unquote(key)) == "type" && v[0] == '"' && bytes.HasPrefix(unquote(v), []byte("openrouter:")) {
				param := fmt.Sprintf("tools[%d].type", n)
				return &hearth.Error{Type: hearth.ErrUnsupported, Param: param, Message: "server tools (type openrouter:…) are not offered here; give function tools"}
			}
		}
	}
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// plugins reads the list of plugins. Those that would change the answer and cannot be had are refused.
func (d *decoding) plugins(val jsontext.Value) error {
	if val.Kind() == 'n' {
		return nil
	}
	if val.Kind() != '[' {
		return hearth.Invalid("plugins", "plugins must be an array of objects")
	}
	s := scan{b: val}
	s.open()
	for n := 0; s.elem(); n++ {
		if s.kind() != '{' {
			return hearth.Invalid(fmt.Sprintf("plugins[%d]", n), "every plugin must be an object")
		}
		if err := d.plugin(&s, n); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoding) plugin(s *scan, n int) error {
	id, on := "", true
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		v := s.value()
		switch string(unquote(key)) {
		case "id":
			if v[0] != '"' || len(v) > 64 {
				return hearth.Invalid(fmt.Sprintf("plugins[%d].id", n), "the id of a plugin must be a short string")
			}
			id = string(unquote(v))
		case "enabled":
			on = string(v) != "false"
		}
	}
	if !on {
		return nil
	}
	switch id {
	case "":
		return hearth.Invalid(fmt.Sprintf("plugins[%d].id", n), "every plugin needs an id")
	case "web", "auto-router", "pareto-router", "fusion":
		return &hearth.Error{Type: hearth.ErrUnsupported, Param: fmt.Sprintf("plugins[%d].id", n), Message: "the plugin " + id + " is not offered here"}
	}
	if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		id = fmt.Sprintf("%d", n)
	}
	d.note("plugin " + id + " ignored: it has no meaning here")
	return nil
}
