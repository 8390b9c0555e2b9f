package upstream

import (
	"context"
	"io"
	"time"
)

// watchdog ends an attempt when its present limit passes. One timer serves all limits of an attempt. Its methods are
// for the attempt's own goroutine.
type watchdog struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	cause   error       // what the running timer stands for; written only while no timer runs
	running bool        // the timer was started, and was not stopped in time
	ends    time.Time   // of the whole attempt; zero = never
	unhook  func() bool // ends the wait for the lease to be cut, or for the caller to leave; nil = there is none
}

func watch(parent context.Context, total time.Duration) *watchdog {
	w := &watchdog{}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	if total > 0 {
		w.ends = time.Now().Add(total)
	}
	return w
}

// arm starts the limit d, for which cause stands, in place of the one that runs. A limit of 0 leaves only the total.
func (w *watchdog) arm(d time.Duration, cause error) {
	if !w.pause() {
		return
	}
	if !w.ends.IsZero() {
		if left := time.Until(w.ends); d <= 0 || left < d {
			d, cause = max(left, time.Nanosecond), errTotal
		}
	}
	if d <= 0 {
		return
	}
	w.cause, w.running = cause, true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.fire)
	} else {
		w.timer.Reset(d)
	}
}

// cut ends the attempt because its engine is to go now.
func (w *watchdog) cut() { w.cancel(errStopped) }

func (w *watchdog) fire() { w.cancel(w.cause) }

// pause stops the limit that runs. False means that it has passed already: the attempt is over.
func (w *watchdog) pause() bool {
	if w.running && !w.timer.Stop() {
		return false // fire is at work and reads cause
	}
	w.running = false
	return true
}

// close ends the attempt and frees everything it holds.
func (w *watchdog) close() {
	w.pause()
	if w.unhook != nil {
		w.unhook()
	}
	w.cancel(context.Canceled)
}

// cause is why ctx ended, nil while it has not.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// timedBody is a stream's body. From the commit point on, its limits run only while a read is waiting: the time that a
// slow caller takes for what was read before is not the upstream's.
type timedBody struct {
	io.ReadCloser
	w     *watchdog
	idle  time.Duration // of one read, 0 = none
	phase phase
	ahead [1]byte       // was read ahead
	held  bool          // ahead has not been read again yet
	dry   int           // bytes since the last content
	most  int           // of them
	rest  time.Duration // of all further reads together, in the phase ending

	bounded bool // the caller has left: so many bytes may still come
	left    int
}

type phase uint8

const (
	holding phase = iota // before the commit point: the first-byte limit runs
	flowing              // each read may take the idle limit
	ending               // the last word was said: what may follow it comes within the idle limit, comments or not
	ended                // [DONE]: whatever limit was armed last stands
)

// turn goes over to another phase. The limit that runs in the phase holding must have been stopped.
func (b *timedBody) turn(p phase) {
	if b.phase != p {
		b.phase, b.rest = p, b.idle
	}
}

func (b *timedBody) Read(p []byte) (int, error) {
	switch {
	case b.held && len(p) > 0:
		b.held = false
		return copy(p, b.ahead[:]), nil
	case b.dry > b.most:
		return 0, errDry
	case b.bounded && b.left <= 0:
		return 0, errSettled
	case b.phase == holding || b.phase == ended:
		n, err := b.ReadCloser.Read(p)
		b.count(n)
		return n, err
	case b.phase == ending && b.idle > 0:
		start := time.Now()
		defer func() { b.rest = max(b.rest-time.Since(start), time.Nanosecond) }()
		b.w.arm(b.rest, errIdle)
	default:
		b.w.arm(b.idle, errIdle)
	}
	n, err := b.ReadCloser.Read(p)
	b.w.pause()
	b.count(n)
	return n, err
}

func (b *timedBody) count(n int) {
	b.dry += n
	b.left -= n
}

// maxDry is how many bytes may come without any content: comments show life, but gigabytes of them only keep us busy.
// It is more than the longest event.
const maxDry = 40 << 20

// maxBlank is how much white space before an answer is passed over.
const maxBlank = 1 << 20

// peek passes over white space and a byte order mark, and says what the first byte behind them is. It is read again.
func (b *timedBody) peek() (byte, error) {
	for range maxBlank {
		n, err := b.ReadCloser.Read(b.ahead[:])
		if n > 0 && !blank(b.ahead[0]) {
			b.held = true
			return b.ahead[0], nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func blank(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF, 0:
		return true
	}
	return false
}
