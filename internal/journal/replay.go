package journal

import (
	"errors"
	"fmt"
	"slices"
)

// errStop ends the replay of a segment at the last record that is to be read.
var errStop = errors.New("stop")

// Replay calls fn for every record from sequence from on that was written before the call, in order. The payload is
// good until fn returns. An error of fn ends the replay and is returned as it is.
func (j *Journal) Replay(from uint64, fn func(seq uint64, payload []byte) error) error {
	j.mu.Lock()
	list, last := slices.Clone(j.segments), j.last()
	for i, s := range list {
		c := *s // it may be given up meanwhile
		list[i] = &c
	}
	j.mu.Unlock()
	for i, s := range list {
		if s.first > last {
			return nil
		}
		if i+1 < len(list) && list[i+1].first <= from {
			continue
		}
		to := last
		if i+1 < len(list) {
			to = s.last // what stands behind it was given up
		}
		if err := j.replaySegment(s, from, to, fn); err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	return nil
}

func (j *Journal) replaySegment(s *segment, from, last uint64, fn func(uint64, []byte) error) error {
	if s.first > last {
		return nil
	}
	f, err := j.disk.Read(s.name)
	if err != nil {
		return fmt.Errorf("replay segment: %w", err)
	}
	defer f.Close()
	sc, err := newScanner(f, s)
	if err != nil {
		return fmt.Errorf("replay segment %s: %w: %w", s.name, ErrDamaged, err)
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

// Discard removes the segments whose records all have a sequence up to upTo, the oldest first and each for good before
// the next, so that neither a crash nor an error leaves a hole. The active segment stays.
func (j *Journal) Discard(upTo uint64) error {
	for {
		j.mu.Lock()
		s := j.segments[0]
		covered := len(j.segments) > 1 && s.last <= upTo
		j.mu.Unlock()
		if !covered {
			return nil
		}
		if err := j.disk.Remove(s.name); err != nil {
			return fmt.Errorf("discard segment: %w", err)
		}
		if err := j.disk.Sync(); err != nil {
			return fmt.Errorf("discard segment: %w", err)
		}
		j.mu.Lock()
		if j.segments[0] == s {
			j.segments = slices.Delete(j.segments, 0, 1)
			j.used.Add(-s.size)
		}
		j.mu.Unlock()
	}
}
