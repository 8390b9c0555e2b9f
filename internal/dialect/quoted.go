package dialect

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// quotedRun is from how many bytes of letters and digits on a text that stands in a request counts as quoted from it: two or
	// three words of English, four syllables of Korean.
	quotedRun = 12
	// quotedWhole is the same for all of a message's text, if it is shorter than that.
	quotedWhole = 6
	// quotedLimit is how much of a request is looked through, in bytes; data of images and sound do not count.
	quotedLimit = 4 << 20
	// quotedMark stands for what was quoted.
	quotedMark = "[prompt]"
	// longMedia is from how many bytes on a string may be the data of an image or a sound.
	longMedia = 512
)

// WithoutPrompt takes out of an upstream's words what they repeat of the request, however it was escaped on the way. ok is
// false if the request is too large to be looked through. It is for the path of failures: it takes some milliseconds for each
// megabyte of the request.
func (c *Chat) WithoutPrompt(text string) (_ string, ok bool) {
	q := newQuotes(text)
	left := quotedLimit
	for i := range c.members {
		m := &c.members[i]
		switch string(c.key(m)) {
		case "model", "models", "provider": // the names of models and providers are no secret
			continue
		}
		if left = q.search(c.raw[m.val:m.valEnd], left); left < 0 {
			return "", false
		}
	}
	return q.masked(), true
}

// quotes is a text that is looked through for quotations.
type quotes struct {
	source string
	text   []byte          // folded
	at     [][2]int32      // where each byte of text stands in source
	hidden []bool          // which bytes of text were found in the request
	runs   map[uint64]bool // the hashes of all runs of text; true = found
	likely [1 << 10]uint64 // a bit for each hash, by its upper bits: most runs of a request are told to be none by it
	folded []byte
}

// Hashes of runs are polynomials modulo 2⁶⁴: hashBase for one more byte, hashFirst for the first of a run.
const hashBase uint64 = 0x9E3779B97F4A7C15

var hashFirst = func() uint64 {
	p := uint64(1)
	for range quotedRun - 1 {
		p *= hashBase
	}
	return p
}()

func newQuotes(text string) *quotes {
	q := &quotes{source: text, runs: make(map[uint64]bool, len(text))}
	q.text = fold(nil, []byte(text), &q.at)
	q.hidden = make([]bool, len(q.text))
	rolling(q.text, func(_ int, h uint64) {
		q.runs[h] = false
		q.likely[h>>54] |= 1 << (h >> 48 & 63)
	})
	return q
}

// rolling calls do with the start and the hash of each run of quotedRun bytes.
func rolling(b []byte, do func(from int, h uint64)) {
	h := uint64(0)
	for i, c := range b {
		if i >= quotedRun {
			h -= uint64(b[i-quotedRun]) * hashFirst
		}
		h = h*hashBase + uint64(c)
		if i >= quotedRun-1 {
			do(i-quotedRun+1, h)
		}
	}
}

// search looks through the strings of a valid JSON text for what the words quote, up to left bytes of them; it returns what
// is left, negative if that was not enough.
func (q *quotes) search(raw []byte, left int) int {
	var key []byte
	for {
		i := bytes.IndexByte(raw, '"')
		if i < 0 {
			return left
		}
		end := stringEnd(raw, i)
		s, rest := raw[i+1:end-1], bytes.TrimLeft(raw[end:], " \t\r\n")
		raw = raw[end:]
		switch {
		case len(rest) > 0 && rest[0] == ':':
			key = s
		case structural[string(key)], len(s) >= longMedia && holdsMedia(s):
		default:
			if left -= len(s); left < 0 {
				return left
			}
			q.folded = fold(q.folded[:0], s, nil)
			q.find(q.folded, string(key) == "content" || string(key) == "text")
		}
	}
}

// structural are the keys of strings that are no part of a prompt.
var structural = map[string]bool{"role": true, "type": true, "name": true, "id": true, "tool_call_id": true, "format": true, "detail": true}

