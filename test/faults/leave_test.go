package faults

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// full is for the run that may take its time: a thousand callers of each kind leave, and rows of many megabytes are
// played as often as their blame wants it.
var full = flag.Bool("full", false, "take the time for a thousand of each caller that leaves")

const (
	leavers     = 200 // enough: what each tenth of them left behind would be seen
	fullLeavers = 1000
	atOnce      = 32
)

// awaited hears of requests when they have come to the upstream, by the number in their prompt.
type awaited struct {
	mu   sync.Mutex
	came map[int]chan *link
}

func (a *awaited) of(n int) chan *link {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.came == nil {
		a.came = make(map[int]chan *link)
	}
	if a.came[n] == nil {
		a.came[n] = make(chan *link, 1)
	}
	return a.came[n]
}

// note is the act that tells who waits that the request is there.
func (a *awaited) note(l *link) bool {
	_, rest, _ := bytes.Cut(l.last().body, []byte("number "))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(digits))
	if err == nil {
		a.of(n) <- l
	}
	return true
}

// leaving is one way of leaving.
type leaving struct {
	name string
	more string // keys of the request
	play script // of the upstream, after it has noted the request
	read bool   // the caller reads its first event before it leaves
	wait bool   // the caller never gets as far as the upstream: it waits for the slot
	both bool   // at a provider too, not only at a slot
}

var leavings = []leaving{
	{name: "before the first token", both: true, more: streaming, play: script{stall}},
	{name: "before the first token, with headers there", more: streaming, play: script{say(sseHead + parts(roleEvent)), stall}},
	{name: "mid-stream", both: true, more: streaming, play: script{say(begun(8)), stall}, read: true},
	{name: "mid-stream, words flowing", more: streaming, play: script{say(begun(8)), repeat(parts(word("and on ")), time.Millisecond)}, read: true},
	{name: "during a whole answer", both: true, play: script{stall}},
	{name: "during a whole answer, half of it there", play: script{say(halfWhole()), stall}},
	{name: "while waiting for a slot", more: streaming, play: script{stall}, wait: true},
}

// After hundreds of callers that left there is nothing of them: no goroutine, no descriptor, no place in the slot taken,
// no request running upstream, nobody blamed.
func TestLeaving(t *testing.T) {
	for i := range leavings {
		c := &leavings[i]
		for _, where := range []string{"slot", "provider"} {
			if where == "provider" && !c.both {
				continue
			}
			t.Run(c.name+"/"+where, func(t *testing.T) { c.run(t, where == "slot") })
		}
	}
}

func (c *leaving) run(t *testing.T, slot bool) {
	var came awaited
	up := serve(t, append(script{came.note}, c.play...)...)
	s := setup{primary: up.url()}
	if slot {
		s = setup{slots: slotAt(up.url(), fmt.Sprintf(", concurrency: %d, wait: 1m", 2*atOnce))}
		if c.wait {
			s = setup{slots: slotAt(up.url(), ", concurrency: 1, queue: 1000, wait: 1m")}
		}
	}
	g := start(t, s)
	var told []time.Duration
	var mu sync.Mutex
	leave := func(n int) {
		d := c.leave(t, g, &came, n)
		mu.Lock()
		defer mu.Unlock()
		told = append(told, d)
	}
	if c.wait { // somebody else has the only place
		w := g.dial(t)
		w.ask(g, c.more, -1)
		<-came.of(-1)
		leave = func(n int) { g.waitAndLeave(t, c, n) }
	}
	for n := range atOnce {
		if leave(n); t.Failed() { // each would wait as long
			return
		}
	}
	before := g.census()
	n := leavers
	if *full {
		n = fullLeavers
	}
	crowd(n, func(n int) {
		if !t.Failed() { // one is enough
			leave(atOnce + n)
		}
	})
	if t.Failed() {
		return
	}
	if c.wait {
		until(t, "nobody waits any more", func() bool { return strings.Contains(g.slot(t), `"waiting":0`) })
		if n := up.chats.Load(); n != 1 {
			t.Errorf("%d requests came to the engine", n)
		}
	} else {
		until(t, "every connection upstream is closed", func() bool { return up.chatting() == 0 })
		slices.Sort(told)
		t.Logf("told within %s (median), %s (99 of 100), %s (all)", told[len(told)/2], told[len(told)*99/100], told[len(told)-1])
	}
	if slot && !c.wait {
		until(t, "every place in the slot is free", func() bool { return strings.Contains(g.slot(t), `"inflight":0`) })
	}
	until(t, "as many goroutines and descriptors as before", func() bool { return g.census().within(before) })
	if c.wait {
		return
	}
	up.set(well(twenty)) // nobody was blamed: the same endpoint answers
	if got := g.chat(t, question(c.more)).read(); got.text != twenty {
		t.Errorf("afterwards: %q", got.text)
	}
}

