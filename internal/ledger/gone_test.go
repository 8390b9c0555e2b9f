package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"myip.co.kr/hearth/internal/journal"
)

func TestStoreGone(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"deleted":    os.Remove,
		"moved away": func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, journal.Options{SegmentBytes: 64 << 10})
			path := filepath.Join(dir, "hearth.db")
			record(t, b, "before")
			waitFor(t, "the first record in the store", func() bool { return b.Pending() == 0 })
			if err := away(path); err != nil {
				t.Fatal(err)
			}
			ids := names("gen", 300) // some segments
			record(t, b, ids...)
			for _, id := range ids[:10] {
				mustFind(t, b, id)
			}
			waitFor(t, "a word about it", func() bool { return strings.Contains(b.log.String(), "start again") })
			if n := b.Pending(); n != len(ids) {
				t.Errorf("%d records wait in the journal, want all %d", n, len(ids))
			}
			b.crash(t)
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(path + suffix) // there may be none
			}
			b = open(t, dir, journal.Options{SegmentBytes: 64 << 10})
			for _, id := range ids {
				mustFind(t, b, id)
			}
			if n, err := b.store.Generations(t.Context()); err != nil || n < len(ids) {
				t.Errorf("%d records, %v, want %d and perhaps the first", n, err, len(ids))
			}
		})
	}
}
