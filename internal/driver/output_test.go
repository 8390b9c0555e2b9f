package driver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) *output { return &output{path: filepath.Join(t.TempDir(), "s.log")} }
	write := func(t *testing.T, f *os.File, text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(t *testing.T, o *output, first bool) *os.File {
		t.Helper()
		f, err := o.open(first)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Run("each start has its own lines, each attempt its own complaints", func(t *testing.T) {
		o := fresh(t)
		write(t, begin(t, o, true), "earlier\nbind: address already in use\n")
		f := begin(t, o, true)
		if got := o.last(); len(got) != 0 || o.saysBind() {
			t.Errorf("a new start has %q", got)
		}
		write(t, f, "one\nbind: address already in use\n")
		if !o.saysBind() {
			t.Error("the complaint is not seen")
		}
		write(t, begin(t, o, false), "two\nunfin")
		if o.saysBind() {
			t.Error("an earlier attempt is held against the next")
		}
		if diff := cmp.Diff([]string{"one", "bind: address already in use", "two", "unfin"}, o.last()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("only the end of much is read, in whole lines, and none can steer a terminal", func(t *testing.T) {
		o := fresh(t)
		f := begin(t, o, true)
		write(t, f, strings.Repeat("x", 2*outputRead)+"\n")
		for i := range 90 {
			write(t, f, fmt.Sprintf("%d\x1b[2J\u202e\u2028\x00 %s\n", i, strings.Repeat("y", 3000)))
		}
		got := o.last()
		if len(got) < 30 || len(got) > logLines {
			t.Fatalf("%d lines", len(got))
		}
		for i, l := range got {
			if len(l) > logWidth || !strings.HasPrefix(l, fmt.Sprint(90-len(got)+i)+" [2J") || strings.ContainsAny(l, "\x1b\u202e\u2028\x00") {
				t.Errorf("line %q", l)
			}
		}
	})
	t.Run("a file that is too long is cut under who writes to it", func(t *testing.T) {
		o := fresh(t)
		f := begin(t, o, true)
		write(t, f, "old\n"+strings.Repeat("0123456789abcde\n", outputMax/16))
		o.trim()
		if st, err := os.Stat(o.path); err != nil || st.Size() > outputKept || st.Size() < outputKept-16 {
			t.Fatalf("%v, %v", st.Size(), err)
		}
		write(t, f, "new\n")
		b, err := os.ReadFile(o.path)
		if err != nil || !bytes.HasPrefix(b, []byte("0123456789abcde\n")) || !bytes.HasSuffix(b, []byte("e\nnew\n")) {
			t.Errorf("%.20q … %v", b, err)
		}
		if got := o.last(); len(got) != logLines || got[logLines-1] != "new" {
			t.Errorf("%d lines", len(got))
		}
	})
	t.Run("a file of allowed length is not cut", func(t *testing.T) {
		o := fresh(t)
		f := begin(t, o, true)
		write(t, f, strings.Repeat("x", outputMax))
		o.trim()
		if st, err := os.Stat(o.path); err != nil || st.Size() != outputMax {
			t.Errorf("%v, %v", st, err)
		}
	})
	t.Run("a file that somebody else cut or removed", func(t *testing.T) {
		o := fresh(t)
		write(t, begin(t, o, true), strings.Repeat("earlier\n", 100))
		f := begin(t, o, true)
		if err := os.Truncate(o.path, 0); err != nil {
			t.Fatal(err)
		}
		write(t, f, "now\n")
		if got := o.last(); !slices.Equal(got, []string{"now"}) {
			t.Errorf("%q", got)
		}
		if err := os.Remove(o.path); err != nil {
			t.Fatal(err)
		}
		if o.trim(); len(o.last()) != 0 {
			t.Error("there are lines in no file")
		}
	})
	t.Run("an engine's probe cuts its output", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		s := shell(`yes 0123456789abcde | head -c 8400000; echo up; exec sleep 1000`)
		e := startWith(t, d, s)
		eventually(t, "it is up", func() bool { got := e.LogTail(); return len(got) > 0 && got[len(got)-1] == "up" })
		if _, err := e.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		if st, err := os.Stat(d.file("s", ".log")); err != nil || st.Size() > outputKept {
			t.Errorf("%d, %v", st.Size(), err)
		}
	})
}
