package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLockDir(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	for range 2 { // made, then found
		if got, want := lockDir(), filepath.Join(run, "hearth"); got != want {
			t.Errorf("lock directory %s, want %s", got, want)
		}
	}
	if left, err := os.ReadDir(filepath.Join(run, "hearth")); len(left) > 0 || err != nil {
		t.Errorf("left in it are %v, %v", left, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(run, "not", "there"))
	if got := lockDir(); !filepath.IsAbs(got) || filepath.Dir(got) == filepath.Join(run, "not", "there") {
		t.Errorf("lock directory %s", got)
	}
}
