//go:build !linux

package journal

import "errors"

func (f osFile) Datasync() error { return f.Sync() }

// Allocate is unsupported here: Reserve then finds a full disk only after a write has failed.
func (f osFile) Allocate(int64, int64) error { return errors.ErrUnsupported }
