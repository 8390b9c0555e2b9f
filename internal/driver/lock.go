package driver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"myip.co.kr/hearth"
)

// errHeld is the error of a lock that somebody else holds.
var errHeld = errors.New("held by another process")

// Lock takes a node for this gateway, until release is called or the process ends. The error names the file that another
// gateway holds.
func (d *Drivers) Lock(n *hearth.Node) (release func(), err error) {
	path := filepath.Join(d.o.LockDir, fileName(n.Name)+".lock")
	f, err := lock(path)
	if errors.Is(err, errHeld) {
		return nil, fmt.Errorf("node %q belongs to another gateway, which holds %s", n.Name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("take node %q: %w", n.Name, err)
	}
	return func() { _ = f.Close() }, nil // closing a file that nothing was written to
}

// fileName is a name of the configuration as part of a file's name.
func fileName(name string) string { return url.PathEscape(name) }

// lock opens a file, making it and its directory if need be, and takes it for whoever has the opened file: this process,
// and those that inherit it.
func lock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of a lock: %w", err)
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open a lock: %w", err)
		}
		if err := flock(f); err != nil {
			_ = f.Close()
			return nil, err
		}
		// The file may have been removed between the two calls: then it keeps nobody out.
		if opened, err := f.Stat(); err == nil {
			if there, err := os.Stat(path); err == nil && os.SameFile(opened, there) {
				return f, nil
			}
		}
		_ = f.Close()
	}
}

func flock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}
