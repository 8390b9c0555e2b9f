// Package toolcheck holds the arguments of tool calls against the schemas that the request gave for them: beside the
// answering, by one worker, within bounds that no schema can pass.
package toolcheck

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queued     = 256      // answers that wait to be judged; more are dropped
	maxTools   = 64 << 10 // bytes of the list of tools of a request; nothing is known of a longer one
	maxArgs    = 64 << 10 // bytes of the arguments of a call
	maxKnown   = 256      // lists of tools that are kept
	slow       = 5 * time.Millisecond
	slowPauses = 10 * time.Minute // for which a list of tools is not looked at that took longer than that
)

// Call is a tool call of an answer.
type Call struct {
	Name string
	Args []byte // JSON; nothing = it has none
	Bad  bool   // it is known to be broken already
	Open bool   // its arguments are not complete, or too long to have been kept: nothing is said of them
}

// Judge judges tool calls. It is safe for concurrent use.
type Judge struct {
	seed  maphash.Seed
	queue chan answer

	mu    sync.Mutex
	known map[uint64]*Tools

	judged, dropped, tooSlow atomic.Int64
}

// Tools are the functions that a request offers. They are read when the first answer with a call is judged.
type Tools struct {
	raw    []byte
	once   sync.Once
	of     map[string]*function // by name
	pauses atomic.Int64         // unix nanoseconds up to which nothing is looked at
}

type answer struct {
	tools *Tools
	calls []Call
	told  func(calls, bad int)
}

// New makes a judge; Run judges.
func New() *Judge {
	return &Judge{seed: maphash.MakeSeed(), queue: make(chan answer, queued), known: map[uint64]*Tools{}}
}

// Tools are what is known of a request's list of tools, a JSON array, which is copied if it is seen for the first time;
// nil = it is too long. A nil judge knows none.
func (j *Judge) Tools(list []byte) *Tools {
	if j == nil || len(list) == 0 || len(list) > maxTools {
		return nil
	}
	sum := maphash.Bytes(j.seed, list)
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.known[sum]
	if t == nil {
		if len(j.known) == maxKnown {
			clear(j.known)
		}
		t = &Tools{raw: append([]byte(nil), list...)}
		j.known[sum] = t
	}
	return t
}

// Offer hands in the calls of a whole answer; told hears how many there are, and how many of them no client can carry out.
// It is false, and told hears nothing, if there is nothing to judge them by or too many answers wait. It never waits.
func (j *Judge) Offer(t *Tools, calls []Call, told func(calls, bad int)) bool {
	if j == nil || t == nil || len(calls) == 0 || time.Now().UnixNano() < t.pauses.Load() {
		return false
	}
	select {
	case j.queue <- answer{t, calls, told}:
		return true
	default:
		j.dropped.Add(1)
		return false
	}
}

// Run judges until ctx ends. What waits then is not judged any more.
func (j *Judge) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-j.queue:
			j.judge(a)
		}
	}
}

func (j *Judge) judge(a answer) {
	began := time.Now()
	bad := 0
	a.tools.once.Do(a.tools.read)
	for i := range a.calls {
		if c := &a.calls[i]; c.Bad || !c.Open && !a.tools.allow(c) {
			bad++
		}
	}
	if took := time.Since(began); took > slow { // the verdict stands, but the next of its kind are spared
		j.tooSlow.Add(1)
		a.tools.pauses.Store(time.Now().Add(slowPauses).UnixNano())
	}
	j.judged.Add(1)
	a.told(len(a.calls), bad)
}

// Judged is how many answers were judged.
func (j *Judge) Judged() int64 { return j.judged.Load() }

// Dropped is how many answers were not, because too many waited.
func (j *Judge) Dropped() int64 { return j.dropped.Load() }

// Slow is how many of those that were judged took longer than 5 ms.
func (j *Judge) Slow() int64 { return j.tooSlow.Load() }
