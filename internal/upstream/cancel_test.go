package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"myip.co.kr/hearth/internal/dialect"
)

// moments are those at which a caller may leave: what the upstream has sent by then.
var moments = []struct {
	name   string
	stream bool
	sent   string
}{
	{"before the headers of a stream", true, ""},
	{"before the first token", true, chunked + part(role)},
	{"mid-stream", true, chunked + part(role+word("one")+word("two"))},
	{"after the finish reason", true, chunked + part(word("one")+finish)},
	{"in JSON where a stream was asked for", true, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"},
	{"before the headers of an answer", false, ""},
	{"in the body of an answer", false, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"},
	{"in the text of an error", false, "HTTP/1.1 500 x\r\nContent-Length: 99\r\n\r\n{"},
}

// promptly is how soon an upstream is told that its caller has left.
const promptly = 100 * time.Millisecond

func TestUpstreamIsTold(t *testing.T) {
	left := errors.New("left")
	for _, m := range moments {
		for _, after := range []time.Duration{time.Second, 1500 * time.Millisecond, 29 * s} {
			t.Run(fmt.Sprintf("%s, after %v", m.name, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, client, e := within(t, []line{{time.Millisecond, m.sent}}, limits(time.Minute, time.Minute, time.Minute, 0))
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(after, func() { cancel(left) })
					r := attempt(ctx, client, &Call{Endpoint: e, Stream: m.stream})
					if m.sent[:min(len(m.sent), 12)] == "HTTP/1.1 500" && after > errorWait {
						if r.end != "next" { // its status was enough
							t.Errorf("got %v", r)
						}
						client.Close()
						return
					}
					if r.end != "gone" || !errors.Is(r.err, left) {
						t.Errorf("got %v, %v", r, r.err)
					}
					closed := <-b.closed // not by Close: the connection is not kept
					if closed < after || closed > after+promptly || time.Since(b.start) > after+promptly {
						t.Errorf("the upstream was told after %v, the call came back after %v; the caller left after %v", closed, time.Since(b.start), after)
					}
					client.Close()
				})
			})
		}
	}
}

// A thousand callers who leave, at every moment, leave nothing behind.
func TestUpstreamIsTold_AThousandTimes(t *testing.T) {
	const callers, atOnce = 1000, 20
	before := goleak.IgnoreCurrent()
	script := make(chan string, atOnce)
	p := &peer{closed: make(chan struct{}, 2*callers)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.l = l
	here := make(chan struct{}, atOnce)
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() {
				defer c.Close()
				p.talk(c, func(c net.Conn, _ int) {
					_, _ = io.WriteString(c, <-script)
					here <- struct{}{}
				})
			})
		}
	})
	client, e := endpoint(t, p.url())
	for n := 0; n < callers; n += atOnce {
		m := moments[n/atOnce%len(moments)]
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan string, atOnce)
		for range atOnce {
			script <- m.sent
			go func() { ends <- amongOthers(ctx, client, &Call{Endpoint: e, Stream: m.stream}).end }()
		}
		for range atOnce {
			<-here
		}
		cancel()
		for range atOnce {
			if end := <-ends; end != "gone" {
				t.Fatalf("%s: %s", m.name, end)
			}
		}
	}
	for range callers {
		select {
		case <-p.closed:
		case <-time.After(20 * time.Second):
			t.Fatal("an upstream was not told")
		}
	}
	client.Close()
	l.Close()
	p.wg.Wait()
	goleak.VerifyNone(t, before)
	if held := client.answers.held.Load(); held != 0 {
		t.Errorf("%d bytes of the memory for answers did not come back", held)
	}
}

// How long it takes, over a real socket, from a caller's leaving to the upstream's learning of it.
func BenchmarkCancel(b *testing.B) {
	for _, m := range []int{1, 2, 6} {
		b.Run(moments[m].name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			told, ready := make(chan time.Time), make(chan struct{})
			go func() {
				buf := make([]byte, 4<<10)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(buf) // the whole request: it is small
					_, _ = io.WriteString(c, moments[m].sent)
					ready <- struct{}{}
					for err == nil {
						_, err = c.Read(buf)
					}
					told <- time.Now()
					c.Close()
				}
			}()
			client, e := endpoint(b, "http://"+l.Addr().String())
			var total time.Duration
			n := 0
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					call := &Call{Endpoint: e, Stream: moments[m].stream, Body: []byte(`{"model":"m"}`), Stamp: &dialect.Stamp{}}
					if o, _, _ := client.Open(ctx, call); o != nil && o.Stream != nil {
						o.Stream.Copy(httptest.NewRecorder(), time.Minute)
					}
				}()
				<-ready
				runtime.Gosched() // what was sent is on its way
				left := time.Now()
				cancel()
				total += (<-told).Sub(left)
				<-done
				n++
			}
			b.ReportMetric(float64(total.Microseconds())/float64(n), "µs/told")
		})
	}
}
