package dialect

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Target says how one upstream wants the request.
type Target struct {
	Model       string // what the upstream calls the model
	StreamUsage bool   // the upstream reports usage in streams when it is asked to
	// Running is how the engine is asked, beside StreamUsage, to tell with each chunk what has been used so far.
	Running      hearth.Running
	MaxTokensKey string // the one key for the output cap that it knows; "" = either is fine
	MaxTokens    int    // > 0: no larger output cap goes out, under any name; a body without one gets this one
	UserSalt     []byte // user goes out hashed with it; without a salt it does not go out at all

	// Drop are further keys of the body that it must not get, in any case of letters; "a.b" is key b in the object a, and
	// an a that is no object is left out whole.
	Drop []string
	// Allow lets through only the keys of the chat completions API.
	Allow bool
	// Media replaces the web addresses of media by data URLs; an address without an entry stays.
	Media map[string]string
	// Foreign says of the sealed parts of the history, in the order of [Chat.Seals], which the upstream cannot use: it does not
	// get them. nil = it gets them all.
	Foreign func(part int) bool
	// Provider, for an upstream that takes OpenRouter's provider object: what it understands of the caller's conditions.
	Provider *hearth.Preferences
	// Rate is what one US dollar on the upstream's price list costs the caller, in the billing currency, margin
	// included; the caller's price bounds are divided by it. They stay in the house if it is not positive.
	Rate decimal.Decimal
}

