package dialect

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// field reads the value of one member of the body.
func (d *decoding) field(m *member) error {
	switch m.own {
	case fieldMessages:
		return d.span(m, d.messages)
	case fieldTools, fieldFunctions:
		return d.span(m, d.tools)
	}
	val, err := d.value(m)
	if err != nil {
		return err
	}
	switch m.own {
	case fieldModel:
		return d.model(val)
	case fieldModels:
		d.models, err = d.stringList("models", val, maxModels)
	case fieldProvider:
		return d.provider(val)
	case fieldPlugins:
		return d.plugins(val)
	case fieldStream:
		d.chat.Stream, err = boolean("stream", val)
	case fieldStreamOptions:
		return d.streamOptions(val)
	case fieldMaxTokens, fieldMaxCompletionTokens:
		return d.maxTokens(m.own, val)
	case fieldChoices:
		return d.choices(val)
	case fieldUser:
		return d.userField(val)
	case fieldSessionID:
		var ok bool
		if d.chat.session, ok = sessionName(val); !ok {
			d.note(fmt.Sprintf("session_id ignored: it must be a string of at most %d characters", maxSession))
		}
	case fieldRoute:
		d.route(val)
	case fieldTransforms, fieldPreset:
		d.ignored(m.own, val)
	case fieldCounted:
		d.text(val)
	}
	return err
}

// span records where a value begins and ends that read consumes token by token, and counts its text.
func (d *decoding) span(m *member, read func() error) error {
	m.val = uint32(d.valueStart())
	d.from = int(m.val)
	if err := read(); err != nil {
		return err
	}
	m.valEnd = uint32(d.dec.InputOffset())
	d.text(d.raw[d.from:m.valEnd])
	return nil
}

// valueStart is the offset of the value that PeekKind has seen.
func (d *decoding) valueStart() int {
	i := int(d.dec.InputOffset())
	for i < len(d.raw) {
		switch d.raw[i] {
		case ' ', '\t', '\r', '\n', ':', ',':
			i++
		default:
			return i
		}
	}
	return i
}

// value reads a member's value whole.
func (d *decoding) value(m *member) (jsontext.Value, error) {
	val, err := d.dec.ReadValue()
	if err != nil {
		return nil, d.syntax(err)
	}
	end := int(d.dec.InputOffset())
	m.val, m.valEnd = uint32(end-len(val)), uint32(end)
	return val, d.checkDepth(val)
}

// checkDepth bounds the nesting of a value that was read whole. It looks only at values long enough to break the
// bound.
func (d *decoding) checkDepth(val []byte) error {
	depth := d.dec.StackDepth()
	if depth+len(val)/2 <= maxDepth {
		return nil
	}
	for i := 0; i < len(val); i++ {
		switch val[i] {
		case '[', '{':
			if depth++; depth > maxDepth {
				return tooDeep()
			}
		case ']', '}':
			depth--
		case '"':
			i = stringEnd(val, i) - 1
		}
	}
	return nil
}

// The ways in which a caller asks for running counts, and we ask an engine.
const (
	timingsKey    = "timings_per_token"
	continuousKey = "continuous_usage_stats"
)

// streamOptions looks at what the caller wants to be told in a stream. Usage is told at its end in any case.
func (d *decoding) streamOptions(val jsontext.Value) error {
	if k := val.Kind(); k != '{' && k != 'n' {
		return hearth.Invalid("stream_options", "stream_options must be an object or null")
	} else if k == 'n' {
		return nil
	}
	s := scan{b: val}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		if v := s.value(); string(v) == "true" && string(unquote(key)) == continuousKey {
			d.chat.RunningUsage = true
		}
	}
	return nil
}

func (d *decoding) model(val jsontext.Value) error {
	if val.Kind() == 'n' {
		return nil
	}
	id, err := modelName("model", val)
	if err != nil {
		return err
	}
	d.chat.one[0] = id
	d.chat.Models = d.chat.one[:]
	return nil
}

