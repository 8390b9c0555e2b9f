package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"myip.co.kr/hearth"
)

// Bounds on what is read of streams whose callers have left. The time is the provider's.
const (
	abandonedBytes = 16 << 20 // of one stream
	abandonedMost  = 64       // streams at once
)

// errSettled ends the reading of a stream whose caller has left.
var errSettled = errors.New("enough was read for a caller who has left")

// settlement counts the streams that are read on although their callers have left. Clients that follow one another share
// one.
type settlement struct {
	most  int // streams at once
	bytes int // of one of them

	mu    sync.Mutex
	over  bool
	going map[*abandoned]struct{}
}

func newSettlement() *settlement {
	return &settlement{most: abandonedMost, bytes: abandonedBytes, going: make(map[*abandoned]struct{})}
}

func (s *settlement) take(a *abandoned) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.going) >= s.most {
		return false
	}
	s.going[a] = struct{}{}
	return true
}

func (s *settlement) leave(a *abandoned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.going, a)
}

// EndAbandoned ends the streams that are read on although their callers have left, those of earlier clients included, and
// from now on every stream ends when its caller leaves.
func (c *Client) EndAbandoned() {
	c.settlement.mu.Lock()
	defer c.settlement.mu.Unlock()
	c.settlement.over = true
	for a := range c.settlement.going {
		a.w.cancel(errSettled)
	}
}

// settles says whether the call's stream is read on when its caller leaves. An engine of ours never works for nobody.
func (c *Call) settles() bool {
	return c.Stream && c.Lease == nil && !c.Endpoint.Local() && c.Endpoint.Provider.Settle > 0
}

// abandoned is what becomes of a stream when its caller leaves: it is read on for some time, only to learn what it has
// used. A nil one is not: it ends with its caller.
type abandoned struct {
	settlement *settlement
	caller     context.Context // ends when the caller leaves
	limit      time.Duration
	w          *watchdog

	mu    sync.Mutex
	known bool // that the caller has left, or that it matters no more
	goes  bool // the stream is read on
	timer *time.Timer
}

// watchCall is watch for a call. The context of one that settles does not end with ctx by itself: until there is a stream
// it is made to, and then unhook ends that.
func (c *Client) watchCall(ctx context.Context, call *Call, total time.Duration) (*watchdog, *abandoned) {
	if !call.settles() {
		return watch(ctx, total), nil
	}
	w := watch(context.WithoutCancel(ctx), total)
	w.unhook = context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	return w, &abandoned{settlement: c.settlement, caller: ctx, limit: call.Endpoint.Provider.Settle, w: w}
}

// begin is called before the first byte goes to the caller. Whoever left before has been noticed by the watchdog.
func (a *abandoned) begin() {
	if a != nil && a.w.unhook() {
		a.w.unhook = context.AfterFunc(a.caller, func() { a.left(context.Cause(a.caller)) })
	}
}

// gone says that the caller has left, and why; nil = not yet. The end of the gateway is no leaving.
func (a *abandoned) gone() error {
	if a == nil || a.caller.Err() == nil {
		return nil
	}
	if why := context.Cause(a.caller); !errors.Is(why, ErrShutdown) {
		return why
	}
	return nil
}

// left is called when the caller has left, by everybody who finds out. It says whether the stream is read on; if not, the
// stream has been ended.
func (a *abandoned) left(why error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known {
		return a.goes
	}
	a.known = true
	if errors.Is(why, ErrShutdown) || !a.settlement.take(a) {
		a.w.cancel(why)
		return false
	}
	a.goes = true
	a.timer = time.AfterFunc(a.limit, func() { a.w.cancel(errSettled) })
	return true
}

// end gives back what the reading has taken. It may be called again, and for a nil one.
func (a *abandoned) end() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = true
	if a.goes {
		a.goes = false
		a.timer.Stop()
		a.settlement.leave(a)
	}
}

// leave is called with the error of a write to the caller, where nobody waits for it.
func (s *Stream) leave(why error) {
	if s.after == nil {
		s.w.cancel(why)
	} else {
		s.after.left(why)
	}
}

// abandon is the end of a stream whose caller has left, as why says: at once, or when it was read on for as long as that
// may tell what it has used.
func (s *Stream) abandon(k *sink, why error) End {
	_ = k.stop() // nobody hears of its error any more
	end := End{Verdict: hearth.Gone, Err: why}
	if s.after == nil || !s.after.left(why) {
		return end
	}
	s.body.bounded, s.body.left = true, s.after.settlement.bytes
	for !s.over {
		s.buf = s.buf[:0]
		s.advance()
	}
	s.buf = s.buf[:0]
	s.awaitEOF()
	end.Failure = s.end.Failure
	return end
}
