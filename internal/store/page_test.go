package store

import (
	"path/filepath"
	"testing"
)

func TestPageSize(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "hearth.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var size int
	var mode string
	if err := s.reader.QueryRow(`PRAGMA page_size`).Scan(&size); err != nil {
		t.Fatal(err)
	}
	if err := s.reader.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil {
		t.Fatal(err)
	}
	if size != 16384 || mode != "wal" {
		t.Errorf("page size %d, journal mode %s", size, mode)
	}
}
