package upstream

import (
	"bytes"
	"cmp"
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

	w       *watchdog
	pool    *pool // of the connection
	body    timedBody
	events  *sse.Reader
	stamp   *dialect.Stamp
	local   bool
	secrets []string
	inBand  *dialect.UpstreamError
	own     *[]byte // the pooled buffer
	buf     []byte  // rewritten events not yet written
	share   share   // of a whole answer that is passed on as a stream
	done    bool    // [DONE] was seen, or the whole of an answer that is no stream
	said    bool    // the last word was: a finish reason, or usage, and no content after it

	cap       int // tokens the output may have, 0 = not known
	parts     int // content-bearing events so far
	size      int // bytes of their content
	choices   int // choices seen
	keepAlive time.Duration
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
	stepTooMuch               // content far beyond what may come
)

const keepBuffer = 64 << 10 // larger buffers are written at once, and not given back to the pool

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

var (
	dataPrefix = []byte("data: ")
	doneWord   = []byte("[DONE]")
)

// next reads one event and appends its rewritten form, if there is anything to pass on, to buf.
func (s *Stream) next() (step, error) {
	ev, err := s.events.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
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
	if chunk.Whole && chunk.Err == nil && chunk.Choice >= s.choices { // else it repeats what has come in pieces
		out, chunk, err = s.stamp.AppendWhole(append(out[:start], dataPrefix...), data)
	}
	if chunk.Err == nil && (string(ev.Name) == "error" || chunk.Skip && !chunk.Usage.Reported && saysError(data)) {
		chunk.Err, err = dialect.ReadError(http.StatusBadGateway, data), nil
	}
	if err != nil {
		s.buf = out[:start]
		return stepMalformed, nil //nolint:nilerr // the step says what the error means; the text is the provider's
	}
	st := s.note(&chunk)
	if chunk.Skip || st == stepError || st == stepTooMuch {
		s.buf = out[:start]
	} else {
		sse.Flatten(out[start:]) // an event of several lines, or a document that was printed for people
		s.buf = append(out, '\n', '\n')
	}
	return st, nil
}

// note keeps the facts of a chunk. Usage may come in any chunk; the last wins.
func (s *Stream) note(c *dialect.Chunk) step {
	if c.Usage.Reported {
		s.Usage = c.Usage
	}
	if s.UpstreamID == "" {
		s.UpstreamID = c.UpstreamID
	}
	if c.Content {
		s.parts++
		s.body.dry = 0
		s.size += c.Size
		s.choices = max(s.choices, c.Choice+1)
	}
	switch {
	case c.Err != nil:
		s.inBand = c.Err
		return stepError
	case s.tooMuch():
		return stepTooMuch
	case c.Finish != "":
		s.Finish, s.Native, s.said = c.Finish, c.Native, true
		return stepFinish
	case c.Content:
		// After a finish reason this is another choice of the same answer. Usage in a chunk of content is a running
		// count, and no sign that the answer is complete.
		s.said = false
		return stepContent
	case c.Usage.Reported:
		s.said = true
	}
	return stepNothing
}

// tooMuch says whether the upstream has sent far more than the output may be: the events and the bytes of so many tokens
// twice over are more than any tokenizer and any chunking make of them.
func (s *Stream) tooMuch() bool {
	if s.cap <= 0 {
		return false
	}
	tokens := s.cap * max(s.choices, 1)
	return s.parts > 2*tokens+256 || s.size > 256*tokens+1<<20
}

// outputCap is how many tokens one choice of the answer may have: what the caller asked for, else the most that the
// endpoint gives, else its whole window. 0 = nobody said.
func outputCap(call *Call) int {
	const most = 1 << 40 // so that nothing made of it overflows
	e := call.Endpoint
	return min(cmp.Or(max(call.MaxTokens, 0), max(e.MaxOutput, 0), max(e.Context, 0)), most)
}

// pace sets the limits for what may come after a step.
func (s *Stream) pace(st step) {
	switch st {
	case stepContent:
		s.body.turn(flowing)
	case stepFinish:
		s.body.turn(ending)
	}
}

