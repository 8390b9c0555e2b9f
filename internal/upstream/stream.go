package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

// Stream is an upstream's stream past its commit point. Copy passes it on, once.
type Stream struct {
	FirstAt    time.Time // when the first content-bearing event came
	Usage      hearth.Usage
	Finish     string // finish reason, "" if none came
	Native     string // the upstream's own word for it
	UpstreamID string

	w      *watchdog
	body   io.ReadCloser
	events *sse.Reader
	stamp  *dialect.Stamp
	idle   time.Duration
	local  bool
	inBand *dialect.UpstreamError
	buf    []byte // rewritten events not yet written
	done   bool   // [DONE] was seen
}

// FinishReason is the finish reason to be told: a complete stream without one gets "stop", for agents loop on streams
// that end without any.
func (s *Stream) FinishReason() string {
	if s.Finish == "" {
		return "stop"
	}
	return s.Finish
}

// End is how a stream ended.
type End struct {
	Verdict hearth.Verdict // Served, Broken or Gone
	Failure *Failure       // why it is Broken
	Err     error          // the caller's side, when Gone
}

// step is what one event was.
type step uint8

const (
	stepNothing   step = iota // nothing to act on: a role, a comment, usage
	stepContent               // content, reasoning or a tool call
	stepFinish                // a finish reason
	stepError                 // an in-band error
	stepEnd                   // [DONE] or the end of the body
	stepMalformed             // not JSON
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func heldBuffer() []byte { return (*buffers.Get().(*[]byte))[:0] }

var (
	dataPrefix = []byte("data: ")
	doneWord   = []byte("[DONE]")
)

// next reads one event and appends its rewritten form, if there is anything to pass on, to buf.
func (s *Stream) next() (step, error) {
	ev, err := s.events.Next()
	if err != nil {
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return stepEnd, nil
		}
		return stepNothing, err
	}
	data := bytes.TrimSpace(ev.Data)
	if ev.Comment || len(data) == 0 {
		return stepNothing, nil
	}
	if bytes.Equal(data, doneWord) {
		s.done = true
		return stepEnd, nil
	}
	start := len(s.buf)
	out, chunk, err := s.stamp.AppendChunk(append(s.buf, dataPrefix...), data)
	if err != nil {
		s.buf = out[:start]
		return stepMalformed, nil //nolint:nilerr // the step says what the error means; the text is the provider's
	}
	s.buf = out
	if chunk.Skip || chunk.Err != nil {
		s.buf = s.buf[:start]
	} else {
		s.buf = append(s.buf, '\n', '\n')
	}
	return s.note(&chunk), nil
}

// note keeps the facts of a chunk. Usage may come in any chunk; the last wins.
func (s *Stream) note(c *dialect.Chunk) step {
	if c.Usage.Reported {
		s.Usage = c.Usage
	}
	if s.UpstreamID == "" {
		s.UpstreamID = c.UpstreamID
	}
	switch {
	case c.Err != nil:
		s.inBand = c.Err
		return stepError
	case c.Finish != "":
		s.Finish, s.Native = c.Finish, c.Native
		return stepFinish
	case c.Content:
		return stepContent
	}
	return stepNothing
}

// Copy passes the stream on until it ends, fails, or the caller leaves, and frees the upstream. The last bytes (the
// chunk with the usage, [DONE]) are the caller's to write. gone is closed when the caller left.
func (s *Stream) Copy(out http.ResponseWriter, writeLimit time.Duration) End {
	defer s.close()
	rc := http.NewResponseController(out)
	var deadline time.Time
	for {
		if len(s.buf) > 0 && !s.events.Buffered() {
			if now := time.Now(); writeLimit > 0 && deadline.Sub(now) < writeLimit*3/4 {
				deadline = now.Add(writeLimit)
				_ = rc.SetWriteDeadline(deadline) // not every writer has deadlines; those that lack them never block
			}
			if err := s.flush(out, rc); err != nil {
				return End{Verdict: hearth.Gone, Err: err}
			}
		}
		st, err := s.next()
		if err != nil {
			return s.broken(err)
		}
		s.w.progress(s.idle)
		switch st {
		case stepEnd:
			return s.ended(out, rc)
		case stepError:
			f := judgeInBand(s.inBand, s.local, time.Now())
			return s.fail(out, rc, f)
		case stepMalformed:
			return s.fail(out, rc, Failure{Blame: hearth.BlameEndpoint, Message: "the stream held an event that is not JSON"})
		}
	}
}

func (s *Stream) flush(out http.ResponseWriter, rc *http.ResponseController) error {
	if len(s.buf) == 0 {
		return nil
	}
	_, err := out.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return err
	}
	return rc.Flush()
}

// ended decides what the end of the body means: complete if a finish reason, [DONE] or usage was seen.
func (s *Stream) ended(out http.ResponseWriter, rc *http.ResponseController) End {
	if !s.done && s.Finish == "" && !s.Usage.Reported {
		return s.fail(out, rc, Failure{Blame: hearth.BlameEndpoint, Message: "the stream ended without a finish reason"})
	}
	if s.Finish == "error" {
		return s.fail(out, rc, Failure{Blame: hearth.BlameEndpoint, Message: "the provider ended the answer with an error"})
	}
	if err := s.flush(out, rc); err != nil {
		return End{Verdict: hearth.Gone, Err: err}
	}
	if s.done {
		s.awaitEOF()
	}
	return End{Verdict: hearth.Served}
}

// eofWait is how long the connection's end is awaited after [DONE], so that it can be used again.
const eofWait = 50 * time.Millisecond

func (s *Stream) awaitEOF() {
	s.w.arm(eofWait, errEnough)
	_, _ = s.events.Next() // the end, or whatever else: the answer is complete
}

// broken decides what a read error means: the caller left, or the upstream failed.
func (s *Stream) broken(err error) End {
	why := cause(s.w.ctx)
	f := judgeSend(err, why)
	if s.Finish != "" && s.Finish != "error" && !f.TimedOut && why == nil {
		return End{Verdict: hearth.Served} // the connection broke after the last word
	}
	if errors.Is(why, ErrShutdown) {
		return End{Verdict: hearth.Broken, Failure: &Failure{Message: ErrShutdown.Error(), Err: why}}
	}
	if why != nil && !f.TimedOut {
		return End{Verdict: hearth.Gone, Err: why}
	}
	if !f.TimedOut {
		f.Message = "the stream was cut off"
	}
	return End{Verdict: hearth.Broken, Failure: &f}
}

// fail passes on what was already rewritten and reports a stream that went wrong after its commit point.
func (s *Stream) fail(out http.ResponseWriter, rc *http.ResponseController, f Failure) End {
	if err := s.flush(out, rc); err != nil {
		return End{Verdict: hearth.Gone, Err: err}
	}
	return End{Verdict: hearth.Broken, Failure: &f}
}

// close ends the upstream and gives the buffers back.
func (s *Stream) close() {
	s.w.close()
	_ = s.body.Close()
	s.events.Close()
	if cap(s.buf) <= 64<<10 {
		b := s.buf[:0]
		buffers.Put(&b)
	}
	s.buf = nil
}
