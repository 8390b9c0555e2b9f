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
		_, err := d.read()
		return err
	}
	_, _ = d.dec.ReadToken() // PeekKind saw it
	for n := 0; d.dec.PeekKind() != ']'; n++ {
		d.chat.Tools = true
		val, err := d.read()
		if err != nil {
			return err
		}
		d.toolName(val)
		if serverTool(val) {
			param := fmt.Sprintf("tools[%d].type", n)
			return &hearth.Error{Type: hearth.ErrUnsupported, Param: param, Message: "server tools (type openrouter:… or web_search…) are not offered here; give function tools"}
		}
	}
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// ToolList is the request's list of tools as it came, nil = it has none. It is a part of the body.
func (c *Chat) ToolList() []byte {
	for i := range c.members {
		if m := &c.members[i]; m.own == fieldTools {
			return c.raw[m.val:m.valEnd]
		}
	}
	return nil
}

// toolName keeps the name of a function that the request offers, with which calls are then compared.
func (d *decoding) toolName(tool jsontext.Value) {
	name := nameOf(tool)
	for _, kind := range [...]string{"function", "custom"} {
		if name == nil {
			name = nameOf(valueOf(tool, kind))
		}
	}
	if name == nil || len(d.chat.ToolNames) == maxTools {
		d.nameless = true
	}
	if !d.nameless {
		d.chat.ToolNames = append(d.chat.ToolNames, string(name))
	}
}

// nameOf is the text of an object's name, nil if it has none.
func nameOf(v []byte) []byte {
	if n := valueOf(v, "name"); text(n) && len(n) <= maxKeyBytes {
		return unquote(n)
	}
	return nil
}

// valueOf is the value of the last member of an object with that key, nil if there is none.
func valueOf(v []byte, key string) (val []byte) {
	s := scan{b: v}
	if s.kind() != '{' {
		return nil
	}
	s.open()
	for k, ok := s.key(); ok; k, ok = s.key() {
		if v := s.value(); string(name(k)) == key {
			val = v
		}
	}
	return val
}

// serverTool says whether a tool is one that the gateway would have to run itself.
func serverTool(tool jsontext.Value) bool {
	if tool.Kind() != '{' || !bytes.Contains(tool, []byte("openrouter")) && !bytes.Contains(tool, []byte("web_search")) && bytes.IndexByte(tool, '\\') < 0 {
		return false
	}
	s := scan{b: tool}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		v := s.value()
		if string(unquote(key)) != "type" || v[0] != '"' {
			continue
		}
		if word := unquote(v); bytes.HasPrefix(word, []byte("openrouter:")) || bytes.HasPrefix(word, []byte("web_search")) {
			return true
		}
	}
	return false
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
			if on = v[0] == 'n' || v[0] == 't'; !on && v[0] != 'f' {
				at := fmt.Sprintf("plugins[%d].enabled", n)
				return hearth.Invalid(at, "%s must be true, false or null", at)
			}
		}
	}
	if !on {
		return nil
	}
	switch id {
	case "":
		return hearth.Invalid(fmt.Sprintf("plugins[%d].id", n), "every plugin needs an id")
	case "web", "auto-router", "auto-beta-router", "pareto-router", "fusion":
		return &hearth.Error{Type: hearth.ErrUnsupported, Param: fmt.Sprintf("plugins[%d].id", n), Message: "the plugin " + id + " is not offered here"}
	}
	if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		id = fmt.Sprintf("%d", n)
	}
	d.note("plugin " + id + " ignored: it has no meaning here")
	return nil
}
