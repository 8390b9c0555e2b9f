package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// bubble is an upstream at the other end of pipes, in virtual time. It notes when each connection was closed.
type bubble struct {
	start  time.Time
	closed chan time.Duration // since start, per connection
}

// line is one thing that a scripted upstream does: wait, then send.
type line struct {
	wait time.Duration
	send string
}

// within plays the script to each request of a client's connection, and then keeps the connection open.
func within(t *testing.T, script []line, edit ...func(*hearth.Provider)) (*bubble, *Client, *hearth.Endpoint) {
	t.Helper()
	b := &bubble{start: time.Now(), closed: make(chan time.Duration, 10)}
	client, e := endpoint(t, "http://upstream", edit...)
	dialled(client, e, b.dial(func(int) []line { return script }))
	return b, client, e
}

// dialled has the client make its connections to an endpoint so.
func dialled(c *Client, e *hearth.Endpoint, dial Dialer) {
	p := c.clients[e.Provider]
	p.DialContext, p.lines = dial, nil
}

// dial makes connections to an upstream that plays script to the request of the nth.
func (b *bubble) dial(script func(n int) []line) Dialer {
	var n atomic.Int32
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go b.serve(theirs, script(int(n.Add(1))))
		return ours, nil
	}
}

func (b *bubble) serve(c net.Conn, script []line) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, r) // ends when the other side closes
		b.closed <- time.Since(b.start)
		close(gone)
	}()
	for _, l := range script {
		select {
		case <-time.After(l.wait):
		case <-gone:
			return
		}
		if _, err := io.WriteString(c, l.send); err != nil {
			break
		}
	}
	<-gone
}

func limits(first, answer, idle, total time.Duration) func(*hearth.Provider) {
	return func(p *hearth.Provider) {
		p.Limits = hearth.Limits{FirstByte: first, Answer: answer, Idle: idle, Total: total}
	}
}

const s = time.Second

