package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"myip.co.kr/hearth/internal/dialect"
	"myip.co.kr/hearth/internal/sse"
)

// openStream reads events until the first that bears content. What came before it (a role, an empty delta) is held. What
// the body is called does not matter: what stands in it does.
func (op *opening) openStream(resp *http.Response) (*Opened, *Failure) {
	s := newStream(op, resp)
	var f *Failure
	switch first, err := s.body.peek(); {
	case err != nil && !errors.Is(err, io.EOF):
		f := judgeSend(err, cause(op.w.ctx))
		s.close()
		return nil, &f
	case first == '{' || first == '[':
		f = op.answerAsStream(s, resp)
	case first == '<':
		f = failure(resp.StatusCode, "provider answered with a page where a stream was asked for")
	default:
		for committed := false; !committed && f == nil; {
			committed, f = s.approach(resp.StatusCode)
		}
	}
	if f != nil {
		s.close()
		return nil, f
	}
	s.FirstAt = time.Now()
	return &Opened{Stream: s, Status: resp.StatusCode}, nil
}

// answerAsStream passes a whole answer that came where a stream was asked for on as a stream of one chunk.
func (op *opening) answerAsStream(s *Stream, resp *http.Response) *Failure {
	s.share.of = &op.client.answers
	s.body.dry = -maxAnswerBody // whose bound is another
	b, err := readAll(&s.body, resp.ContentLength, op.client.largest, &s.share)
	if err != nil {
		f := judgeSend(err, cause(op.w.ctx))
		return &f
	}
	start := len(s.buf)
	out, chunk, err := s.stamp.AppendWhole(append(s.buf, dataPrefix...), b)
	switch {
	case err != nil:
		return noJSON(resp.StatusCode, err)
	case chunk.Err != nil:
		return op.inBand(chunk.Err)
	case chunk.Skip && saysError(b):
		return op.inBand(dialect.ReadError(http.StatusBadGateway, b))
	case chunk.Skip || !chunk.Content && chunk.Finish == "":
		return failure(resp.StatusCode, noAnswer)
	case !s.w.pause(): // the limit passed together with the last byte; nothing was sent yet
		f := judgeSend(context.DeadlineExceeded, s.w.cause)
		return &f
	}
	sse.Flatten(out[start:])
	s.buf, s.done = append(out, '\n', '\n'), true
	s.note(&chunk)
	s.body.turn(ended)
	return nil
}

// approach reads one event on the way to the commit point.
func (s *Stream) approach(status int) (committed bool, f *Failure) {
	step, err := s.next()
	switch {
	case err != nil:
		f := judgeSend(err, cause(s.w.ctx))
		return false, &f
	case step == stepContent || step == stepFinish:
		if !s.w.pause() { // the limit passed together with the token; nothing was sent yet
			f := judgeSend(context.DeadlineExceeded, s.w.cause)
			return false, &f
		}
		s.pace(step)
		return true, nil
	case step == stepError:
		f := judgeInBand(s.inBand, s.local, time.Now())
		return false, &f
	case step == stepTooMuch:
		return false, failure(status, beyondOutput)
	case step == stepEnd:
		f := failure(status, "the stream ended before its first token")
		f.Broke = !s.done
		return false, f
	case step == stepMalformed:
		return false, failure(status, "the stream held an event that is not JSON")
	case len(s.buf) > maxHeld:
		return false, failure(status, "the stream brought too much before its first token")
	}
	return false, nil
}

// newStream makes the stream of an answer whose headers have come.
func newStream(op *opening, resp *http.Response) *Stream {
	e := op.call.Endpoint
	s := &Stream{
		w: op.w, pool: op.target.pool, body: timedBody{ReadCloser: resp.Body, w: op.w, idle: e.Provider.Limits.Idle, most: op.client.dry},
		stamp: op.call.Stamp, local: e.Local(), secrets: op.target.secrets, own: buffers.Get().(*[]byte),
		keepAlive: op.client.opt.KeepAlive, cap: outputCap(op.call), after: op.after,
	}
	if op.call.Lease != nil {
		s.ahead = &ahead{lease: op.call.Lease, most: op.client.opt.StreamBuffer, share: share{of: &op.client.answers}}
	}
	s.buf = (*s.own)[:0]
	s.events = sse.NewReader(&s.body, op.client.event)
	return s
}
