package dialect

import (
	"bytes"

	"myip.co.kr/hearth"
)

// Answer is an upstream's complete answer to a request without stream.
type Answer struct {
	Finish, Native string         // of the first choice that gives one
	Usage          hearth.Usage   // Reported if the body carried usable counts
	UpstreamID     string         // the upstream's id of the answer
	Content        bool           // a choice has content, reasoning, a tool call or a refusal, and it is not empty
	Choices        int            // how many
	Calls          int            // tool calls made
	BadCalls       int            // of these, such as no client can carry out: see [Stamp.ToolCalls]
	Made           []ToolCall     // the calls, if the functions of the request are known
	Seals          []uint64       // of its sealed parts: see [Stamp.Seals]
	Err            *UpstreamError // the body is an error in the clothes of an answer

	rest        []byte // every member that is passed on, each with its comma before it
	created     bool   // rest has the upstream's time
	fingerprint bool   // rest has system_fingerprint
}

var bom = []byte("\xef\xbb\xbf")

// ReadAnswer reads the body of an answer. tools are the names of the functions that the request offers, none = not known.
// A body that is no JSON object is an error.
func ReadAnswer(body []byte, tools ...string) (*Answer, error) {
	return (&Stamp{Tools: tools}).ReadAnswer(body)
}

// ReadAnswer reads the body of an answer to the request that s is for. A body that is no JSON object is an error.
func (s *Stamp) ReadAnswer(body []byte) (*Answer, error) {
	fresh := Stamp{Tools: s.Tools, Keep: s.Keep, Seed: s.Seed}
	r := rewriter{stamp: &fresh, whole: true, scan: scan{b: bytes.TrimPrefix(body, bom)}}
	rest, err := r.document(make([]byte, 0, len(body)+256))
	if err != nil {
		return nil, err
	}
	f := &r.fact
	made, bad := fresh.ToolCalls()
	return &Answer{
		Finish: f.Finish, Native: f.Native, Usage: f.Usage, UpstreamID: f.UpstreamID, Content: f.Content,
		Choices: r.choices, Calls: made, BadCalls: bad, Made: fresh.Made(), Seals: fresh.seals, Err: f.Err, rest: rest, created: r.created, fingerprint: r.fingerprint,
	}, nil
}

// Append appends the answer as the caller is to see it.
func (a *Answer) Append(dst []byte, s *Stamp, b hearth.Bill) []byte {
	dst = s.appendHead(dst, "chat.completion")
	if !a.created {
		dst = s.appendCreated(dst)
	}
	if !a.fingerprint {
		dst = append(dst, `,"system_fingerprint":null`...)
	}
	dst = append(dst, a.rest...)
	if a.Choices == 0 {
		dst = append(dst, `,"choices":[]`...)
	}
	dst = append(dst, `,"usage":`...)
	dst = AppendUsage(dst, a.Usage, b, s.Shown)
	return append(dst, '}')
}