func TestLimits(t *testing.T) {
	two := part(word("one ") + word("two"))
	drip := func(n int, every time.Duration, text string) (l []line) {
		for range n {
			l = append(l, line{every, text})
		}
		return l
	}
	for _, c := range []struct {
		name   string
		stream bool
		limits func(*hearth.Provider)
		script []line
		want   string
		timed  bool          // the failure is a timeout
		at     time.Duration // when the attempt was over
	}{
		{"no answer at all", true, limits(5*s, 0, 60*s, 0), nil, "next: no first token within the limit", true, 5 * s},
		{"headers, then silence", true, limits(5*s, 0, 60*s, 0), []line{{2 * s, chunked}}, "next: no first token within the limit", true, 5 * s},
		{"role, then silence", true, limits(5*s, 0, 2*s, 0), []line{{4 * s, chunked + part(role)}}, "next: no first token within the limit", true, 5 * s},
		{"comments are no token", true, limits(5*s, 0, 2*s, 0), append([]line{{0, chunked}}, drip(100, s*3/4, part(": hello\n\n"))...), "next: no first token within the limit", true, 5 * s},
		{"slow headers", true, limits(5*s, 0, 2*s, 0), append([]line{{0, "HTTP/1.1 200 OK\r\n"}}, drip(100, s*3/4, "X: y\r\n")...), "next: no first token within the limit", true, 5 * s},
		{"a token just in time", true, limits(5*s, 0, 60*s, 0), []line{{0, chunked}, {5*s - 1, two + part(finish+done) + lastPart}}, "served one two", false, 5*s - 1},
		{"the total is shorter than the first byte", true, limits(5*s, 0, 60*s, 3*s), nil, "next: the attempt took longer than its limit", true, 3 * s},
		{"no first-byte limit", true, limits(0, 0, 60*s, 7*s), nil, "next: the attempt took longer than its limit", true, 7 * s},

		{"stall", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked}, {s, two}}, "broken one two: the stream stalled", true, 11 * s},
		{"stall after a while", true, limits(5*s, 0, 10*s, 0), append([]line{{0, chunked}}, drip(7, 9*s/2, part(word("x")))...), "broken xxxxxxx: the stream stalled", true, 63*s/2 + 10*s},
		{"slow, no stall", true, limits(5*s, 0, 10*s, 0), append(append([]line{{0, chunked + part(word("x"))}}, drip(5, 10*s-1, part(word("x")))...), line{s, part(done) + lastPart}), "served xxxxxx", false, 51*s - 5},
		{"comments show life", true, limits(5*s, 0, 10*s, 0), append([]line{{0, chunked + two}}, append(drip(10, 9*s, part(": hello\n\n")), line{s, part(finish+done) + lastPart})...), "served one two", false, 91 * s},
		{"a part of an event shows life", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked + two}, {9 * s, part("data: {\"choi")}, {9 * s, part("ces\":[]}\n\n" + finish + done)}, {0, lastPart}}, "served one two", false, 18 * s},
		{"no idle limit", true, limits(5*s, 0, 0, 100*s), []line{{0, chunked + two}}, "broken one two: the attempt took longer than its limit", true, 100 * s},
		{"total in mid-stream", true, limits(5*s, 0, 10*s, 51*s/2), append([]line{{0, chunked}}, drip(30, s, part(word("x")))...), "broken " + strings.Repeat("x", 25) + ": the attempt took longer than its limit", true, 51 * s / 2},
		{"stall after the finish reason", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked + two + part(finish)}}, "served one two", false, 10 * s},
		{"comments without end after the finish reason", true, limits(5*s, 0, 10*s, 0), append([]line{{0, chunked + two + part(finish)}}, drip(100, 3*s, part(": hello\n\n"))...), "served one two", false, 10 * s},
		{"usage long after the finish reason", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked + two + part(finish)}, {9 * s, part(usage)}, {s / 2, lastPart}}, "served one two", false, 9*s + s/2},
		{"another choice after the finish reason", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked + two + part(finish)}, {9 * s, part(word("!"))}, {9 * s, part(finish)}, {9 * s, part(done) + lastPart}}, "served one two!", false, 27 * s},
		{"no end after [DONE]", true, limits(5*s, 0, 10*s, 0), []line{{0, chunked + two + part(finish+done)}}, "served one two", false, eofWait},
		{"comments without end after [DONE]", true, limits(5*s, 0, 10*s, 0), append([]line{{0, chunked + two + part(finish+done)}}, drip(1000, time.Millisecond, part(": bye\n\n"))...), "served one two", false, eofWait},

		{"no answer in time", false, limits(5*s, 60*s, 10*s, 0), nil, "next: no complete answer within the limit", true, 60 * s},
		{"slow headers of an answer", false, limits(5*s, 60*s, 10*s, 0), append([]line{{0, "HTTP/1.1 200 OK\r\n"}}, drip(100, s*3/4, "X: y\r\n")...), "next: no complete answer within the limit", true, 60 * s},
		{"blanks are no token", true, limits(5*s, 0, 2*s, 0), append([]line{{0, chunked}}, drip(100, s*3/4, part("\n"))...), "next: no first token within the limit", true, 5 * s},
		{"half an answer in time", false, limits(5*s, 60*s, 10*s, 0), []line{{30 * s, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"}}, "cut: no complete answer within the limit", true, 60 * s},
		{"dripping answer", false, limits(5*s, 60*s, 10*s, 0), append([]line{{0, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"}}, drip(99, s, " ")...), "cut: no complete answer within the limit", true, 60 * s},
		{"total of an answer", false, limits(5*s, 60*s, 10*s, 20*s), nil, "next: the attempt took longer than its limit", true, 20 * s},
		{"an answer just in time", false, limits(5*s, 60*s, 10*s, 0), []line{{60*s - 1, answers("application/json", `{"choices":[{"message":{"content":"one"}}]}`)}}, "answer one", false, 60*s - 1},
		{"error whose text does not come", true, limits(30*s, 60*s, 10*s, 0), []line{{s, "HTTP/1.1 503 x\r\nContent-Length: 99\r\n\r\nbusy"}}, "next: provider answered 503 Service Unavailable: busy", false, s + errorWait},
		{"JSON that does not come", true, limits(5*s, 60*s, 10*s, 0), []line{{s, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"}}, "next: no first token within the limit", true, 5 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, c.script, c.limits)
				r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: c.stream})
				if got := r.String(); got != c.want || r.failure != nil && (r.failure.TimedOut != c.timed || r.failure.Blame != hearth.BlameEndpoint) {
					t.Errorf("got %s %+v, want %s", got, r.failure, c.want)
				}
				if at := time.Since(b.start); at != c.at {
					t.Errorf("over after %v, want %v", at, c.at)
				}
				client.Close()
				if closed := <-b.closed; closed != c.at {
					t.Errorf("the upstream was freed after %v, want %v", closed, c.at)
				}
			})
		})
	}
}

func TestCallerLeaves(t *testing.T) {
	left := errors.New("left")
	two := part(word("one ") + word("two"))
	for _, c := range []struct {
		name   string
		stream bool
		script []line
		cause  error
		want   string
	}{
		{"before headers", true, nil, left, "gone"},
		{"before the first token", true, []line{{0, chunked + part(role)}}, left, "gone"},
		{"mid-stream", true, []line{{0, chunked + two}}, left, "gone one two"},
		{"after the finish reason", true, []line{{0, chunked + two + part(finish)}}, left, "gone one two"},
		{"non-stream", false, nil, left, "gone"},
		{"non-stream, in the body", false, []line{{0, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"}}, left, "gone"},
		{"in the text of an error", true, []line{{2 * s, "HTTP/1.1 500 x\r\nContent-Length: 99\r\n\r\n{"}}, left, "gone"},
		{"for want of time", true, []line{{0, chunked + two}}, context.DeadlineExceeded, "gone one two"},
		{"shutdown before the first token", true, []line{{0, chunked + part(role)}}, ErrShutdown, "gone"},
		{"shutdown mid-stream", true, []line{{0, chunked + two}}, ErrShutdown, "broken one two: the gateway is shutting down"},
		{"shutdown after the finish reason", true, []line{{0, chunked + two + part(finish)}}, ErrShutdown, "served one two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, client, e := within(t, c.script)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*s, func() { cancel(c.cause) })
				r := attempt(ctx, client, &Call{Endpoint: e, Stream: c.stream})
				if got := r.String(); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if r.end == "gone" && !errors.Is(r.err, c.cause) {
					t.Errorf("err = %v, want %v", r.err, c.cause)
				}
				if r.failure != nil && (r.failure.Blame != hearth.BlameNobody || r.failure.TimedOut) {
					t.Errorf("failure = %+v: nobody is to blame", r.failure)
				}
				if at := time.Since(b.start); at != 3*s {
					t.Errorf("over after %v, want 3s", at)
				}
				client.Close()
				if closed := <-b.closed; closed != 3*s {
					t.Errorf("the upstream was told after %v, want 3s", closed)
				}
			})
		})
	}
}

// A dial that hangs ends with the first-byte limit, and the late connection is not kept.
func TestDialHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client, e := endpoint(t, "http://upstream", limits(5*s, 0, 60*s, 0))
		dialled(client, e, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := attempt(t.Context(), client, &Call{Endpoint: e, Stream: true})
		if r.String() != "next: no first token within the limit" || time.Since(start) != 5*s {
			t.Errorf("got %v after %v", r, time.Since(start))
		}
	})
}

