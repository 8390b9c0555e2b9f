package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// got is an event that outlives the reader's buffer.
type got struct {
	Name, Data string
	Comment    bool
}

// collect reads everything and returns the error that ended it.
func collect(r *Reader) ([]got, error) {
	var all []got
	for {
		ev, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{string(ev.Name), string(ev.Data), ev.Comment})
	}
}

var framings = []struct {
	name, in string
	want     []got
}{
	{"one event", "data: a\n\n", []got{{Data: "a"}}},
	{"two events", "data: a\n\ndata: b\n\n", []got{{Data: "a"}, {Data: "b"}}},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []got{{Data: "a"}, {Data: "b"}}},
	{"CR", "data: a\r\rdata: b\r\r", []got{{Data: "a"}, {Data: "b"}}},
	{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", []got{{Data: "a\nb\nc"}, {Data: "d"}}},
	{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []got{{Data: "a"}}},
	{"half a byte order mark", "\xef\xbbdata: a\n\n", nil},
	{"byte order mark later", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []got{{Data: "a"}}},
	{"comment", ": hi\n\ndata: a\n\n", []got{{Data: "hi", Comment: true}, {Data: "a"}}},
	{"comment without a blank line", ":hi\ndata: a\n\n", []got{{Data: "hi", Comment: true}, {Data: "a"}}},
	{"comment inside of an event", "data: a\n: hi\ndata: b\n\n", []got{{Data: "hi", Comment: true}, {Data: "a\nb"}}},
	{"empty comment", ":\n\n", []got{{Comment: true}}},
	{"no space after the colon", "data:a\n\n", []got{{Data: "a"}}},
	{"only one space is dropped", "data:  a \n\n", []got{{Data: " a "}}},
	{"data of many lines", "data: {\ndata: \"a\": 1\ndata:}\n\n", []got{{Data: "{\n\"a\": 1\n}"}}},
	{"empty data lines", "data\ndata:\ndata: \n\n", []got{{Data: "\n\n"}}},
	{"empty data", "data:\n\n", []got{{}}},
	{"null", "data: null\n\n", []got{{Data: "null"}}},
	{"done", "data: [DONE]\n\n", []got{{Data: "[DONE]"}}},
	{"name, id and retry", "event: error\nid: 7\nretry: 10\ndata: x\n\ndata: y\n\n", []got{{Name: "error", Data: "x"}, {Data: "y"}}},
	{"name between data lines", "data: aaaa\nevent: ping\ndata: bbbb\n\n", []got{{Name: "ping", Data: "aaaa\nbbbb"}}},
	{"last name wins", "event: a\nevent: b\ndata: x\n\n", []got{{Name: "b", Data: "x"}}},
	{"name without data is nothing", "event: ping\n\ndata: x\n\n", []got{{Data: "x"}}},
	{"unknown fields", "foo\nbar: 1\n data: no\nDATA: no\ndata: x\n\n", []got{{Data: "x"}}},
	{"blank lines", "\n\n\r\n\rdata: x\n\n\n\n", []got{{Data: "x"}}},
	{"last event without its blank line", "data: a\n\ndata: b\n", []got{{Data: "a"}, {Data: "b"}}},
	{"last line without its end", "data: a\n\ndata: b\ndata: c", []got{{Data: "a"}, {Data: "b\nc"}}},
	{"comment at the end", "data: a\n\n: bye", []got{{Data: "a"}, {Data: "bye", Comment: true}}},
	{"comment at the end of an open event", "data: a\n: bye", []got{{Data: "bye", Comment: true}, {Data: "a"}}},
	{"colon in data", "data: a:b: c\n\n", []got{{Data: "a:b: c"}}},
	{"Hangul", "data: 안녕하세요\n\n", []got{{Data: "안녕하세요"}}},
	{"nothing", "", nil},
}

func TestReader(t *testing.T) {
	for _, tt := range framings {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.in),
				iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				r := NewReader(src, 0)
				events, err := collect(r)
				if err != io.EOF {
					t.Errorf("error %v, want EOF", err)
				}
				if d := cmp.Diff(tt.want, events); d != "" {
					t.Error(d)
				}
				r.Close()
			}
		})
	}
}

func TestReader_split(t *testing.T) {
	t.Run("at every byte", func(t *testing.T) {
		var in strings.Builder
		var want []got
		for _, tt := range framings[:len(framings)-6] {
			if strings.Contains(tt.name, "byte order") || !strings.HasSuffix(tt.in, "\n") {
				continue
			}
			in.WriteString(tt.in)
			want = append(want, tt.want...)
		}
		whole := in.String()
		for i := range whole {
			r := NewReader(io.MultiReader(strings.NewReader(whole[:i]), strings.NewReader(whole[i:])), 0)
			events, err := collect(r)
			if d := cmp.Diff(want, events); d != "" || err != io.EOF {
				t.Fatalf("split at %d: %v\n%s", i, err, d)
			}
			r.Close()
		}
	})
}