// find marks what the words have in common with a folded string of the request. whole: it is a message's text.
func (q *quotes) find(s []byte, whole bool) {
	if len(s) < quotedRun {
		for from := 0; whole && len(s) >= quotedWhole; from++ {
			i := bytes.Index(q.text[from:], s)
			if i < 0 {
				return
			}
			from += i
			q.hide(from, len(s))
		}
		return
	}
	h := uint64(0)
	for _, c := range s[:quotedRun-1] {
		h = h*hashBase + uint64(c)
	}
	for i, c := range s[quotedRun-1:] {
		h = h*hashBase + uint64(c)
		if q.likely[h>>54]&(1<<(h>>48&63)) != 0 {
			if _, ok := q.runs[h]; ok {
				q.runs[h] = true
			}
		}
		h -= uint64(s[i]) * hashFirst
	}
}

func (q *quotes) hide(from, n int) {
	for i := range n {
		q.hidden[from+i] = true
	}
}

// masked is the text with a mark for each quotation.
func (q *quotes) masked() string {
	rolling(q.text, func(from int, h uint64) {
		if q.runs[h] {
			q.hide(from, quotedRun)
		}
	})
	var out strings.Builder
	done := 0
	for i := 0; i < len(q.hidden); i++ {
		if !q.hidden[i] {
			continue
		}
		out.WriteString(q.source[done:q.at[i][0]])
		out.WriteString(quotedMark)
		for i+1 < len(q.hidden) && q.hidden[i+1] {
			i++
		}
		done = int(q.at[i][1])
	}
	return strings.ToValidUTF8(out.String()+q.source[done:], "") // a run may begin in the middle of a character
}

// holdsMedia says whether the inside of a JSON string is a data URL, or base64.
func holdsMedia(s []byte) bool {
	const head = 128
	if i := bytes.Index(s[:head], []byte(";base64,")); i >= 0 && bytes.HasPrefix(s, []byte("data:")) {
		return true
	}
	for _, c := range s {
		if !alphanumeric(c) && strings.IndexByte("+/=-_", c) < 0 {
			return false
		}
	}
	return true
}

// fold appends the letters and digits of a text, in lower case and without any escapes: what quoting it in JSON, or in a
// message of Python's, any number of times, does not change. at, if it is not nil, gets the place of each byte. The line
// breaks of a text without escapes stay, as bytes that no request has.
func fold(dst, s []byte, at *[][2]int32) []byte {
	dst = slices.Grow(dst, len(s))
	for i := 0; i < len(s); {
		for at == nil && i < len(s) && s[i] != '\\' { // most of a request
			if c := folds[s[i]]; c != 0 {
				dst = append(dst, c)
			}
			i++
		}
		if i == len(s) {
			break
		}
		c, n, before := s[i], 1, len(dst)
		switch {
		case c == '\\':
			for i+n < len(s) && s[i+n] == '\\' {
				n++
			}
			var more int
			dst, more = appendEscaped(dst, s[i+n:])
			n += more
		case folds[c] != 0:
			dst = append(dst, folds[c])
		case c == '\n':
			dst = append(dst, 0)
		}
		if at != nil {
			for range len(dst) - before {
				*at = append(*at, [2]int32{int32(i), int32(i + n)})
			}
		}
		i += n
	}
	return dst
}

// folds is what becomes of a byte that is no escape; 0 = it is left out.
var folds = func() (t [256]byte) {
	for i := range t {
		switch c := byte(i); {
		case c >= utf8.RuneSelf:
			t[c] = c
		case alphanumeric(c):
			t[c] = c | 0x20
		}
	}
	return t
}()

// appendEscaped appends what the escape means whose backslashes stand before s, and says how much of s belongs to it.
func appendEscaped(dst, s []byte) ([]byte, int) {
	if len(s) == 0 {
		return dst, 0
	}
	digits := 0
	switch s[0] {
	case 'n', 'r', 't', 'b', 'f':
		return dst, 1
	case 'u':
		digits = 4
	case 'x':
		digits = 2
	}
	if digits == 0 || len(s) <= digits {
		return dst, 0
	}
	n, err := strconv.ParseUint(string(s[1:1+digits]), 16, 32)
	switch {
	case err != nil:
		return dst, 0
	case n >= utf8.RuneSelf && digits == 2: // a byte of a character
		dst = append(dst, byte(n))
	case n >= utf8.RuneSelf && !(n >= 0xd800 && n < 0xe000):
		dst = utf8.AppendRune(dst, rune(n))
	case n < utf8.RuneSelf && folds[n] != 0:
		dst = append(dst, folds[n])
	}
	return dst, 1 + digits
}
