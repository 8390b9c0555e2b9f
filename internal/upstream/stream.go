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
	FirstAt time.Time // when the first content-bearing event came
	LastAt  time.Time // when the end was read
	// Waited is how long reading waited for the caller to take what had come: LastAt may be so much later than the end came.
	Waited     time.Duration
	Usage      hearth.Usage
	Finish     string // finish reason, "" if none came
	Native     string // the upstream's own word for it
	UpstreamID string
	Unbilled   int // content-bearing events for the caller that Usage does not cover

	// Begin is called once, right before Copy writes for the first time, nil = nothing is to be done then. It may wait for
	// the caller like a write does: an engine is read on meanwhile. Its error is that of the write.
	Begin func() error

	w       *watchdog
	pool    *pool // of the connection
	body    timedBody
	events  *sse.Reader
	stamp   *dialect.Stamp
	local   bool
	secrets []string
	inBand  *dialect.UpstreamError
	own     *[]byte    // the pooled buffer
	buf     []byte     // rewritten events not yet written
	share   share      // of a whole answer that is passed on as a stream
	after   *abandoned // how it goes on when the caller leaves; nil = not at all
	ahead   *ahead     // how it goes on while the caller is slow; nil = at the caller's pace
	end     End        // how it ended
	over    bool       // end is set: nothing more is read, but to the connection's end
	freed   bool       // the upstream was ended
	done    bool       // [DONE] was seen, or the whole of an answer that is no stream
	said    bool       // the last word was: a finish reason, or usage, and no content after it

	cap       int // tokens the output may have, 0 = not known
	parts     int // content-bearing events so far
	size      int // bytes of their content
	choices   int // choices seen
	keepAlive time.Duration
}

