package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"myip.co.kr/hearth/internal/sse"
)

var keepAlive = sse.AppendComment(nil, "MYIP PROCESSING")

// sink is the caller's side of a stream. From the first write to stop, a comment is written whenever there was no write
// for so long as every. The fields below free belong to whoever has the turn.
type sink struct {
	out   http.ResponseWriter
	rc    http.ResponseController
	limit time.Duration   // of one write, 0 = none
	every time.Duration   // silence that ends in a comment
	start time.Time       // what the times below count from
	ctx   context.Context // of the attempt
	leave context.CancelCauseFunc
	begin func() error // to be called before the first write; nil = it was, or need not be

	turn sync.Mutex    // held while out is in use: it is not safe for concurrent use
	free chan struct{} // holds a token when the turn was given back since the last look

	ends    time.Duration // the write deadline that is set
	last    time.Duration // the end of the last write
	spent   time.Duration // in writes
	timer   *time.Timer   // of the next comment, nil before the first write
	stopped bool
	err     error // of a comment that could not be written
}

// newSink makes the sink of one stream, whose attempt lasts as long as ctx. leave is to end ctx: it is called with the
// error of a comment that cannot be written.
func newSink(ctx context.Context, leave context.CancelCauseFunc, out http.ResponseWriter, limit, every time.Duration) *sink {
	return &sink{
		out: out, rc: *http.NewResponseController(out), limit: limit, every: every, start: time.Now(), ctx: ctx, leave: leave,
		free: make(chan struct{}, 1),
	}
}

// lock takes the turn. Who has to wait waits at a channel: behind a caller who takes nothing that is as long as a write
// may take, and virtual time passes only for those who wait at channels. At most one waits, for there are two users: the
// stream and its timer.
func (k *sink) lock() {
	for !k.turn.TryLock() {
		<-k.free
	}
}

func (k *sink) unlock() {
	k.turn.Unlock()
	select {
	case k.free <- struct{}{}:
	default:
	}
}

// extend gives the next write, which begins now, the limit, or a little less: to set a deadline costs more than to write a
// chunk.
func (k *sink) extend() (now time.Duration) {
	if now = time.Since(k.start); k.limit > 0 && k.ends-now < k.limit-k.limit/32 {
		k.ends = now + k.limit
		_ = k.rc.SetWriteDeadline(k.start.Add(k.ends)) // not every writer has deadlines; those that lack them never block
	}
	return now
}

// write passes whole events on.
func (k *sink) write(b []byte) error {
	k.lock()
	defer k.unlock()
	if k.err != nil {
		return k.err
	}
	if err := k.put(b); err != nil {
		k.stopped = true
		return err
	}
	if k.timer == nil && !k.stopped {
		k.timer = time.AfterFunc(k.every, k.comment)
	}
	return nil
}

func (k *sink) put(b []byte) error {
	if begin := k.begin; begin != nil {
		k.begin = nil
		if err := begin(); err != nil {
			return err
		}
	}
	began := k.extend()
	if _, err := k.out.Write(b); err != nil {
		return err
	}
	if err := k.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	k.last = time.Since(k.start)
	k.spent += k.last - began
	return nil
}

// comment is the timer's: it writes a comment if one is due, and starts the timer for the next.
func (k *sink) comment() {
	k.lock()
	defer k.unlock()
	if k.stopped || k.ctx.Err() != nil {
		return
	}
	if wait := k.last + k.every - time.Since(k.start); wait > 0 {
		k.timer.Reset(wait)
		return
	}
	if k.err = k.put(keepAlive); k.err != nil {
		k.stopped = true
		k.leave(k.err)
		return
	}
	k.timer.Reset(k.every)
}

// written is the time that writes have taken so far.
func (k *sink) written() time.Duration {
	k.lock()
	defer k.unlock()
	return k.spent
}

// stop ends the comments: none is being written when it returns, and none will be. It returns the error of one that
// could not be written, and may be called again.
func (k *sink) stop() error {
	k.lock()
	defer k.unlock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
	return k.err
}
