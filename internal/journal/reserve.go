package journal

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// allocateStep is how many bytes are set aside on the disk at a time.
	allocateStep = 4 << 20
	// maxBehind bounds the bytes of written records that the disk has not taken yet: they are kept in memory until then.
	maxBehind = 64 << 20
	// reserveRetry is the first pause between tries of a disk that failed; each further one is twice as long, up to
	// reserveRetryMax. Every request asks for space, and a disk that fails is not helped by a thousand tries a second.
	reserveRetry    = 10 * time.Millisecond
	reserveRetryMax = time.Second
)

var errBehind = errors.New("the disk does not keep up with what is written")

// Reserve holds back space for one record, so that Append for a finished request does not run out of it. It fails
// with ErrFull when what is used and promised would pass MaxBytes, and with the system's error when the disk has no
// space or failed the last write. Every Reserve that returned nil needs one Unreserve, after the Append.
func (j *Journal) Reserve() error {
	promised := j.promised.Add(promise)
	if j.used.Load()+promised > j.maxBytes {
		j.Unreserve()
		return ErrFull
	}
	if j.behind.Load() > maxBehind {
		j.Unreserve()
		return fmt.Errorf("reserve space for a record: %w", errBehind)
	}
	if promised <= j.room.Load() && !j.ailing.Load() {
		return nil
	}
	if err := j.makeRoom(); err != nil {
		j.Unreserve()
		return fmt.Errorf("reserve space for a record: %w", err)
	}
	return nil
}

// Unreserve gives back what Reserve held back.
func (j *Journal) Unreserve() { j.promised.Add(-promise) }

// makeRoom sets space aside for all that is promised, and tries the disk again if it failed. When that fails too, whoever
// asks within the next pause gets the same error.
func (j *Journal) makeRoom() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if time.Now().Before(j.retryAt) {
		return j.refused
	}
	if j.refused = j.tryRoom(); j.refused != nil {
		j.pause = min(max(2*j.pause, j.retry), j.retryMax)
		j.retryAt = time.Now().Add(j.pause)
		return j.refused
	}
	j.pause, j.retryAt = 0, time.Time{}
	return nil
}

func (j *Journal) tryRoom() error {
	if err := j.heal(); err != nil {
		return err
	}
	if promised := j.promised.Load(); promised > j.room.Load() {
		room, err := allocate(j.active, j.size, promised)
		if err != nil {
			return err
		}
		j.room.Store(room)
	}
	return nil
}

// heal tries the disk again if it failed.
func (j *Journal) heal() error {
	switch {
	case !j.ailing.Load():
		return nil
	case j.suspect != nil && j.leading:
		return j.suspect // the leader is at it
	case j.suspect != nil:
		if err := j.escape(); err != nil {
			return err
		}
	default:
		if err := j.probe(); err != nil {
			return err
		}
	}
	j.ailing.Store(false)
	j.log.Info("journal: the disk takes records again")
	return nil
}

// probe writes where the next record will stand, syncs and takes it back.
func (j *Journal) probe() error {
	if _, err := j.active.WriteAt(make([]byte, promise), j.size); err != nil {
		return errors.Join(err, j.active.Truncate(j.size))
	}
	if err := j.active.Datasync(); err != nil {
		j.distrust(err)
		return errors.Join(err, j.active.Truncate(j.size))
	}
	if err := j.active.Truncate(j.size); err != nil {
		return err
	}
	j.torn = false
	j.room.Store(0) // Truncate gave the blocks back
	return nil
}

// allocate sets aside at least need bytes from off, more if the disk has plenty, and returns how many. Where the
// file system cannot promise space the answer is: without bound.
func allocate(f file, off, need int64) (int64, error) {
	err := f.Allocate(off, need+allocateStep)
	if err == nil {
		return need + allocateStep, nil
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return math.MaxInt64 / 2, nil
	}
	if need == 0 {
		return 0, nil
	}
	if err := f.Allocate(off, need); err != nil {
		return 0, err
	}
	return need, nil
}