// modelName reads one bounded, printable, non-empty string.
func modelName(param string, val jsontext.Value) (string, error) {
	if val.Kind() != '"' {
		return "", hearth.Invalid(param, "%s must be a string", param)
	}
	name := unquote(val)
	switch {
	case len(name) == 0:
		return "", hearth.Invalid(param, "%s must not be empty", param)
	case len(name) > maxModelBytes:
		return "", hearth.Invalid(param, "%s is longer than %d bytes", param, maxModelBytes)
	case !printable(name):
		return "", hearth.Invalid(param, "%s holds control characters or is not UTF-8", param)
	}
	return string(name), nil
}

func printable(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(s)
}

// stringList reads an array of names; null counts as an empty one.
func (d *decoding) stringList(param string, val jsontext.Value, limit int) ([]string, error) {
	if val.Kind() == 'n' {
		return nil, nil
	}
	if val.Kind() != '[' {
		return nil, hearth.Invalid(param, "%s must be an array of strings", param)
	}
	var list []string
	s := scan{b: val}
	s.open()
	for s.elem() {
		at := param + "[" + strconv.Itoa(len(list)) + "]"
		if len(list) == limit {
			return nil, hearth.Invalid(param, "%s has more than %d items", param, limit)
		}
		name, err := modelName(at, jsontext.Value(s.value()))
		if err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, nil
}

func boolean(param string, val jsontext.Value) (bool, error) {
	switch val.Kind() {
	case 't':
		return true, nil
	case 'f', 'n':
		return false, nil
	}
	return false, hearth.Invalid(param, "%s must be true, false or null", param)
}

func (d *decoding) maxTokens(own field, val jsontext.Value) error {
	name := "max_tokens"
	if own == fieldMaxCompletionTokens {
		name = "max_completion_tokens"
	}
	if val.Kind() == 'n' {
		return nil
	}
	n, err := strconv.ParseUint(string(val), 10, 53)
	if err != nil {
		return hearth.Invalid(name, "%s must be an integer from 0 to 2^53, or null", name)
	}
	if own == fieldMaxCompletionTokens || d.chat.MaxTokens == 0 {
		d.chat.MaxTokens = int(n)
	}
	return nil
}

// choices reads n. What an answer may cost depends on it, so nothing is let through that an upstream might read otherwise.
func (d *decoding) choices(val jsontext.Value) error {
	if val.Kind() == 'n' {
		return nil
	}
	n, err := strconv.ParseUint(string(val), 10, 8)
	if err != nil || n < 1 || n > mostChoices {
		return hearth.Invalid("n", "n must be an integer from 1 to %d, or null", mostChoices)
	}
	d.chat.Choices = int(n)
	return nil
}

func (d *decoding) userField(val jsontext.Value) error {
	switch val.Kind() {
	case 'n':
		return nil
	case '"':
	default:
		return hearth.Invalid("user", "user must be a string or null")
	}
	user := unquote(val)
	if len(user) > maxUserBytes {
		return hearth.Invalid("user", "user is longer than %d bytes", maxUserBytes)
	}
	d.chat.user = string(user)
	return nil
}

// route reads the old name of provider.sort.partition, which gives way to that field.
func (d *decoding) route(val jsontext.Value) {
	word := ""
	if val.Kind() == '"' {
		word = string(unquote(val))
	}
	switch {
	case val.Kind() == 'n', word == "fallback":
	case word == "sort":
		d.chat.Prefs.AcrossModels = d.chat.Prefs.AcrossModels || !d.split
	default:
		d.note("route ignored: it is neither fallback nor sort")
	}
}

// ignored notes that a key was given which has no meaning here.
func (d *decoding) ignored(own field, val jsontext.Value) {
	if s := string(val); s == "null" || s == "[]" || s == `""` {
		return
	}
	d.note(fmt.Sprintf("%s ignored: it has no meaning here", fieldNames[own-fieldModel]))
}
