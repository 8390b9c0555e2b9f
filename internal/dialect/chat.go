// Package dialect knows what stands in the bodies of the chat completions API, on the caller's side and on the
// upstream's: it reads what the gateway must know, replaces what the gateway owns and leaves every other byte as
// it was.
package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth"
)

// Bounds on what a request may hold.
const (
	maxDepth      = 1000 // nested arrays and objects
	maxTopKeys    = 512  // keys of the body
	maxKeyBytes   = 256  // of one such key
	maxModels     = 64   // models[]
	maxModelBytes = 256  // of one model id
	maxNames      = 64   // of provider.only, .ignore, .order
	maxUserBytes  = 4096
	maxNotes      = 16
	mostChoices   = 128 // n, as in the API of OpenAI
	maxTools      = 256 // names of tools that are kept
)

// Chat is a decoded chat request. It keeps the body it was made from, which must not be changed while the Chat is
// in use.
type Chat struct {
	hearth.Request

	// ToolNames are the names of the functions that the request offers; none = not known, or too many to keep.
	ToolNames []string
	// RunningUsage and Timings: the caller wants to be told with each chunk what has been used so far, in vLLM's way
	// (stream_options.continuous_usage_stats) or llama-server's (timings_per_token).
	RunningUsage, Timings bool

	raw     []byte
	members []member
	inline  [24]member
	one     [1]string
	user    string
	media   []address

	thoughts []thoughts // lists of the history that may have sealed parts
	sealed   []sealed   // their sealed parts, once Seals was called

	session, cacheKey string // as the caller names its conversation
	opening           [2]uint32
}

// member is one key of the body with its value, by byte offsets into the body.
type member struct {
	key, keyEnd uint32 // with the quotes
	val, valEnd uint32
	own         field
}

// field says which of the keys the gateway looks at a member is.
type field uint8

const (
	fieldOther field = iota
	fieldModel
	fieldStream
	fieldStreamOptions
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMessages
	fieldUser
	// The rest of the owned keys is never forwarded.
	fieldModels
	fieldRoute
	fieldProvider
	fieldPlugins
	fieldTransforms
	fieldPreset
	fieldUsage
	fieldSessionID
	fieldTrace
	fieldMetadata
	fieldDebug
	// Looked at, not owned.
	fieldTools
	fieldFunctions
	fieldCounted
	fieldChoices
)

// fieldNames are the keys that the gateway owns or looks at, in the order of their constants: a variant in another case
// is refused, for an upstream that ignores case would read it.
var fieldNames = [...]string{
	"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "messages", "user", "models", "route",
	"provider", "plugins", "transforms", "preset", "usage", "session_id", "trace", "metadata", "debug",
	"tools", "functions", "response_format", "n",
}

// furtherKeys are the keys of the chat completions API that are neither in fieldNames nor parameters.
var furtherKeys = [...]string{
	"audio", "cache_control", "function_call", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "store",
}

// knownKey is what is known of a key of the chat completions API.
type knownKey struct {
	own   field
	param hearth.Params
}

var knownKeys = func() map[string]knownKey {
	known := map[string]knownKey{}
	for _, name := range furtherKeys {
		known[name] = knownKey{}
	}
	for _, name := range hearth.ParamNames() {
		known[name] = knownKey{param: hearth.ParamOf(name)}
	}
	for i, name := range fieldNames {
		k := known[name]
		k.own = fieldModel + field(i)
		known[name] = k
	}
	known["tools"] = knownKey{own: fieldTools} // an empty list asks for nothing
	return known
}()

// neverForwarded says whether the member stays in the house.
func (f field) neverForwarded() bool { return f >= fieldModels && f <= fieldDebug }

// decoding is one run of DecodeChat.
type decoding struct {
	dec      *jsontext.Decoder
	src      bytes.Buffer
	raw      []byte
	chat     *Chat
	count    func([]byte) int
	tokens   int
	bytes    int // of the text that was counted
	from     int // where the text begins that has not been counted, inside of a counted member
	seen     [fieldChoices + 1]bool
	models   []string
	media    mediaKinds
	urls     [][]byte // the web addresses of media that were seen, each once, as they are written
	split    bool     // provider.sort.partition was given
	nameless bool     // a tool has no name that is known, or there are too many
	thinks   bool     // the list of parts that is read has a thinking one
	said     bool     // a message is neither system nor developer
	// routing: only where the request would go is asked for.
	routing bool
}

var decoders = sync.Pool{New: func() any { return &decoding{dec: jsontext.NewDecoder(strings.NewReader(""))} }}

// DecodeChat reads the body of a chat request. count gives a generous number of tokens for raw JSON text. Every
// error is a *hearth.Error of type invalid_request or unsupported that names the field; it never repeats content.
func DecodeChat(raw []byte, count func([]byte) int) (*Chat, error) { return decode(raw, count, false) }

// DecodeRouting reads a body only to see where it would go: the messages may be missing, and are then taken to be empty.
func DecodeRouting(raw []byte, count func([]byte) int) (*Chat, error) {
	return decode(raw, count, true)
}

