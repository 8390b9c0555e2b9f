package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// faultyDisk is a directory that fails where it is told to.
type faultyDisk struct {
	directory
	mu        sync.Mutex
	space     int64 // bytes that can still be written; < 0 = no bound
	syncErr   error
	truncErr  error
	allocates error // answer to Allocate; nil = the real one
	syncs     int
	synced    chan struct{} // gets a value after every sync, if not nil
}

type faultyFile struct {
	file
	disk *faultyDisk
}

// options are those of a journal on d.
func (d *faultyDisk) options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	d.directory = directory(dir)
	return Options{Dir: dir, disk: d, pause: time.Nanosecond}
}

func (d *faultyDisk) Create(name string, synced bool) (file, error) {
	f, err := d.directory.Create(name, synced)
	return &faultyFile{f, d}, err
}

func (d *faultyDisk) Change(name string, synced bool) (file, error) {
	f, err := d.directory.Change(name, synced)
	return &faultyFile{f, d}, err
}

func (f *faultyFile) WriteSync(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Datasync()
}

func (d *faultyDisk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if s := f.disk.space; s >= 0 && int64(len(p)) > s {
		n, _ := f.file.WriteAt(p[:s], off) // a short write, as a full disk makes it
		f.disk.space -= int64(n)
		return n, syscall.ENOSPC
	}
	n, err := f.file.WriteAt(p, off)
	if f.disk.space >= 0 {
		f.disk.space -= int64(n)
	}
	return n, err
}

