package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// disk is the directory a journal lives in. The other implementation is the model of the tests, which loses what was
// not synced.
type disk interface {
	// Lock takes the directory, made if it is not there, for this process until the closer is closed; ErrInUse.
	Lock() (io.Closer, error)
	// List names the regular files.
	List() ([]string, error)
	Read(name string) (io.ReadSeekCloser, error)
	// Create makes an empty file, or empties the one of that name. synced: it is for WriteSync.
	Create(name string, synced bool) (file, error)
	// Change opens a file for writing.
	Change(name string, synced bool) (file, error)
	// Rename puts a file in the place of another, whole or not at all.
	Rename(from, to string) error
	// Remove removes a file; one that is not there is no error.
	Remove(name string) error
	// Sync makes the names in the directory durable.
	Sync() error
}

// file is what the journal asks of a file it writes.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	// WriteSync writes p and returns when it is on the disk, as WriteAt and Datasync together.
	WriteSync(p []byte, off int64) error
	Truncate(size int64) error
	// Datasync returns when the written bytes, and the size needed to read them, are on the disk.
	Datasync() error
	// Allocate makes sure that n bytes from off can be written without running out of space; the size of the
	// file stays. errors.ErrUnsupported: the file system cannot promise.
	Allocate(off, n int64) error
	Close() error
}

// guarded is a file whose first failed sync counts for good. The system tells of a failure once and takes the pages it
// could not write for written, so a later sync that goes well proves nothing.
type guarded struct {
	file
	mu     sync.Mutex // two syncs at once: only one of them would be told
	failed error
}

func (g *guarded) Datasync() error { return g.once(g.file.Datasync) }

func (g *guarded) WriteSync(p []byte, off int64) error {
	return g.once(func() error { return g.file.WriteSync(p, off) })
}

func (g *guarded) once(sync func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return g.failed
	}
	err := sync()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		g.failed = err
	}
	return err
}

// directory is a directory of the operating system.
type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) Lock() (io.Closer, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("create journal directory: %w", err)
	}
	lock, err := lockDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("lock journal directory: %w", err)
	}
	return lock, nil
}

func (d directory) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d directory) Read(name string) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err // not a nil *os.File that is no nil interface
	}
	return f, nil
}

func (d directory) Create(name string, synced bool) (file, error) {
	return d.open(name, synced, os.O_CREATE|os.O_TRUNC)
}

func (d directory) Change(name string, synced bool) (file, error) { return d.open(name, synced, 0) }

func (d directory) open(name string, synced bool, flag int) (file, error) {
	if synced {
		flag |= syncedWrites
	}
	f, err := os.OpenFile(d.path(name), os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d directory) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) Remove(name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d directory) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) control(call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = call(int(fd)) }); err != nil {
		return err
	}
	return inner
}
