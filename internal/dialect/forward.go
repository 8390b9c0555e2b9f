package dialect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

// Target says how one upstream wants the request.
type Target struct {
	Model        string // what the upstream calls the model
	StreamUsage  bool   // the upstream reports usage in streams when it is asked to
	MaxTokensKey string // the one key for the output cap that it knows; "" = either is fine
	MaxTokens    int    // > 0: no larger output cap goes out; a body without one gets this one
	UserSalt     []byte // user goes out hashed with it; without a salt it does not go out at all

	// Drop are further keys of the body that it must not get, in any case of letters; "a.b" is key b in the object a.
	Drop []string
	// Allow lets through only the keys of the chat completions API.
	Allow bool
	// Media replaces the web addresses of media by data URLs; an address without an entry stays.
	Media map[string]string
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
	model, options := false, false
	for i := range c.members {
		m := &c.members[i]
		if m.own.neverForwarded() || len(t.Drop) > 0 && m.own != fieldModel && slices.Contains(t.Drop, string(c.key(m))) {
			continue
		}
		switch m.own {
		case fieldModel:
			model = true
			dst = appendModel(dst, t.Model)
		case fieldStreamOptions:
			if !c.Stream || !t.StreamUsage {
				continue
			}
			options = true
			dst = c.appendStreamOptions(dst, m)
		case fieldUser:
			if c.user == "" || len(t.UserSalt) == 0 {
				continue
			}
			dst = appendUser(dst, t.UserSalt, c.user)
		case fieldMaxTokens, fieldMaxCompletionTokens:
			if t.MaxTokensKey == "" {
				dst = append(dst, c.raw[m.key:m.valEnd]...)
				break
			}
			if m != limit {
				continue
			}
			dst = appendQuoted(dst, t.MaxTokensKey)
			dst = append(dst, ':')
			dst = append(dst, c.raw[m.val:m.valEnd]...)
		default:
			dst = append(dst, c.raw[m.key:m.valEnd]...)
		}
		dst = append(dst, ',')
	}
	if !model {
		dst = append(appendModel(dst, t.Model), ',')
	}
	if c.Stream && t.StreamUsage && !options {
		dst = append(dst, `"stream_options":{"include_usage":true},`...)
	}
	dst[len(dst)-1] = '}'
	return dst
}

// outputCap is the member that gives the output cap: of two the one that is already named as the upstream wants
// it, unless that one is null.
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
		case c.raw[m.val] != 'n' && string(c.key(m)) == key:
			best = m
		}
	}
	return best
}

func appendModel(dst []byte, model string) []byte {
	return appendQuoted(append(dst, `"model":`...), model)
}

// appendStreamOptions keeps what the caller gave and asks for usage.
func (c *Chat) appendStreamOptions(dst []byte, m *member) []byte {
	dst = append(dst, `"stream_options":{`...)
	done := false
	if s := (scan{b: c.raw[m.val:m.valEnd]}); s.kind() == '{' {
		s.open()
		for key, ok := s.key(); ok; key, ok = s.key() {
			val := s.value()
			if string(unquote(key)) != "include_usage" {
				dst = append(append(append(append(dst, key...), ':'), val...), ',')
			} else if !done {
				done = true
				dst = append(dst, `"include_usage":true,`...)
			}
		}
	}
	if !done {
		dst = append(dst, `"include_usage":true,`...)
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
