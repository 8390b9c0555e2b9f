package journal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
)

// recover reads every segment, checks every record, cuts a torn tail and leaves the last segment open for writing, with
// all that was found on the disk.
func (j *Journal) recover() error {
	if err := j.disk.Remove(halfSegment); err != nil {
		return fmt.Errorf("remove a segment that was not finished: %w", err)
	}
	list, err := listSegments(j.disk)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	if _, err := rand.Read(j.id[:]); err != nil {
		return fmt.Errorf("draw journal id: %w", err)
	}
	for i, s := range list {
		if i == len(list)-1 {
			err = j.recoverLast(s)
		} else {
			err = j.recoverSegment(s, list[i+1])
		}
		if err != nil {
			return err
		}
	}
	if j.active != nil {
		return nil
	}
	return j.begin(j.next, j.next-1, nil)
}

// recoverSegment checks a segment that is not the last one. What stands in it behind the sequence that its successor
// follows was given up.
func (j *Journal) recoverSegment(s, successor *segment) error {
	f, err := j.disk.Read(s.name)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	sc, err := j.checkHeader(f, s)
	if err != nil {
		return err
	}
	to := uint64(math.MaxUint64)
	if g, err := j.disk.Read(successor.name); err == nil {
		probe := *successor
		if _, err := newScanner(g, &probe); err == nil {
			to = probe.follows
		}
		_ = g.Close()
	}
	if to >= s.first {
		err = sc.run(func(seq uint64, _ []byte) error {
			if seq == to {
				return errStop
			}
			return nil
		})
	}
	switch {
	case errors.Is(err, errTorn):
		return sc.damaged()
	case err != nil && !errors.Is(err, errStop):
		return fmt.Errorf("segment %s: %w", s.name, err)
	}
	j.found(s, sc)
	return nil
}

// recoverLast checks the last segment, cuts its torn tail and opens it for writing.
func (j *Journal) recoverLast(s *segment) error {
	f, err := j.disk.Read(s.name)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	sc, err := j.checkHeader(f, s)
	if errors.Is(err, errHeader) {
		if n, sizeErr := f.Seek(0, io.SeekEnd); sizeErr == nil && n <= segmentHeader {
			// The disk has its name and not its content: nothing was ever acknowledged from it. It is made again.
			follows := j.next - 1
			j.next = s.first
			return j.begin(s.first, follows, nil)
		}
	}
	if err != nil {
		return err
	}
	flaw := sc.run(nil)
	if flaw != nil && !errors.Is(flaw, errTorn) {
		return fmt.Errorf("segment %s: %w", s.name, flaw)
	}
	j.found(s, sc)
	if flaw != nil {
		if err := j.inspectTail(f, sc); err != nil {
			return err
		}
	}
	return j.openActive(s, f, max(sc.proven, s.first-1), flaw != nil)
}

// checkHeader checks that s follows what came before it.
func (j *Journal) checkHeader(f io.Reader, s *segment) (*scanner, error) {
	sc, err := newScanner(f, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("segment %s: %w: %w", s.name, ErrDamaged, err)
	case len(j.segments) == 0:
		j.id = s.id
	case s.id != j.id || s.follows != j.next-1:
		return nil, fmt.Errorf("segment %s: %w: it does not follow sequence %d (a segment file is missing or foreign); restore it, or move the directory away to begin an empty journal",
			s.name, ErrDamaged, j.next-1)
	}
	return sc, nil
}

// found takes s, read to its end by sc, into the journal.
func (j *Journal) found(s *segment, sc *scanner) {
	s.last, s.size = sc.next-1, sc.offset
	j.segments = append(j.segments, s)
	j.used.Add(s.size)
	j.next = s.last + 1
}

// errUnsure is why the segment of a killed process is left.
var errUnsure = errors.New("the last process was killed")

// openActive opens the last segment for writing and cuts what stands behind its last good record. What a killed process
// wrote last may be in the system's memory only, and a sync of it may have failed already: it is written once more.
func (j *Journal) openActive(s *segment, f io.ReadSeeker, proven uint64, cut bool) error {
	w, err := j.disk.Change(s.name, j.durability == Power)
	if err != nil {
		return fmt.Errorf("open segment for writing: %w", err)
	}
	j.active, j.size, j.zeroed = &guarded{file: w}, s.size, s.size
	if r := j.recovery; r.Cut > 0 {
		j.log.Warn("journal: cut a torn tail", "segment", r.Segment, "bytes", r.Cut,
			"intact_records_dropped", r.Intact, "saved_as", r.Saved, "last_sequence", s.last)
	}
	if proven < s.last {
		return j.rewrite(s, f, proven)
	}
	if cut {
		err = errors.Join(j.active.Truncate(s.size), j.active.Datasync())
	}
	if err = errors.Join(err, j.disk.Sync()); err != nil {
		return fmt.Errorf("sync what was found: %w", err)
	}
	return nil
}

