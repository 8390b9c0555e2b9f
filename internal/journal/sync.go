package journal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// syncDelay is how long the background sync gathers writes: with the sync itself it stays below 50 ms.
const syncDelay = 30 * time.Millisecond

// commit is the group commit: one of the goroutines that wait becomes the leader and syncs for all that was written
// by then; the others wait for it. Nobody lingers to gather more.
type commit struct {
	done atomic.Uint64 // every sequence up to here is on the disk

	mu       sync.Mutex
	cond     sync.Cond
	leading  bool
	failLow  uint64 // the last failed sync was for the sequences above failLow
	failHigh uint64 // up to and including failHigh
	err      error  // of that sync
}

func (c *commit) init(done uint64) {
	c.cond.L = &c.mu
	c.done.Store(done)
}

// note records that everything up to seq is on the disk.
func (c *commit) note(seq uint64) {
	for {
		was := c.done.Load()
		if was >= seq || c.done.CompareAndSwap(was, seq) {
			return
		}
	}
}

// waitSynced returns when the record seq is on the disk, or the sync that was to bring it there has failed. With
// again, an earlier failure is no answer: the sync is tried once more.
func (j *Journal) waitSynced(seq uint64, again bool) error {
	c := &j.commit
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		// A later sync that went well proves nothing for what an earlier one lost, so the failure counts first.
		if !again && seq > c.failLow && seq <= c.failHigh {
			return c.err
		}
		if c.done.Load() >= seq {
			return nil
		}
		if c.leading {
			c.cond.Wait()
			continue
		}
		c.leading, again = true, false
		c.mu.Unlock()
		low := c.done.Load()
		high, err := j.syncWritten()
		c.mu.Lock()
		c.leading = false
		if err != nil {
			c.failLow, c.failHigh, c.err = low, high, err
		} else {
			c.note(high)
			if seq <= c.failHigh { // this caller asked again
				c.failLow, c.failHigh = 0, 0
			}
		}
		c.cond.Broadcast()
	}
}

// syncWritten syncs the active segment and returns the last sequence that was written before.
func (j *Journal) syncWritten() (uint64, error) {
	j.mu.Lock()
	f, last := j.active, j.next-1
	j.mu.Unlock()
	err := f.Datasync()
	if err == nil || errors.Is(err, os.ErrClosed) {
		return last, nil // a segment is closed only after it was synced
	}
	j.ailing.Store(true)
	return last, fmt.Errorf("sync journal: %w", err)
}

// syncLoop brings what was written to the disk soon after.
func (j *Journal) syncLoop() {
	defer close(j.stopped)
	timer := time.NewTimer(0)
	<-timer.C
	failing := false
	for {
		select {
		case <-j.stop:
			return
		case <-j.dirty:
		}
		timer.Reset(syncDelay)
		select {
		case <-j.stop:
			return
		case <-timer.C:
		}
		err := j.Sync()
		switch {
		case err == nil || errors.Is(err, ErrClosed):
			failing = false
		case !failing:
			failing = true
			j.log.Error("journal: the disk does not take what was written; records of the last moments would not survive a power cut", "error", err)
			fallthrough
		default:
			select {
			case j.dirty <- struct{}{}: // try again
			default:
			}
		}
	}
}