func TestReader_limits(t *testing.T) {
	t.Run("a line of 6 MiB", func(t *testing.T) {
		big := strings.Repeat("한글 abc ", 6<<20/11)
		in := "data: a\n\ndata: " + big + "\n\ndata: b\n\n"
		r := NewReader(strings.NewReader(in), 0)
		defer r.Close()
		events, err := collect(r)
		if d := cmp.Diff([]got{{Data: "a"}, {Data: big}, {Data: "b"}}, events); d != "" || err != io.EOF {
			t.Error(err, len(events))
		}
	})
	t.Run("the limit is exact", func(t *testing.T) {
		for _, split := range []bool{false, true} {
			for n, want := range map[int]error{100: io.EOF, 101: ErrTooLong} {
				var src io.Reader = strings.NewReader("data: " + strings.Repeat("x", n-6) + "\n\n")
				if split {
					src = iotest.OneByteReader(src)
				}
				if _, err := collect(NewReader(src, 100)); err != want {
					t.Errorf("event of %d bytes, split %v: %v, want %v", n, split, err, want)
				}
			}
		}
	})
	t.Run("without a limit an event may have 32 MiB, to the byte", func(t *testing.T) {
		in := append(bytes.Repeat([]byte("x"), 32<<20+1), "\n\n"...)
		copy(in, "data: ")
		if _, err := collect(NewReader(bytes.NewReader(in), 0)); err != ErrTooLong {
			t.Error(err)
		}
		in = in[1:]
		copy(in, "data: ")
		if _, err := collect(NewReader(bytes.NewReader(in), 0)); err != io.EOF {
			t.Error(err)
		}
	})
	t.Run("many lines count together", func(t *testing.T) {
		_, err := collect(NewReader(strings.NewReader(strings.Repeat("data: 12345\n", 100)), 1000))
		if err != ErrTooLong {
			t.Error(err)
		}
	})
	t.Run("an endless line keeps memory bounded", func(t *testing.T) {
		r := NewReader(endless{}, 1<<20)
		_, err := r.Next()
		if err != ErrTooLong || cap(r.buf) > 4<<20 {
			t.Error(err, cap(r.buf))
		}
		if _, again := r.Next(); again != ErrTooLong {
			t.Error(again)
		}
	})
	t.Run("an endless stream of small events keeps memory small", func(t *testing.T) {
		r := NewReader(io.LimitReader(repeating("data: {\"a\":1}\r\n\r\n: c\n"), 8<<20), 0)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		if cap(r.buf) > 2*firstBuffer {
			t.Errorf("buffer of %d bytes", cap(r.buf))
		}
	})
	t.Run("a large event gives its buffer back", func(t *testing.T) {
		r := NewReader(io.MultiReader(strings.NewReader("data: "+strings.Repeat("x", 1<<20)+"\n\n"), strings.NewReader("data: y\n\n")), 0)
		if events, _ := collect(r); len(events) != 2 || cap(r.buf) > keepBuffer {
			t.Error(len(events), cap(r.buf))
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type repeating string

func (s repeating) Read(p []byte) (int, error) { return copy(p, s), nil }

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReader_errors(t *testing.T) {
	broken := errors.New("connection reset")
	t.Run("whole events come first, the cut one does not", func(t *testing.T) {
		r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 0)
		events, err := collect(r)
		if d := cmp.Diff([]got{{Data: "a"}}, events); d != "" || err != broken {
			t.Error(d, err)
		}
	})
	t.Run("an error beside data", func(t *testing.T) {
		r := NewReader(iotest.DataErrReader(io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken))), 0)
		if events, err := collect(r); len(events) != 1 || err != broken {
			t.Error(events, err)
		}
	})
	t.Run("a reader that gives nothing", func(t *testing.T) {
		if _, err := NewReader(stuck{}, 0).Next(); err != io.ErrNoProgress {
			t.Error(err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		r := NewReader(strings.NewReader("data: a\n\ndata: b\n\n"), 0)
		r.Next()
		r.Close()
		r.Close()
		if _, err := r.Next(); err != io.ErrClosedPipe || r.Buffered() {
			t.Error(err)
		}
	})
}

func TestReader_Buffered(t *testing.T) {
	t.Run("tells of whole events only and keeps the last one valid", func(t *testing.T) {
		in := "event: one\ndata: a\ndata: b\n\nevent: two\ndata: c\ndata: d\n\ndata: e\n"
		r := NewReader(io.MultiReader(strings.NewReader(in), strings.NewReader("\n")), 0)
		first, err := r.Next()
		if err != nil || !r.Buffered() || !r.Buffered() {
			t.Fatal("the second event is in the buffer", err)
		}
		if string(first.Name) != "one" || string(first.Data) != "a\nb" {
			t.Errorf("first event changed: %q %q", first.Name, first.Data)
		}
		second, _ := r.Next()
		if string(second.Name) != "two" || string(second.Data) != "c\nd" {
			t.Errorf("second event: %q %q", second.Name, second.Data)
		}
		if r.Buffered() {
			t.Error("the third event is not whole yet")
		}
		if third, err := r.Next(); string(third.Data) != "e" || err != nil {
			t.Error(string(third.Data), err)
		}
	})
}

func TestAppend(t *testing.T) {
	t.Run("data is one line", func(t *testing.T) {
		if s := string(AppendData(nil, []byte("{\"a\":\r\n1}"))); s != "data: {\"a\":  1}\n\n" {
			t.Errorf("%q", s)
		}
	})
	t.Run("a document is made one line", func(t *testing.T) {
		b := []byte("\n{\"a\":\r\n\"\\n\"}\r")
		if Flatten(b); string(b) != ` {"a":  "\n"} ` {
			t.Errorf("%q", b)
		}
		Flatten(nil)
	})
	t.Run("comment is one line", func(t *testing.T) {
		if s := string(AppendComment(nil, "MYIP\nPROCESSING")); s != ": MYIP PROCESSING\n\n" {
			t.Errorf("%q", s)
		}
	})
	t.Run("what is written is read", func(t *testing.T) {
		b := AppendComment(AppendData(nil, []byte(`{"x":"\n"}`)), "hi")
		events, _ := collect(NewReader(bytes.NewReader(b), 0))
		if d := cmp.Diff([]got{{Data: `{"x":"\n"}`}, {Data: "hi", Comment: true}}, events); d != "" {
			t.Error(d)
		}
	})
}
