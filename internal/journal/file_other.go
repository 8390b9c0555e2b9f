//go:build !linux

package journal

import "errors"

const syncedWrites = 0

// WriteSync writes and syncs.
func (f osFile) WriteSync(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Sync()
}

func (f osFile) Datasync() error { return f.Sync() }

// Allocate is unsupported here: Reserve then finds a full disk only after a write has failed.
func (f osFile) Allocate(int64, int64) error { return errors.ErrUnsupported }
