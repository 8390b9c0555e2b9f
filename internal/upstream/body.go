package upstream

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

var (
	errTooLarge = errors.New("the answer is larger than 64 MiB")
	errMemory   = errors.New("the gateway holds as many answers as its memory budget allows")
	errBody     = errors.New("no memory is left for the body of this request")
)

// budget bounds the bytes of all whole answers in memory together.
type budget struct {
	limit int64         // 0 = none
	held  *atomic.Int64 // also by the clients before and after
}

func (b *budget) take(n int64) bool {
	if b.held.Add(n) > b.limit && b.limit > 0 {
		b.held.Add(-n)
		return false
	}
	return true
}

func (b *budget) full() bool { return b.limit > 0 && b.held.Load() >= b.limit }

// share is what one answer holds of a budget.
type share struct {
	of *budget
	n  int64
}

// upTo makes the share n bytes if it is smaller.
func (s *share) upTo(n int) bool {
	more := int64(n) - s.n
	if more <= 0 {
		return true
	}
	if !s.of.take(more) {
		return false
	}
	s.n += more
	return true
}

// free gives the share back. It may be called again.
func (s *share) free() {
	if s.n > 0 {
		s.of.held.Add(-s.n)
		s.n = 0
	}
}

// readAll reads a body of the given length, -1 = unknown, of at most so many bytes, into memory that counts to the share. A length that is only
// promised takes no memory: beyond the first MiB room is made for what has come.
func readAll(r io.Reader, length int64, most int, s *share) ([]byte, error) {
	const first, trusted = 4 << 10, 1 << 20
	if length > int64(most) {
		return nil, errTooLarge
	}
	room := first
	if length >= 0 {
		room = min(int(length)+1, trusted) // one more, so that the end is seen without growing
	}
	if !s.upTo(room) {
		return nil, errMemory
	}
	b := make([]byte, 0, room)
	for {
		if len(b) == cap(b) {
			if len(b) > most {
				return nil, errTooLarge
			}
			room = min(2*cap(b), most+1)
			if !s.upTo(room) {
				return nil, errMemory
			}
			b = append(make([]byte, 0, room), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF) && len(b) > most:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// decompress makes the body of an answer plain. We ask for no compression, but there are proxies that compress all the
// same. False means an encoding that cannot be read.
func decompress(resp *http.Response) bool {
	switch e := strings.Join(resp.Header.Values("Content-Encoding"), ","); strings.ToLower(strings.TrimSpace(e)) {
	case "", "identity":
	case "gzip", "x-gzip":
		resp.Body, resp.ContentLength = &gunzip{body: resp.Body}, -1
	default:
		return false
	}
	return true
}

// gunzip reads the plain text of a compressed body as it comes. How much that may be is the reader's to bound.
type gunzip struct {
	body io.ReadCloser
	zip  *gzip.Reader
}

func (g *gunzip) Read(p []byte) (n int, err error) {
	if g.zip == nil {
		if g.zip, err = gzip.NewReader(g.body); err != nil {
			g.zip = nil
			return 0, err
		}
	}
	return g.zip.Read(p)
}

func (g *gunzip) Close() error { return g.body.Close() }

// garbled says whether a read failed because what came is not the compression that it was called.
func garbled(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt)
}
