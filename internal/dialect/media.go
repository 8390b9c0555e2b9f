package dialect

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// mediaTokens is what sound behind an address, a film or a file counts as: nothing here tells its size.
const mediaTokens = 4096

// mediaKinds is a set of kinds of input other than text.
type mediaKinds uint8

const (
	kindImage mediaKinds = 1 << iota
	kindAudio
	kindVideo
	kindFile
)

// kindNames are the names of every set of kinds.
var kindNames = func() (names [16][]string) {
	for set := range names {
		for i, name := range []string{"image", "audio", "video", "file"} {
			if set&(1<<i) != 0 {
				names[set] = append(names[set], name)
			}
		}
		names[set] = slices.Clip(names[set])
	}
	return names
}()

func (k mediaKinds) names() []string { return kindNames[k] }

// kindOf is the kind of media that a part holds by its type, or under a key of that name.
func kindOf(word []byte) mediaKinds {
	switch string(word) {
	case "image_url", "input_image", "image", "images":
		return kindImage
	case "input_audio", "audio_url", "audio":
		return kindAudio
	case "video_url", "input_video", "video":
		return kindVideo
	case "file", "input_file", "file_url", "file_data":
		return kindFile
	}
	return 0
}

// plainKey says whether the value of a key in a content part is text or a name: it is counted as text, and nobody
// fetches what it names.
func plainKey(key []byte) bool {
	switch string(key) {
	case "text", "refusal", "thinking", "reasoning", "summary", "content", "input", "arguments", "citations", "annotations",
		"title", "name", "id", "tool_use_id", "tool_call_id", "signature", "cache_control", "prompt_cache_breakpoint":
		return true
	}
	return false
}

// place is a list of content parts, or one part of it, for messages.
type place struct {
	message int
	list    string // the list's key in the message
	part    int
}

func (p place) String() string { return fmt.Sprintf("messages[%d].%s[%d]", p.message, p.list, p.part) }

// part reads one content part, and counts it by what it holds.
func (d *decoding) part(at place) error {
	_, _ = d.dec.ReadToken() // PeekKind saw it
	var kinds, sized mediaKinds
	for d.dec.PeekKind() != '}' {
		name, err := d.dec.ReadValue()
		if err != nil {
			return d.syntax(err)
		}
		key := unquote(name)
		// The key's bytes stand in the body and outlive the next read.
		val, err := d.read()
		if err != nil {
			return err
		}
		switch {
		case plainKey(key):
			continue
		case string(key) == "type":
			if val.Kind() == '"' {
				word := unquote(val)
				kinds |= kindOf(word)
				d.thinks = d.thinks || string(word) == "thinking" || string(word) == "redacted_thinking"
			}
			continue
		}
		kind := kindOf(key)
		kinds |= kind
		done, err := d.mediaValue(at, key, kind, val)
		if err != nil {
			return err
		}
		if done {
			sized |= kind
		}
	}
	d.mediaPart(kinds, sized)
	_, err := d.dec.ReadToken()
	return d.orSyntax(err)
}

// mediaPart counts a part that holds media of these kinds; what is sized has been counted already.
func (d *decoding) mediaPart(kinds, sized mediaKinds) {
	d.media |= kinds
	if kinds&kindImage != 0 {
		d.chat.Images++
	}
	for k := kindAudio; k <= kindFile; k <<= 1 {
		if kinds&^sized&k != 0 {
			d.extra(mediaTokens)
		}
	}
}

// mediaValue looks at every string in a value that is not text: addresses are kept or refused, data is left out of the
// text. It says whether all there is has been counted by its size.
func (d *decoding) mediaValue(at place, key []byte, kind mediaKinds, val jsontext.Value) (sized bool, err error) {
	s := source{key: key, name: key, kind: kind}
	if kind == kindAudio {
		sized = true
		s.rate = packedSound
		if bytes.Contains(val, []byte(`"wav"`)) || bytes.Contains(val, []byte(`"pcm16"`)) {
			s.rate = plainSound
		}
	}
	base := int(d.dec.InputOffset()) - len(val)
	for i := 0; i < len(val); i++ {
		if val[i] != '"' {
			continue
		}
		end := stringEnd(val, i)
		if isKey(val[end:]) {
			s.name = unquote(val[i:end])
		} else {
			s.from, s.to = base+i, base+end
			web, err := d.source(at, s)
			if err != nil {
				return false, err
			}
			sized = sized && !web
		}
		i = end - 1
	}
	return sized, nil
}

// isKey says whether what follows a string makes it the key of a member.
func isKey(rest []byte) bool {
	for _, c := range rest {
		if c > ' ' {
			return c == ':'
		}
	}
	return false
}

// source is a string inside of a media value.
type source struct {
	key, name []byte // of the part's member, and of the innermost member the string stands in
	kind      mediaKinds
	rate      int // of sound: bytes a second
	from, to  int // offsets into the body, with the quotes
}

// isURL says whether the string stands where an address must.
func (s *source) isURL() bool {
	switch string(s.name) {
	case "url", "file_url":
		return true
	case "image_url", "audio_url", "video_url":
		return len(s.name) == len(s.key) // the part's own member
	}
	return false
}

// source judges one string of a media value and says whether it is a web address.
func (d *decoding) source(at place, s source) (web bool, err error) {
	if string(s.name) == "filename" {
		return false, nil
	}
	text := d.raw[s.from+1 : s.to-1]
	switch form := formOf(text); {
	case form == webAddress:
		return true, d.web(at, s)
	case form == otherAddress, form != dataAddress && s.isURL():
		return false, hearth.Invalid(s.path(at), "%s must be an http or https address or a data URL", s.path(at))
	case s.kind == kindAudio && (form == dataAddress || string(s.name) == "data"):
		d.sound(s)
	case isData(text), string(s.name) == "file_data":
		d.cut(s)
	}
	return false, nil
}

// path is where the string stands, for messages.
func (s *source) path(at place) string {
	path := at.String() + "." + cleanKey(s.key)
	if string(s.key) != string(s.name) {
		path += "." + cleanKey(s.name)
	}
	return path
}

// cut leaves a string out of the text that is counted.
func (d *decoding) cut(s source) {
	if s.from >= d.from {
		d.text(d.raw[d.from:s.from])
		d.from = s.to
	}
}

// Sound counts by its length, as 32 tokens for a second. A second has at least so many bytes: speech packed as tightly
// as it is sent, and speech in 16 bits.
const (
	soundTokens = 32
	packedSound = 2000
	plainSound  = 16000
)

// sound counts sound that is given as data.
func (d *decoding) sound(s source) {
	if n := s.to - s.from; n >= 256 {
		d.cut(s)
		d.extra(n / 4 * 3 * soundTokens / s.rate)
	}
}
