package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// held is a lease that notes when it was given back.
type held struct {
	cut, gone         context.Context
	cutNow, goneNow   context.CancelFunc
	start             time.Time
	released, hurried atomic.Int64 // times given back, and when first
}

func holds() *held {
	h := &held{start: time.Now()}
	h.cut, h.cutNow = context.WithCancel(context.Background())
	h.gone, h.goneNow = context.WithCancel(context.Background())
	return h
}

func (h *held) OnCut(f func()) func() bool  { return context.AfterFunc(h.cut, f) }
func (h *held) OnGone(f func()) func() bool { return context.AfterFunc(h.gone, f) }
func (h *held) Release() {
	if h.released.Add(1) == 1 {
		h.hurried.Store(int64(time.Since(h.start)))
	}
}

// at is when the lease was given back while the caller was still served, -1 = it was not.
func (h *held) at() time.Duration {
	if h.released.Load() == 0 {
		return -1
	}
	return time.Duration(h.hurried.Load())
}

// engineWithin is within for an engine.
func engineWithin(t *testing.T, o Options, script []line, l hearth.Limits) (*bubble, *Client, *hearth.Endpoint) {
	t.Helper()
	b := &bubble{start: time.Now(), closed: make(chan time.Duration, 10)}
	o.LocalDial = b.dial(func(int) []line { return script })
	_, e := engineAt(t, "http://engine")
	e.Provider.Limits = l
	return b, clientWith(t, o, e), e
}

// words are n events of one letter each, so far apart.
func words(n int, every time.Duration) (l []line) {
	for range n {
		l = append(l, line{every, part(word("w"))})
	}
	return l
}

// A slow caller does not hold the engine.
func TestReadAhead(t *testing.T) {
	first, end := line{0, chunked + part(word("x"))}, line{0, part(finish+done) + lastPart}
	long := append(append([]line{first}, words(99, 10*time.Millisecond)...), end) // over after 0.99 s; 10 ms later if the second is not read at once
	minute := hearth.Limits{FirstByte: 60 * s, Idle: 60 * s}
	for _, c := range []struct {
		name   string
		script []line
		takes  int           // writes that are taken, negative = all
		pace   time.Duration // of each
		back   time.Duration // when the lease was given back before the end; -1 = with it
		over   time.Duration
		as     hearth.Verdict
		text   string // what the caller has got
	}{
		{"a caller who keeps up", long, -1, 0, -1, 990 * time.Millisecond, hearth.Served, "x" + strings.Repeat("w", 99)},
		{"a caller who nearly does not", long, -1, 9 * time.Millisecond, -1, 1008 * time.Millisecond, hearth.Served, "x" + strings.Repeat("w", 99)},
		{"a slow caller", long, -1, 2 * s, s, 6 * s, hearth.Served, "x" + strings.Repeat("w", 99)},
		{"a caller who stops reading", long, 1, 0, s, 30 * s, hearth.Gone, "x"},
		{"a caller who never reads", long, 0, 0, s, 30 * s, hearth.Gone, ""},
		{"a caller who never reads what never ends", append([]line{first}, words(100, s)...), 0, 0, -1, 30 * s, hearth.Gone, ""},
		{"a caller who does not take the last words", []line{first, {5 * s, part(word("y")+finish+done) + lastPart}}, 1, 0, 5*s + stall, 35 * s, hearth.Gone, "x"},
		{"an answer of one write", []line{{0, chunked + part(word("x")+finish+done) + lastPart}}, -1, 3 * s, stall, 3 * s, hearth.Served, "x"},
		{"an engine that says it is done and does not end", []line{{0, chunked + part(word("x"))}, {s, part(finish + done)}}, -1, 3 * s, s + eofWait, 6 * s, hearth.Served, "x"},
		{"an engine that breaks meanwhile", []line{first, {s, part(word("y"))}, {s, "no chunk\r\n"}}, -1, 5 * s, 2 * s, 10 * s, hearth.Broken, "xy"},
		{"an engine that stalls meanwhile", []line{first, {s, part(word("y"))}}, -1, 5 * s, 61 * s, 61 * s, hearth.Broken, "xy"},
		{"an engine with an error meanwhile", []line{first, {s, part(word("y") + oops)}}, -1, 5 * s, s, 10 * s, hearth.Broken, "xy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := engineWithin(t, Options{KeepAlive: time.Hour}, c.script, minute)
				w, lease := hears(c.takes), holds()
				w.pace = c.pace
				got := commit(t, client, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: lease}).Copy(w, 30*s)
				over := time.Since(b.start)
				if got.Verdict != c.as || over != c.over || readable(w.got.Body.Bytes()) != c.text {
					t.Errorf("%v (%+v, %v) after %v, text %q", got.Verdict, got.Failure, got.Err, over, readable(w.got.Body.Bytes()))
				}
				if lease.at() != c.back && (c.back >= 0 || lease.at() < c.over) || lease.released.Load() > 1 {
					t.Errorf("the lease was given back at %v, %d times", lease.at(), lease.released.Load())
				}
				if w.met || !whole(w.got.Body.String()) {
					t.Errorf("met %v, stream:\n%s", w.met, w.got.Body)
				}
				if n := client.answers.held.Load(); n != 0 {
					t.Errorf("%d bytes of the memory for answers did not come back", n)
				}
				client.Close()
			})
		})
	}
}

