package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

func mustOpen(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return j
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// mustAppend appends payloads and checks that their sequences run on from the last.
func mustAppend(t testing.TB, j *Journal, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		want := j.Last() + 1
		seq, err := j.Append([]byte(p))
		if err != nil || seq != want {
			t.Fatalf("Append(%.20q) = %d, %v, want %d", p, seq, err, want)
		}
	}
}

// content replays everything as "seq:payload".
func content(t testing.TB, j *Journal, from uint64) []string {
	t.Helper()
	var list []string
	err := j.Replay(from, func(seq uint64, payload []byte) error {
		list = append(list, fmt.Sprintf("%d:%s", seq, payload))
		return nil
	})
	if err != nil {
		t.Fatalf("Replay: %v", err)
	}
	return list
}

func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestJournal(t *testing.T) {
	for _, d := range []Durability{Process, Power} {
		t.Run("sequence and content go on after reopening/"+string(d), func(t *testing.T) {
			o := Options{Dir: filepath.Join(t.TempDir(), "a", "b"), Durability: d}
			j := mustOpen(t, o)
			mustAppend(t, j, "one", "two")
			id := j.ID()
			mustClose(t, j)
			j = mustOpen(t, o)
			if j.ID() != id {
				t.Errorf("id %s became %s", id, j.ID())
			}
			if r := j.Recovery(); r != (Recovery{}) {
				t.Errorf("Recovery() = %+v after a clean close", r)
			}
			mustAppend(t, j, "three")
			if diff := cmp.Diff([]string{"1:one", "2:two", "3:three"}, content(t, j, 0)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"3:three"}, content(t, j, 3)); diff != "" {
				t.Errorf("content from 3 (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("files are private", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "journal")
		j := mustOpen(t, Options{Dir: dir})
		mustAppend(t, j, "x")
		paths := append(segmentFiles(t, dir), filepath.Join(dir, "lock"))
		want := map[string]os.FileMode{dir: 0o700}
		for _, p := range paths {
			want[p] = 0o600
		}
		for p, mode := range want {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != mode {
				t.Errorf("%s has mode %o, want %o", p, info.Mode().Perm(), mode)
			}
		}
	})
	t.Run("a second opener is refused", func(t *testing.T) {
		dir := t.TempDir()
		mustOpen(t, Options{Dir: dir})
		if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
			t.Errorf("second Open: %v, want ErrInUse", err)
		}
	})
	t.Run("empty and gigantic payloads are refused", func(t *testing.T) {
		j := mustOpen(t, Options{Dir: t.TempDir()})
		for _, n := range []int{0, MaxPayload + 1} {
			if _, err := j.Append(make([]byte, n)); err == nil {
				t.Errorf("Append of %d bytes went well", n)
			}
		}
		big := bytes.Repeat([]byte("x"), MaxPayload)
		if _, err := j.Append(big); err != nil {
			t.Errorf("Append of %d bytes: %v", MaxPayload, err)
		}
	})
	t.Run("after close everything says so", func(t *testing.T) {
		j := mustOpen(t, Options{Dir: t.TempDir()})
		mustClose(t, j)
		_, appendErr := j.Append([]byte("x"))
		for name, err := range map[string]error{"Append": appendErr, "Sync": j.Sync(), "Close": j.Close(), "SkipTo": j.SkipTo(9)} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", name, err)
			}
		}
	})
	t.Run("a directory that cannot be made names the remedy", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Dir: filepath.Join(file, "journal")})
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte("configure another directory")) {
			t.Errorf("Open below a file: %v", err)
		}
	})
}

