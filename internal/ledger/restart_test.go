package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"myip.co.kr/hearth/internal/journal"
)

func TestRestart(t *testing.T) {
	t.Run("what was not applied is applied once", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		record(t, b, names("early", 10)...)
		waitFor(t, "the first records in the store", func() bool { return b.Pending() == 0 })
		record(t, b, names("late", 700)...)
		b.crash(t)
		for range 2 {
			b = open(t, dir, journal.Options{})
			checkStore(t, b, 710)
			mustFind(t, b, "late-699")
			b.end(t)
		}
	})
	t.Run("an older database gets what the journal still has", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		record(t, b, names("gen", 50)...)
		b.end(t)
		for _, name := range []string{"hearth.db", "hearth.db-wal", "hearth.db-shm"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		b = open(t, dir, journal.Options{})
		checkStore(t, b, 50)
	})
	t.Run("a new journal beside an old database", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		record(t, b, names("old", 50)...)
		b.end(t)
		if err := os.RemoveAll(filepath.Join(dir, "journal")); err != nil {
			t.Fatal(err)
		}
		b = open(t, dir, journal.Options{})
		record(t, b, names("new", 10)...)
		b.crash(t)
		b = open(t, dir, journal.Options{})
		checkStore(t, b, 60)
	})
	t.Run("a journal whose tail was lost does not give its sequences again", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		record(t, b, names("gen", 3)...)
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		files, err := filepath.Glob(filepath.Join(dir, "journal", "*.journal"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		early, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		record(t, b, "lost-1", "lost-2")
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		b.end(t)
		if err := os.WriteFile(files[0], early, 0o600); err != nil { // as if the disk had never got the rest
			t.Fatal(err)
		}
		b = open(t, dir, journal.Options{})
		record(t, b, "after-1", "after-2", "after-3")
		b.crash(t)
		b = open(t, dir, journal.Options{})
		checkStore(t, b, 8)
	})
	t.Run("a record nobody can read does not hold up the rest", func(t *testing.T) {
		dir := t.TempDir()
		b := open(t, dir, journal.Options{})
		b.crash(t)
		j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal")})
		if err != nil {
			t.Fatal(err)
		}
		good, err := encode(sample("gen-1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range [][]byte{[]byte("{not JSON"), good, []byte(`{"id":7}`)} {
			if _, err := j.Append(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		b = open(t, dir, journal.Options{})
		mustFind(t, b, "gen-1")
		checkStore(t, b, 1)
		if b.Pending() != 0 {
			t.Errorf("%d records still wait", b.Pending())
		}
		if !strings.Contains(b.log.String(), "cannot be read") {
			t.Errorf("nothing said about it: %s", b.log)
		}
	})
}
