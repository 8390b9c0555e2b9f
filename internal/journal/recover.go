package journal

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// recover reads every segment, checks every record, cuts a torn tail and leaves the last segment open for writing.
func (j *Journal) recover() error {
	list, err := listSegments(j.dir)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	if _, err := rand.Read(j.id[:]); err != nil {
		return fmt.Errorf("draw journal id: %w", err)
	}
	for i, s := range list {
		if err := j.recoverSegment(s, i == len(list)-1); err != nil {
			return err
		}
		j.segments = append(j.segments, s)
		j.used.Add(s.size)
		j.next = s.last + 1
	}
	if len(j.segments) > 0 && j.active != nil {
		return nil
	}
	s := &segment{path: filepath.Join(j.dir, segmentName(j.next)), id: j.id, first: j.next, follows: j.next - 1, last: j.next - 1}
	if j.active, err = j.createSegment(s); err != nil {
		return err
	}
	j.segments = append(j.segments, s)
	j.size = s.size
	j.used.Add(s.size)
	return nil
}

// recoverSegment checks s against what came before it; the last segment is opened and its torn tail cut.
func (j *Journal) recoverSegment(s *segment, last bool) error {
	f, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	sc, err := newScanner(f, s)
	if errors.Is(err, errHeader) && last {
		if info, statErr := f.Stat(); statErr == nil && info.Size() <= segmentHeader {
			return j.remakeSegment(s) // the process died while it made the file: nothing can stand in it
		}
	}
	if err != nil {
		return fmt.Errorf("segment %s: %w: %w", filepath.Base(s.path), ErrDamaged, err)
	}
	if len(j.segments) == 0 {
		j.id = s.id
	} else if s.id != j.id || s.follows != j.next-1 {
		return fmt.Errorf("segment %s: %w: it does not follow sequence %d (a segment file is missing or foreign); restore it, or move the directory away to begin an empty journal",
			filepath.Base(s.path), ErrDamaged, j.next-1)
	}
	flaw := sc.run(nil)
	s.last, s.size = sc.next-1, sc.offset
	if flaw != nil && !errors.Is(flaw, errTorn) {
		return fmt.Errorf("segment %s: %w", filepath.Base(s.path), flaw)
	}
	if !last {
		if flaw != nil {
			return sc.damaged()
		}
		return nil
	}
	if flaw != nil {
		if err := j.inspectTail(f, sc); err != nil {
			return err
		}
	}
	return j.openActive(s)
}

// remakeSegment makes the last segment anew, with the id of the ones before it.
func (j *Journal) remakeSegment(s *segment) error {
	s.id, s.follows, s.last = j.id, s.first-1, s.first-1
	if len(j.segments) > 0 {
		s.follows = j.next - 1
	}
	f, err := j.createSegment(s)
	if err != nil {
		return err
	}
	j.active, j.size = f, s.size
	return nil
}

// openActive opens the last segment for writing and cuts what stands behind its last good record.
func (j *Journal) openActive(s *segment) error {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open segment for writing: %w", err)
	}
	j.active, j.size = j.wrap(osFile{f}), s.size
	if j.recovery.Cut == 0 {
		return nil
	}
	if err := errors.Join(j.active.Truncate(s.size), j.active.Datasync()); err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	j.log.Warn("journal: cut a torn tail", "segment", j.recovery.Segment, "bytes", j.recovery.Cut,
		"intact_records_dropped", j.recovery.Intact, "saved_as", j.recovery.Saved, "last_sequence", s.last)
	return nil
}

// inspectTail looks behind the first flaw of the last segment. A record there that was written when the flawed one
// was already on the disk proves a hole. Otherwise the disk never got the tail: it is noted in j.recovery.
func (j *Journal) inspectTail(f *os.File, sc *scanner) error {
	if _, err := f.Seek(sc.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read torn tail: %w", err)
	}
	rest, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read torn tail: %w", err)
	}
	r := Recovery{Cut: int64(len(rest)), Segment: filepath.Base(sc.seg.path)}
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
	}
	if r.Intact > 0 {
		r.Saved = fmt.Sprintf("%s.cut-at-%d", r.Segment, sc.offset)
		if err := saveFile(filepath.Join(j.dir, r.Saved), rest); err != nil {
			return fmt.Errorf("save torn tail: %w", err)
		}
	}
	j.recovery = r
	return nil
}

func saveFile(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
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
	buf    []byte
}

func newScanner(f *os.File, s *segment) (*scanner, error) {
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
		filepath.Base(sc.seg.path), ErrDamaged, sc.next, sc.offset)
}
