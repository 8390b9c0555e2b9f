package journal

import (
	"fmt"
	"sync"
)

// zeroStep is how many bytes of a segment are written with zeros at a time before records stand there. A sync then has
// only the records to write: without it the file's size and block map change each time, and are written too.
const zeroStep = 1 << 20

var zeros [zeroStep]byte

// waiter is somebody who waits for the disk.
type waiter struct {
	told chan verdict
	next *waiter
}

// queue holds waiters in the order they came.
type queue struct{ first, last *waiter }

func (q *queue) add(w *waiter) {
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

// cut takes the waiters up to and including last out of q.
func (q *queue) cut(last *waiter) (first *waiter) {
	if last == nil {
		return nil
	}
	first, q.first, last.next = q.first, last.next, nil
	if q.first == nil {
		q.last = nil
	}
	return first
}

// verdict is what a waiter is told: what he waited for is done or has failed, or it is his turn to lead.
type verdict struct {
	err  error
	lead bool
}

var waiters = sync.Pool{New: func() any { return &waiter{told: make(chan verdict, 1)} }}

// appendSynced is Append with Power. Group commit: one of those that wait leads, writes and syncs what all of them had
// to write by then, tells them and hands the lead to the first of those that came meanwhile. Nobody lingers to gather
// more.
func (j *Journal) appendSynced(payload []byte) (uint64, error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return 0, fmt.Errorf("append record: %w", ErrClosed)
	}
	seq := j.next
	j.next++
	j.unsafe.add(seq, j.done.Load(), payload)
	if err := j.join(); err != nil {
		return 0, fmt.Errorf("append record: %w", err)
	}
	return seq, nil
}

// join returns when all that is in j.unsafe is on the disk, or could not be brought there. j.mu is held, and given free.
func (j *Journal) join() error {
	if !j.leading {
		j.leading = true
		return j.lead()
	}
	w := waiters.Get().(*waiter)
	j.waiting.add(w)
	j.mu.Unlock()
	v := <-w.told
	waiters.Put(w)
	if !v.lead {
		return v.err
	}
	j.mu.Lock()
	return j.lead()
}

// lead brings j.unsafe to the disk for all that wait. j.mu is held, and given free.
func (j *Journal) lead() error {
	last := j.waiting.last // those that come later wait for the next one
	all, err := j.flush()
	if all {
		last = j.waiting.last
	}
	group := j.waiting.cut(last)
	next := j.waiting.cut(j.waiting.first)
	j.leading = next != nil
	j.mu.Unlock()
	if next != nil {
		next.told <- verdict{lead: true}
	}
	for group != nil {
		w := group
		group, w.next = w.next, nil // once told it belongs to somebody else
		w.told <- verdict{err: err}
	}
	return err
}

// flush writes and syncs j.unsafe as it is when it begins. all: the outcome is also that of what was added since. j.mu is
// held, but not while the disk works.
func (j *Journal) flush() (all bool, err error) {
	n, last, end := j.unsafe.size, j.next-1, j.unsafe.end()
	j.rotateBefore(n)
	if j.suspect != nil {
		return true, j.escape()
	}
	if n == 0 {
		return false, nil
	}
	j.batch = j.unsafe.bytes(j.batch[:0])
	f, at, zeroed := j.active, j.size, j.zeroed
	j.mu.Unlock()
	zeroed, err = j.zeroAhead(f, at, zeroed, n)
	for _, b := range j.batch {
		if err == nil {
			err = f.WriteSync(b, at)
			at += int64(len(b))
		}
	}
	j.mu.Lock()
	if err != nil {
		j.distrust(err)
		return true, j.escape()
	}
	j.zeroed = zeroed
	j.grown(n)
	j.safe(last, end)
	return false, nil
}

// zeroAhead makes sure that n bytes from at were written before, and returns up to where they are.
func (j *Journal) zeroAhead(f file, at, zeroed, n int64) (int64, error) {
	zeroed = max(zeroed, at)
	for zeroed < at+n {
		step := min(zeroStep, max(j.segBytes, at+n)-zeroed)
		if err := f.WriteSync(zeros[:step], zeroed); err != nil {
			return zeroed, err
		}
		zeroed += step
	}
	return zeroed, nil
}
