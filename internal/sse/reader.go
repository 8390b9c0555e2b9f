// Package sse reads and writes server-sent events: the frames of a stream, not what stands in them. Framing
// follows the WHATWG HTML standard, section 9.2.6, with one addition: comments are reported, because a provider
// that sends them is alive.
package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// Event is one event of a stream, or one comment. Its slices are valid until the next call of Next.
type Event struct {
	Name    []byte // of the "event:" field, usually empty
	Data    []byte // the "data:" lines joined with \n; of a comment: its text
	Comment bool
}

// ErrTooLong says that an event is longer than the reader allows.
var ErrTooLong = errors.New("server-sent event is too long")

const (
	defaultMax  = 32 << 20
	firstBuffer = 2 << 10  // what an open stream costs while its events are small
	keepBuffer  = 64 << 10 // larger buffers are not given back to the pool
	emptyReads  = 100      // reads of nothing in a row before a reader counts as stuck
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstBuffer); return &b }}

// Reader splits a byte stream into events. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	own *[]byte // the pooled buffer
	buf []byte
	err error // of src, kept until every whole event has been delivered

	start  int // first byte of the event being collected
	pos    int // first byte that is not parsed yet
	lf, cr int // no LF in buf[pos:lf], no CR in buf[pos:cr]; each is at one or at the end
	skipLF bool
	begun  bool // the byte order mark has been looked for

	hasData    bool // the event has a data line
	from, upto int  // its data so far is buf[from:upto]
	name       int  // which of names belongs to the event being collected
	names      [2][]byte

	ahead    Event // found by Buffered, not delivered yet
	hasAhead bool
}

// NewReader reads events from r. An event may have up to max bytes, field names included; 0 means 32 MiB.
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = defaultMax
	}
	own := buffers.Get().(*[]byte)
	return &Reader{src: r, max: max, own: own, buf: (*own)[:0]}
}

// Close gives the buffer back. Events delivered before are not valid any more; Next returns io.ErrClosedPipe.
func (r *Reader) Close() {
	if r.own == nil {
		return
	}
	if cap(r.buf) <= keepBuffer {
		*r.own = r.buf[:0]
	}
	buffers.Put(r.own)
	r.own, r.buf, r.err, r.hasAhead, r.hasData = nil, nil, io.ErrClosedPipe, false, false
	r.start, r.pos, r.lf, r.cr = 0, 0, 0, 0
}

// Next returns the next event or comment. At the end of the stream it delivers an event that lacks its blank line,
// then returns io.EOF. An event over the limit gives ErrTooLong, for good. Any other read error is returned as it
// is, after the events that were complete before it; an event it cut in two is not delivered.
func (r *Reader) Next() (Event, error) {
	if r.hasAhead {
		r.hasAhead = false
		return r.ahead, nil
	}
	for {
		ev, ok := r.parse()
		if ok {
			return ev, nil
		}
		if r.err == nil {
			r.fill()
			continue
		}
		if errors.Is(r.err, io.EOF) {
			if ev, ok := r.last(); ok {
				return ev, nil
			}
		}
		return Event{}, r.err
	}
}

// Buffered says whether another whole event or comment can be had without reading. It leaves the last event valid.
func (r *Reader) Buffered() bool {
	if !r.hasAhead {
		r.ahead, r.hasAhead = r.parse()
	}
	return r.hasAhead
}

// parse takes lines from the buffer until an event or a comment is complete. It may set err to ErrTooLong.
func (r *Reader) parse() (Event, bool) {
	if !r.begun && !r.skipBOM() {
		return Event{}, false
	}
	for !errors.Is(r.err, ErrTooLong) {
		if r.skipLF && r.pos < len(r.buf) {
			r.skipLF = false
			if r.buf[r.pos] == '\n' {
				r.pos++
			}
		}
		if !r.hasData && len(r.names[r.name]) == 0 {
			r.start = r.pos
		}
		end := r.lineEnd()
		if end > r.pos && end-r.start > r.max {
			r.err = ErrTooLong
			break
		}
		if end == len(r.buf) {
			break
		}
		line := r.buf[r.pos:end]
		r.skipLF = r.buf[end] == '\r'
		at := r.pos
		r.pos = end + 1
		if ev, ok := r.line(line, at); ok {
			return ev, true
		}
	}
	return Event{}, false
}

