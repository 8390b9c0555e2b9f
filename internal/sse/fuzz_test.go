package sse

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces hands out b in pieces of random length.
type pieces struct {
	b   []byte
	rnd *rand.Rand
}

func (p *pieces) Read(buf []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := min(1+p.rnd.IntN(9), len(p.b), len(buf))
	copy(buf, p.b[:n])
	p.b = p.b[n:]
	return n, nil
}

func FuzzReader(f *testing.F) {
	for _, tt := range framings {
		f.Add([]byte(tt.in), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		const max = 64
		whole := NewReader(bytes.NewReader(in), max)
		want, wantErr := collect(whole)
		if wantErr != io.EOF && wantErr != ErrTooLong {
			t.Fatalf("error %v", wantErr)
		}
		split := NewReader(&pieces{in, rand.New(rand.NewPCG(seed, 1))}, max)
		var events []got
		var err error
		for {
			ahead := seed%2 == 0 && split.Buffered()
			var ev Event
			if ev, err = split.Next(); err != nil {
				if ahead {
					t.Fatalf("an event was promised, got %v", err)
				}
				break
			}
			events = append(events, got{string(ev.Name), string(ev.Data), ev.Comment})
		}
		if d := cmp.Diff(want, events); d != "" || err != wantErr {
			t.Fatalf("in pieces: error %v, in one: %v\n%s", err, wantErr, d)
		}
		if cap(split.buf) > 4*firstBuffer || cap(whole.buf) > 4*firstBuffer+4*len(in) {
			t.Fatalf("buffers of %d and %d bytes", cap(split.buf), cap(whole.buf))
		}
		whole.Close()
		split.Close()
	})
}

func BenchmarkReader(b *testing.B) {
	event := []byte("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"gemma\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n")
	r := NewReader(repeatingReader{bytes.Repeat(event, 20)}, 0)
	defer r.Close()
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if ev, err := r.Next(); err != nil || len(ev.Data) != len(event)-8 {
			b.Fatal(err, len(ev.Data))
		}
		r.Buffered()
	}
}

// repeatingReader gives the same whole events again and again.
type repeatingReader struct{ b []byte }

func (r repeatingReader) Read(p []byte) (int, error) {
	one := len(r.b) / 20
	return copy(p, r.b[:min(len(p)/one, 20)*one]), nil
}
