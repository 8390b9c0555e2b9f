// Package gguf makes tiny model files that llama.cpp and everything built on it load: instead of random weights they
// hold a Markov chain, so that any prompt gets the same answer, word by word, at any temperature.
package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Types of values in a file's metadata, by GGUF's numbers.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

const (
	version   = 3
	alignment = 32 // bytes, of the data and of every tensor in it
	tensorF32 = 0
)

// entry is one line of the metadata.
type entry struct {
	key   string
	value any // uint32, float32, bool, string, []string, []float32 or []int32
}

// tensor is one array of 32-bit floats, written row by row.
type tensor struct {
	name string
	cols int                          // the length of a row, which is contiguous
	rows int                          // 0 = a vector
	fill func(row int, dst []float32) // dst is zero when it is called; nil = all zero
}

func (t *tensor) lines() int { return max(t.rows, 1) }

func (t *tensor) size() uint64 { return 4 * uint64(t.cols) * uint64(t.lines()) }

// write makes a file of the metadata and the tensors.
func write(w io.Writer, meta []entry, tensors []tensor) error {
	f := &file{w: bufio.NewWriterSize(w, 1<<20)}
	f.raw([]byte("GGUF"))
	f.number(uint32(version))
	f.number(uint64(len(tensors)))
	f.number(uint64(len(meta)))
	for _, e := range meta {
		f.text(e.key)
		f.value(e.value)
	}
	var offset uint64
	for i := range tensors {
		t := &tensors[i]
		f.text(t.name)
		dims := []uint64{uint64(t.cols)}
		if t.rows > 0 {
			dims = append(dims, uint64(t.rows))
		}
		f.number(uint32(len(dims)))
		f.number(dims)
		f.number(uint32(tensorF32))
		f.number(offset)
		offset += (t.size() + alignment - 1) / alignment * alignment
	}
	f.pad()
	for i := range tensors {
		f.data(&tensors[i])
	}
	if f.err != nil {
		return f.err
	}
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("write the model: %w", err)
	}
	return nil
}

// file writes the parts of a GGUF file and remembers the first error.
type file struct {
	w   *bufio.Writer
	n   uint64 // bytes written
	err error
}

func (f *file) raw(b []byte) {
	if f.err != nil {
		return
	}
	n, err := f.w.Write(b)
	f.n += uint64(n)
	if err != nil {
		f.err = fmt.Errorf("write the model: %w", err)
	}
}

// number writes a number, or a list of them, in little endian.
func (f *file) number(v any) {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("encode a number: %w", err)
	}
	f.raw(b)
}

func (f *file) text(s string) {
	f.number(uint64(len(s)))
	f.raw([]byte(s))
}

func (f *file) value(v any) {
	switch v := v.(type) {
	case uint32:
		f.number([]uint32{typeUint32, v})
	case float32:
		f.number([]uint32{typeFloat32, math.Float32bits(v)})
	case bool:
		f.number(uint32(typeBool))
		f.number(v)
	case string:
		f.number(uint32(typeString))
		f.text(v)
	case []string:
		f.array(typeString, len(v))
		for _, s := range v {
			f.text(s)
		}
	case []float32:
		f.array(typeFloat32, len(v))
		f.number(v)
	case []int32:
		f.array(typeInt32, len(v))
		f.number(v)
	default:
		if f.err == nil {
			f.err = fmt.Errorf("encode metadata: there is no type for %T", v)
		}
	}
}

func (f *file) array(kind uint32, n int) {
	f.number([]uint32{typeArray, kind})
	f.number(uint64(n))
}

func (f *file) pad() { f.raw(make([]byte, (alignment-f.n%alignment)%alignment)) }

func (f *file) data(t *tensor) {
	row, b := make([]float32, t.cols), make([]byte, 4*t.cols)
	for i := range t.lines() {
		if t.fill != nil {
			clear(row)
			t.fill(i, row)
			for j, v := range row {
				binary.LittleEndian.PutUint32(b[4*j:], math.Float32bits(v))
			}
		}
		f.raw(b)
		if f.err != nil {
			return
		}
	}
	f.pad()
}
