//go:build !unix

package journal

import (
	"os"
	"path/filepath"
)

// lockDir opens the lock file; this system has no flock, so a second process is not kept out.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
