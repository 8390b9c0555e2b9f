package dialect

import (
	"bytes"
	"errors"
	"strconv"

	"myip.co.kr/hearth"
)

var (
	errMalformed = errors.New("upstream sent malformed JSON")
	errNoObject  = errors.New("upstream sent JSON that is not an object")
)

// maxChoices bounds what an upstream can make of a few bytes: an empty choice grows to a hundred and more.
const maxChoices = 128

// rewriter turns an upstream's chunk or answer into ours, in one pass: it writes each member behind a comma.
type rewriter struct {
	scan
	stamp       *Stamp
	fact        Chunk
	chunk       bool // what is written is a chunk of a stream, else a whole answer
	whole       bool // what is read is a whole answer
	choices     int  // passed on
	created     bool
	fingerprint bool
	failed      bool // the text calls itself an error

	spare  hearth.Usage // counts found elsewhere than in the usage object
	timed  hearth.Usage // as llama-server's timings tell it
	native nativeCounts // as Ollama's own API tells it
	silent reason       // of a choice of a whole answer for which the upstream gave none

	bodyEnd, callsEnd int // where the delta of the choice being written ends, and its list of calls; 0 = it has none
}

// document rewrites the whole text. The opening of the object is the caller's to write.
func (r *rewriter) document(dst []byte) ([]byte, error) {
	switch r.kind() {
	case '{':
		dst = r.object(dst)
	default:
		word := r.value()
		if r.kind() != 0 {
			r.bad = true
		}
		if !r.bad && (r.whole || string(word) != "null") {
			return dst, errNoObject
		}
	}
	if r.kind() != 0 || r.i < len(r.b) || r.bad {
		return dst, errMalformed
	}
	if r.failed && r.choices == 0 && r.fact.Err == nil {
		r.fact.Err = inBand(r.b)
	}
	// An answer is complete even where nobody says so, but only if it says something.
	if f := &r.fact; f.Finish == "" && f.Content && f.Err == nil {
		f.Finish, f.Native = r.silent.ours, r.silent.native
	}
	r.settleUsage()
	return dst, nil
}

// name makes a key comparable: without its quotes, and without escapes if it has any.
func name(key []byte) []byte {
	if len(key) < 2 {
		return nil
	}
	return unquote(key)
}

func (r *rewriter) object(dst []byte) []byte {
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch string(name(key)) {
		case "id":
			r.upstreamID(r.value())
		case "model", "provider":
			r.value()
		case "object":
			r.failed = string(r.value()) == `"error"` // older vLLM: the error stands in the place of the answer
		case "created":
			if v := r.value(); !r.created && digits(v, 0) == len(v) && len(v) > 0 {
				r.created = true
				r.stamp.theirs, _ = count(v)
				dst = appendMember(dst, key, v)
			}
		case "system_fingerprint":
			if v := r.value(); !isNull(v) && !r.fingerprint {
				r.fingerprint = true
				dst = appendMember(dst, key, v)
			}
		case "usage":
			first := !r.fact.Usage.Reported
			r.fact.Usage = r.usage(r.fact.Usage)
			if r.stamp.PassUsage && first && r.chunk && r.fact.Usage.Reported {
				dst = appendCounts(dst, r.fact.Usage)
			}
		case "usageMetadata": // Google's own API
			from := r.here()
			r.spare = r.usage(r.spare)
			dst = appendMember(dst, key, r.since(from))
		case "prompt_eval_count", "eval_count":
			v := r.value()
			r.native.note(name(key), v)
			dst = appendMember(dst, key, v)
		case "timings":
			from := r.here()
			u, ok := r.timings()
			if !ok || r.stamp.PassTimings && r.chunk {
				dst = appendMember(dst, key, r.since(from))
			}
			if ok {
				r.timed = u
			}
		case "x_groq":
			v := r.value()
			r.groq(v)
			dst = appendMember(dst, key, v)
		case "choices":
			dst = r.choiceList(dst)
		case "error":
			r.fault(r.value())
		default:
			dst = appendMember(dst, key, r.value())
		}
	}
	return dst
}

// fault notes an error that the upstream tells of in a 2xx. Some always have the member, and leave it empty.
func (r *rewriter) fault(v []byte) {
	switch string(v) {
	case "null", `""`, "{}", "[]", "false":
		return
	}
	if !r.bad {
		r.fact.Err = inBand(v)
	}
}

func appendMember(dst, key, val []byte) []byte {
	dst = append(comma(dst), key...)
	dst = append(dst, ':')
	return append(dst, val...)
}

