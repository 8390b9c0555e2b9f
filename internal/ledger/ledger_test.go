package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/store"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(childEnv) != "":
		childMain()
	case os.Getenv(holdEnv) != "":
		holdMain()
	}
	goleak.VerifyTestMain(m)
}

var sameDecimal = cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })

// books are a ledger with the journal and the store below it, in one directory.
type books struct {
	dir     string
	log     *lockedWriter
	journal *journal.Journal
	store   *store.Store
	*Ledger
}

// open opens the books of a directory; a test that closes them itself may do so.
func open(t testing.TB, dir string, o journal.Options) *books {
	t.Helper()
	b := &books{dir: dir, log: new(lockedWriter)}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	o.Dir, o.Log = filepath.Join(dir, "journal"), log
	var err error
	if b.journal, err = journal.Open(o); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hearth.db")
	if _, err := os.Stat(file); err != nil {
		empty, err := emptyStore()
		if err == nil {
			err = os.WriteFile(file, empty, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if b.store, err = store.Open(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if b.Ledger, err = Open(t.Context(), b.journal, b.store, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.end(t) })
	return b
}

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

type lockedWriter struct {
	mu sync.Mutex
	w  bytes.Buffer
}

func (l *lockedWriter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.String()
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// end closes everything in order; a second call does nothing.
func (b *books) end(t testing.TB) {
	t.Helper()
	if b.Ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(b.Ledger.Close(ctx), b.journal.Close(), b.store.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	b.Ledger = nil
}

// crash stops the applier where it stands and closes the files.
func (b *books) crash(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.Ledger.Close(ctx) // says what is left behind
	if err := errors.Join(b.journal.Close(), b.store.Close()); err != nil {
		t.Fatal(err)
	}
	b.Ledger = nil
}

// waitFor asks again and again until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited 30 s for: %s", what)
		case <-tick.C:
		}
	}
}

func record(t testing.TB, b *books, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.Record(sample(id)); err != nil {
			t.Fatalf("Record(%s): %v", id, err)
		}
	}
}

func mustFind(t testing.TB, b *books, id string) {
	t.Helper()
	g, err := b.Generation(t.Context(), id)
	if err != nil {
		t.Fatalf("Generation(%s): %v", id, err)
	}
	if diff := cmp.Diff(sample(id), g, sameDecimal); diff != "" {
		t.Fatalf("generation (-want +got):\n%s", diff)
	}
}

// checkStore checks that the store holds n records and that their spend was added once each.
func checkStore(t testing.TB, b *books, n int) {
	t.Helper()
	rows, err := b.store.Generations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := sample("")
	spend, err := b.store.Spend(t.Context(), s.KeyID, "", "9999")
	if err != nil {
		t.Fatal(err)
	}
	var requests int64
	var cost hearth.Nano
	for _, v := range spend {
		requests += v.Requests
		cost += v.Cost
	}
	if rows != n || int(requests) != n || cost != s.Bill.Cost*hearth.Nano(n) {
		t.Errorf("%d rows, %d requests of %s in the spend, want %d", rows, requests, cost, n)
	}
}

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

func TestRecord(t *testing.T) {
	t.Run("readable at once and after", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		g := sample("gen-1")
		if err := b.Record(g); err != nil {
			t.Fatal(err)
		}
		g.Model = "changed afterwards"
		mustFind(t, b, "gen-1")
		waitFor(t, "the record in the store", func() bool { return b.Pending() == 0 })
		mustFind(t, b, "gen-1")
		checkStore(t, b, 1)
	})
	t.Run("nobody's id", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		_, err := b.Generation(t.Context(), "gen-9' OR 1=1 --")
		if e := (*hearth.Error)(nil); !errors.As(err, &e) || e.Type != hearth.ErrNotFound {
			t.Errorf("Generation: %v, want not_found", err)
		}
	})
	t.Run("the same id twice counts once", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		record(t, b, "gen-1", "gen-2")
		again := sample("gen-1")
		again.Model = "another"
		if err := b.Record(again); err != nil {
			t.Fatal(err)
		}
		mustFind(t, b, "gen-1")
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		mustFind(t, b, "gen-1")
		checkStore(t, b, 2)
	})
	t.Run("ten thousand at once", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{SegmentBytes: 1 << 20})
		var wg sync.WaitGroup
		for w := range 100 {
			wg.Go(func() {
				for _, id := range names(fmt.Sprint("gen-", w), 100) {
					if err := b.Reserve(); err != nil {
						t.Error(err)
						return
					}
					if err := b.Record(sample(id)); err != nil {
						t.Error(err)
					}
					b.Unreserve()
					if _, err := b.Generation(context.Background(), id); err != nil {
						t.Errorf("Generation(%s) right after Record: %v", id, err)
					}
				}
			})
		}
		wg.Wait()
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		checkStore(t, b, 10_000)
		waitFor(t, "the journal without old segments", func() bool { return b.journal.Segments() == 1 })
	})
	t.Run("close applies everything", func(t *testing.T) {
		for n := range 20 {
			b := open(t, t.TempDir(), journal.Options{})
			record(t, b, names("gen", 1+n*60)...)
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b.Pending() != 0 {
				t.Errorf("%d records wait after Close", b.Pending())
			}
			checkStore(t, b, 1+n*60)
			b.end(t)
		}
	})
}
