package dialect

import (
	"cmp"
	"unicode/utf8"
)

// cacheKeyName is OpenAI's name for what keeps requests with a common prompt together. It is forwarded.
const cacheKeyName = "prompt_cache_key"

// maxSession bounds the name of a session, in characters.
const maxSession = 256

// sessionName is a session's name in the body, "" = none; ok is false for what is none.
func sessionName(val []byte) (name string, ok bool) {
	switch {
	case val[0] == 'n':
		return "", true
	case val[0] != '"' || len(val) > 12*maxSession+2: // a character may be written as two escapes
		return "", false
	}
	text := unquote(val)
	if utf8.RuneCount(text) > maxSession {
		return "", false
	}
	return string(text), true
}

// Session is the caller's name for the conversation that the request belongs to, "" = it has none: session_id, else what
// the X-Session-Id header says, else prompt_cache_key.
func (c *Chat) Session(header string) string {
	if utf8.RuneCountInString(header) > maxSession {
		header = ""
	}
	return cmp.Or(c.session, header, c.cacheKey)
}

// Opening is how the conversation begins, as it stands in the body: up to the end of the first message that is neither
// system nor developer. Requests of one conversation have it in common; nil = there is no such message.
func (c *Chat) Opening() []byte { return c.raw[c.opening[0]:c.opening[1]] }
