package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

// listener is a caller in virtual time who notes when comments came, and whether writes or flushes met. Those after the
// first takes writes block until their deadline.
type listener struct {
	http.ResponseWriter
	got      *httptest.ResponseRecorder
	start    time.Time
	takes    int           // writes; negative = all
	pace     time.Duration // of one write of data
	deadline time.Time
	busy     atomic.Bool
	met      bool
	comments []time.Duration
	flushed  int // bytes
}

func hears(takes int) *listener {
	w := httptest.NewRecorder()
	return &listener{ResponseWriter: w, got: w, start: time.Now(), takes: takes}
}

func (w *listener) use() func() {
	if w.busy.Swap(true) {
		w.met = true
	}
	return func() { w.busy.Store(false) }
}

func (w *listener) SetWriteDeadline(t time.Time) error {
	defer w.use()()
	w.deadline = t
	return nil
}

func (w *listener) FlushError() error {
	defer w.use()()
	w.flushed = w.got.Body.Len()
	return nil
}

func (w *listener) Write(b []byte) (int, error) {
	defer w.use()()
	if w.takes == 0 {
		<-time.After(time.Until(w.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	w.takes--
	if strings.HasPrefix(string(b), ":") {
		w.comments = append(w.comments, time.Since(w.start))
	} else if w.pace > 0 {
		<-time.After(w.pace)
	}
	return w.ResponseWriter.Write(b)
}

const comment = ": MYIP PROCESSING\n\n"

// whole says whether a stream consists of whole events and comments.
func whole(stream string) bool {
	for e := range strings.SplitAfterSeq(stream, "\n\n") {
		if e != "" && e != comment && !(strings.HasPrefix(e, "data: {") && strings.HasSuffix(e, "}\n\n") && strings.Count(e, "\n") == 2) {
			return false
		}
	}
	return true
}

func TestKeepAlive(t *testing.T) {
	every := func(d time.Duration, n int, text string) (l []line) {
		for range n {
			l = append(l, line{d, text})
		}
		return l
	}
	first, end := line{0, chunked + part(word("x"))}, part(finish+done)+lastPart
	for _, c := range []struct {
		name   string
		idle   time.Duration
		pace   time.Duration
		script []line
		want   []time.Duration
		over   time.Duration
		as     hearth.Verdict
		text   string
	}{
		{"silence", 60 * s, 0, []line{first, {25 * s, end}}, []time.Duration{10 * s, 20 * s}, 25 * s, hearth.Served, "x"},
		{"not before the first token", 60 * s, 0, []line{{0, chunked + part(role)}, {50 * s, part(word("x"))}, {15 * s, end}}, []time.Duration{60 * s}, 65 * s, hearth.Served, "x"},
		{"chunks every 9 s", 60 * s, 0, append(append([]line{first}, every(9*s, 10, part(word("x")))...), line{9 * s, end}), nil, 99 * s, hearth.Served, "xxxxxxxxxxx"},
		{"counted from the last chunk", 60 * s, 0, []line{first, {9 * s, part(word("y"))}, {12 * s, part(word("z"))}, {11 * s, end}}, []time.Duration{19 * s, 31 * s}, 32 * s, hearth.Served, "xyz"},
		{"the upstream's comments are not passed on", 60 * s, 0, append(append([]line{first}, every(4*s, 6, part(": hello\n\n"))...), line{s, end}), []time.Duration{10 * s, 20 * s}, 25 * s, hearth.Served, "x"},
		{"half an event", 60 * s, 0, []line{first, {s, part(`data: {"choices":[{"index":0,`)}, {14 * s, part(`"delta":{"content":"y"}}]}` + "\n\n")}, {s, end}}, []time.Duration{10 * s}, 16 * s, hearth.Served, "xy"},
		{"no progress of the upstream", 59 * s, 0, []line{first}, []time.Duration{10 * s, 20 * s, 30 * s, 40 * s, 50 * s}, 59 * s, hearth.Broken, "x"},
		{"between the last word and the end", 60 * s, 0, []line{first, {0, part(finish)}, {15 * s, part(done)}, {0, lastPart}}, []time.Duration{10 * s}, 15 * s, hearth.Served, "x"},
		{"counted from the end of a slow write", 60 * s, 25 * s, []line{first, {40 * s, part(word("y"))}, {36 * s, end}}, []time.Duration{35 * s, 75 * s}, 101 * s, hearth.Served, "xy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, c.script, limits(time.Minute, 0, c.idle, 0))
				w := hears(-1)
				w.pace = c.pace
				got := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, time.Minute)
				over, size := time.Since(b.start), w.got.Body.Len()
				if got.Verdict != c.as || over != c.over || readable(w.got.Body.Bytes()) != c.text {
					t.Errorf("%v after %v, text %q", got.Verdict, over, readable(w.got.Body.Bytes()))
				}
				<-time.After(time.Hour) // nothing comes after the end
				if d := cmp.Diff(c.want, w.comments); d != "" {
					t.Errorf("comments (-want +got):\n%s", d)
				}
				if w.got.Body.Len() != size || w.flushed != size || w.met || !whole(w.got.Body.String()) {
					t.Errorf("%d bytes at the end, %d later, %d flushed; met: %v; stream:\n%s", size, w.got.Body.Len(), w.flushed, w.met, w.got.Body)
				}
				client.Close()
			})
		})
	}
}

