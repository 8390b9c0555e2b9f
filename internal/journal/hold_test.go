package journal

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestHold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	release, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a journal is opened in a directory that is held: %v", err)
	}
	if _, err := Hold(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("held twice: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	j, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := Hold(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("held beside an open journal: %v", err)
	}
}
