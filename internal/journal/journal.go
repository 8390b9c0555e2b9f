// Package journal is an append-only file log of records. A record that Append has acknowledged is found again by
// Replay after the process was killed at any instant (Process) or after the power failed (Power).
//
// The log is a directory of segment files, each named after its first sequence. A segment begins with a header and
// holds records one behind the other:
//
//	CRC-32C  uint32   over everything behind it
//	length   uint32   of the payload; 0 is a mark, written by Close
//	sequence uint64   counts records from 1; a mark repeats the last one
//	synced   uint64   the last sequence known to be on the disk when the record was written
//	payload
//
// All numbers are little-endian. The synced field lets recovery tell a tail the disk never got (it is cut and
// reported) from a hole in what was safely written (it is refused).
//
// A segment whose sync failed is given up, because nobody can know what of it is on the disk: the records that were not
// safe are written once more into a new segment, whose header says where the old one's good part ends.
package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Durability says what Append waits for.
type Durability string

const (
	// Process: write(2) has returned. Survives the death of the process; fdatasync follows within 50 ms.
	Process Durability = "process"
	// Power: fdatasync has returned. Survives a power cut.
	Power Durability = "power"
)

const (
	defaultSegment = 64 << 20
	defaultMax     = 1 << 30
	minSegment     = 4 << 10
	// MaxPayload is the largest payload of one record in bytes.
	MaxPayload = 16 << 20
	// promise is the space in bytes one Reserve holds back. A record may be larger: the bound is then passed by
	// the difference, because a finished answer is never refused its record.
	promise = 8 << 10
)

var (
	// ErrFull is returned by Reserve when the journal may not grow any more.
	ErrFull = errors.New("journal is full")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("journal is closed")
	// ErrDamaged is returned by Open and Replay for a hole in what was safely written.
	ErrDamaged = errors.New("journal is damaged")
	// ErrInUse is returned by Open when another process holds the directory.
	ErrInUse = errors.New("journal is in use by another process")
)

// Options say where and how a journal is kept.
type Options struct {
	Dir          string       // created with mode 0700 if it is not there
	SegmentBytes int64        // a new segment is begun at this size; default 64 MiB, at most a quarter of MaxBytes
	MaxBytes     int64        // bound on all segments together, in bytes; default 1 GiB
	Durability   Durability   // default Process
	Log          *slog.Logger // default: discard

	disk  disk          // tests put a model in the real one's place
	pause time.Duration // instead of reserveRetry
}

// Recovery is what Open found at the end of the last segment.
type Recovery struct {
	Cut     int64  // bytes cut from the tail, 0 = none
	Intact  int    // whole records within the cut bytes, dropped because one before them was torn
	Segment string // file the tail was cut from
	Saved   string // file the cut bytes were copied to, "" if they held no whole record
}

// Journal is an open journal. Its methods may be called from many goroutines.
type Journal struct {
	dir        string
	disk       disk
	id         [16]byte
	segBytes   int64
	maxBytes   int64
	durability Durability
	log        *slog.Logger
	recovery   Recovery
	lock       io.Closer
	retry      time.Duration // the first pause of makeRoom
	retryMax   time.Duration // and the longest

	done     atomic.Uint64 // every sequence up to here is on the disk
	used     atomic.Int64  // bytes in all segments
	promised atomic.Int64  // bytes held back by Reserve
	room     atomic.Int64  // bytes allocated on the disk behind the tail of the active segment
	behind   atomic.Int64  // bytes of the records behind done
	ailing   atomic.Bool   // the last write or sync failed: Reserve looks before it promises

	syncing sync.Mutex // Process: held by the one that syncs; taken before mu

	mu       sync.Mutex // guards what follows; the one writer lock
	segments []*segment // ascending; the last one is active
	active   file
	size     int64 // of the active segment's good bytes
	zeroed   int64 // Power: up to here the active segment's file was written with zeros ahead
	torn     bool  // bytes of a failed write may stand behind size
	suspect  error // a sync of the active segment failed: nothing behind done is known of it
	next     uint64
	rotateAt int64 // after a segment could not be begun: try again at this size
	closed   bool

	refused error         // why makeRoom failed the last time, and
	pause   time.Duration // how long it does not try again
	retryAt time.Time

	unsafe backlog // the records behind done. Process: they are in the file; Power: the leader writes them

	leading bool     // Power: somebody writes and syncs for all that wait
	waiting queue    // Power
	batch   [][]byte // Power: what the leader writes

	dirty   chan struct{} // something was written since the last background sync
	stop    chan struct{}
	stopped chan struct{}
}