func (w *wire) ask(g *gateway, more string, n int) {
	body := fmt.Sprintf(`{"model":"author/model","messages":[{"role":"user","content":"number %d"}]%s}`, n, more)
	io.WriteString(w, g.head(g.bearer(), fmt.Sprintf("Content-Length: %d", len(body)))+body)
}

// leave asks, waits until the request is where it is to be left, and returns how long the upstream did not know.
func (c *leaving) leave(t *testing.T, g *gateway, came *awaited, n int) time.Duration {
	w := g.caller(t)
	if w == nil {
		return 0
	}
	w.ask(g, c.more, n)
	var l *link
	select {
	case l = <-came.of(n):
	case <-time.After(patience):
		t.Error("the request did not come to the upstream")
		return 0
	}
	if c.read {
		for {
			line, err := w.r.ReadString('\n')
			if err != nil {
				t.Errorf("no first event: %v", err)
				return 0
			}
			if strings.HasPrefix(line, "data: ") {
				break
			}
		}
	}
	began := time.Now()
	w.leave(n)
	select {
	case <-l.gone:
		return l.goneAt.Sub(began)
	case <-time.After(patience):
		t.Error("the upstream was never told")
	}
	return patience
}

// caller is a connection for a goroutine of a crowd, which must not end the test itself.
func (g *gateway) caller(t *testing.T) *wire {
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{t: t, Conn: conn, r: newReader(conn)}
}

// leave closes the connection, every other time with a reset.
func (w *wire) leave(n int) {
	if n%2 == 0 {
		_ = w.Conn.(*net.TCPConn).SetLinger(0)
	}
	w.Close()
}

// waitAndLeave asks for the slot, is seen to wait, and leaves.
func (g *gateway) waitAndLeave(t *testing.T, c *leaving, n int) {
	w := g.caller(t)
	if w == nil {
		return
	}
	w.ask(g, c.more, n)
	until(t, "it waits", func() bool { return !strings.Contains(g.slot(t), `"waiting":0`) })
	w.leave(n)
}

// slot is what the list of endpoints says.
func (g *gateway) slot(t testing.TB) string {
	return string(g.call(t, g.user, "GET", "/api/v1/models/"+model+"/endpoints", "").body)
}

// chatting counts the connections with a chat request on them that the peer has not closed.
func (r *rogue) chatting() int {
	n := 0
	for _, l := range r.connections() {
		if l.asked() == 0 {
			continue
		}
		select {
		case <-l.gone:
		default:
			n++
		}
	}
	return n
}

// crowd runs f for 0 to n-1, a few at once.
func crowd(n int, f func(int)) {
	var all sync.WaitGroup
	numbers := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range numbers {
				f(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
}

// count is what a process holds.
type count struct{ goroutines, descriptors int }

func (g *gateway) census() count {
	g.client.CloseIdleConnections()
	runtime.GC() // closes what only finalizers close
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return count{runtime.NumGoroutine(), 0} // not on this system
	}
	return count{runtime.NumGoroutine(), len(fds)}
}

// within allows for connections that are kept for the next request.
func (c count) within(before count) bool {
	const kept = 16
	return c.goroutines <= before.goroutines+kept && c.descriptors <= before.descriptors+kept
}