// skipBOM passes over a byte order mark; false means that more bytes are needed to tell.
func (r *Reader) skipBOM() bool {
	const bom = "\xef\xbb\xbf"
	n := min(len(r.buf), len(bom))
	if string(r.buf[:n]) == bom[:n] {
		if n < len(bom) && r.err == nil {
			return false
		}
		if n == len(bom) {
			r.pos = n
		}
	}
	r.begun = true
	return true
}

// lineEnd is the index of the next CR or LF, or the length of the buffer. Each byte is looked at once, whatever
// mixture of line ends the stream has.
func (r *Reader) lineEnd() int {
	r.lf = advance(r.buf, r.pos, r.lf, '\n')
	r.cr = advance(r.buf, r.pos, r.cr, '\r')
	return min(r.lf, r.cr)
}

func advance(buf []byte, pos, known int, c byte) int {
	known = max(known, pos)
	if known < len(buf) && buf[known] != c {
		if i := bytes.IndexByte(buf[known:], c); i >= 0 {
			return known + i
		}
		return len(buf)
	}
	return known
}

// line handles one line, which starts at offset at of the buffer.
func (r *Reader) line(line []byte, at int) (Event, bool) {
	if len(line) == 0 {
		return r.dispatch()
	}
	field, value := line, line[len(line):]
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		field, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		if i == 0 {
			return Event{Data: value, Comment: true}, true
		}
	}
	switch string(field) {
	case "data":
		r.data(value, at+len(line)-len(value))
	case "event":
		r.names[r.name] = append(r.names[r.name][:0], value...)
	}
	return Event{}, false
}

// data adds one data line. A second line is moved up behind the first, over bytes that are parsed already.
func (r *Reader) data(value []byte, at int) {
	if !r.hasData {
		r.hasData, r.from, r.upto = true, at, at+len(value)
		return
	}
	r.buf[r.upto] = '\n'
	r.upto += 1 + copy(r.buf[r.upto+1:], value)
}

// dispatch ends the event being collected. Without data there is none, as the standard has it.
func (r *Reader) dispatch() (Event, bool) {
	ev := Event{Name: r.names[r.name], Data: r.buf[r.from:r.upto:r.upto]}
	ok := r.hasData
	if ok {
		r.name = 1 - r.name // ev keeps its name while the next event is collected
	}
	r.names[r.name] = r.names[r.name][:0]
	r.hasData, r.from, r.upto = false, 0, 0
	return ev, ok
}

// last delivers what the stream ended in: a line without its end, an event without its blank line.
func (r *Reader) last() (Event, bool) {
	if line, at := r.buf[r.pos:], r.pos; len(line) > 0 {
		r.pos = len(r.buf)
		if ev, ok := r.line(line, at); ok {
			return ev, true
		}
	}
	return r.dispatch()
}

// fill reads once into the free end of the buffer, which it makes or grows first.
func (r *Reader) fill() {
	r.room()
	for range emptyReads {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// room moves the unfinished event to the front of the buffer, and doubles the buffer when it is full of it.
func (r *Reader) room() {
	if r.start == len(r.buf) {
		r.shift()
		if cap(r.buf) > keepBuffer {
			r.buf = (*r.own)[:0] // the large event is over
		}
		return
	}
	if cap(r.buf)-len(r.buf) >= cap(r.buf)/4 {
		return
	}
	if r.start >= cap(r.buf)/2 {
		r.shift()
		return
	}
	if len(r.buf) == cap(r.buf) || r.start == 0 {
		grown := make([]byte, len(r.buf), 2*cap(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	r.shift()
}

func (r *Reader) shift() {
	n := r.start
	if n == 0 {
		return
	}
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
	r.start, r.pos = 0, r.pos-n
	r.lf, r.cr = max(r.lf-n, 0), max(r.cr-n, 0)
	if r.hasData {
		r.from, r.upto = r.from-n, r.upto-n
	}
}
