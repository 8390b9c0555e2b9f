package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// sector is the unit in bytes a disk writes as a whole.
const sector = 512

// powerDisk stands between the journal and its files and remembers what a power cut would leave of them.
type powerDisk struct {
	mu    sync.Mutex
	files []*powerFile
	lie   bool // Datasync returns without having done anything
}

// powerFile is one file: what is on the disk, and what is only in the system's memory.
type powerFile struct {
	file
	disk *powerDisk
	name string
	safe []byte // as of the last sync
	now  []byte // as the process sees it
}

func (d *powerDisk) wrap(f file) file {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &powerFile{file: f, disk: d, name: filepath.Base(f.(osFile).Name())}
	d.files = append(d.files, p)
	return p
}

func (f *powerFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.file.WriteAt(p, off)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if end := int(off) + n; end > len(f.now) {
		f.now = append(f.now, make([]byte, end-len(f.now))...)
	}
	copy(f.now[off:], p[:n])
	return n, err
}

func (f *powerFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.now = f.now[:min(int(size), len(f.now))]
	return f.file.Truncate(size)
}

func (f *powerFile) Datasync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.lie {
		f.safe = slices.Clone(f.now)
	}
	return nil
}

// cut writes to dir what a power cut leaves: of what was not synced, any sectors in any order, and any size.
func (d *powerDisk) cut(t *rapid.T, dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.files {
		left := slices.Clone(f.safe)
		if grown := len(f.now) - len(f.safe); grown > 0 {
			left = append(left, make([]byte, rapid.IntRange(0, grown).Draw(t, fmt.Sprintf("grown %d", i)))...)
		}
		for at := len(f.safe) / sector * sector; at < len(left); at += sector {
			if rapid.Bool().Draw(t, "sector written") {
				copy(left[at:min(at+sector, len(left))], f.now[at:])
			}
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), left, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntilCut plays a drawn script on a journal over disk, cuts the power and opens what is left. It returns an
// error if an acknowledged record is gone, another one stands there, or the journal is refused.
func runUntilCut(t *rapid.T, dir string, disk *powerDisk) error {
	o := Options{Dir: dir, SegmentBytes: minSegment, Durability: Power, wrap: disk.wrap}
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	acknowledged := 0
	for i := range rapid.IntRange(1, 25).Draw(t, "records") {
		p := fmt.Sprintf("%d:%0*d", i, rapid.IntRange(1, 1800).Draw(t, "size"), i)
		written = append(written, p)
		if rapid.Bool().Draw(t, "waits for the disk") {
			_, err = j.Append([]byte(p))
			acknowledged = len(written)
		} else {
			_, err = j.write([]byte(p)) // the power goes before its sync is done
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.MkdirTemp(dir, "after")
	if err != nil {
		t.Fatal(err)
	}
	disk.cut(t, after)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Options{Dir: after, SegmentBytes: minSegment})
	if err != nil {
		return fmt.Errorf("after the cut: %w", err)
	}
	defer again.Close()
	var got []string
	if err := again.Replay(1, func(_ uint64, p []byte) error {
		got = append(got, string(p))
		return nil
	}); err != nil {
		return err
	}
	if len(got) < acknowledged || len(got) > len(written) || !slices.Equal(got, written[:len(got)]) {
		return fmt.Errorf("%d records found, %d written, %d acknowledged", len(got), len(written), acknowledged)
	}
	if _, err := again.Append([]byte("goes on")); err != nil {
		return err
	}
	return nil
}

func TestPowerCut(t *testing.T) {
	t.Run("no acknowledged record is lost", func(t *testing.T) {
		dir := t.TempDir()
		rapid.Check(t, func(t *rapid.T) {
			run, err := os.MkdirTemp(dir, "run")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(run)
			if err := runUntilCut(t, run, &powerDisk{}); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("the model notices a disk that does not sync", func(t *testing.T) {
		dir := t.TempDir()
		lost := 0
		rapid.Check(t, func(t *rapid.T) {
			run, err := os.MkdirTemp(dir, "run")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(run)
			if runUntilCut(t, run, &powerDisk{lie: true}) != nil {
				lost++
			}
		})
		if lost == 0 {
			t.Error("no record was lost without syncs: the model cannot fail")
		}
	})
}
