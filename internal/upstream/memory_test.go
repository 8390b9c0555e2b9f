package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/dialect"
)

// scarce makes a client that may hold so many bytes of answers.
func scarce(t *testing.T, total int64, script func(net.Conn, int)) (*peer, *Client, *hearth.Endpoint) {
	t.Helper()
	p := listen(t, script)
	_, e := endpoint(t, p.url())
	return p, clientWith(t, Options{AnswerTotal: total}, e), e
}

func TestMemoryForAnswers(t *testing.T) {
	const total = 3 << 20
	sized := func(n int) string {
		return answers("application/json", `{"choices":[{"message":{"content":"one"}}],"x":"`+strings.Repeat("x", n)+`"}`)
	}
	call := func(e *hearth.Endpoint, stream bool) *Call {
		return &Call{Endpoint: e, Stream: stream, Stamp: &dialect.Stamp{}}
	}
	refused := func(t *testing.T, c *Client, call *Call) {
		t.Helper()
		o, f, err := c.Open(t.Context(), call)
		if o != nil || err != nil || f == nil || !f.Overloaded || f.Blame != hearth.BlameNobody || f.TimedOut || f.Message != "the gateway holds as many answers as its memory budget allows" {
			t.Fatalf("got %+v, %+v, %v", o, f, err)
		}
	}
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("what does not fit waits for nobody, stream %v", stream), func(t *testing.T) {
			_, client, e := scarce(t, total, says(sized(1<<20), false))
			first, f, err := client.Open(t.Context(), call(e, false))
			if f != nil || err != nil {
				t.Fatal(f, err)
			}
			refused(t, client, call(e, stream))
			if held := client.answers.held.Load(); held < 1<<20 || held > 2<<20+1 {
				t.Errorf("%d bytes held for an answer of 1 MiB", held)
			}
			first.Free()
			first.Free()
			if r := attempt(t.Context(), client, call(e, stream)); r.end != "answer" && r.end != "served" {
				t.Errorf("got %v when the first was gone", r)
			}
		})
	}
	t.Run("an answer of unknown length", func(t *testing.T) {
		body := strings.Split(sized(4<<20), "\r\n\r\n")[1]
		_, client, e := scarce(t, total, says("HTTP/1.1 200 OK\r\n\r\n"+body, true))
		refused(t, client, call(e, false))
		if held := client.answers.held.Load(); held != 0 {
			t.Errorf("%d bytes did not come back", held)
		}
	})
	t.Run("a promise takes nothing", func(t *testing.T) {
		_, client, e := scarce(t, total, says("HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n{", true))
		if r := attempt(t.Context(), client, call(e, false)); r.String() != "cut: the answer was cut off" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("nothing is sent when nothing would fit", func(t *testing.T) {
		p, client, e := scarce(t, total, says(sized(1), false))
		client.answers.held.Store(total)
		back := 0
		c := call(e, false)
		c.Done = func() { back++ }
		refused(t, client, c)
		if p.accepted.Load() != 0 || back != 1 {
			t.Errorf("%d connections, the body came back %d times", p.accepted.Load(), back)
		}
		client.answers.held.Store(0)
	})
	t.Run("streams take none of it", func(t *testing.T) {
		_, client, e := scarce(t, 1, says(chunked+part(word("one")+finish+done)+lastPart, false))
		if r := attempt(t.Context(), client, call(e, true)); r.String() != "served one" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("without a bound", func(t *testing.T) {
		_, client, e := scarce(t, 0, says(sized(8<<20), false))
		if r := attempt(t.Context(), client, call(e, false)); r.String() != "answer one" {
			t.Errorf("got %v", r)
		}
	})
}

// Many answers at once never hold more than the budget, and it is all there again in the end.
func TestMemoryForAnswers_ManyAtOnce(t *testing.T) {
	const total = 1 << 20
	_, client, e := scarce(t, total, says(answers("application/json", `{"choices":[{"message":{"content":"`+strings.Repeat("x", 200<<10)+`"}}]}`), false))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				o, f, err := client.Open(t.Context(), &Call{Endpoint: e, Stamp: &dialect.Stamp{}})
				if held := client.answers.held.Load(); err != nil || f != nil && !f.Overloaded || held > total+16*total {
					t.Errorf("%+v, %v, %d bytes held", f, err, held)
				}
				o.Free()
			}
		})
	}
	wg.Wait()
	if held := client.answers.held.Load(); held != 0 {
		t.Errorf("%d bytes did not come back", held)
	}
}

// However a body comes, it is read whole and no byte more is counted than its buffer holds.
func TestReadAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 3<<20).Draw(rt, "size")
		length := rapid.SampledFrom([]int64{-1, int64(size)}).Draw(rt, "length")
		limit := rapid.SampledFrom([]int64{0, 4 << 10, 1 << 20, 8 << 20}).Draw(rt, "limit")
		body := bytes.Repeat([]byte("x"), size)
		b := budget{limit: limit, held: new(atomic.Int64)}
		sh := share{of: &b}
		got, err := readAll(bytes.NewReader(body), length, maxAnswerBody, &sh)
		switch {
		case err == nil && !bytes.Equal(got, body):
			rt.Fatalf("%d of %d bytes", len(got), size)
		case err == nil && int64(cap(got)) != sh.n, sh.n != b.held.Load():
			rt.Fatalf("%d bytes counted, %d held, for a buffer of %d", sh.n, b.held.Load(), cap(got))
		case limit > 0 && b.held.Load() > limit:
			rt.Fatalf("%d bytes held of %d", b.held.Load(), limit)
		case err != nil && (limit == 0 || limit > 2*int64(size)+8<<10):
			rt.Fatalf("%v although there was room", err)
		}
		if sh.free(); b.held.Load() != 0 {
			rt.Fatalf("%d bytes did not come back", b.held.Load())
		}
	})
}

// What a body may be at most, to the byte.
func TestReadAll_Bound(t *testing.T) {
	const most = 3 << 20
	body := make([]byte, most+1)
	for size, want := range map[int]error{most: nil, most + 1: errTooLarge} {
		for _, length := range []int64{-1, int64(size)} {
			b := budget{held: new(atomic.Int64)}
			got, err := readAll(bytes.NewReader(body[:size]), length, most, &share{of: &b})
			if !errors.Is(err, want) || err == nil && len(got) != size {
				t.Errorf("%d bytes of %d: %v", len(got), size, err)
			}
		}
	}
	client, _ := endpoint(t, "http://upstream")
	if client.largest != maxAnswerBody || client.event != 0 {
		t.Errorf("bounds %d, %d", client.largest, client.event)
	}
}
