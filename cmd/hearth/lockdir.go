package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir is where all gateways of a user on this machine keep the locks of nodes: the first of the usual places that can be
// had.
func lockDir() string {
	places := []string{filepath.Join("/run/lock", "hearth")}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		places = append([]string{filepath.Join(run, "hearth")}, places...)
	}
	for _, dir := range places {
		if canMake(dir) {
			return dir
		}
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("hearth-%d", os.Getuid()))
}

// canMake says whether the directory is there for this user, or could be made.
func canMake(dir string) bool {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	probe, err := os.CreateTemp(dir, ".probe")
	if err != nil {
		return false
	}
	_ = probe.Close() // nothing was written
	return os.Remove(probe.Name()) == nil
}
