package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
	"myip.co.kr/hearth/internal/store"
)

// aged is a record of so long ago.
func aged(id string, age time.Duration) *hearth.Generation {
	g := paid(id, "key-1", 10)
	g.CreatedAt = time.Now().Add(-age)
	return g
}

// Records that are older than allowed go within a minute, the sums and what limits count stay, and an audit understands.
func TestRetain_Age(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		defer b.end(t)
		const day = 24 * time.Hour
		for i, age := range []time.Duration{401 * day, 400*day + 30*time.Second, 400 * day, 400*day - time.Hour, 0} {
			if err := b.Record(aged(fmt.Sprint("gen-", i), age)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(10 * time.Second)
		b.Retain(Retention{MaxAge: 400 * day})
		left := func() string {
			t.Helper()
			var list []string
			err := b.store.Each(t.Context(), store.Filter{}, func(r *store.Stored) error { list = append(list, r.ID); return nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(list, " ")
		}
		if got := left(); got != "gen-0 gen-1 gen-2 gen-3 gen-4" {
			t.Errorf("before its time: %s", got)
		}
		<-time.After(55 * time.Second)
		synctest.Wait()
		if got := left(); got != "gen-3 gen-4" {
			t.Errorf("left after a minute: %s", got)
		}
		if _, err := b.Generation(t.Context(), "gen-0"); err == nil {
			t.Error("one that was deleted is found")
		}
		if got := b.Spent("key-1", "KRW", time.Now()).Ever; got != 50 {
			t.Errorf("limits count %d, want 50", got)
		}
		a, err := Audit(t.Context(), b.store, store.Filter{}, func(f Finding) {
			if strings.HasPrefix(f.What, "sum") {
				t.Error(f)
			}
		}, nil)
		if err != nil || a.Deleted != 3 || a.Sums == 0 || a.Passed != 0 {
			t.Errorf("audit %+v, %v", a, err)
		}
		b.Retain(Retention{}) // taken back
		<-time.After(2 * time.Hour)
		if got := left(); got != "gen-3 gen-4" {
			t.Errorf("left without a bound: %s", got)
		}
		dir := b.dir
		b.end(t)
		b = open(t, dir, journal.Options{})
		if got := b.Spent("key-1", "KRW", time.Now()).Ever; got != 50 || left() != "gen-3 gen-4" {
			t.Errorf("after a restart limits count %d, want 50; left %s", got, left())
		}
	})
}

// A database that is too large loses its oldest records until it is not, and gives back what is free.
func TestRetain_Size(t *testing.T) {
	b := open(t, t.TempDir(), journal.Options{MaxBytes: 1 << 30})
	defer b.end(t)
	const n = 6000
	for i := range n {
		g := aged(fmt.Sprintf("gen-%05d", i), time.Duration(n-i)*time.Second)
		g.Notes = []string{strings.Repeat("x", 1500)}
		if err := b.Record(g); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the records to be in the store", func() bool { return b.Pending() == 0 })
	size := func() (used, file int64) {
		t.Helper()
		used, file, err := b.store.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return used, file
	}
	full, _ := size()
	most := full / 3
	deleted, err := b.retain(t.Context(), Retention{MaxBytes: most})
	if err != nil {
		t.Fatal(err)
	}
	used, file := size()
	if used > most || used < most*9/10 || file-used > file/slack {
		t.Errorf("%d of %d bytes are in use, of %d at first; %d may be", used, file, full, most)
	}
	first := ""
	err = b.store.Each(t.Context(), store.Filter{}, func(r *store.Stored) error {
		if first == "" {
			first = r.ID
		}
		return nil
	}, nil)
	if want := fmt.Sprintf("gen-%05d", deleted); err != nil || first != want {
		t.Errorf("the first that is left is %s, want %s, %v", first, want, err)
	}
	if again, err := b.retain(t.Context(), Retention{MaxBytes: most}); again != 0 || err != nil {
		t.Errorf("%d more were deleted, %v", again, err)
	}
	t.Run("one that can never be so small ends", func(t *testing.T) {
		deleted, err := b.retain(t.Context(), Retention{MaxBytes: 1})
		if got, _ := b.store.Generations(t.Context()); got != 0 || err != nil || deleted == 0 {
			t.Errorf("%d deleted, %v, %d left", deleted, err, got)
		}
	})
}

// Deleting waits while the applier is behind, and ends with the ledger.
func TestRetain_Ends(t *testing.T) {
	b := open(t, t.TempDir(), journal.Options{})
	defer b.end(t)
	for i := range 1000 {
		if err := b.Record(aged(fmt.Sprint("gen-", i), 48*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the records to be in the store", func() bool { return b.Pending() == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := b.retain(ctx, Retention{MaxAge: 24 * time.Hour}); n != 0 || err == nil {
		t.Errorf("%d deleted, %v", n, err)
	}
}