// How long the silence is that ends in a comment, is for the operator to say.
func TestKeepAlive_Interval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, e := within(t, nil, limits(time.Minute, 0, time.Minute, 0))
		client := clientWith(t, Options{KeepAlive: 7 * s, Dial: b.dial(func(int) []line {
			return []line{{0, chunked + part(word("x"))}, {20 * s, part(finish+done) + lastPart}}
		})}, e)
		w := hears(-1)
		commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, time.Minute)
		if d := cmp.Diff([]time.Duration{7 * s, 14 * s}, w.comments); d != "" {
			t.Error(d)
		}
		client.Close()
	})
}

// A comment that cannot be written ends the stream: the caller is gone, whatever the upstream does meanwhile.
func TestKeepAliveToNobody(t *testing.T) {
	const writeLimit = 30 * s
	first := line{0, chunked + part(word("x"))}
	for _, c := range []struct {
		name   string
		idle   time.Duration
		script []line
	}{
		{"the upstream is silent", 60 * s, []line{first}},
		{"a chunk comes meanwhile", 60 * s, []line{first, {15 * s, part(word("y"))}}},
		{"the upstream ends meanwhile", 60 * s, []line{first, {15 * s, part(finish+done) + lastPart}}},
		{"the upstream breaks meanwhile", 60 * s, []line{first, {15 * s, "no chunk\r\n"}}},
		{"the upstream stalls meanwhile", 12 * s, []line{first}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, c.script, limits(time.Minute, 0, c.idle, 0))
				w := hears(1)
				got := commit(t, client, &Call{Endpoint: e, Stream: true}).Copy(w, writeLimit)
				if at := time.Since(b.start); got.Verdict != hearth.Gone || !errors.Is(got.Err, os.ErrDeadlineExceeded) || got.Failure != nil || at != 40*s {
					t.Errorf("%v %+v, %v after %v", got.Verdict, got.Failure, got.Err, at)
				}
				client.Close()
				if closed := <-b.closed; closed > 40*s {
					t.Errorf("the upstream was freed after %v", closed)
				}
				<-time.After(time.Hour)
				if w.met || w.comments != nil || readable(w.got.Body.Bytes()) != "x" {
					t.Errorf("met: %v, comments at %v, stream:\n%s", w.met, w.comments, w.got.Body)
				}
			})
		})
	}
}

// A timer may have fired just before it is stopped, or before the attempt ends: its comment is then one too many.
func TestKeepAliveTooLate(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*sink)
	}{
		{"stopped", func(k *sink) { _ = k.stop() }},
		{"the attempt has ended", func(k *sink) { k.leave(errIdle) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				w := hears(-1)
				k := newSink(ctx, cancel, w, time.Minute, 10*s)
				if err := k.write([]byte("data: {}\n\n")); err != nil {
					t.Fatal(err)
				}
				<-time.After(10*s - 1)
				c.end(k)
				<-time.After(1)
				k.comment()
				<-time.After(time.Hour)
				if w.comments != nil {
					t.Errorf("comments at %v", w.comments)
				}
			})
		})
	}
}
