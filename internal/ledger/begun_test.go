package ledger

import (
	"fmt"
	"slices"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/journal"
)

// beginning is what is known of an answer when it begins.
func beginning(id string) *hearth.Generation {
	g := sample(id)
	g.Streamed = true
	g.FinishReason, g.Error, g.Usage, g.Bill.Cost = "", "", hearth.Usage{}, 0
	return g
}

func begin(t *testing.T, b *books, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.Begin(beginning(id)); err != nil {
			t.Fatal(err)
		}
	}
	b.begun.writing.Wait()
}

// wantInterrupted looks for a record that says that the answer was cut off.
func wantInterrupted(t *testing.T, b *books, id string) {
	t.Helper()
	g, err := b.Generation(t.Context(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	if g.Error != string(hearth.ErrInternal) || g.FinishReason != "error" || g.Bill.Cost != 0 || !slices.Contains(g.Notes, noteInterrupted) {
		t.Errorf("%s: error %q, finish %q, cost %d, notes %q", id, g.Error, g.FinishReason, g.Bill.Cost, g.Notes)
	}
}

func wantRows(t *testing.T, b *books, want int) {
	t.Helper()
	if n, err := b.store.Generations(t.Context()); err != nil || n != want {
		t.Errorf("%d records, %v, want %d", n, err, want)
	}
}

func TestBegin(t *testing.T) {
	for _, d := range []journal.Durability{journal.Process, journal.Power} {
		o := journal.Options{Durability: d, SegmentBytes: 64 << 10}
		t.Run(string(d)+"/an answer that is cut off gets a record once", func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, o)
			begin(t, b, "cut", "whole")
			whole := sample("whole")
			whole.Streamed = true
			if err := b.Record(whole); err != nil {
				t.Fatal(err)
			}
			b.crash(t)
			for range 3 {
				b = open(t, dir, o)
				wantInterrupted(t, b, "cut")
				mustFind(t, b, "whole")
				waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
				wantRows(t, b, 2)
				b.end(t)
			}
		})
		t.Run(string(d)+"/what began in a segment that is gone is not forgotten", func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, o)
			begin(t, b, "long")
			first := b.journal.First()
			for i := range 5 {
				record(t, b, names(fmt.Sprint("gen-", i), 60)...)
				waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
			}
			waitFor(t, "the first segment to go", func() bool { return b.journal.First() > first })
			b.crash(t)
			b = open(t, dir, o)
			wantInterrupted(t, b, "long")
			waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
			wantRows(t, b, 301)
		})
	}
	t.Run("the beginning alone is no record", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		begin(t, b, "begun")
		if _, err := b.Generation(t.Context(), "begun"); err == nil {
			t.Error("there is a record of an answer that goes on")
		}
		record(t, b, "other")
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		checkStore(t, b, 1)
	})
	t.Run("a stalled store: the applier reads beginnings from the journal", func(t *testing.T) {
		b := open(t, t.TempDir(), journal.Options{})
		b.tail.mu.Lock()
		b.tail.limit = 1
		b.tail.mu.Unlock()
		release := b.hold(t, walWriteLock)
		defer release()
		begin(t, b, "a", "b")
		record(t, b, "c")
		begin(t, b, "d")
		release()
		waitFor(t, "the records in the store", func() bool { return b.Pending() == 0 })
		checkStore(t, b, 1)
	})
}

func BenchmarkBegin(b *testing.B) {
	books := open(b, b.TempDir(), journal.Options{MaxBytes: 8 << 30})
	g := beginning("gen-01JXAMPLE0000000000000000")
	b.ReportAllocs()
	for b.Loop() {
		if err := books.Begin(g); err != nil {
			b.Fatal(err)
		}
		books.begun.end(g.ID)
	}
}
