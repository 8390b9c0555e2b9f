package faults

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// house is the database of a gateway that was started once and ended in order, with the keys of its first start. Every
// gateway of the suite begins with a copy: making the tables anew takes longer than most rows.
type house struct {
	database    []byte
	admin, user string
}

const databaseName = "hearth.db"

var firstHouse = sync.OnceValues(func() (h house, err error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return h, err
	}
	defer os.RemoveAll(dir)
	s := setup{primary: "http://127.0.0.1:1"}
	cfg, err := config.Parse(filepath.Join(dir, "hearth.yaml"), []byte(s.yaml(dir)), nil, nil)
	if err != nil {
		return h, err
	}
	a, err := app.Open(context.Background(), cfg, app.Options{
		Log: slog.New(slog.DiscardHandler), FirstKeys: func(admin, user string) error { h.admin, h.user = admin, user; return nil },
	})
	if err != nil {
		return h, err
	}
	if err := a.Close(context.Background()); err != nil {
		return h, err
	}
	if _, err := os.Stat(filepath.Join(dir, "data", databaseName+"-wal")); err == nil {
		return h, fmt.Errorf("part of the database is not in its file")
	}
	h.database, err = os.ReadFile(filepath.Join(dir, "data", databaseName))
	return h, err
})

// furnish makes the data directory below dir and returns the keys that are in it.
func furnish(t testing.TB, dir string) house {
	t.Helper()
	h, err := firstHouse()
	if err != nil {
		t.Fatalf("a first start: %v", err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, databaseName), h.database, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}