// AppendForward appends the request body for one upstream: the model replaced, the keys that stay in the house
// left out, every other member byte for byte and in its place.
func (c *Chat) AppendForward(dst []byte, t Target) []byte {
	dst = slices.Grow(dst, len(c.raw)+len(t.Model)+64)
	dst = append(dst, '{')
	limit := c.outputCap(t.MaxTokensKey)
	model, options, timings := false, false, c.Stream && t.StreamUsage && t.Running == hearth.RunningTimings
	for i := range c.members {
		m := &c.members[i]
		if m.own.neverForwarded() || c.dropped(m, &t) {
			continue
		}
		from := len(dst)
		switch m.own {
		case fieldModel:
			model = true
			dst = appendModel(dst, t.Model)
		case fieldMessages:
			dst = c.appendMessages(dst, m, &t)
		case fieldStreamOptions:
			if c.Stream && t.StreamUsage {
				options = true
				dst = c.appendStreamOptions(dst, m, t.Running)
			}
		case fieldUser:
			if c.user != "" && len(t.UserSalt) > 0 {
				dst = appendUser(dst, t.UserSalt, c.user)
			}
		case fieldMaxTokens, fieldMaxCompletionTokens:
			dst = c.appendCap(dst, m, limit, &t)
		case fieldOther:
			if !timings || string(c.key(m)) != timingsKey {
				dst = c.appendOther(dst, m, &t)
			}
		default:
			dst = append(dst, c.raw[m.key:m.valEnd]...)
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
	}
	if !model {
		dst = append(appendModel(dst, t.Model), ',')
	}
	if t.MaxTokens > 0 && (limit == nil || c.raw[limit.val] == 'n') {
		dst = append(appendCount(dst, cmp.Or(t.MaxTokensKey, "max_tokens"), t.MaxTokens), ',')
	}
	if c.Stream && t.StreamUsage && !options {
		dst = append(c.appendStreamOptions(dst, nil, t.Running), ',')
	}
	if timings {
		dst = append(dst, `"`+timingsKey+`":true,`...)
	}
	if t.Provider != nil {
		dst = appendProvider(dst, t.Provider, t.Rate)
	}
	dst[len(dst)-1] = '}'
	return dst
}

// dropped says whether the target must not get a member at all.
func (c *Chat) dropped(m *member, t *Target) bool {
	if len(t.Drop) == 0 && !t.Allow {
		return false
	}
	switch m.own {
	case fieldModel, fieldMessages, fieldStream:
		return false
	}
	key := c.key(m)
	if _, known := knownKeys[string(key)]; t.Allow && !known {
		return true
	}
	return slices.ContainsFunc(t.Drop, func(path string) bool {
		name, _, nested := strings.Cut(path, ".")
		return (!nested || c.raw[m.val] != '{') && bytes.EqualFold(key, []byte(name))
	})
}

// outputCap is the member that gives the output cap: of two the one that is already named as the upstream wants it, else
// max_completion_tokens, unless that one is null.
func (c *Chat) outputCap(key string) *member {
	var best *member
	for i := range c.members {
		m := &c.members[i]
		if m.own != fieldMaxTokens && m.own != fieldMaxCompletionTokens {
			continue
		}
		switch {
		case best == nil, c.raw[best.val] == 'n':
			best = m
		case c.raw[m.val] == 'n':
		case key == "" && m.own == fieldMaxCompletionTokens, string(c.key(m)) == key:
			best = m
		}
	}
	return best
}

// appendCap writes one of the two members for the output cap, if it is to go out; limit is the one that counts.
func (c *Chat) appendCap(dst []byte, m, limit *member, t *Target) []byte {
	if m != limit && t.MaxTokensKey != "" || t.MaxTokens > 0 && c.raw[m.val] == 'n' {
		return dst
	}
	if t.MaxTokens > 0 && exceeds(c.raw[m.val:m.valEnd], t.MaxTokens) {
		if m != limit {
			return dst
		}
		return appendCount(dst, cmp.Or(t.MaxTokensKey, string(c.key(m))), t.MaxTokens)
	}
	if t.MaxTokensKey == "" {
		return append(dst, c.raw[m.key:m.valEnd]...)
	}
	dst = append(appendQuoted(dst, t.MaxTokensKey), ':')
	return append(dst, c.raw[m.val:m.valEnd]...)
}

// exceeds says whether a value is anything but a whole number from 1 to most: to some upstreams 0 is no cap.
func exceeds(val []byte, most int) bool {
	n, err := strconv.ParseUint(string(val), 10, 64)
	return err != nil || n == 0 || n > uint64(most)
}

// isCap says whether a key is another engine's name for the output cap: of llama-server, Ollama, Hugging Face, or OpenAI's
// newer API. Some engines heed it before max_tokens.
func isCap(key []byte) bool {
	switch {
	case bytes.EqualFold(key, []byte("n_predict")), bytes.EqualFold(key, []byte("num_predict")),
		bytes.EqualFold(key, []byte("max_new_tokens")), bytes.EqualFold(key, []byte("max_output_tokens")):
		return true
	}
	return false
}

func appendCount(dst []byte, key string, n int) []byte {
	return strconv.AppendInt(append(appendQuoted(dst, key), ':'), int64(n), 10)
}

// appendOther writes a member that the gateway has no part in, but for what the target must not get inside of it: the
// paths of Drop and, under any name or in the options of an engine's own API, an output cap larger than the target's.
func (c *Chat) appendOther(dst []byte, m *member, t *Target) []byte {
	if t.MaxTokens > 0 && isCap(c.key(m)) && exceeds(c.raw[m.val:m.valEnd], t.MaxTokens) {
		return appendCount(dst, string(c.key(m)), t.MaxTokens)
	}
	if len(t.Drop) == 0 && t.MaxTokens == 0 || c.raw[m.val] != '{' {
		return append(dst, c.raw[m.key:m.valEnd]...)
	}
	key := c.key(m)
	capped := t.MaxTokens > 0 && bytes.EqualFold(key, []byte("options"))
	if !capped && !slices.ContainsFunc(t.Drop, func(path string) bool { return isPath(path, key, nil) }) {
		return append(dst, c.raw[m.key:m.valEnd]...)
	}
	from := len(dst)
	dst = append(dst, c.raw[m.key:m.val]...)
	dst = append(dst, '{')
	first, changed := len(dst), false
	s := scan{b: c.raw[m.val:m.valEnd]}
	s.open()
	for at := s.i; ; at = s.i {
		quoted, ok := s.key()
		if !ok {
			break
		}
		val, inner := s.value(), unquote(quoted)
		switch {
		case slices.ContainsFunc(t.Drop, func(path string) bool { return isPath(path, key, inner) }):
			changed = true
			continue
		case capped && bytes.EqualFold(inner, []byte("num_predict")) && exceeds(val, t.MaxTokens):
			changed = true
			dst = appendCount(dst, string(inner), t.MaxTokens)
		default:
			at += bytes.IndexByte(s.b[at:], '"') // white space and a comma stand before the key
			dst = append(dst, s.b[at:s.i]...)
		}
		dst = append(dst, ',')
	}
	if !changed {
		return append(dst[:from], c.raw[m.key:m.valEnd]...)
	}
	if len(dst) > first {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}

// isPath says whether path is the key inner in the object outer, in any case of letters; a nil inner is any key.
func isPath(path string, outer, inner []byte) bool {
	a, b, nested := strings.Cut(path, ".")
	return nested && bytes.EqualFold(outer, []byte(a)) && (inner == nil || bytes.EqualFold(inner, []byte(b)))
}

func appendModel(dst []byte, model string) []byte {
	return appendQuoted(append(dst, `"model":`...), model)
}

// appendStreamOptions keeps what the caller gave, if anything, and asks for usage.
func (c *Chat) appendStreamOptions(dst []byte, m *member, running hearth.Running) []byte {
	dst = append(dst, `"stream_options":{`...)
	done := false
	var s scan
	if m != nil {
		s.b = c.raw[m.val:m.valEnd]
	}
	if s.kind() == '{' {
		s.open()
		for key, ok := s.key(); ok; key, ok = s.key() {
			val := s.value()
			switch word := string(unquote(key)); {
			case word == "include_usage" && !done:
				done = true
				dst = append(dst, `"include_usage":true,`...)
			case word == "include_usage", word == continuousKey && running == hearth.RunningUsage:
			default:
				dst = append(append(append(append(dst, key...), ':'), val...), ',')
			}
		}
	}
	if !done {
		dst = append(dst, `"include_usage":true,`...)
	}
	if running == hearth.RunningUsage {
		dst = append(dst, `"`+continuousKey+`":true,`...)
	}
	dst[len(dst)-1] = '}'
	return dst
}

// appendUser writes a name for the user that is stable in this installation and says nothing to anybody else.
func appendUser(dst, salt []byte, user string) []byte {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(user))
	dst = append(dst, `"user":"`...)
	dst = hex.AppendEncode(dst, mac.Sum(nil)[:16])
	return append(dst, '"')
}
