package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// sluggish is a caller in virtual time: each write takes pace, or fails when its deadline passes before.
type sluggish struct {
	*httptest.ResponseRecorder
	pace     time.Duration
	deadline time.Time
	err      error // what writes give, if not nil
}

func (w *sluggish) SetWriteDeadline(t time.Time) error { w.deadline = t; return nil }

func (w *sluggish) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	pace := w.pace
	if !w.deadline.IsZero() && time.Until(w.deadline) < pace {
		<-time.After(time.Until(w.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	<-time.After(pace)
	return w.ResponseRecorder.Write(b)
}

// open makes an attempt up to its commit point.
func commit(t *testing.T, c *Client, call *Call) *Stream {
	t.Helper()
	call.Stamp, call.Body = &dialect.Stamp{ID: "gen-1", Model: "m/m", Provider: "Acme"}, []byte(`{"model":"m"}`)
	o, f, err := c.Open(t.Context(), call)
	if err != nil || f != nil {
		t.Fatalf("Open: %+v, %v", f, err)
	}
	return o.Stream
}

func TestCallerReadsSlowly(t *testing.T) {
	const writeLimit = 60 * s
	script := []line{{0, chunked}, {0, part(word("one "))}, {0, part(word("two "))}, {0, part(word("three"))}, {0, part(finish + usage + done)}, {0, lastPart}}
	t.Run("the upstream is not to blame", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, client, e := within(t, script, limits(5*s, 0, 10*s, 0))
			w := &sluggish{ResponseRecorder: httptest.NewRecorder(), pace: 40 * s}
			end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, writeLimit)
			if end.Verdict != hearth.Served || readable(w.Body.Bytes()) != "one two three" {
				t.Errorf("got %v %+v, text %q", end.Verdict, end.Failure, readable(w.Body.Bytes()))
			}
			client.Close()
		})
	})
	t.Run("the upstream stalls behind him", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, client, e := within(t, script[:3], limits(5*s, 0, 9*s, 0))
			w := &sluggish{ResponseRecorder: httptest.NewRecorder(), pace: 40 * s}
			end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, writeLimit)
			if at := time.Since(b.start); end.Verdict != hearth.Broken || !end.Failure.TimedOut || at != 89*s {
				t.Errorf("got %v %+v after %v", end.Verdict, end.Failure, at)
			}
			client.Close()
		})
	})
	t.Run("takes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, client, e := within(t, script, limits(5*s, 0, 10*s, 0))
			w := &sluggish{ResponseRecorder: httptest.NewRecorder(), pace: time.Hour}
			end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, writeLimit)
			if end.Verdict != hearth.Gone || !errors.Is(end.Err, os.ErrDeadlineExceeded) || end.Failure != nil {
				t.Errorf("got %v %+v, %v", end.Verdict, end.Failure, end.Err)
			}
			client.Close()
			if closed := <-b.closed; closed != writeLimit {
				t.Errorf("the upstream was freed after %v, want %v", closed, writeLimit)
			}
		})
	})
}

// The last bytes are written after Copy: whatever a stream ended with, there is time for them.
func TestTimeForTheLastBytes(t *testing.T) {
	const writeLimit = 20 * s
	for _, c := range []struct {
		name string
		last []line
	}{
		{"served", []line{{19 * s, part(finish+done) + lastPart}}},
		{"stalled", nil},
		{"cut", []line{{19 * s, "no chunk\r\n"}}},
		{"in-band error", []line{{19 * s, part(oops) + lastPart}}},
		{"stalled after the finish reason", []line{{0, part(finish)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client, e := within(t, append([]line{{0, chunked + part(word("one"))}}, c.last...), limits(5*s, 0, time.Minute, 0))
				w := &sluggish{ResponseRecorder: httptest.NewRecorder()}
				end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, writeLimit)
				if left := time.Until(w.deadline); left < writeLimit*3/4 {
					t.Errorf("%v, and then %v for the last bytes", end.Verdict, left)
				}
				client.Close()
			})
		})
	}
}