// comma separates what follows from what stands before it in an object.
func comma(dst []byte) []byte {
	if n := len(dst); n > 0 && dst[n-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

func isNull(v []byte) bool { return string(v) == "null" }

// text says whether v is a string and not empty.
func text(v []byte) bool { return len(v) > 2 && v[0] == '"' }

// maxUpstreamID is how long an upstream's id may be to be kept, in bytes.
const maxUpstreamID = 128

// upstreamID keeps the upstream's id; the same one in every chunk is kept once.
func (r *rewriter) upstreamID(v []byte) {
	if text(v) && len(v) <= 256 {
		if id := unquote(v); string(id) != r.stamp.upstreamID {
			r.stamp.upstreamID = identifier(string(id), maxUpstreamID)
		}
	}
	r.fact.UpstreamID = r.stamp.upstreamID
}

// choiceList rewrites the list of choices; without any, it writes nothing.
func (r *rewriter) choiceList(dst []byte) []byte {
	if r.kind() != '[' || r.choices > 0 {
		r.value()
		return dst
	}
	base := len(dst)
	dst = append(dst, `,"choices":[`...)
	r.open()
	for r.elem() {
		if r.kind() != '{' {
			r.value()
			continue
		}
		if r.choices == maxChoices {
			r.bad = true
			break
		}
		if r.choices > 0 {
			dst = append(dst, ',')
		}
		dst = r.choice(dst)
		r.choices++
	}
	if r.choices == 0 {
		return dst[:base]
	}
	return append(dst, ']')
}

// choice rewrites one choice. Its finish reasons are written last, for they depend on the rest.
func (r *rewriter) choice(dst []byte) []byte {
	var finish, native []byte
	number, index, body, message, logprobs := r.choices, false, false, false, false
	r.bodyEnd, r.callsEnd = 0, 0
	dst = append(dst, '{')
	r.open()
	for key, ok := r.key(); ok; key, ok = r.key() {
		switch word := name(key); string(word) {
		case "index":
			if n, ok := count(r.value()); ok && !index {
				number, index = int(n), true
				dst = appendIndex(dst, number)
			}
		case "finish_reason":
			finish = r.value()
		case "native_finish_reason":
			native = r.value()
		case "delta", "message":
			switch {
			case body, r.chunk && (string(word) == "message") != r.whole: // who reads both would read the answer twice
				message = message || string(word) == "message"
				r.value()
			case (string(word) == "message") != r.whole:
				dst = appendMember(dst, key, r.value())
			default:
				body = true
				if r.chunk {
					key = deltaKey
				}
				dst = append(append(comma(dst), key...), ':')
				dst = r.body(dst, number)
				r.bodyEnd = len(dst) - 1
			}
		case "logprobs":
			v := r.value()
			if olderLogprobs(v) {
				v = []byte("null")
			}
			logprobs = true
			dst = appendMember(dst, key, v)
		case "usage": // Moonshot
			r.spare = r.usage(r.spare)
		case "error":
			r.fault(r.value())
		default:
			dst = appendMember(dst, key, r.value())
		}
	}
	if !index {
		dst = appendIndex(dst, number)
	}
	if !body {
		dst = r.emptyBody(dst, message)
	}
	r.fact.Choice = max(r.fact.Choice, min(number, maxChoices-1))
	if !logprobs && !r.chunk {
		dst = append(dst, `,"logprobs":null`...)
	}
	return append(r.finish(dst, finish, native, number), '}')
}

// emptyBody stands where a choice has no delta or message; message says that a chunk has one all the same.
func (r *rewriter) emptyBody(dst []byte, message bool) []byte {
	if r.chunk {
		r.fact.Whole = r.fact.Whole || message && !r.whole
		dst = append(dst, `,"delta":{}`...)
		r.bodyEnd = len(dst) - 1
		return dst
	}
	return append(dst, `,"message":{"role":"assistant","content":null,"refusal":null}`...)
}

// olderLogprobs says whether v has the shape of the older completions API: lists that run in parallel.
func olderLogprobs(v []byte) bool {
	if !bytes.Contains(v, []byte(`"token`)) {
		return false
	}
	s := scan{b: v}
	if s.kind() != '{' {
		return false
	}
	s.open()
	for key, ok := s.key(); ok; key, ok = s.key() {
		switch s.value(); string(name(key)) {
		case "token_logprobs", "tokens":
			return true
		}
	}
	return false
}

var deltaKey = []byte(`"delta"`)

func appendIndex(dst []byte, n int) []byte {
	return strconv.AppendInt(append(comma(dst), `"index":`...), int64(n), 10)
}