// rewrite writes the records behind proven into a new segment.
func (j *Journal) rewrite(s *segment, f io.ReadSeeker, proven uint64) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	sc, err := newScanner(f, s)
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	err = sc.run(func(seq uint64, payload []byte) error {
		if seq > proven {
			j.unsafe.add(seq, proven, payload)
		}
		if seq == s.last {
			return errStop
		}
		return nil
	})
	if !errors.Is(err, errStop) {
		return fmt.Errorf("read segment again: %w", err)
	}
	if j.durability == Power {
		j.grown(-j.unsafe.size) // they count when they are written
	}
	j.done.Store(proven)
	j.suspect = errUnsure
	return j.escape()
}

// inspectTail looks behind the first flaw of the last segment. A record there that was written when the flawed one
// was already on the disk proves a hole. Otherwise the disk never got the tail: it is noted in j.recovery. Zeros at the
// end were written ahead, and are no loss.
func (j *Journal) inspectTail(f io.ReadSeeker, sc *scanner) error {
	if _, err := f.Seek(sc.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read torn tail: %w", err)
	}
	rest, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read torn tail: %w", err)
	}
	lost := len(bytes.TrimRight(rest, "\x00"))
	if lost == 0 {
		return nil
	}
	r := Recovery{Segment: sc.seg.name}
	for i := 0; i+recordHeader <= len(rest); {
		h := readHeader(rest[i:])
		end := i + recordHeader + int(h.length)
		// A later sequence cannot be further ahead than there is room for records.
		plausible := h.seq >= sc.next-1 && h.seq-sc.next <= uint64(len(rest)/recordHeader)+1 && h.length <= MaxPayload
		if h.length == 0 && h.seq < sc.next { // a mark of what was read already proves nothing
			plausible = false
		}
		if !plausible || end > len(rest) || !intact(rest[i:end]) {
			i++
			continue
		}
		if h.synced >= sc.next {
			return sc.damaged()
		}
		r.Intact++
		i = end
		lost = max(lost, end)
	}
	r.Cut = int64(lost)
	if r.Intact > 0 {
		r.Saved = fmt.Sprintf("%s.cut-at-%d", r.Segment, sc.offset)
		if err := j.save(r.Saved, rest[:lost]); err != nil {
			return fmt.Errorf("save torn tail: %w", err)
		}
	}
	j.recovery = r
	return nil
}

func (j *Journal) save(name string, b []byte) error {
	f, err := j.disk.Create(name, false)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Datasync(), f.Close())
}

var (
	errHeader = errors.New("its header is not one of this journal")
	errTorn   = errors.New("record is not whole")
)

// scanner reads the records of one segment in order.
type scanner struct {
	seg    *segment
	r      *bufio.Reader
	offset int64  // of the first byte not yet accepted
	next   uint64 // sequence expected next
	proven uint64 // up to here the records say themselves that they are on the disk
	buf    []byte
}

func newScanner(f io.Reader, s *segment) (*scanner, error) {
	sc := &scanner{seg: s, r: bufio.NewReaderSize(f, 256<<10), offset: segmentHeader, next: s.first}
	var head [segmentHeader]byte
	if _, err := io.ReadFull(sc.r, head[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read header: %w", err)
	}
	if !s.readHeader(head[:]) {
		return nil, errHeader
	}
	return sc, nil
}

// run calls fn for every record; the payload is good until fn returns. It returns nil at a clean end of the file,
// errTorn at the first flaw, else the read's or fn's error.
func (sc *scanner) run(fn func(seq uint64, payload []byte) error) error {
	for {
		head, err := sc.r.Peek(recordHeader)
		if len(head) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return tornOr(err)
		}
		h := readHeader(head)
		if !h.fits(sc.next) {
			return errTorn
		}
		n := recordHeader + int(h.length)
		if cap(sc.buf) < n {
			sc.buf = make([]byte, n+n/2)
		}
		rec := sc.buf[:n]
		if _, err := io.ReadFull(sc.r, rec); err != nil {
			return tornOr(err)
		}
		if !intact(rec) {
			return errTorn
		}
		sc.offset += int64(n)
		sc.proven = max(sc.proven, h.synced)
		if h.length == 0 {
			continue
		}
		sc.next++
		if fn != nil {
			if err := fn(h.seq, rec[recordHeader:]); err != nil {
				return err
			}
		}
	}
}

func tornOr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return fmt.Errorf("read segment: %w", err)
}

func (sc *scanner) damaged() error {
	return fmt.Errorf("segment %s: %w: record %d at byte %d is not as it was written, but later ones are; restore the file, or move the directory away to begin an empty journal",
		sc.seg.name, ErrDamaged, sc.next, sc.offset)
}