func TestCallerCannotBeWritten(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, c := range []struct{ name, body string }{
		{"first write", word("one") + finish + done},
		{"before an error is told", word("one") + oops},
		{"before a cut is told", word("one")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, says(chunked+part(c.body)+lastPart, false))
			client, e := endpoint(t, p.url())
			w := &sluggish{ResponseRecorder: httptest.NewRecorder(), err: broken}
			end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, time.Minute)
			if end.Verdict != hearth.Gone || !errors.Is(end.Err, broken) || end.Failure != nil {
				t.Errorf("got %+v", end)
			}
		})
	}
	t.Run("no Flush", func(t *testing.T) {
		p := listen(t, says(chunked+part(word("one")+finish+done)+lastPart, false))
		client, e := endpoint(t, p.url())
		w := httptest.NewRecorder()
		end := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(struct{ http.ResponseWriter }{w}, time.Minute)
		if end.Verdict != hearth.Served || readable(w.Body.Bytes()) != "one" {
			t.Errorf("got %+v", end)
		}
	})
}

// A caller who stops reading holds neither the upstream nor memory beyond the sockets' own buffers.
func TestCallerStopsReading(t *testing.T) {
	var sent atomic.Int64
	p := listen(t, func(c net.Conn, _ int) {
		_, _ = io.WriteString(c, chunked)
		text := part(word(strings.Repeat("x", 16<<10)))
		for {
			n, err := io.WriteString(c, text)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	client, e := endpoint(t, p.url())
	ends := make(chan End, 1)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := &Call{Endpoint: e, Stream: true, Stamp: &dialect.Stamp{ID: "gen-1"}}
		o, f, err := client.Open(r.Context(), call)
		if err != nil || f != nil {
			ends <- End{Err: fmt.Errorf("open: %w", err), Failure: f}
			return
		}
		ends <- o.Stream.Copy(w, 300*time.Millisecond)
	}))
	front.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	front.Start()
	defer front.Close()
	caller, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	_ = caller.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = io.WriteString(caller, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case end := <-ends:
		if end.Verdict != hearth.Gone || !errors.Is(end.Err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v %+v, %v", end.Verdict, end.Failure, end.Err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the caller holds the stream")
	}
	select {
	case <-p.closed:
	case <-time.After(20 * time.Second):
		t.Error("the upstream is still held")
	}
	if sent.Load() > 32<<20 {
		t.Errorf("%d bytes were taken from the upstream for a caller who reads nothing", sent.Load())
	}
}

// What is in memory of a fast stream is bounded, however its events are packed.
func TestPackedEvents(t *testing.T) {
	const size = 1 << 20 // of an event that makes the reader's buffer large; the reads after it are as large
	client, e := endpoint(t, "http://upstream")
	client.targets[0].rt = &halves{first: word(strings.Repeat("x", size)) + strings.Repeat(word("y"), 8_000), second: finish + done, end: io.EOF}
	w := &largest{ResponseRecorder: httptest.NewRecorder()}
	w.of = commit(t, client, &Call{Endpoint: e, Stream: true})
	end := w.of.Copy(w, time.Minute)
	if end.Verdict != hearth.Served || strings.Count(w.Body.String(), `"content":"y"`) != 8_000 {
		t.Fatalf("got %+v", end)
	}
	if w.sizes[0] < size || slices.Max(w.sizes[1:]) > 2*keepBuffer || slices.Max(w.held[1:]) > 4*keepBuffer {
		t.Errorf("writes of %d, then up to %d bytes, from a buffer of up to %d", w.sizes[0], slices.Max(w.sizes[1:]), slices.Max(w.held[1:]))
	}
}

// largest notes the sizes of the writes and of the buffer behind them.
type largest struct {
	*httptest.ResponseRecorder
	of          *Stream
	sizes, held []int
}

func (w *largest) Write(b []byte) (int, error) {
	w.sizes, w.held = append(w.sizes, len(b)), append(w.held, cap(w.of.buf))
	return w.ResponseRecorder.Write(b)
}
