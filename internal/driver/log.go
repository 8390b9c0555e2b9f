package driver

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
)

// Bounds of what is kept of an engine's output.
const (
	logLines = 100
	logWidth = 400 // bytes of one line
)

// tail keeps the last lines of what an engine writes. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	lines [logLines]string
	count int    // lines ever written
	part  []byte // the line that has not ended yet
}

// Write never fails and never waits for anybody but a reader of the tail.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		text, ended := b, false
		if i >= 0 {
			text, ended, b = b[:i], true, b[i+1:]
		} else {
			b = nil
		}
		if room := logWidth - len(t.part); room > 0 {
			t.part = append(t.part, text[:min(room, len(text))]...)
		}
		if ended {
			t.flush()
		}
	}
	return n, nil
}

// flush ends the present line. Empty ones are not kept, nor is anything that could steer a terminal.
func (t *tail) flush() {
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(t.part), ""))
	t.part = t.part[:0]
	if line = strings.TrimRight(line, " "); line != "" {
		t.lines[t.count%logLines] = line
		t.count++
	}
}

// last returns the lines kept, oldest first.
func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept()
}

func (t *tail) kept() []string {
	if len(t.part) > 0 {
		t.flush()
	}
	var out []string
	for i := max(t.count-logLines, 0); i < t.count; i++ {
		out = append(out, t.lines[i%logLines])
	}
	return out
}

// bindWords are how engines say that their port was taken.
var bindWords = []string{"address already in use", "address in use", "eaddrinuse", "couldn't bind", "could not bind",
	"cannot bind", "failed to bind", "bind failed", "error while attempting to bind"}

// saysBind reports whether a line that is kept complains about a port.
func (t *tail) saysBind() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.kept() {
		line = strings.ToLower(line)
		for _, w := range bindWords {
			if strings.Contains(line, w) {
				return true
			}
		}
	}
	return false
}
