package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"myip.co.kr/hearth"
)

// made is a row of a key that arrived at an instant.
func made(seq int, key, model string, at time.Time) Row {
	r := row(uint64(seq), fmt.Sprint("gen-", seq), hearth.Nano(seq))
	r.KeyID, r.Model, r.CreatedAt = key, model, at
	return r
}

func apply(t testing.TB, s *Store, list ...Row) {
	t.Helper()
	if _, err := s.Apply(t.Context(), "j", list[len(list)-1].Seq, list); err != nil {
		t.Fatal(err)
	}
}

func ids(t testing.TB, s *Store, f Filter) (got []string, scanned int) {
	t.Helper()
	err := s.Each(t.Context(), f, func(r *Stored) error {
		if !strings.Contains(string(r.Record), `"`+r.ID+`"`) {
			t.Errorf("record of %s is %s", r.ID, r.Record)
		}
		got = append(got, r.ID)
		return nil
	}, func(n int) { scanned += n })
	if err != nil {
		t.Fatal(err)
	}
	return got, scanned
}

func TestEach(t *testing.T) {
	s := newStore(t)
	seoul := time.FixedZone("KST", 9*3600)
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	apply(t, s,
		made(1, "a", "m", noon.Add(2*time.Hour)),
		made(2, "b", "m", noon),
		made(3, "a", "n", noon),
		made(4, "b", "n", noon.Add(time.Millisecond)),
		made(5, "a", "m", noon.Add(4*time.Hour).In(seoul)), // there it is December
		made(6, "a", "m", noon.Add(-time.Hour)),
	)
	mark := func() Mark {
		v, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v.Mark
	}
	before := mark()
	apply(t, s, made(7, "a", "m", noon.Add(-2*time.Hour)))
	for _, c := range []struct {
		name string
		f    Filter
		want string
	}{
		{"all, by time, then as they came", Filter{}, "7 6 2 3 4 1 5"},
		{"of a key", Filter{KeyID: "b"}, "2 4"},
		{"of a model", Filter{Model: "n"}, "3 4"},
		{"of both", Filter{KeyID: "a", Model: "n"}, "3"},
		{"of nobody", Filter{KeyID: "c"}, ""},
		{"the first instant is included, the last not", Filter{From: noon, To: noon.Add(time.Millisecond)}, "2 3"},
		{"a day, by each record's own zone", Filter{FirstDay: "2026-11-30", LastDay: "2026-11-30"}, "7 6 2 3 4 1"},
		{"the day after", Filter{FirstDay: "2026-12-01"}, "5"},
		{"up to a day", Filter{LastDay: "2026-11-29"}, ""},
		{"those of before a mark", Filter{Most: before}, "6 2 3 4 1 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, scanned := ids(t, s, c.f)
			if text := strings.ReplaceAll(strings.Join(got, " "), "gen-", ""); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			n, err := s.Count(t.Context(), c.f)
			if err != nil || n != scanned || n < len(got) {
				t.Errorf("%d counted, %v, %d gone through, %d given", n, err, scanned, len(got))
			}
		})
	}
	t.Run("what stands in the columns", func(t *testing.T) {
		want := Stored{made(5, "a", "m", noon.Add(4*time.Hour).UTC()), "2026-12-01"}
		err := s.Each(t.Context(), Filter{FirstDay: "2026-12-01"}, func(got *Stored) error {
			if d := cmp.Diff(&want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an error ends it", func(t *testing.T) {
		enough := errors.New("enough")
		n := 0
		err := s.Each(t.Context(), Filter{}, func(*Stored) error {
			if n++; n == 3 {
				return enough
			}
			return nil
		}, nil)
		if !errors.Is(err, enough) || n != 3 {
			t.Errorf("%v after %d", err, n)
		}
	})
	t.Run("a mark on an empty table", func(t *testing.T) {
		s := newStore(t)
		v, err := s.Sums(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, made(1, "a", "m", noon))
		if got, _ := ids(t, s, Filter{Most: v.Mark}); len(got) != 0 {
			t.Errorf("%v was there before", got)
		}
	})
}

// Pages meet at any boundary, also within many records of one instant, and between them the table is nobody's: the writer
// writes and a checkpoint moves everything.
func TestEach_Pages(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, n := range []int{page - 1, page, page + 1, 2*page + 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newStore(t)
			list := make([]Row, n)
			for i := range list {
				list[i] = made(i+1, []string{"a", "b"}[i%2], "m", at.Add(time.Duration(i/700)*time.Millisecond))
			}
			apply(t, s, list...)
			seen := map[string]bool{}
			given := 0
			err := s.Each(t.Context(), Filter{KeyID: "b"}, func(r *Stored) error {
				if seen[r.ID] {
					t.Fatalf("%s comes twice", r.ID)
				}
				seen[r.ID] = true
				if given++; given == 10 {
					apply(t, s, made(n+1, "b", "m", at.Add(-time.Hour))) // behind us: it is not seen
					if safe, err := s.Checkpoint(t.Context()); !safe || err != nil {
						t.Errorf("a checkpoint is held up: %v, %v", safe, err)
					}
				}
				return nil
			}, nil)
			if err != nil || given != n/2 {
				t.Errorf("%d given, %v; want %d", given, err, n/2)
			}
		})
	}
}

