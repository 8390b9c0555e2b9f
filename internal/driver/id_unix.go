//go:build unix

package driver

import (
	"fmt"
	"os"
	"syscall"
)

// place tells one directory of this machine from another.
func place(dir string) (string, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the directory of the slots: %w", err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", sys.Dev, sys.Ino), nil
	}
	return "here", nil
}
