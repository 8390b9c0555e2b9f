package journal

import (
	"errors"
	"fmt"
)

// rotateBefore begins a new segment if the next n bytes would make the active one too long. If it cannot, they go into
// the old one. j.mu is held; with Power, so is the lead.
func (j *Journal) rotateBefore(n int64) {
	if j.suspect != nil || j.size <= segmentHeader || j.size+n <= max(j.segBytes, j.rotateAt) {
		return
	}
	if err := j.rotate(); err != nil {
		if j.rotateAt == 0 {
			j.log.Error("journal: cannot begin a new segment, staying in the old one", "error", err)
		}
		j.rotateAt = j.size + j.segBytes/4
	}
}

// rotate syncs the active segment and begins the next one. After an error the old one is still active, or the active one
// is suspect.
func (j *Journal) rotate() error {
	if j.durability == Process { // with Power all that was written is on the disk
		if err := j.active.Datasync(); err != nil {
			j.distrust(err)
			return j.escape()
		}
		j.safe(j.next-1, j.unsafe.end())
	}
	return j.begin(j.done.Load()+1, j.done.Load(), nil)
}

// distrust notes that a sync of the active segment failed with err.
func (j *Journal) distrust(err error) {
	j.suspect = fmt.Errorf("sync journal: %w", err)
	j.ailing.Store(true)
}

// escape leaves a suspect segment: what is not safe is written once more, into a new one. When that fails too, Process
// keeps it in memory and in the old file; with Power the records were acknowledged to nobody and are forgotten, and their
// sequences are used again. j.mu is held; with Power, so is the lead.
func (j *Journal) escape() error {
	cause := j.suspect
	first := j.done.Load() + 1
	follows := first - 1
	if active := j.segments[len(j.segments)-1]; active.first == first {
		follows = active.follows
	}
	n, old := j.unsafe.size, j.active
	err := j.begin(first, follows, &j.unsafe)
	if err == nil {
		if !errors.Is(cause, errUnsure) {
			j.log.Warn("journal: the disk failed; what it may have lost was written again", "segment", j.segments[len(j.segments)-1].name,
				"bytes", n, "error", cause)
		}
		j.safe(j.next-1, j.unsafe.end())
		j.ailing.Store(false)
		return nil
	}
	if !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	if j.durability == Power {
		if j.active != old {
			j.grown(-n) // the new segment is there, its name is not safe
		}
		j.next = first
		j.unsafe.drop(j.unsafe.end())
	}
	return err
}

// begin makes the segment with the sequence first, which follows the sequence follows, and carries the records in carry
// over from the active one. After an error the old one is still active, or the new one is and j.suspect is set.
func (j *Journal) begin(first, follows uint64, carry *backlog) error {
	s := &segment{name: segmentName(first), id: j.id, first: first, follows: follows, last: first - 1}
	f, err := j.makeSegment(s, carry)
	if err != nil {
		return err
	}
	room, err := allocate(f, s.size, j.promised.Load())
	if err != nil && j.suspect == nil {
		return errors.Join(err, f.Close(), j.disk.Remove(halfSegment))
	}
	if err := j.disk.Rename(halfSegment, s.name); err != nil {
		return errors.Join(fmt.Errorf("create segment: %w", err), f.Close(), j.disk.Remove(halfSegment))
	}
	j.install(s, f)
	j.room.Store(room)
	if err := j.disk.Sync(); err != nil {
		j.distrust(err) // a power cut may take the file's name away
		return j.suspect
	}
	j.suspect = nil
	return nil
}

// makeSegment makes the file of a segment under its passing name, with all of its content on the disk.
func (j *Journal) makeSegment(s *segment, carry *backlog) (file, error) {
	f, err := j.disk.Create(halfSegment, j.durability == Power)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	g := &guarded{file: f}
	parts := [][]byte{s.appendHeader(nil)}
	if carry != nil {
		parts = carry.bytes(parts)
	}
	for _, b := range parts {
		if err == nil {
			_, err = g.WriteAt(b, s.size)
			s.size += int64(len(b))
		}
	}
	if err == nil {
		err = g.Datasync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create segment: %w", err), g.Close(), j.disk.Remove(halfSegment))
	}
	return g, nil
}

// install makes s the active segment.
func (j *Journal) install(s *segment, f file) {
	if n := len(j.segments); j.active != nil {
		old, good := j.segments[n-1], j.size
		if j.durability == Process {
			good -= j.unsafe.size // carried over, if there are any
		}
		j.used.Add(good - j.size)
		if old.name == s.name {
			j.used.Add(-good)
			j.segments = j.segments[:n-1]
		} else {
			old.last, old.size = j.done.Load(), good
			if err := j.active.Truncate(good); err != nil && j.suspect == nil {
				j.log.Warn("journal: cutting a full segment", "error", err) // what stands behind is never read
			}
		}
		if err := j.active.Close(); err != nil && j.suspect == nil {
			j.log.Warn("journal: closing a full segment", "error", err) // its records are synced
		}
	}
	j.segments = append(j.segments, s)
	j.used.Add(s.size)
	j.active, j.size, j.zeroed, j.torn, j.rotateAt = f, s.size, s.size, false, 0
}

// SkipTo makes seq the sequence of the next record, if it is not past that already. It is for a reader that has
// already acted on records which a power cut then took from the journal's tail: their sequences must not come again.
func (j *Journal) SkipTo(seq uint64) error {
	if err := j.Sync(); err != nil {
		return fmt.Errorf("skip to sequence %d: %w", seq, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return ErrClosed
	case seq <= j.next:
		return nil
	case j.leading || j.unsafe.size > 0 || j.suspect != nil:
		return fmt.Errorf("skip to sequence %d: records are being written", seq)
	}
	old := j.active
	err := j.begin(seq, j.next-1, nil)
	if j.active != old {
		j.next = seq
		j.done.Store(seq - 1)
	}
	if err != nil {
		return fmt.Errorf("skip to sequence %d: %w", seq, err)
	}
	return nil
}
