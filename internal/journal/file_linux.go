package journal

import (
	"errors"
	"os"
	"syscall"
)

// fallocKeepSize is FALLOC_FL_KEEP_SIZE: blocks are set aside, the file's size stays.
const fallocKeepSize = 1

// syncedWrites opens a file whose every write is on the disk when it returns: one system call instead of two.
const syncedWrites = syscall.O_DSYNC

// WriteSync is for a file that was opened with syncedWrites.
func (f osFile) WriteSync(p []byte, off int64) error {
	_, err := f.WriteAt(p, off)
	return err
}

func (f osFile) Datasync() error {
	return f.control(func(fd int) error {
		for {
			err := syscall.Fdatasync(fd)
			if !errors.Is(err, syscall.EINTR) {
				return os.NewSyscallError("fdatasync", err)
			}
		}
	})
}

func (f osFile) Allocate(off, n int64) error {
	return f.control(func(fd int) error {
		for {
			err := syscall.Fallocate(fd, fallocKeepSize, off, n)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
				return errors.ErrUnsupported
			}
			return os.NewSyscallError("fallocate", err)
		}
	})
}
