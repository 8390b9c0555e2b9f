package driver

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Bounds of the file that an engine writes to.
const (
	outputMax  = 8 << 20   // bytes; beyond, only its end is kept
	outputKept = 64 << 10  // of it
	outputRead = 128 << 10 // bytes of its end that are read for the last lines
)

// output is the file that the processes of a slot write to, one start after the other. They write to it themselves, so
// that they outlive their gateway, and always to its end, so that it can be cut under them. It is safe for concurrent use.
type output struct {
	path string

	mu         sync.Mutex
	from, mark int64 // where what this start, and its present attempt, wrote begins
}

// open opens the file for one more attempt. The first one sets where the start begins.
func (o *output) open(first bool) (*os.File, error) {
	o.trim()
	o.mu.Lock()
	defer o.mu.Unlock()
	f, err := os.OpenFile(o.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the output of the engine: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open the output of the engine: %w", err)
	}
	o.mark = st.Size()
	if first {
		o.from = o.mark
	}
	return f, nil
}

// begun is where this start begins.
func (o *output) begun() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.from
}

// trim cuts a file that has become too long. What is written in the same instant may be lost or stand earlier.
func (o *output) trim() {
	o.mu.Lock()
	defer o.mu.Unlock()
	st, err := os.Stat(o.path)
	if err != nil || st.Size() <= outputMax {
		return
	}
	end := o.read(0, outputKept)
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return // the next one may do better
	}
	defer f.Close()
	_, _ = f.Write(end) // a full disk: the engine's words matter less than its room
	o.from, o.mark = 0, 0
}

// read returns the end of what was written since an offset, from the beginning of a line on.
func (o *output) read(since, most int64) []byte {
	f, err := os.Open(o.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	if since > st.Size() { // it was cut, and not by us
		since = 0
	}
	begin := max(since, st.Size()-most)
	b, _ := io.ReadAll(io.NewSectionReader(f, begin, most)) // what could be read is better than nothing
	if begin > since {
		for i, c := range b {
			if c == '\n' {
				return b[i+1:]
			}
		}
	}
	return b
}

// last returns the last lines of this start.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var t tail
	_, _ = t.Write(o.read(o.from, outputRead))
	return t.last()
}

// saysBind reports whether the present attempt complained about its port.
func (o *output) saysBind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	var t tail
	_, _ = t.Write(o.read(o.mark, outputRead))
	return t.saysBind()
}