// Open opens the journal in o.Dir, cuts a torn tail and starts the background sync. The caller must Close it.
func Open(o Options) (*Journal, error) {
	const remedy = "give the user that runs hearth write permission there, or configure another directory"
	j := newJournal(o)
	lock, err := j.disk.Lock()
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("%w: %s (end that process, or configure another directory)", err, o.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, remedy)
	}
	j.lock = lock
	if err := j.recover(); err != nil {
		if j.active != nil {
			_ = j.active.Close()
		}
		_ = lock.Close()
		return nil, fmt.Errorf("open journal %s: %w", o.Dir, err)
	}
	j.done.Store(j.next - 1)
	if j.durability == Process {
		go j.syncLoop()
	} else {
		close(j.stopped)
	}
	return j, nil
}

func newJournal(o Options) *Journal {
	j := &Journal{
		dir: filepath.Clean(o.Dir), disk: o.disk, segBytes: o.SegmentBytes, maxBytes: o.MaxBytes, durability: o.Durability,
		log: o.Log, next: 1, retry: o.pause, retryMax: o.pause,
		dirty: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	if j.maxBytes <= 0 {
		j.maxBytes = defaultMax
	}
	if j.segBytes <= 0 {
		j.segBytes = defaultSegment
	}
	j.segBytes = max(min(j.segBytes, j.maxBytes/4), minSegment)
	if j.durability == "" {
		j.durability = Process
	}
	if j.retry <= 0 {
		j.retry, j.retryMax = reserveRetry, reserveRetryMax
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.disk == nil {
		j.disk = directory(j.dir)
	}
	return j
}

// ID names this journal; a new directory gets a new one. Sequences of different journals do not compare.
func (j *Journal) ID() string { return hex.EncodeToString(j.id[:]) }

// Recovery says what Open cut off.
func (j *Journal) Recovery() Recovery { return j.recovery }

// Last is the sequence of the last record that Replay gives, 0 = none yet. With Power a record is there when it is on
// the disk.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last()
}

// last is Last; j.mu is held.
func (j *Journal) last() uint64 {
	if j.durability == Power {
		return j.done.Load()
	}
	return j.next - 1
}

// First is the sequence of the first record still kept; Last()+1 if there is none.
func (j *Journal) First() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segments[0].first
}

// Active is the sequence with which the active segment begins: Discard keeps what is not before it.
func (j *Journal) Active() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.segments[len(j.segments)-1].first
}

// Waits says whether Append waits for the disk.
func (j *Journal) Waits() bool { return j.durability == Power }

// Used is the size of all segments in bytes.
func (j *Journal) Used() int64 { return j.used.Load() }

// Segments is the number of segment files.
func (j *Journal) Segments() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segments)
}

// Close syncs, notes in the journal that all of it is on the disk, and gives the directory free.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	j.closed = true
	j.mu.Unlock()
	close(j.stop)
	<-j.stopped

	err := j.sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.leading { // for those that came before
		err = errors.Join(err, j.join())
		j.mu.Lock()
	}
	if err == nil {
		err = j.writeMark()
	}
	err = errors.Join(err, j.trim(), j.active.Close(), j.lock.Close())
	if err != nil {
		return fmt.Errorf("close journal %s: %w", j.dir, err)
	}
	return nil
}

// writeMark notes behind the last record that all before it is on the disk.
func (j *Journal) writeMark() error {
	last := j.next - 1
	if last < j.segments[len(j.segments)-1].first {
		return nil // nothing in this segment
	}
	if err := j.put(appendRecord(nil, last, last, nil)); err != nil {
		return err
	}
	return j.active.Datasync()
}

// trim gives back what was allocated behind the tail.
func (j *Journal) trim() error {
	j.room.Store(0)
	return j.active.Truncate(j.size)
}