func TestSegments(t *testing.T) {
	payload := string(bytes.Repeat([]byte("p"), 1000))
	small := func(dir string) Options { return Options{Dir: dir, SegmentBytes: minSegment} }

	t.Run("rotate and reopen", func(t *testing.T) {
		dir := t.TempDir()
		j := mustOpen(t, small(dir))
		for range 20 {
			mustAppend(t, j, payload)
		}
		if n := len(segmentFiles(t, dir)); n < 5 || n != j.Segments() {
			t.Errorf("%d segment files, %d known, want at least 5", n, j.Segments())
		}
		mustClose(t, j)
		j = mustOpen(t, small(dir))
		if got := content(t, j, 1); len(got) != 20 || j.Last() != 20 {
			t.Errorf("%d records, last %d, want 20", len(got), j.Last())
		}
		if got := content(t, j, 15); len(got) != 6 {
			t.Errorf("%d records from 15, want 6", len(got))
		}
	})
	t.Run("discard keeps what is not covered and the active one", func(t *testing.T) {
		dir := t.TempDir()
		j := mustOpen(t, small(dir))
		for range 20 {
			mustAppend(t, j, payload)
		}
		before := j.Used()
		if err := j.Discard(10); err != nil {
			t.Fatal(err)
		}
		if got := content(t, j, 11); len(got) != 10 {
			t.Errorf("%d records from 11 on, want 10", len(got))
		}
		if f := j.First(); f > 11 || f == 1 {
			t.Errorf("First() = %d, want 2 to 11", f)
		}
		if err := j.Discard(99); err != nil {
			t.Fatal(err)
		}
		if n := len(segmentFiles(t, dir)); n != 1 || j.Used() >= before {
			t.Errorf("%d segment files, %d bytes of %d, want the active one", n, j.Used(), before)
		}
		mustClose(t, j)
		j = mustOpen(t, small(dir))
		mustAppend(t, j, "after")
		if j.Last() != 21 {
			t.Errorf("Last() = %d, want 21", j.Last())
		}
	})
	t.Run("skipped sequences stay skipped", func(t *testing.T) {
		dir := t.TempDir()
		j := mustOpen(t, small(dir))
		mustAppend(t, j, "one")
		if err := errors.Join(j.SkipTo(100), j.SkipTo(5)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, j, "hundred")
		mustClose(t, j)
		j = mustOpen(t, small(dir))
		if diff := cmp.Diff([]string{"1:one", "100:hundred"}, content(t, j, 0)); diff != "" {
			t.Errorf("content (-want +got):\n%s", diff)
		}
	})
	t.Run("a segment whose making was cut short is made again", func(t *testing.T) {
		for n := range segmentHeader {
			dir := t.TempDir()
			j := mustOpen(t, small(dir))
			mustAppend(t, j, payload, payload, payload)
			id := j.ID()
			mustClose(t, j)
			s := segment{id: j.id, first: 4, follows: 3}
			if err := os.WriteFile(filepath.Join(dir, segmentName(4)), s.appendHeader(nil)[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			j = mustOpen(t, small(dir))
			mustAppend(t, j, "four")
			if j.Last() != 4 || j.ID() != id {
				t.Fatalf("header of %d bytes: last %d, id %s, want 4, %s", n, j.Last(), j.ID(), id)
			}
			mustClose(t, j)
			mustClose(t, mustOpen(t, small(dir)))
		}
	})
	t.Run("a missing or foreign segment is refused", func(t *testing.T) {
		dir := t.TempDir()
		j := mustOpen(t, small(dir))
		for range 20 {
			mustAppend(t, j, payload)
		}
		mustClose(t, j)
		files := segmentFiles(t, dir)
		away := filepath.Join(t.TempDir(), "away")
		if err := os.Rename(files[2], away); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(small(dir)); !errors.Is(err, ErrDamaged) {
			t.Errorf("Open without %s: %v, want ErrDamaged", files[2], err)
		}
		if err := os.Rename(away, files[2]); err != nil {
			t.Fatal(err)
		}
		mustClose(t, mustOpen(t, small(dir)))
	})
}

func TestConcurrentAppend(t *testing.T) {
	const writers, each = 16, 50
	for _, d := range []Durability{Process, Power} {
		t.Run(string(d), func(t *testing.T) {
			j := mustOpen(t, Options{Dir: t.TempDir(), Durability: d, SegmentBytes: minSegment, MaxBytes: 1 << 20})
			var wg sync.WaitGroup
			var seen sync.Map
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						p := fmt.Sprintf("%d-%d", w, i)
						seq, err := j.Append([]byte(p))
						if err != nil {
							t.Error(err)
							return
						}
						if d == Power && j.done.Load() < seq {
							t.Errorf("record %d acknowledged before it was synced", seq)
						}
						seen.Store(fmt.Sprintf("%d:%s", seq, p), true)
					}
				})
			}
			wg.Wait()
			got := content(t, j, 1)
			if len(got) != writers*each {
				t.Fatalf("%d records, want %d", len(got), writers*each)
			}
			for _, r := range got {
				if _, ok := seen.Load(r); !ok {
					t.Errorf("record %s was not acknowledged with this sequence", r)
				}
			}
		})
	}
}
