package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// errStop ends a replay at the last record that was written before it began.
var errStop = errors.New("stop")

// Replay calls fn for every record from sequence from on that was written before the call, in order. The payload is
// good until fn returns. An error of fn ends the replay and is returned as it is.
func (j *Journal) Replay(from uint64, fn func(seq uint64, payload []byte) error) error {
	j.mu.Lock()
	list, last := slices.Clone(j.segments), j.next-1
	j.mu.Unlock()
	for i, s := range list {
		if s.first > last {
			return nil
		}
		if i+1 < len(list) && list[i+1].first <= from {
			continue
		}
		if err := replaySegment(s, from, last, fn); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

func replaySegment(s *segment, from, last uint64, fn func(uint64, []byte) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("replay segment: %w", err)
	}
	defer f.Close()
	probe := segment{path: s.path, first: s.first} // the scanner writes into it
	sc, err := newScanner(f, &probe)
	if err != nil {
		return fmt.Errorf("replay segment %s: %w: %w", filepath.Base(s.path), ErrDamaged, err)
	}
	err = sc.run(func(seq uint64, payload []byte) error {
		if seq >= from {
			if err := fn(seq, payload); err != nil {
				return err
			}
		}
		if seq == last {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errTorn) {
		return sc.damaged()
	}
	return err
}

// Discard removes the segments whose records all have a sequence up to upTo. The active segment stays.
func (j *Journal) Discard(upTo uint64) error {
	j.mu.Lock()
	n := 0
	var freed int64
	for n < len(j.segments)-1 && j.segments[n].last <= upTo {
		freed += j.segments[n].size
		n++
	}
	gone := slices.Clone(j.segments[:n])
	j.segments = slices.Delete(j.segments, 0, n)
	j.mu.Unlock()
	if n == 0 {
		return nil
	}
	j.used.Add(-freed)
	var errs []error
	for _, s := range gone {
		errs = append(errs, removeFile(s.path)) // ascending: a crash in between leaves no hole
	}
	errs = append(errs, syncDir(j.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("discard segments: %w", err)
	}
	return nil
}

// removeFile removes a file; one that is not there is no error.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
