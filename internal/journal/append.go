package journal

import (
	"errors"
	"fmt"
)

// Append writes one record and returns its sequence when it is as durable as the journal promises. After an error
// the record is not acknowledged; the next Append may go well again. The payload may be reused at once.
func (j *Journal) Append(payload []byte) (uint64, error) {
	if len(payload) == 0 || len(payload) > MaxPayload {
		return 0, fmt.Errorf("append record of %d bytes: outside 1 to %d", len(payload), MaxPayload)
	}
	if j.durability == Power {
		return j.appendSynced(payload)
	}
	seq, err := j.write(payload)
	if err != nil {
		return 0, fmt.Errorf("append record: %w", err)
	}
	select {
	case j.dirty <- struct{}{}:
	default:
	}
	return seq, nil
}

// write is Append with Process: the record is in the file when it returns.
func (j *Journal) write(payload []byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, ErrClosed
	}
	j.rotateBefore(int64(recordHeader + len(payload)))
	record := j.unsafe.add(j.next, j.done.Load(), payload)
	if err := j.put(record); err != nil {
		j.unsafe.undo(len(record))
		return 0, err
	}
	j.behind.Store(j.unsafe.size)
	seq := j.next
	j.next++
	return seq, nil
}

// put writes b at the tail, or leaves the tail as it was.
func (j *Journal) put(b []byte) error {
	if j.torn {
		if err := j.active.Truncate(j.size); err != nil {
			return fmt.Errorf("clear the remains of a failed write: %w", err)
		}
		j.torn = false
	}
	if _, err := j.active.WriteAt(b, j.size); err != nil {
		j.ailing.Store(true)
		j.room.Store(0) // cutting the tail back gives the allocated blocks back too
		if cut := j.active.Truncate(j.size); cut != nil {
			j.torn = true
			err = errors.Join(err, cut)
		}
		return err
	}
	j.grown(int64(len(b)))
	return nil
}

// grown counts n bytes that were written at the tail.
func (j *Journal) grown(n int64) {
	j.size += n
	j.used.Add(n)
	j.room.Add(-n)
}

// safe notes that the records up to seq, whose bytes end at end, are on the disk.
func (j *Journal) safe(seq uint64, end int64) {
	if seq > j.done.Load() {
		j.done.Store(seq)
	}
	j.unsafe.drop(end)
	j.behind.Store(j.unsafe.size)
}
