package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines is a response whose connection's read deadlines are counted.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// A body that is still read when its handler has returned has no say over the connection any more: it may be the next
// request's.
func TestUpload_Left(t *testing.T) {
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	u := &upload{ReadCloser: io.NopCloser(strings.NewReader("ab")), stall: time.Minute, rc: http.NewResponseController(w)}
	b := make([]byte, 1)
	if _, err := u.Read(b); err != nil || len(w.set) != 1 || time.Until(w.set[0]) > time.Minute || time.Until(w.set[0]) < 0 {
		t.Fatalf("%v, deadlines %v", err, w.set)
	}
	u.leave()
	if n, err := io.Copy(io.Discard, u); n != 1 || err != nil || len(w.set) != 1 {
		t.Errorf("%d bytes, %v, deadlines %v", n, err, w.set)
	}
}

// A body of which nobody wants the rest has not failed.
func TestUpload_Broken(t *testing.T) {
	for _, shut := range []bool{false, true} {
		r, w := io.Pipe()
		u := &upload{ReadCloser: r, stall: time.Minute}
		if shut {
			u.Close()
		} else {
			w.CloseWithError(io.ErrUnexpectedEOF)
		}
		if _, err := u.Read(make([]byte, 1)); err == nil || u.broken() == shut {
			t.Errorf("shut %v: %v, broken %v", shut, err, u.broken())
		}
	}
}