// Copy passes the stream on until it ends, fails, or the caller leaves (which ends the context that Open was given),
// and frees the upstream. The last bytes (the chunk with the usage, [DONE]) are the caller's to write, and have
// writeLimit for it. The same limit bounds each write: a caller who takes nothing for so long counts as gone. While the
// upstream is silent, the caller gets a comment at every KeepAlive of the Options; out is not used after the return.
func (s *Stream) Copy(out http.ResponseWriter, writeLimit time.Duration) End {
	defer s.close()
	k := newSink(s.w.ctx, s.w.cancel, out, writeLimit, s.keepAlive)
	defer func() { _ = k.stop() }() // its error was looked at, or comes too late to matter
	for {
		if len(s.buf) >= keepBuffer || len(s.buf) > 0 && !s.events.Buffered() {
			if err := s.flush(k); err != nil {
				return End{Verdict: hearth.Gone, Err: err}
			}
		}
		st, err := s.next()
		switch {
		case err != nil:
			return s.broken(k, err)
		case st == stepEnd:
			return s.ended(k)
		case st == stepError:
			f := judgeInBand(s.inBand, s.local, time.Now())
			f.Loading = false // it has answered
			f.hide(s.secrets)
			return s.fail(k, f)
		case st == stepTooMuch:
			return s.fail(k, *failure(0, beyondOutput))
		case st == stepMalformed && s.finished():
			return s.served(k)
		case st == stepMalformed:
			return s.fail(k, *failure(0, "the stream held an event that is not JSON"))
		}
		s.pace(st)
	}
}

func (s *Stream) flush(k *sink) error {
	if len(s.buf) == 0 {
		return nil
	}
	err := k.write(s.buf)
	if s.buf = s.buf[:0]; cap(s.buf) > keepBuffer {
		s.buf = (*s.own)[:0] // the large event is over
	}
	return err
}

// drain ends the comments and passes on what was already rewritten.
func (s *Stream) drain(k *sink) error {
	if err := k.stop(); err != nil {
		return err
	}
	return s.flush(k)
}

const beyondOutput = "the stream went on far beyond the output that was asked for"

// saysError says whether a JSON object without choices is an error in vLLM's older form, which has its message on the
// top level.
func saysError(data []byte) bool {
	i := bytes.Index(data, []byte(`"object"`))
	return i >= 0 && bytes.HasPrefix(bytes.TrimLeft(data[i+len(`"object"`):], ": \t\r\n"), []byte(`"error"`))
}

// finished says whether the answer is complete however its stream ends: an orderly end is not needed any more.
func (s *Stream) finished() bool { return s.said && s.Finish != "" }

// ended decides what the end of the body means: complete if [DONE] was seen, or the last word was said.
func (s *Stream) ended(k *sink) End {
	if !s.done && !s.said {
		return s.fail(k, *failure(0, "the stream ended without a finish reason"))
	}
	return s.served(k)
}

func (s *Stream) served(k *sink) End {
	if err := s.drain(k); err != nil {
		return End{Verdict: hearth.Gone, Err: err}
	}
	if s.done {
		s.awaitEOF()
	}
	k.extend()
	return End{Verdict: hearth.Served}
}

// eofWait is how long the connection's end is awaited after [DONE], so that it can be used again.
const eofWait = 50 * time.Millisecond

// awaitEOF reads on to the end. Whatever still comes is no part of the answer.
func (s *Stream) awaitEOF() {
	s.body.turn(ended)
	s.w.arm(eofWait, errEnough)
	for {
		if _, err := s.events.Next(); err != nil {
			return
		}
	}
}

// broken decides what a read error means: the caller left, or the upstream failed.
func (s *Stream) broken(k *sink, err error) End {
	why := cause(s.w.ctx)
	switch {
	case why != nil && !isLimit(why) && !errors.Is(why, ErrShutdown):
		return End{Verdict: hearth.Gone, Err: why}
	case s.finished():
		return s.served(k) // the connection broke, or stalled, after the last word
	case errors.Is(why, ErrShutdown):
		return s.fail(k, Failure{Message: ErrShutdown.Error(), Err: why})
	}
	return s.fail(k, judgeRead(err, why, "the stream was cut off"))
}

// fail passes on what was already rewritten and reports a stream that went wrong after its commit point.
func (s *Stream) fail(k *sink, f Failure) End {
	if err := s.drain(k); err != nil {
		return End{Verdict: hearth.Gone, Err: err}
	}
	k.extend()
	return End{Verdict: hearth.Broken, Failure: &f}
}

// close ends the upstream and gives the buffers back. It may be called again.
func (s *Stream) close() {
	if s.own == nil {
		return
	}
	s.w.close()
	s.share.free()
	_ = s.body.Close()
	s.pool.left()
	s.events.Close()
	if cap(s.buf) <= keepBuffer {
		*s.own = s.buf[:0]
	}
	buffers.Put(s.own)
	s.own, s.buf = nil, nil
}
