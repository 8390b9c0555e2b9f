package journal

import (
	"errors"
	"os"
)

// file is what the journal asks of the active segment's file. The other implementation is the faulty disk of the tests.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	// Datasync returns when the written bytes, and the size needed to read them, are on the disk.
	Datasync() error
	// Allocate makes sure that n bytes from off can be written without running out of space; the size of the
	// file stays. errors.ErrUnsupported: the file system cannot promise.
	Allocate(off, n int64) error
	Close() error
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

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