// A page is found by the index, wherever it begins: else reading all of a large table would take hours.
func TestEach_Index(t *testing.T) {
	s := newStore(t)
	for where, want := range map[string]string{
		sameInstant: "SEARCH generations USING INDEX generations_created (created_at=? AND rowid>?)",
		later:       "SEARCH generations USING INDEX generations_created (created_at>? AND created_at<?)",
	} {
		rows, err := s.reader.Query(`EXPLAIN QUERY PLAN `+selectPage(where), "", "", "", "", 5, 5, 5, 5, 5)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var plan []string
		for rows.Next() {
			var a, b, c int
			var text string
			if err := rows.Scan(&a, &b, &c, &text); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, text)
		}
		if len(plan) != 1 || plan[0] != want {
			t.Errorf("plan %q, want %q", plan, want)
		}
	}
}

func TestSums(t *testing.T) {
	s := newStore(t)
	apply(t, s, rows(1, 70)...)
	got, err := s.Sums(t.Context())
	want := Sums{Mark: 70, Spend: []Spend{{KeyID: "key-1", Day: "2025-11-30", Model: "m", Provider: "local-gpu", Currency: "KRW",
		Cost: 7000, Requests: 70, PromptTokens: 700, CompletionTokens: 350}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// Records that were made before days had a column are counted to the day of their own zone.
func TestMigrateDays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hearth.db")
	s := &Store{path: path}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writer, dir, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(context.Background(), 3); err != nil {
		t.Fatal(err)
	}
	for id, record := range map[string]string{"a": `{"created_at":"2026-12-01T00:30:00+09:00"}`, "b": `not JSON`, "c": `{}`} {
		if _, err := s.writer.Exec(`INSERT INTO generations VALUES (?, 1, 'k', 5, 'm', 'p', 'e', 1, 1, 1, 'KRW', 200, ?)`, id, []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = mustOpen(t, path).Each(t.Context(), Filter{}, func(r *Stored) error { got[r.ID] = r.Day; return nil }, nil)
	if d := cmp.Diff(map[string]string{"a": "2026-12-01", "b": "", "c": ""}, got); d != "" || err != nil {
		t.Errorf("%v days (-want +got):\n%s", err, d)
	}
}

func BenchmarkEach(b *testing.B) {
	s := newStore(b)
	for i := range 100 {
		apply(b, s, rows(500*i+1, 500)...)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := s.Each(b.Context(), Filter{}, func(*Stored) error { n++; return nil }, nil); err != nil || n != 50_000 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50_000, "ns/record")
}
