package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestForget(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	t.Run("the oldest go, a few hundred at a time, and the sums stay", func(t *testing.T) {
		s := newStore(t)
		var list []Row
		for i := range 2*forgetRows + 5 {
			r := made(i+1, "a", "m", at.Add(time.Duration(i/50)*time.Minute)) // many of one instant
			r.ReasoningTokens = 2
			r.Record = []byte(`{"id":"` + r.ID + `","usage":{"reasoning_tokens":2}}`)
			list = append(list, r)
		}
		seoul := made(1000, "b", "m", at.Add(-time.Hour).In(time.FixedZone("KST", 14*3600))) // the first: there it is December
		apply(t, s, append(list, seoul)...)
		before, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		limit := at.Add(7 * time.Minute) // 350 are older, and b's
		for _, want := range []int{forgetRows, 151, 0} {
			if n, err := s.Forget(t.Context(), limit); n != want || err != nil {
				t.Fatalf("%d deleted, %v; want %d", n, err, want)
			}
		}
		left, _ := ids(t, s, Filter{})
		if len(left) != len(list)-350 || left[0] != "gen-351" {
			t.Errorf("%d are left, from %s", len(left), left[0])
		}
		after, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before.Spend, after.Spend); d != "" {
			t.Errorf("spend changed:\n%s", d)
		}
		want := []Spend{
			{KeyID: "a", Day: "2026-11-30", Model: "m", Provider: "local-gpu", Currency: "KRW", Cost: 350 * 351 / 2, Requests: 350, PromptTokens: 3500, CompletionTokens: 1750},
			{KeyID: "b", Day: "2026-12-01", Model: "m", Provider: "local-gpu", Currency: "KRW", Cost: 1000, Requests: 1, PromptTokens: 10, CompletionTokens: 5},
		}
		if d := cmp.Diff(want, after.Deleted, cmpopts.IgnoreFields(Spend{}, "ReasoningTokens")); d != "" {
			t.Errorf("deleted (-want +got):\n%s", d)
		}
		var reasoning int
		if err := s.reader.QueryRow(`SELECT reasoning_tokens FROM deleted WHERE key_id = 'a'`).Scan(&reasoning); err != nil || reasoning != 700 {
			t.Errorf("%d reasoning tokens, %v", reasoning, err)
		}
	})
	t.Run("without an instant any may go", func(t *testing.T) {
		s := newStore(t)
		apply(t, s, made(1, "a", "m", at.AddDate(100, 0, 0)))
		if n, err := s.Forget(t.Context(), time.Time{}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("what was deleted is not inserted again by what a journal still holds", func(t *testing.T) {
		s := newStore(t)
		apply(t, s, rows(1, 3)...)
		if _, err := s.Forget(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if seq, err := s.Applied(t.Context(), "j"); seq != 3 || err != nil {
			t.Errorf("sequence %d, %v: they would be applied again, and counted twice", seq, err)
		}
	})
	t.Run("a record that is no JSON goes too", func(t *testing.T) {
		s := newStore(t)
		r := made(1, "a", "m", at)
		r.Record = []byte(`{"id`)
		apply(t, s, r)
		if n, err := s.Forget(t.Context(), time.Time{}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("by the index", func(t *testing.T) {
		s := newStore(t)
		rows, err := s.reader.Query(`EXPLAIN QUERY PLAN SELECT rowid FROM generations WHERE created_at < ? ORDER BY created_at, rowid LIMIT ?`, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var a, b, c int
		var plan string
		for rows.Next() {
			if err := rows.Scan(&a, &b, &c, &plan); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(plan, "generations_created") {
				t.Errorf("plan %s", plan)
			}
		}
	})
}

// A file gives back what is not in use.
func TestShrink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	s := mustOpen(t, path)
	record := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 4000)...), `"}`...)
	for i := range 8 {
		list := rows(500*i+1, 500)
		for k := range list {
			list[k].Record = record
		}
		apply(t, s, list...)
	}
	full, file, err := s.Size(t.Context())
	if err != nil || full < 16<<20 || file != full {
		t.Fatalf("%d of %d, %v", full, file, err)
	}
	for {
		n, err := s.Forget(t.Context(), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	used, file, err := s.Size(t.Context())
	if err != nil || used > 1<<20 || file != full {
		t.Fatalf("%d of %d are in use, %v", used, file, err)
	}
	for last := file; ; last = file {
		if err := s.Shrink(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, file, err = s.Size(t.Context()); err != nil || file == last {
			break
		}
		if last-file > shrinkPages*16384 {
			t.Errorf("%d bytes given back at once", last-file)
		}
	}
	if file > 1<<20 {
		t.Errorf("the file has %d bytes still", file)
	}
	if _, err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != file {
		t.Errorf("on disk %d, %v; want %d", info.Size(), err, file)
	}
}