// End is how a stream ended.
type End struct {
	Verdict hearth.Verdict // Served, Broken or Gone
	Failure *Failure       // why it is Broken; of one that was read on when it was Gone: how that failed, nil = it did not
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
	if c.Content && !s.body.bounded && s.after.gone() == nil { // else nobody is given it
		s.Unbilled++
	}
	if c.Usage.Reported {
		s.Usage = c.Usage
		if c.Usage.CompletionTokens > 0 { // which includes what came in the same chunk
			s.Unbilled = 0
		}
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
	case c.Usage.Reported && !c.Running:
		s.said = true
	case c.Usage.Reported && s.Finish == "": // so the one before was a count on the way as well
		s.said = false
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
// and frees the upstream; what has a provider that settles is read on for a while when the caller leaves. The last bytes (the chunk with the usage, [DONE]) are the caller's to write, and have
// writeLimit for it. The same limit bounds each write: a caller who takes nothing for so long counts as gone. While the
// upstream is silent, the caller gets a comment at every KeepAlive of the Options; out is not used after the return.
func (s *Stream) Copy(out http.ResponseWriter, writeLimit time.Duration) End {
	defer s.close()
	k := newSink(s.w.ctx, s.leave, out, writeLimit, s.keepAlive)
	k.begin = s.Begin
	defer func() { _ = k.stop() }() // its error was looked at, or comes too late to matter
	s.after.begin()
	for !s.over && s.after.gone() == nil {
		if !s.due() {
			s.advance()
		} else if err := s.flush(k); err != nil {
			return s.abandon(k, err)
		}
	}
	if why := s.after.gone(); why != nil {
		return s.abandon(k, why)
	}
	if !s.freed { // else it was read ahead, at the upstream's own pace
		s.Waited = k.written()
	}
	return s.conclude(k)
}

// due says whether what was rewritten is to be passed on before more is read.
func (s *Stream) due() bool {
	return len(s.buf) >= keepBuffer || len(s.buf) > 0 && !s.events.Buffered()
}

// advance reads one event, or finds out how the stream has ended.
func (s *Stream) advance() {
	st, err := s.next()
	switch {
	case err != nil:
		s.broken(err)
	case st == stepEnd:
		s.ended()
	case st == stepError:
		f := judgeInBand(s.inBand, s.local, time.Now())
		f.Loading = false // it has answered
		f.hide(s.secrets)
		s.fail(f)
	case st == stepTooMuch:
		s.fail(*failure(0, beyondOutput))
	case st == stepMalformed && s.finished():
		s.served()
	case st == stepMalformed:
		s.fail(*failure(0, "the stream held an event that is not JSON"))
	default:
		s.pace(st)
	}
}

// flush passes on what was rewritten. If the caller is slow, it returns when all of the stream has been passed on.
func (s *Stream) flush(k *sink) error {
	if len(s.buf) == 0 {
		return nil
	}
	b := s.buf // from watch on, s may be the other goroutine's
	s.ahead.watch(s)
	err := k.write(b)
	if s.ahead.begun() {
		return s.follow(k, err)
	}
	if s.buf = s.buf[:0]; cap(s.buf) > keepBuffer {
		s.buf = (*s.own)[:0] // the large event is over
	}
	return err
}

// conclude passes on what was already rewritten when the stream has ended, and says how it did.
func (s *Stream) conclude(k *sink) End {
	if s.end.Verdict == hearth.Gone {
		return s.end
	}
	err := k.stop()
	if err == nil {
		err = s.flush(k)
	}
	if err != nil {
		return End{Verdict: hearth.Gone, Err: err}
	}
	s.awaitEOF()
	k.extend()
	return s.end
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
func (s *Stream) ended() {
	if !s.done && !s.said {
		f := failure(0, "the stream ended without a finish reason")
		f.Broke = true
		s.fail(*f)
		return
	}
	s.served()
}

func (s *Stream) served() { s.endWith(End{Verdict: hearth.Served}) }

func (s *Stream) fail(f Failure) { s.endWith(End{Verdict: hearth.Broken, Failure: &f}) }

// endWith ends the reading.
func (s *Stream) endWith(e End) { s.end, s.over, s.LastAt = e, true, time.Now() }

// broken decides what a read error means: the caller left, or the upstream failed.
func (s *Stream) broken(err error) {
	why := cause(s.w.ctx)
	ours := errors.Is(why, ErrShutdown) || errors.Is(why, errStopped)
	switch {
	case why != nil && !isLimit(why) && !ours, errors.Is(err, errSettled):
		s.endWith(End{Verdict: hearth.Gone, Err: why})
	case s.finished():
		s.served() // the connection broke, or stalled, after the last word
	case ours:
		s.fail(Failure{Message: why.Error(), Err: why})
	default:
		s.fail(judgeRead(err, why, "the stream was cut off"))
	}
}

// eofWait is how long the connection's end is awaited after [DONE], so that it can be used again.
const eofWait = 50 * time.Millisecond

// awaitEOF reads on to the end of an answer that is complete. Whatever still comes is no part of it.
func (s *Stream) awaitEOF() {
	if s.end.Verdict != hearth.Served || !s.done || s.freed {
		return
	}
	s.body.turn(ended)
	s.w.arm(eofWait, errEnough)
	for {
		if _, err := s.events.Next(); err != nil {
			return
		}
	}
}

// free ends the upstream. It may be called again.
func (s *Stream) free() {
	if s.freed {
		return
	}
	s.freed = true
	s.w.close()
	s.after.end()
	_ = s.body.Close()
	s.pool.left()
	s.events.Close()
}

// close ends the upstream and gives the buffers back. It may be called again.
func (s *Stream) close() {
	if s.own == nil {
		return
	}
	s.join()
	s.free()
	s.share.free()
	if s.ahead != nil {
		s.ahead.share.free()
	}
	if cap(s.buf) <= keepBuffer {
		*s.own = s.buf[:0]
	}
	buffers.Put(s.own)
	s.own, s.buf = nil, nil
}