// countedConn is a connection that counts what was read of it.
type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// What is held for a caller is bounded: then the engine is not read any more, until the caller has taken some of it.
func TestReadAheadIsBounded(t *testing.T) {
	const most, parts, size = 64 << 10, 160, 8000
	script := []line{{0, chunked + part(word("x"))}}
	for range parts {
		script = append(script, line{0, part(word(strings.Repeat("w", size)))})
	}
	script = append(script, line{0, part(finish+done) + lastPart})
	for _, c := range []struct {
		name   string
		total  int64 // of the memory for answers
		stream int
		held   int64 // what may be read ahead
	}{
		{"by the bound of a stream", 0, most, most},
		{"1 MiB if nothing is said", 0, 0, 1 << 20},
		{"by the memory for all answers", most, 1 << 20, most},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var read atomic.Int64
				b, client, e := engineWithin(t, Options{AnswerTotal: c.total, StreamBuffer: c.stream}, script, hearth.Limits{FirstByte: 60 * s, Idle: 5 * s})
				dial := client.opt.LocalDial
				client.opt.LocalDial = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := dial(ctx, network, address)
					return countedConn{conn, &read}, err
				}
				w, lease := hears(-1), holds()
				w.pace = 20 * s
				took := make(chan End, 1)
				s := commit(t, client, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: lease})
				go func() { took <- s.Copy(w, 30*time.Second) }()
				<-time.After(19 * time.Second) // the first write is still under way
				synctest.Wait()
				// The connection's and the reader's own buffers, one event that waits for room, and the difference that
				// rewriting makes to an event.
				if n, slack := read.Load(), int64(32<<10); n < c.held*3/4 || n > c.held+c.held/8+slack {
					t.Errorf("%d bytes were read ahead, %d may be", n, c.held)
				}
				if n := client.answers.held.Load(); n > c.held || n == 0 {
					t.Errorf("%d bytes count as held", n)
				}
				end := <-took
				if end.Verdict != hearth.Served || len(readable(w.got.Body.Bytes())) != parts*size+1 || !whole(w.got.Body.String()) {
					t.Errorf("%v %+v, %d letters", end.Verdict, end.Failure, len(readable(w.got.Body.Bytes())))
				}
				if lease.at() < 0 || lease.at() >= time.Since(b.start) {
					t.Errorf("the lease was given back at %v", lease.at())
				}
				client.Close()
			})
		})
	}
}

// An event that is larger than all that may be held is let in alone.
func TestReadAheadOfALargeEvent(t *testing.T) {
	a := &ahead{most: 100, share: share{of: &budget{limit: 50, held: new(atomic.Int64)}}}
	a.open()
	if large := make([]byte, 3*piece); !a.fits(large) || a.fits([]byte("x")) {
		t.Errorf("held %d", a.held)
	}
	for range 3 {
		p, ok := a.take()
		if !ok || len(p) != piece {
			t.Fatal(len(p), ok)
		}
		a.wrote(p)
	}
	if !a.fits(make([]byte, 40)) || a.fits(make([]byte, 11)) || !a.fits(make([]byte, 10)) {
		t.Errorf("held %d: the memory of all answers is 50 bytes", a.held)
	}
	close(a.over)
	if p, ok := a.take(); !ok || len(p) != 50 {
		t.Errorf("%d bytes, %v: what is held is not lost at the end", len(p), ok)
	}
	if _, ok := a.take(); ok {
		t.Error("there is nothing more")
	}
}

// A lease that is cut ends what is in the engine at once, and nobody is to blame.
func TestCutLease(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream bool
		script []line
		takes  int
		pace   time.Duration
		end    string
		text   string
		over   time.Duration
	}{
		{"before the first token", true, []line{{0, chunked + part(role)}}, -1, 0, "next", "", 2 * s},
		{"before the headers of an answer", false, nil, -1, 0, "next", "", 2 * s},
		{"in the body of an answer", false, []line{{0, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"}}, -1, 0, "cut", "", 2 * s},
		{"in a stream", true, []line{{0, chunked + part(word("x"))}, {s, part(word("y"))}}, -1, 0, "broken", "xy", 2 * s},
		{"in a stream whose caller is slow", true, []line{{0, chunked + part(word("x"))}, {s, part(word("y"))}}, -1, 5 * s, "broken", "xy", 10 * s},
		{"after the last word", true, []line{{0, chunked + part(word("x")+finish)}}, -1, 0, "served", "x", 2 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := engineWithin(t, Options{}, c.script, hearth.Limits{FirstByte: 60 * s, Answer: 60 * s, Idle: 60 * s})
				lease := holds()
				time.AfterFunc(2*s, lease.cutNow)
				w := hears(c.takes)
				w.pace = c.pace
				o, f, err := client.Open(t.Context(), &Call{Endpoint: e, EngineURL: "http://engine", Stream: c.stream, Lease: lease, Stamp: &dialect.Stamp{}})
				r := result{opened: o, failure: f, err: err, end: "next"}
				switch {
				case o != nil && o.Cut != nil:
					r.end, r.failure = "cut", o.Cut
				case o != nil && o.Stream != nil:
					end := o.Stream.Copy(w, 30*s)
					r.end, r.failure = end.Verdict.String(), end.Failure
				}
				if err != nil || r.end != c.end || time.Since(b.start) != c.over || readable(w.got.Body.Bytes()) != c.text {
					t.Errorf("%v, %v after %v, text %q", r.end, err, time.Since(b.start), readable(w.got.Body.Bytes()))
				}
				if f := r.failure; c.end != "served" && (f == nil || f.Blame != hearth.BlameNobody || f.Message != errStopped.Error() || f.Broke) {
					t.Errorf("failure %+v", f)
				}
				client.Close()
				if at := <-b.closed; at != 2*s {
					t.Errorf("the engine was left after %v", at)
				}
			})
		})
	}
}

