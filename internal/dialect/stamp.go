package dialect

import (
	"bytes"
	"hash/maphash"
	"strconv"

	"myip.co.kr/hearth"
)

// Stamp is what every answer of ours carries in place of the upstream's own. One Stamp serves one answer of one
// upstream: it remembers what earlier chunks of the stream said. It is not safe for concurrent use.
type Stamp struct {
	ID       string // generation id
	Model    string // our id of the model that answers
	Provider string // display name
	Created  int64  // unix seconds, used where the upstream gives none

	// Tools are the names of the functions that the request offers; none = not known.
	Tools []string

	Shown hearth.Money // the currency of amounts

	// Running says how the upstream was asked to tell with each chunk what has been used so far.
	Running hearth.Running
	// Keep gets the text of the first choice; nil = nobody keeps it.
	Keep *Kept
	// Seed is what the sealed parts of the answer are marked under; zero = nobody asks for them.
	Seed maphash.Seed
	// PassUsage and PassTimings: the caller asked for such counts, and sees them.
	PassUsage, PassTimings bool

	seals      []uint64
	upstreamID string
	theirs     int64  // the time in the upstream's chunks, which our own chunks repeat
	vendor     string // last vendor word seen in native form, so that it is not copied again
	first      reason // of choice 0
	called     uint64 // choices (0–63) that have called a tool
	cut        uint64 // choices (0–63) that ended before they were complete: at the output limit, for one
	calls      []call
	kept       int                  // bytes of arguments in calls
	counted    bool                 // usage was reported
	timed      bool                 // timings were
	zeroth     hearth.Usage         // running counts of choice 0
	further    map[int]hearth.Usage // and of the others; nil = there is none yet
}

// Chunk is what one chunk of an upstream's stream said.
type Chunk struct {
	Content        bool           // content, reasoning, a tool call or a refusal, and not empty
	Size           int            // bytes of that content, as JSON text
	Choice         int            // the highest number of a choice in it, up to 127
	Finish, Native string         // finish reason in OpenAI's words and in the upstream's; "" = none
	Usage          hearth.Usage   // Reported if the chunk carried usable counts
	Running        bool           // Usage is a count on the way: it does not say that the answer is complete
	UpstreamID     string         // the upstream's id of the answer
	Err            *UpstreamError // the chunk is an in-band error; nothing was appended
	Whole          bool           // a choice has a message and no delta: see [Stamp.AppendWhole]
	Skip           bool           // nothing was appended: the chunk has nothing for the caller
}

// AppendChunk appends an upstream's chunk as the caller is to see it, without framing. A chunk that is no JSON
// object is an error, with nothing appended.
func (s *Stamp) AppendChunk(dst, data []byte) ([]byte, Chunk, error) {
	return s.appendChunk(dst, rewriter{stamp: s, chunk: true, scan: scan{b: data}})
}

// AppendWhole appends a whole answer as the one chunk of a stream: the message is the delta. It is for upstreams that
// answer with JSON where a stream was asked for, or with such JSON in an event.
func (s *Stamp) AppendWhole(dst, body []byte) ([]byte, Chunk, error) {
	return s.appendChunk(dst, rewriter{stamp: s, chunk: true, whole: true, scan: scan{b: bytes.TrimPrefix(body, bom)}})
}

func (s *Stamp) appendChunk(dst []byte, r rewriter) ([]byte, Chunk, error) {
	base := len(dst)
	dst = s.appendHead(dst, "chat.completion.chunk")
	dst, err := r.document(dst)
	if err != nil {
		return dst[:base], Chunk{}, err
	}
	if r.fact.Err != nil || r.choices == 0 {
		r.fact.Skip = true
		return dst[:base], r.fact, nil
	}
	if !r.created {
		dst = s.appendCreated(dst)
	}
	return append(dst, '}'), r.fact, nil
}

// AppendFinal appends the last chunk of a stream: an empty delta that repeats the finish reasons, and the usage.
func (s *Stamp) AppendFinal(dst []byte, finish, native string, u hearth.Usage, b hearth.Bill) []byte {
	dst = s.appendCreated(s.appendHead(dst, "chat.completion.chunk"))
	dst = append(dst, `,"choices":[{"index":0,"delta":{`...)
	said := s.FinishReason(finish)
	if said == "tool_calls" { // a stream without a finish reason ends here
		if list := s.withoutArguments(0); list != nil {
			dst = append(append(append(dst, `"tool_calls":[`...), list[1:]...), ']')
		}
	}
	dst = appendFinish(append(dst, "},"...), said, native)
	dst = append(dst, `}],"usage":`...)
	dst = AppendUsage(dst, u, b, s.Shown)
	return append(dst, '}')
}

// FinishReason is the finish reason of a complete stream to be told when the upstream said this one, "" for none: agents
// loop on streams that end without any, and on calls of tools that end in "stop".
func (s *Stamp) FinishReason(said string) string {
	switch {
	case s.called&1 != 0 && (said == "" || said == "stop"):
		return "tool_calls"
	case said == "":
		return "stop"
	}
	return said
}

// AppendErrorChunk appends the chunk that ends a stream which has failed half-way. The error is its first member: by
// that alone some clients know it.
func (s *Stamp) AppendErrorChunk(dst []byte, e *hearth.Error) []byte {
	dst = append(dst, `{"error":`...)
	dst = appendErrorObject(dst, e)
	dst = s.appendCreated(s.appendMembers(append(dst, ','), "chat.completion.chunk"))
	return append(dst, `,"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","native_finish_reason":null}]}`...)
}

func (s *Stamp) appendHead(dst []byte, object string) []byte {
	return s.appendMembers(append(dst, '{'), object)
}

func (s *Stamp) appendMembers(dst []byte, object string) []byte {
	dst = append(dst, `"id":`...)
	dst = appendQuoted(dst, s.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","model":`...)
	dst = appendQuoted(dst, s.Model)
	dst = append(dst, `,"provider":`...)
	return appendQuoted(dst, s.Provider)
}

func (s *Stamp) appendCreated(dst []byte) []byte {
	at := s.Created
	if s.theirs != 0 {
		at = s.theirs
	}
	dst = append(dst, `,"created":`...)
	return strconv.AppendInt(dst, at, 10)
}

// appendFinish appends both finish reasons; native may be "".
func appendFinish(dst []byte, finish, native string) []byte {
	dst = append(dst, `"finish_reason":`...)
	dst = appendQuoted(dst, finish)
	dst = append(dst, `,"native_finish_reason":`...)
	if native == "" {
		return append(dst, "null"...)
	}
	return appendQuoted(dst, native)
}
