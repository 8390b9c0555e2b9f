package content

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"myip.co.kr/hearth"
)

// margin is how much more of a text is looked at than is kept, in bytes: a secret that stands where a text is cut is
// recognised by what follows.
const margin = 4 << 10

// overhead is what a draft holds of the memory besides its texts, in bytes.
const overhead = 1 << 10

// Rules say whose contents are kept, and how.
type Rules struct {
	Keys     []string // names or ids of the keys whose contents are kept, none = all
	MaxBytes int      // of a prompt, and of an answer
	Redactor *Redactor
}

// Wants says whether contents of the key are kept. Nil rules want none.
func (r *Rules) Wants(k *hearth.Key) bool {
	if r == nil || k == nil || k.NoContent {
		return false
	}
	for _, name := range r.Keys {
		if name == k.Name || name == k.ID {
			return true
		}
	}
	return len(r.Keys) == 0
}

// Answer is what is kept of an answer. The texts of Completion, Reasoning and Calls are the insides of JSON strings, with their
// escapes.
type Answer struct {
	Completion, Reasoning []byte
	Calls                 []Call
	Cut                   bool   // more came than is kept
	Error                 string // what the caller was told of a failure, plain text
}

// Call is a tool call of an answer.
type Call struct{ Name, Arguments []byte }

// Draft is the content of one request on its way. It is not safe for concurrent use.
type Draft struct {
	log   *Log
	rules *Rules
	id    string
	at    time.Time
	input []byte // the beginning of a JSON array
	cut   bool   // input is not all of it
	held  int64  // bytes of the log's memory
	room  int64  // of them those not used for the answer yet
	left  int    // bytes that the answer may still have
	lost  bool   // there was no memory
	out   Answer
}

// Begin keeps the messages of a request (a valid JSON array, which is copied). Nil = there is no memory for it: it is dropped,
// and counted. Each Draft needs one Offer or Discard.
func (l *Log) Begin(r *Rules, id string, at time.Time, messages []byte) *Draft {
	if l == nil {
		return nil
	}
	limit := r.MaxBytes + margin
	d := &Draft{log: l, rules: r, id: id, at: at, held: overhead + int64(min(len(messages), limit))}
	if !l.take(d.held) {
		l.dropped.Add(1)
		return nil
	}
	d.input, d.cut = appendMessages(make([]byte, 0, min(len(messages), limit)), messages, limit)
	d.Again()
	return d
}

// Again begins the answer anew: what was kept of it is not needed.
func (d *Draft) Again() {
	if d == nil {
		return
	}
	d.left = d.rules.MaxBytes + margin
}

// Room says how many of n further bytes of the answer are kept.
func (d *Draft) Room(n int) int {
	n = min(n, d.left)
	if d.lost || n <= 0 {
		return 0
	}
	if int64(n) > d.room {
		const step = 4 << 10
		more := (int64(n) - d.room + step - 1) / step * step
		if !d.log.take(more) {
			d.lost = true
			return 0
		}
		d.held, d.room = d.held+more, d.room+more
	}
	d.room -= int64(n)
	d.left -= n
	return n
}

// Offer hands the draft over to be written. a must not be changed any more.
func (d *Draft) Offer(a Answer) {
	if d == nil {
		return
	}
	if d.lost {
		d.log.dropped.Add(1)
		d.Discard()
		return
	}
	d.out = a
	d.log.add(d)
}

// Discard gives up what was kept. It may be called again.
func (d *Draft) Discard() {
	if d == nil {
		return
	}
	d.log.held.Add(-d.held)
	d.held, d.room, d.input, d.out = 0, 0, nil, Answer{}
	d.lost = true
}

// Strings of this many bytes are looked at: they may be data of an image or a sound, which is not kept.
const longString = 512

// appendMessages copies the beginning of a valid JSON text, limit bytes at most. Data of media in it are left out. cut: it is
// not all of it.
func appendMessages(dst, raw []byte, limit int) (_ []byte, cut bool) {
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '"')
		if i < 0 {
			i = len(raw)
		}
		if dst, cut = appendSome(dst, raw[:i], limit); cut {
			return dst, true
		}
		if raw = raw[i:]; len(raw) == 0 {
			break
		}
		end := stringEnd(raw)
		text := raw[:end]
		if len(text) > longString {
			text = withoutData(text)
		}
		if dst, cut = appendSome(dst, text, limit); cut {
			return dst, true
		}
		raw = raw[end:]
	}
	return dst, false
}

func appendSome(dst, b []byte, limit int) (_ []byte, cut bool) {
	if n := limit - len(dst); len(b) > n {
		return append(dst, b[:n]...), true
	}
	return append(dst, b...), false
}

// stringEnd is where the JSON string at the start of b ends.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		end := i + n
		slashes := 0
		for b[end-1-slashes] == '\\' { // the opening quote is none
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return len(b)
}

// withoutData puts a note in the place of a long JSON string that holds data of media: a data URL, or base64.
func withoutData(s []byte) []byte {
	const most = 128
	kind, data := "", s[1:len(s)-1]
	if rest, ok := bytes.CutPrefix(data, []byte("data:")); ok {
		i := bytes.Index(rest[:min(len(rest), most)], []byte(";base64,"))
		if i < 0 {
			return s
		}
		kind, data = string(rest[:i]), rest[i+len(";base64,"):]
	}
	for _, c := range data {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '=' || c == '-' || c == '_') {
			return s
		}
	}
	kind = strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("/+.;=-", c) {
			return c
		}
		return -1
	}, kind)
	if kind != "" {
		kind += ", "
	}
	return []byte(`"[` + kind + strconv.Itoa(len(data)) + ` bytes of base64, not kept]"`)
}
