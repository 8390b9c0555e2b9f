package app_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/store"
)

// emptyStore is the file of a database without records: to make its tables takes longer than to copy them.
var emptyStore = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hearth")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "empty.db")
	s, err := store.Open(context.Background(), file)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// furnish makes the data directory, with a database that has tables and nothing in them.
func furnish(t *testing.T, cfg *config.Config) {
	t.Helper()
	empty, err := emptyStore()
	if err == nil {
		err = os.MkdirAll(cfg.DataDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(cfg.DataDir, "hearth.db"), empty, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