func decode(raw []byte, count func([]byte) int, routing bool) (*Chat, error) {
	if len(raw) > math.MaxInt32 {
		return nil, hearth.Errorf(hearth.ErrPayloadTooLarge, "the body is too large")
	}
	c := &Chat{raw: raw}
	c.members = c.inline[:0]
	d := decoders.Get().(*decoding)
	d.src = *bytes.NewBuffer(raw)
	d.dec.Reset(&d.src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	d.raw, d.chat, d.count, d.routing = raw, c, count, routing
	err := d.body()
	dec := d.dec
	*d = decoding{dec: dec} // the pool must not hold the body
	d.dec.Reset(&d.src)
	decoders.Put(d)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *decoding) body() error {
	switch d.dec.PeekKind() {
	case '{':
	case 'n', 't', 'f', '"', '0', '[':
		return hearth.Invalid("", "the body must be a JSON object")
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	for d.dec.PeekKind() != '}' {
		if err := d.member(); err != nil {
			return err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	end := d.dec.InputOffset()
	switch _, err := d.dec.ReadToken(); {
	case err == nil:
		return hearth.Invalid("", "the body goes on after its JSON object ended at byte %d", end)
	case !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return d.syntax(err)
	}
	return d.finish()
}

// finish checks what only the whole body can tell.
func (d *decoding) finish() error {
	c := d.chat
	if !d.seen[fieldMessages] {
		if !d.routing {
			return hearth.Invalid("messages", "messages is required")
		}
		d.note("messages is missing: the prompt is taken to be empty")
	}
	if len(d.models) > 0 {
		if len(c.Models) > 0 {
			d.note("model ignored: models is given")
		}
		c.Models, c.FromList = d.models, true
	}
	// What chat templates put around the conversation: a system text of their own, markers, the way to call tools.
	d.extra(32)
	if d.nameless {
		c.ToolNames = nil
	}
	if c.Tools {
		c.Params |= hearth.ParamTools
		d.extra(256)
	}
	c.Estimate, c.Bytes = d.tokens, d.bytes
	c.Media, c.Request.MediaURLs = d.media.names(), len(c.media)
	return nil
}

// text counts a piece of the body that is text for the model.
func (d *decoding) text(raw []byte) {
	d.tokens += d.count(raw)
	d.bytes += len(raw)
}

// extra counts tokens that do not stand in the body as text.
func (d *decoding) extra(n int) {
	d.tokens += n
	d.bytes += n
}

// member reads one key of the body and its value.
func (d *decoding) member() error {
	c := d.chat
	name, err := d.dec.ReadValue()
	if err != nil {
		return d.syntax(err)
	}
	end := int(d.dec.InputOffset())
	m := member{key: uint32(end - len(name)), keyEnd: uint32(end)}
	key := unquote(name)
	known, ok := knownKeys[string(key)]
	m.own = known.own
	if err := d.checkKey(key, m.own, ok); err != nil {
		return err
	}
	if err := d.field(&m); err != nil {
		return err
	}
	if c.raw[m.val] != 'n' {
		c.Params |= known.param
	}
	if m.own == fieldOther {
		switch {
		case c.raw[m.val] == 't' && string(key) == timingsKey:
			c.Timings = true
		case string(key) == cacheKeyName:
			c.cacheKey, _ = sessionName(c.raw[m.val:m.valEnd])
		}
	}
	c.members = append(c.members, m)
	return nil
}

// checkKey refuses keys that are too many, too long, given twice, or owned keys in another case.
func (d *decoding) checkKey(key []byte, own field, known bool) error {
	c := d.chat
	switch {
	case len(c.members) == maxTopKeys:
		return hearth.Invalid("", "the body has more than %d keys", maxTopKeys)
	case len(key) > maxKeyBytes:
		return hearth.Invalid("", "the body has a key of more than %d bytes", maxKeyBytes)
	}
	if own != fieldOther {
		if d.seen[own] {
			return twice(key)
		}
		d.seen[own] = true
		return nil
	}
	if !known {
		if of := caseVariant(key); of != "" {
			return hearth.Invalid(cleanKey(key), "%s is not a field of this API; write %q", cleanKey(key), of)
		}
	}
	for i := range c.members {
		if m := &c.members[i]; m.own == own && bytes.Equal(c.key(m), key) {
			return twice(key)
		}
	}
	return nil
}

func twice(key []byte) error {
	return hearth.Invalid(cleanKey(key), "%s stands more than once in the body", cleanKey(key))
}

// User is the user field of the request, "" if it has none.
func (c *Chat) User() string { return c.user }

// Messages is the messages of the request as they stand in its body; nil = it has none.
func (c *Chat) Messages() []byte {
	for i := range c.members {
		if m := &c.members[i]; m.own == fieldMessages {
			return c.raw[m.val:m.valEnd]
		}
	}
	return nil
}

// key is a member's key without quotes and escapes.
func (c *Chat) key(m *member) []byte { return unquote(c.raw[m.key:m.keyEnd]) }

// unquote is the text of a JSON string; it allocates only when the string has escapes.
func unquote(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	u, _ := jsontext.AppendUnquote(nil, s) // the only error left is invalid UTF-8, which is replaced
	return u
}

// cleanKey makes a key fit for a message.
func cleanKey(key []byte) string {
	const limit = 64
	if len(key) > limit {
		key = key[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r > 0x7e {
			return '?'
		}
		return r
	}, string(key))
}

// note keeps a remark for the caller. It may go into a header: texts are ours, never the caller's.
func (d *decoding) note(text string) {
	c := d.chat
	if len(c.Notes) < maxNotes {
		c.Notes = append(c.Notes, text)
	}
}

// syntax turns the decoder's error into ours.
func (d *decoding) syntax(err error) error {
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if strings.Contains(syn.Error(), "max depth") {
			return tooDeep()
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return hearth.Invalid("", "the body is not complete JSON: it ends at byte %d", len(d.raw))
		}
		return hearth.Invalid("", "the body is not valid JSON at byte %d", syn.ByteOffset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return hearth.Invalid("", "the body is not complete JSON: it ends at byte %d", len(d.raw))
	}
	return &hearth.Error{Type: hearth.ErrInvalidRequest, Message: "the body is not valid JSON", Err: fmt.Errorf("read body: %w", err)}
}

func tooDeep() error {
	return hearth.Invalid("", "the body nests more than %d levels deep", maxDepth)
}
