package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// crash closes the files without the tidy end of Close, as the death of the process does.
func crash(t *testing.T, j *Journal) {
	t.Helper()
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	close(j.stop)
	<-j.stopped
	if err := errors.Join(j.active.Close(), j.lock.Close()); err != nil {
		t.Fatal(err)
	}
}

// image makes a journal with three records and returns the bytes of its one segment. With synced, the third was
// written when the first two were on the disk.
func image(t *testing.T, synced bool, end func(*Journal)) []byte {
	t.Helper()
	dir := t.TempDir()
	j := mustOpen(t, Options{Dir: dir, Durability: Power})
	if !synced {
		j.durability = Process // of an open journal: nothing is synced
	}
	mustAppend(t, j, "first", "second", "third, the last")
	end(j)
	b, err := os.ReadFile(segmentFiles(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	return b[:j.size] // without what was written ahead
}

// openImage opens a journal whose one segment holds b.
func openImage(t *testing.T, b []byte) (*Journal, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(Options{Dir: dir})
}

var threeRecords = []string{"1:first", "2:second", "3:third, the last"}

func TestTornTail(t *testing.T) {
	b := image(t, true, func(j *Journal) { crash(t, j) })
	last := len(b) - recordHeader - len("third, the last")
	for n := last; n <= len(b); n++ {
		t.Run(fmt.Sprintf("cut at byte %d of %d", n, len(b)), func(t *testing.T) {
			j, err := openImage(t, b[:n])
			if err != nil {
				t.Fatal(err)
			}
			want, wantCut := threeRecords[:2], int64(len(bytes.TrimRight(b[last:n], "\x00")))
			if n == len(b) {
				want, wantCut = threeRecords, 0
			}
			if diff := cmp.Diff(want, content(t, j, 1)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if got := j.Recovery().Cut; got != wantCut {
				t.Errorf("Recovery().Cut = %d, want %d", got, wantCut)
			}
			mustAppend(t, j, "again")
			mustClose(t, j)
			if j, err = Open(Options{Dir: j.dir}); err != nil {
				t.Fatal(err)
			}
			if got := content(t, j, 1); len(got) != len(want)+1 {
				t.Errorf("after one more record: %q", got)
			}
			mustClose(t, j)
		})
	}
	t.Run("zeros behind the last record", func(t *testing.T) {
		j, err := openImage(t, append(b[:len(b):len(b)], make([]byte, 5000)...))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if diff := cmp.Diff(threeRecords, content(t, j, 1)); diff != "" || j.Recovery() != (Recovery{}) {
			t.Errorf("recovery %+v, content (-want +got):\n%s", j.Recovery(), diff)
		}
	})
}

// TestBitFlips turns a bit in every byte of a segment. No flip may go unseen: the journal is refused, or what it cut is
// reported and what is left is a true beginning.
func TestBitFlips(t *testing.T) {
	for _, c := range []struct {
		name   string
		synced bool
		end    func(*Journal)
		refuse func(at int, b []byte) bool // must Open refuse a flip at this byte
	}{
		{"closed", true, func(j *Journal) { mustClose(t, j) },
			// The mark at the end covers all before it.
			func(at int, b []byte) bool { return at < len(b)-recordHeader }},
		{"killed, records synced one by one", true, func(j *Journal) { crash(t, j) },
			func(at int, b []byte) bool { return at < len(b)-recordHeader-len("third, the last") }},
		{"killed, nothing synced", false, func(j *Journal) { crash(t, j) },
			func(at int, _ []byte) bool { return at < segmentHeader }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := image(t, c.synced, c.end)
			for at := range b {
				flipped := append([]byte(nil), b...)
				flipped[at] ^= 1 << (at % 8)
				checkFlip(t, flipped, fmt.Sprintf("byte %d bit %d", at, at%8), c.refuse(at, b))
			}
		})
	}
}

func checkFlip(t *testing.T, b []byte, where string, refuse bool) {
	t.Helper()
	j, err := openImage(t, b)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", where, err)
		}
		if !refuse {
			t.Errorf("%s: refused, want the tail cut: %v", where, err)
		}
		return
	}
	defer j.Close()
	if refuse {
		t.Errorf("%s: opened, want ErrDamaged", where)
	}
	if j.Recovery().Cut == 0 {
		t.Errorf("%s: not noticed", where)
	}
	got := content(t, j, 1)
	if len(got) > len(threeRecords) {
		t.Fatalf("%s: %q", where, got)
	}
	if diff := cmp.Diff(threeRecords[:len(got)], got, cmp.Transformer("nil", func(s []string) string { return fmt.Sprint(s) })); diff != "" {
		t.Errorf("%s: content (-want +got):\n%s", where, diff)
	}
	if r := j.Recovery(); r.Intact > 0 {
		if info, err := os.Stat(filepath.Join(j.dir, r.Saved)); err != nil || info.Size() != r.Cut {
			t.Errorf("%s: cut bytes with %d whole records not saved: %v", where, r.Intact, err)
		}
	}
}