// A caller who leaves while the engine is ahead of them leaves nothing behind.
func TestCallerLeavesWhatIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, client, e := engineWithin(t, Options{}, append([]line{{0, chunked + part(word("x"))}}, words(100, s)...), hearth.Limits{FirstByte: 60 * s, Idle: 60 * s})
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(5*s, leave)
		o, _, err := client.Open(ctx, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: holds(), Stamp: &dialect.Stamp{}})
		if err != nil {
			t.Fatal(err)
		}
		w := hears(0)
		if end := o.Stream.Copy(w, 30*s); end.Verdict != hearth.Gone || !errors.Is(end.Err, os.ErrDeadlineExceeded) {
			t.Errorf("%+v", end)
		}
		client.Close()
		if at := <-b.closed; at != 5*s {
			t.Errorf("the engine was left after %v", at)
		}
	})
}

// A defect of ours in the other goroutine is handled where all are: in the request's own.
func TestPanicWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, e := engineWithin(t, Options{}, append([]line{{0, chunked + part(word("x"))}}, words(5, s)...), hearth.Limits{FirstByte: 60 * s, Idle: 60 * s})
		lease, w := holds(), hears(-1)
		w.pace = 5 * s
		stream := commit(t, client, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: lease})
		stream.stamp = nil
		defer func() {
			if p := recover(); p == nil || lease.at() != s {
				t.Errorf("panic %v, lease back at %v", p, lease.at())
			}
			client.Close()
		}()
		stream.Copy(w, 30*s)
	})
}

// panics is a caller whose writes panic after a while.
type panics struct {
	*listener
	after time.Duration
}

func (p panics) Write([]byte) (int, error) {
	<-time.After(p.after)
	panic("the writer is broken")
}

// A write that panics leaves nothing behind, whoever reads the stream by then.
func TestPanicInAWrite(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "just before the engine is read ahead": stall - 1, "then": stall, "later": 3*s + time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := engineWithin(t, Options{}, append([]line{{0, chunked + part(word("x"))}}, words(5, s)...), hearth.Limits{FirstByte: 60 * s, Idle: 60 * s})
				stream := commit(t, client, &Call{Endpoint: e, EngineURL: "http://engine", Stream: true, Lease: holds()})
				defer func() {
					if p := recover(); p != "the writer is broken" || time.Since(b.start) != after {
						t.Errorf("panic %v after %v", p, time.Since(b.start))
					}
					if stream.ahead.timer.Stop() {
						t.Error("the closed stream would be read on")
					}
					<-time.After(s)
					client.Close()
					if at := <-b.closed; at != after {
						t.Errorf("the engine was left after %v", at)
					}
				}()
				stream.Copy(panics{hears(-1), after}, 30*s)
			})
		})
	}
}

// What is kept open to an engine ends with it: whatever listens there later gets connections of its own.
func TestConnectionsEndWithTheirEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		b := &bubble{start: time.Now(), closed: make(chan time.Duration, 10)}
		whole := answers("application/json", `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)
		_, e := engineAt(t, "http://engine")
		client := clientWith(t, Options{LocalDial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			ours, theirs := net.Pipe()
			go b.answer(theirs, whole)
			return ours, nil
		}}, e)
		ask := func(lease *held) {
			t.Helper()
			if r := attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: "http://engine", Lease: lease}); r.end != "answer" {
				t.Fatal(r)
			}
		}
		one, two := holds(), holds()
		ask(one)
		ask(one)
		if dials != 1 {
			t.Errorf("%d connections for two requests to one engine", dials)
		}
		<-time.After(s)
		one.goneNow()
		if at := <-b.closed; at != s {
			t.Errorf("the connection was closed after %v", at)
		}
		ask(two)
		ask(two)
		if dials != 2 {
			t.Errorf("%d connections to two engines", dials)
		}
		client.Close()
		<-b.closed
	})
}

// answer gives each request of a connection the same answer.
func (b *bubble) answer(c net.Conn, whole string) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			b.closed <- time.Since(b.start)
			c.Close()
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(c, whole)
	}
}
