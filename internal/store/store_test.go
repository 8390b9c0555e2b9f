package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"myip.co.kr/hearth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func newStore(t testing.TB) *Store {
	return mustOpen(t, filepath.Join(t.TempDir(), "hearth.db"))
}

func row(seq uint64, id string, cost hearth.Nano) Row {
	return Row{
		Seq: seq, ID: id, KeyID: "key-1", CreatedAt: time.Date(2025, 11, 30, 23, 30, 0, 0, time.UTC),
		Model: "m", Provider: "local-gpu", Endpoint: "local-gpu/gpu-1:m", PromptTokens: 10, CompletionTokens: 5,
		Cost: cost, Currency: "KRW", HTTP: 200, Record: []byte(`{"id":"` + id + `"}`),
	}
}

func rows(from, n int) []Row {
	list := make([]Row, n)
	for i := range list {
		list[i] = row(uint64(from+i), fmt.Sprintf("gen-%d", from+i), 100)
	}
	return list
}

func TestOpen(t *testing.T) {
	t.Run("files are private, an open one is closed", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new")
		path := filepath.Join(dir, "hearth.db")
		s := mustOpen(t, path)
		if _, err := s.Apply(t.Context(), "j", 1, rows(1, 1)); err != nil {
			t.Fatal(err)
		}
		check := func(name string, want os.FileMode) {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, want %o", name, got, want)
			}
		}
		check(dir, 0o700)
		for _, suffix := range []string{"", "-wal", "-shm"} {
			check(path+suffix, 0o600)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, path)
		check(path, 0o600)
	})
	t.Run("salt and content outlive reopening", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "odd name?%20#x&_txlock=deferred.db")
		a, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Apply(t.Context(), "j", 3, rows(1, 3)); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, path)
		if len(a.Salt()) != 32 || !bytes.Equal(a.Salt(), b.Salt()) {
			t.Errorf("salt %x became %x", a.Salt(), b.Salt())
		}
		if n, err := b.Generations(t.Context()); n != 3 || err != nil {
			t.Errorf("%d generations, %v, want 3", n, err)
		}
	})
	t.Run("many processes at once on a new file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hearth.db")
		var wg sync.WaitGroup
		salts := make([]string, 8)
		for i := range salts {
			wg.Go(func() {
				s, err := Open(context.Background(), path)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				salts[i] = string(s.Salt())
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		wg.Wait()
		for _, s := range salts {
			if s != salts[0] {
				t.Error("two openers have different salts")
			}
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	check := func(t *testing.T, path, remedy string) {
		t.Helper()
		s, err := Open(t.Context(), path)
		if err == nil {
			s.Close()
			t.Fatal("Open went well")
		}
		if !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("Open: %v\nwant the path and %q", err, remedy)
		}
	}
	t.Run("not a database", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(path, bytes.Repeat([]byte("dear diary\n"), 500), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, path, "move the file away")
	})
	t.Run("damaged", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hearth.db")
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 100; i < len(b); i++ {
			b[i] ^= 0x5a
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, path, "restore a backup")
	})
	t.Run("a directory", func(t *testing.T) {
		check(t, t.TempDir(), "path")
	})
	t.Run("a place that cannot be written", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, filepath.Join(file, "hearth.db"), "write permission")
	})
	t.Run("a file of a newer hearth", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hearth.db")
		s := mustOpen(t, path)
		if _, err := s.writer.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`); err != nil {
			t.Fatal(err)
		}
		check(t, path, "start a newer hearth")
	})
}

func TestApply(t *testing.T) {
	t.Run("rows, spend and sequence in one transaction", func(t *testing.T) {
		s := newStore(t)
		if n, err := s.Apply(t.Context(), "j", 70, rows(1, 70)); n != 70 || err != nil {
			t.Fatalf("Apply = %d, %v", n, err)
		}
		want := []Spend{{KeyID: "key-1", Day: "2025-11-30", Model: "m", Provider: "local-gpu", Currency: "KRW",
			Cost: 7000, Requests: 70, PromptTokens: 700, CompletionTokens: 350}}
		got, err := s.Spend(t.Context(), "key-1", "2025-11-30", "2025-11-30")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spend (-want +got):\n%s", diff)
		}
		if seq, err := s.Applied(t.Context(), "j"); seq != 70 || err != nil {
			t.Errorf("Applied = %d, %v, want 70", seq, err)
		}
		if seq, err := s.Applied(t.Context(), "another"); seq != 0 || err != nil {
			t.Errorf("Applied of another journal = %d, %v, want 0", seq, err)
		}
		b, err := s.Record(t.Context(), "gen-33")
		if string(b) != `{"id":"gen-33"}` || err != nil {
			t.Errorf("Record = %s, %v", b, err)
		}
		if _, err := s.Record(t.Context(), "gen-99"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Record of no generation: %v, want ErrNotFound", err)
		}
	})
	t.Run("what is there already counts once", func(t *testing.T) {
		s := newStore(t)
		if _, err := s.Apply(t.Context(), "j", 40, rows(1, 40)); err != nil {
			t.Fatal(err)
		}
		again := append(rows(21, 40), row(61, "gen-60", 999)) // 21 to 40 are there, 60 twice
		if n, err := s.Apply(t.Context(), "j", 61, again); n != 20 || err != nil {
			t.Fatalf("Apply = %d, %v, want 20 inserted", n, err)
		}
		got, err := s.Spend(t.Context(), "key-1", "", "9999")
		if err != nil || len(got) != 1 || got[0].Requests != 60 || got[0].Cost != 6000 {
			t.Errorf("spend %+v, %v, want 60 requests, 6000", got, err)
		}
	})
	t.Run("all or nothing", func(t *testing.T) {
		s := newStore(t)
		bad := rows(1, 3)
		bad[2].Record = nil // the table refuses it
		if _, err := s.Apply(t.Context(), "j", 3, bad); err == nil {
			t.Fatal("Apply took a row without a record")
		}
		n, _ := s.Generations(t.Context())
		seq, _ := s.Applied(t.Context(), "j")
		spend, _ := s.Spend(t.Context(), "key-1", "", "9999")
		if n != 0 || seq != 0 || len(spend) != 0 {
			t.Errorf("%d rows, sequence %d, spend %v left behind", n, seq, spend)
		}
	})
	t.Run("the day is that of the record's own zone", func(t *testing.T) {
		s := newStore(t)
		r := row(1, "gen-1", 1)
		r.CreatedAt = r.CreatedAt.In(time.FixedZone("KST", 9*3600))
		if _, err := s.Apply(t.Context(), "j", 1, []Row{r}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Spend(t.Context(), "key-1", "", "9999"); err != nil || got[0].Day != "2025-12-01" {
			t.Errorf("spend %+v, %v, want day 2025-12-01", got, err)
		}
	})
	t.Run("absurd sums stop at the largest", func(t *testing.T) {
		s := newStore(t)
		for i := range 3 {
			a, b := row(uint64(2*i+1), fmt.Sprint("a", i), math.MaxInt64), row(uint64(2*i+2), fmt.Sprint("b", i), math.MaxInt64)
			a.PromptTokens, b.CompletionTokens = math.MaxInt64, -7
			if _, err := s.Apply(t.Context(), "j", b.Seq, []Row{a, b}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Spend(t.Context(), "key-1", "", "9999")
		if err != nil || got[0].Cost != math.MaxInt64 || got[0].PromptTokens != math.MaxInt64 || got[0].CompletionTokens != 15 {
			t.Errorf("spend %+v, %v", got, err)
		}
	})
	t.Run("waits for another process's transaction", func(t *testing.T) {
		s := newStore(t)
		other, err := sql.Open("sqlite", dsn(s.path))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := s.Apply(context.Background(), "j", 1, rows(1, 1))
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("Apply did not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := s.Record(t.Context(), "gen-1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("reading meanwhile: %v", err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Apply: %v", err)
		}
	})
}

func TestCheckpoint(t *testing.T) {
	s := newStore(t)
	if _, err := s.Apply(t.Context(), "j", 100, rows(1, 100)); err != nil {
		t.Fatal(err)
	}
	if safe, err := s.Checkpoint(t.Context()); !safe || err != nil {
		t.Fatalf("Checkpoint = %v, %v", safe, err)
	}
	// The file alone, without its log, now holds everything.
	b, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "alone.db")
	if err := os.WriteFile(alone, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := mustOpen(t, alone).Generations(t.Context()); n != 100 || err != nil {
		t.Errorf("the file alone has %d generations, %v, want 100", n, err)
	}
	t.Run("a reader holds it up, which is told", func(t *testing.T) {
		tx, err := s.reader.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM generations`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(t.Context(), "j", 200, rows(101, 100)); err != nil {
			t.Fatal(err)
		}
		if safe, err := s.Checkpoint(t.Context()); safe || err != nil {
			t.Errorf("Checkpoint = %v, %v beside an old reader, want false", safe, err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	s := newStore(b)
	record := bytes.Repeat([]byte("x"), 1000)
	seq := 0
	b.ReportAllocs()
	for b.Loop() {
		list := rows(seq+1, 500)
		for i := range list {
			list[i].Record = record
		}
		seq += 500
		if _, err := s.Apply(b.Context(), "j", uint64(seq), list); err != nil {
			b.Fatal(err)
		}
		if seq%50_000 == 0 {
			if _, err := s.Checkpoint(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seq), "ns/row")
}
