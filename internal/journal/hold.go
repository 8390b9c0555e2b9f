package journal

import (
	"fmt"
	"os"
)

// Hold keeps everybody from opening a journal in a directory, as an open one does, until release is called. The error is
// ErrInUse if somebody has done so.
func Hold(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create journal directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lock journal directory: %w", err)
	}
	return lock.Close, nil
}
