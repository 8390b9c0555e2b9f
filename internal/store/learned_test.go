package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

func TestLearned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	s := mustOpen(t, path)
	if _, _, err := s.Learned(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a new database: %v", err)
	}
	large := bytes.Repeat([]byte{0, 0xff, 'x'}, 700_000)
	for i, state := range [][]byte{[]byte("first"), large, {}} {
		if err := s.SaveLearned(t.Context(), i+1, state); err != nil {
			t.Fatal(err)
		}
		other := mustOpen(t, path) // as after a crash: what was saved is there for who opens the file
		version, got, err := other.Learned(t.Context())
		if err != nil || version != i+1 || !bytes.Equal(got, state) {
			t.Errorf("%d: version %d, %d bytes, %v", i, version, len(got), err)
		}
	}
	var rows int
	if err := s.writer.QueryRow(`SELECT count(*) FROM learned`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}