// An upstream that takes no byte of the request is left at the limit.
func TestUpstreamDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		client, e := endpoint(t, "http://upstream", limits(5*s, 0, 60*s, 0))
		dialled(client, e, func(context.Context, string, string) (net.Conn, error) {
			ours, _ := net.Pipe()
			return ours, nil
		})
		_, f, err := client.Open(t.Context(), &Call{Endpoint: e, Stream: true, Body: make([]byte, 1<<20)})
		if err != nil || f == nil || f.Message != "no first token within the limit" || time.Since(start) != 5*s {
			t.Errorf("got %+v, %v after %v", f, err, time.Since(start))
		}
	})
}

// An answer that comes before the request was read is the answer.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	address := greets(t, "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
	client, e := endpoint(t, "http://"+address)
	_, f, err := client.Open(t.Context(), &Call{Endpoint: e, Body: make([]byte, 8<<20)})
	if err != nil || f == nil || f.Status != 413 || f.Raw != "big" || f.Blame != hearth.BlameNobody {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestCallerHasLeftBefore(t *testing.T) {
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	p := listen(t, says(chunked+part(word("one")+finish+done)+lastPart, false))
	client, e := endpoint(t, p.url())
	if r := attempt(ctx, client, &Call{Endpoint: e, Stream: true}); !errors.Is(r.err, left) || p.accepted.Load() != 0 {
		t.Errorf("got %v, %v after %d connections", r, r.err, p.accepted.Load())
	}
}

// foreign is a context of another make: the standard library watches it with a goroutine for as long as a context
// derived from it is not cancelled. In a bubble, one that is left over fails the test.
type foreign struct {
	context.Context
	done chan struct{}
}

func (c foreign) Done() <-chan struct{} { return c.done }

func TestNothingIsLeftOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream bool
		send   string
		want   string
	}{
		{"stream", true, chunked + part(word("one")+finish+done) + lastPart, "served one"},
		{"broken stream", true, chunked + part(word("one")) + lastPart, "broken one: the stream ended without a finish reason"},
		{"no stream", true, chunked + lastPart, "next: the stream ended before its first token"},
		{"answer", false, answers("application/json", `{"choices":[{"message":{"content":"one"}}]}`), "answer one"},
		{"no answer", false, answers("application/json", `{}`), "next: provider answered without an answer"},
		{"error", false, "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", "next: provider answered 500 Internal Server Error: Internal Server Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client, e := within(t, []line{{0, c.send}}, limits(5*s, 5*s, 5*s, time.Hour))
				ctx := foreign{t.Context(), make(chan struct{})}
				if r := attempt(ctx, client, &Call{Endpoint: e, Stream: c.stream}); r.String() != c.want {
					t.Errorf("got %v, want %s", r, c.want)
				}
				client.Close()
			})
		})
	}
}
