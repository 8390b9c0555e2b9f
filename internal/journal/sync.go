package journal

import (
	"errors"
	"time"
)

const (
	// syncDelay is how long the background sync gathers writes: with the sync itself it stays below 50 ms.
	syncDelay = 30 * time.Millisecond
	// syncRetryMax is the longest pause between tries while the disk fails.
	syncRetryMax = time.Second
)

// Sync returns when every record written before the call is on the disk.
func (j *Journal) Sync() error {
	j.mu.Lock()
	closed := j.closed
	j.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return j.sync()
}

func (j *Journal) sync() error {
	if j.durability == Process {
		return j.syncWritten()
	}
	j.mu.Lock()
	if j.unsafe.size == 0 && j.suspect == nil {
		j.mu.Unlock()
		return nil
	}
	return j.join()
}

// syncWritten is Sync with Process.
func (j *Journal) syncWritten() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	f, last, end, suspect := j.active, j.next-1, j.unsafe.end(), j.suspect != nil
	j.mu.Unlock()
	if last <= j.done.Load() && !suspect {
		return nil
	}
	var err error
	if !suspect {
		err = f.Datasync()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.suspect != nil:
		return j.escape()
	case j.active != f: // it was left meanwhile, and is left only when its records are safe
		return nil
	case err != nil:
		j.distrust(err)
		return j.escape()
	}
	j.safe(last, end)
	return nil
}

// syncLoop brings what was written to the disk soon after.
func (j *Journal) syncLoop() {
	defer close(j.stopped)
	timer := time.NewTimer(0)
	<-timer.C
	delay := syncDelay
	for {
		select {
		case <-j.stop:
			return
		case <-j.dirty:
		}
		timer.Reset(delay)
		select {
		case <-j.stop:
			return
		case <-timer.C:
		}
		err := j.Sync()
		if err == nil || errors.Is(err, ErrClosed) {
			delay = syncDelay
			continue
		}
		if delay == syncDelay {
			j.log.Error("journal: the disk does not take what was written; records of the last moments would not survive a power cut", "error", err)
		}
		delay = min(2*delay, syncRetryMax)
		select {
		case j.dirty <- struct{}{}: // try again
		default:
		}
	}
}
