package journal

import (
	"errors"
	"fmt"
	"path/filepath"
)

// keepBuffer is the largest write buffer that is kept for the next record, in bytes.
const keepBuffer = 1 << 20

// Append writes one record and returns its sequence when it is as durable as the journal promises. After an error
// the record is not acknowledged; the next Append may go well again. The payload may be reused at once.
func (j *Journal) Append(payload []byte) (uint64, error) {
	if len(payload) == 0 || len(payload) > MaxPayload {
		return 0, fmt.Errorf("append record of %d bytes: outside 1 to %d", len(payload), MaxPayload)
	}
	seq, err := j.write(payload)
	if err != nil {
		return 0, fmt.Errorf("append record: %w", err)
	}
	if j.durability == Power {
		if err := j.waitSynced(seq, false); err != nil {
			return 0, fmt.Errorf("append record: %w", err)
		}
		return seq, nil
	}
	select {
	case j.dirty <- struct{}{}:
	default:
	}
	return seq, nil
}

func (j *Journal) write(payload []byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, ErrClosed
	}
	n := int64(recordHeader + len(payload))
	if j.size > segmentHeader && j.size+n > max(j.segBytes, j.rotateAt) {
		if err := j.rotate(j.next); err != nil {
			if j.rotateAt == 0 {
				j.log.Error("journal: cannot begin a new segment, staying in the old one", "error", err)
			}
			j.rotateAt = j.size + j.segBytes/4
		}
	}
	j.buf = appendRecord(j.buf[:0], j.next, j.commit.done.Load(), payload)
	err := j.put(j.buf)
	if cap(j.buf) > keepBuffer {
		j.buf = nil
	}
	if err != nil {
		return 0, err
	}
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
	n := int64(len(b))
	j.size += n
	j.used.Add(n)
	j.room.Add(-n)
	return nil
}

// writeMark notes behind the last record that all before it is on the disk.
func (j *Journal) writeMark() error {
	last := j.next - 1
	if last < j.segments[len(j.segments)-1].first {
		return nil // nothing in this segment
	}
	if err := j.put(appendRecord(j.buf[:0], last, last, nil)); err != nil {
		return err
	}
	return j.active.Datasync()
}

// trim gives back what was allocated behind the tail.
func (j *Journal) trim() error {
	j.room.Store(0)
	return j.active.Truncate(j.size)
}

// rotate syncs the active segment and begins the next one at sequence first. After an error the old one is still
// active. j.mu is held.
func (j *Journal) rotate(first uint64) error {
	old := j.segments[len(j.segments)-1]
	if err := j.active.Datasync(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	j.commit.note(j.next - 1)
	s := &segment{path: filepath.Join(j.dir, segmentName(first)), id: j.id, first: first, follows: j.next - 1, last: first - 1}
	f, err := j.createSegment(s)
	if err != nil {
		return err
	}
	room, err := allocate(f, s.size, j.promised.Load())
	if err != nil {
		return errors.Join(err, f.Close(), removeFile(s.path))
	}
	if err := errors.Join(j.trim(), j.active.Close()); err != nil {
		j.log.Warn("journal: closing a full segment", "error", err) // its records are synced
	}
	old.last, old.size = j.next-1, j.size
	j.active, j.size, j.torn = f, s.size, false
	j.next, j.rotateAt = first, 0
	j.room.Store(room)
	j.used.Add(s.size)
	j.segments = append(j.segments, s)
	return nil
}

// SkipTo makes seq the sequence of the next record, if it is not past that already. It is for a reader that has
// already acted on records which a power cut then took from the journal's tail: their sequences must not come again.
func (j *Journal) SkipTo(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return ErrClosed
	case seq <= j.next:
		return nil
	}
	if err := j.rotate(seq); err != nil {
		return fmt.Errorf("skip to sequence %d: %w", seq, err)
	}
	j.commit.note(seq - 1)
	return nil
}