func (f *faultyFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.truncErr != nil {
		return f.disk.truncErr
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Datasync() error {
	f.disk.mu.Lock()
	err := f.disk.syncErr
	f.disk.syncs++
	f.disk.mu.Unlock()
	if err == nil {
		err = f.file.Datasync()
	}
	if f.disk.synced != nil {
		select {
		case f.disk.synced <- struct{}{}:
		default:
		}
	}
	return err
}

func (f *faultyFile) Allocate(off, n int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.allocates != nil {
		return f.disk.allocates
	}
	return f.file.Allocate(off, n)
}

func TestFullDisk(t *testing.T) {
	for _, d := range []Durability{Process, Power} {
		for space := range int64(recordHeader + len("refused")) {
			t.Run(fmt.Sprintf("%s/write stops after %d bytes", d, space), func(t *testing.T) {
				disk := &faultyDisk{space: -1}
				o := disk.options(t)
				o.Durability = d
				j := mustOpen(t, o)
				mustAppend(t, j, "one")
				disk.set(func() { disk.space = space })
				if seq, err := j.Append([]byte("refused")); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("Append on a full disk = %d, %v", seq, err)
				}
				disk.set(func() { disk.space = -1 })
				mustAppend(t, j, "two")
				crash(t, j) // Close would tidy up behind the tail
				j = mustOpen(t, Options{Dir: o.Dir})
				if diff := cmp.Diff([]string{"1:one", "2:two"}, content(t, j, 1)); diff != "" || j.Recovery().Cut != 0 {
					t.Errorf("cut %d, content (-want +got):\n%s", j.Recovery().Cut, diff)
				}
			})
		}
	}
	t.Run("the tail cannot be cut back at first", func(t *testing.T) {
		disk := &faultyDisk{space: -1}
		o := disk.options(t)
		j := mustOpen(t, o)
		mustAppend(t, j, "one")
		disk.set(func() { disk.space, disk.truncErr = 30, syscall.EIO })
		for range 2 {
			if _, err := j.Append([]byte(strings.Repeat("refused", 10))); err == nil {
				t.Fatal("Append on a full disk went well")
			}
		}
		if got := content(t, j, 1); len(got) != 1 {
			t.Errorf("readable meanwhile: %q", got)
		}
		disk.set(func() { disk.space, disk.truncErr = -1, nil })
		mustAppend(t, j, "2")
		crash(t, j) // Close would tidy up behind the tail
		j = mustOpen(t, Options{Dir: o.Dir})
		if diff := cmp.Diff([]string{"1:one", "2:2"}, content(t, j, 1)); diff != "" || j.Recovery().Cut != 0 {
			t.Errorf("cut %d, content (-want +got):\n%s", j.Recovery().Cut, diff)
		}
	})
	t.Run("a segment that cannot be begun", func(t *testing.T) {
		disk := &faultyDisk{space: -1}
		o := disk.options(t)
		o.SegmentBytes = minSegment
		j := mustOpen(t, o)
		big := strings.Repeat("b", minSegment-200)
		if err := j.Reserve(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, j, big)
		disk.set(func() { disk.allocates = syscall.ENOSPC })
		mustAppend(t, j, "over the edge, but it had its space reserved")
		if n := len(segmentFiles(t, o.Dir)); n != 1 {
			t.Errorf("%d segments, want the old one only", n)
		}
		disk.set(func() { disk.allocates = nil })
		mustAppend(t, j, big)
		if n := len(segmentFiles(t, o.Dir)); n != 2 {
			t.Errorf("%d segments after there was space again, want 2", n)
		}
		j.Unreserve()
	})
}

func TestFailedSync(t *testing.T) {
	t.Run("power/not acknowledged, then well again", func(t *testing.T) {
		disk := &faultyDisk{space: -1}
		o := disk.options(t)
		o.Durability = Power
		j := mustOpen(t, o)
		mustAppend(t, j, "one")
		disk.set(func() { disk.syncErr = syscall.EIO })
		if _, err := j.Append([]byte("two")); !errors.Is(err, syscall.EIO) {
			t.Fatalf("Append: %v, want EIO", err)
		}
		if err := j.Reserve(); err == nil {
			t.Error("Reserve promised space on a disk that does not sync")
		}
		if err := j.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Sync: %v, want EIO", err)
		}
		disk.set(func() { disk.syncErr = nil })
		if err := j.Reserve(); err != nil {
			t.Errorf("Reserve on a disk that is well again: %v", err)
		}
		j.Unreserve()
		if err := j.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
		if _, err := j.Append([]byte("three")); err != nil {
			t.Errorf("Append: %v", err)
		}
	})
	t.Run("process/synced soon after the write", func(t *testing.T) {
		disk := &faultyDisk{space: -1, synced: make(chan struct{}, 1)}
		j := mustOpen(t, disk.options(t))
		<-disk.synced // of the new segment
		began := time.Now()
		mustAppend(t, j, "one")
		<-disk.synced
		if d := time.Since(began); d < syncDelay/2 {
			t.Errorf("synced after %s: in the caller's way?", d)
		}
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
		if j.done.Load() != 1 {
			t.Errorf("synced up to %d, want 1", j.done.Load())
		}
	})
}

// A sync that fails once costs no record and no error, and a power cut right after it neither, whatever the failure did to
// the pages: sometimes they are on the disk, sometimes only in memory, sometimes nowhere.
func TestSyncFailsOnce(t *testing.T) {
	for seed := range uint64(50) {
		for _, d := range []Durability{Power, Process} {
			m := newModel(seed, nil)
			o := Options{Dir: "model", Durability: d, disk: m, pause: time.Nanosecond}
			j, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, j, "one")
			failed := false
			m.fail = func(op string) error {
				if op == "sync" && !failed {
					failed = true
					return syscall.EIO
				}
				return nil
			}
			mustAppend(t, j, "two", "three")
			if err := j.Sync(); err != nil || !failed {
				t.Fatalf("seed %d, %s: Sync: %v, failed before: %v", seed, d, err, failed)
			}
			m.mu.Lock()
			m.end()
			m.mu.Unlock()
			abandon(j)
			o.disk = newModel(seed, m.left)
			if j, err = Open(o); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, d, err)
			}
			if diff := cmp.Diff([]string{"1:one", "2:two", "3:three"}, content(t, j, 1)); diff != "" {
				t.Errorf("seed %d, %s: content (-want +got):\n%s", seed, d, diff)
			}
			mustClose(t, j)
		}
	}
}

func TestReserve(t *testing.T) {
	t.Run("bound on used and promised", func(t *testing.T) {
		const most = 64 << 10
		j := mustOpen(t, Options{Dir: t.TempDir(), MaxBytes: most})
		n := 0
		var err error
		for ; err == nil; n++ {
			err = j.Reserve()
		}
		n--
		if !errors.Is(err, ErrFull) || n != most/promise-1 {
			t.Fatalf("%d reservations, then %v; want %d, then ErrFull", n, err, most/promise-1)
		}
		mustAppend(t, j, "what was promised is kept")
		j.Unreserve()
		if err := j.Reserve(); err != nil {
			t.Errorf("Reserve after Unreserve: %v", err)
		}
		for range n {
			j.Unreserve()
		}
		for j.Reserve() == nil {
			mustAppend(t, j, strings.Repeat("x", 4000))
			j.Unreserve()
		}
		if used := j.Used(); used > most || used < most-2*promise {
			t.Errorf("full at %d bytes, want just below %d", used, most)
		}
		if err := j.Discard(j.Last()); err != nil {
			t.Fatal(err)
		}
		if err := j.Reserve(); err != nil {
			t.Errorf("Reserve after Discard: %v", err)
		}
	})
	t.Run("a disk without space", func(t *testing.T) {
		for name, allocates := range map[string]error{"knows at once": syscall.ENOSPC, "knows after a write": errors.ErrUnsupported} {
			t.Run(name, func(t *testing.T) {
				disk := &faultyDisk{space: -1, allocates: allocates}
				j := mustOpen(t, disk.options(t))
				disk.set(func() { disk.space = 0 })
				if errors.Is(allocates, errors.ErrUnsupported) {
					if _, err := j.Append([]byte("x")); err == nil {
						t.Fatal("Append on a full disk went well")
					}
				}
				if err := j.Reserve(); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("Reserve: %v, want ENOSPC", err)
				}
				disk.set(func() { disk.space, disk.allocates = -1, nil })
				for range 3 {
					if err := j.Reserve(); err != nil {
						t.Fatalf("Reserve with space again: %v", err)
					}
				}
				mustAppend(t, j, "x")
				if p := j.promised.Load(); p != 3*promise {
					t.Errorf("%d bytes promised, want %d", p, 3*promise)
				}
			})
		}
	})
	t.Run("what is set aside does not make the file longer", func(t *testing.T) {
		o := Options{Dir: t.TempDir()}
		j := mustOpen(t, o)
		if err := j.Reserve(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, j, "x")
		crash(t, j)
		j = mustOpen(t, o)
		if j.Recovery().Cut != 0 {
			t.Errorf("cut %d bytes", j.Recovery().Cut)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	payload := make([]byte, 1024)
	for i := range payload {
		payload[i] = byte('a' + i%26)
	}
	for _, d := range []Durability{Process, Power} {
		open := func(b *testing.B) *Journal {
			j := mustOpen(b, Options{Dir: filepath.Join(b.TempDir(), "j"), Durability: d, MaxBytes: 8 << 30})
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			return j
		}
		b.Run(string(d), func(b *testing.B) {
			j := open(b)
			for b.Loop() {
				if _, err := j.Append(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(d)+" parallel", func(b *testing.B) {
			j := open(b)
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := j.Append(payload); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	b.Run("reserve", func(b *testing.B) {
		j := mustOpen(b, Options{Dir: b.TempDir()})
		b.ReportAllocs()
		for b.Loop() {
			if err := j.Reserve(); err != nil {
				b.Fatal(err)
			}
			j.Unreserve()
		}
	})
}
