package faults

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// offers is what a rogue answers to a GET.
const offers = `{"data":[{"id":"author/model"},{"id":"author/sister"}]}`

// rogue is an upstream that writes its own HTTP/1.1 on TCP connections: whatever its script says, well-formed or not. To
// a GET it answers with a list of models, so that it can also be the engine of a slot.
type rogue struct {
	t     testing.TB
	ln    net.Listener
	wrap  func(net.Conn) (net.Conn, error) // TLS, or nil
	mu    sync.Mutex
	play  script
	links []*link
	ended bool
	tasks sync.WaitGroup
	bytes atomic.Int64 // received on all connections
	chats atomic.Int64 // chat requests received in full
}

// script is what is done to one chat request, in turn. A connection whose script is over waits for another request.
type script []act

// act is one step. It returns false when the connection is finished with.
type act func(*link) bool

// link is one accepted connection.
type link struct {
	net.Conn
	tcp    *net.TCPConn
	of     *rogue
	gone   chan struct{} // closed when the peer has closed the connection, or broken it
	goneAt time.Time     // set before gone is closed
	mu     sync.Mutex
	asks   []ask
}

// ask is one request as it came.
type ask struct {
	line, path string
	header     textproto.MIMEHeader
	body       []byte
}

// serve starts an upstream that plays the script to each chat request.
func serve(t testing.TB, play ...act) *rogue {
	t.Helper()
	return serveOn(t, nil, play...)
}

func serveOn(t testing.TB, wrap func(net.Conn) (net.Conn, error), play ...act) *rogue {
	t.Helper()
	r := &rogue{t: t, play: play, wrap: wrap}
	r.listen("127.0.0.1:0")
	return r
}

// serveAt is serve at an address.
func serveAt(t testing.TB, address string, play ...act) *rogue {
	t.Helper()
	r := &rogue{t: t, play: play}
	r.listen(address)
	return r
}

func (r *rogue) listen(address string) {
	r.t.Helper()
	var err error
	if r.ln, err = net.Listen("tcp", address); err != nil {
		r.t.Fatal(err)
	}
	r.tasks.Add(1)
	go r.accept()
	r.t.Cleanup(r.end)
}

func (r *rogue) addr() string { return r.ln.Addr().String() }
func (r *rogue) url() string  { return "http://" + r.addr() }

// set changes the script for the requests to come.
func (r *rogue) set(play ...act) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.play = play
}

func (r *rogue) script() script {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.play
}

// end closes everything and waits for the connections' goroutines.
func (r *rogue) end() {
	r.mu.Lock()
	r.ended = true
	r.ln.Close()
	for _, l := range r.links {
		l.tcp.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}

func (r *rogue) accept() {
	defer r.tasks.Done()
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		l := &link{Conn: c, tcp: c.(*net.TCPConn), of: r, gone: make(chan struct{})}
		r.mu.Lock()
		if r.ended {
			c.Close()
		} else {
			r.links = append(r.links, l)
			r.tasks.Add(1)
			go l.run()
		}
		r.mu.Unlock()
	}
}

// connections are all that were ever accepted.
func (r *rogue) connections() []*link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*link(nil), r.links...)
}

// asks are the chat requests received on all connections.
func (r *rogue) asks() []ask {
	var out []ask
	for _, l := range r.connections() {
		l.mu.Lock()
		out = append(out, l.asks...)
		l.mu.Unlock()
	}
	return out
}

// asked counts the chat requests on the connection.
func (l *link) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asks)
}

// last is the chat request that is being answered.
func (l *link) last() ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asks[len(l.asks)-1]
}

// run reads requests in one goroutine, which sees at once when the peer leaves, and plays scripts in another.
func (l *link) run() {
	defer l.of.tasks.Done()
	defer l.tcp.Close()
	requests := make(chan bool) // of chat
	go l.read(requests)
	defer func() { // the reader ends when the connection does
		l.tcp.Close()
		for range requests {
		}
	}()
	if l.of.wrap != nil {
		<-requests // the wrapping is done
	} else if s := l.of.script(); len(s) > 0 && s[0] == nil { // a script that begins with nil does not wait for a request
		l.playAll(s[1:])
		return
	}
	for chat := range requests {
		if !chat {
			l.say("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(offers)) + "\r\nContent-Type: application/json\r\n\r\n" + offers)
			continue
		}
		if !l.playAll(l.of.script()) {
			return
		}
	}
}

func (l *link) playAll(s script) bool {
	for _, do := range s {
		if do != nil && !do(l) {
			return false
		}
	}
	return true
}

func (l *link) read(requests chan<- bool) {
	defer close(requests)
	defer func() { l.goneAt = time.Now(); close(l.gone) }()
	if l.of.wrap != nil {
		c, err := l.of.wrap(l.tcp)
		if err != nil {
			_, _ = io.Copy(io.Discard, l.tcp)
			return
		}
		l.Conn = c
		requests <- true
	}
	r := bufio.NewReader(metered{l.Conn, &l.of.bytes})
	for {
		q, err := readAsk(r)
		if err != nil {
			_, _ = io.Copy(io.Discard, r) // what is no request is taken all the same, until the peer leaves
			return
		}
		chat := !strings.HasPrefix(q.line, "GET ")
		if chat {
			l.mu.Lock()
			l.asks = append(l.asks, q)
			l.mu.Unlock()
			l.of.chats.Add(1)
		}
		requests <- chat
	}
}

type metered struct {
	io.Reader
	n *atomic.Int64
}

func (c metered) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

var errChunked = errors.New("the gateway sent a body without a length")

// readAsk reads one request. The gateway always knows the length of what it sends.
func readAsk(r *bufio.Reader) (q ask, err error) {
	tp := textproto.NewReader(r)
	if q.line, err = tp.ReadLine(); err != nil {
		return q, err
	}
	if q.header, err = tp.ReadMIMEHeader(); err != nil {
		return q, err
	}
	if f := strings.Fields(q.line); len(f) == 3 {
		q.path = f[1]
	}
	if q.header.Get("Transfer-Encoding") != "" {
		return q, errChunked
	}
	n, err := strconv.Atoi(q.header.Get("Content-Length"))
	if err != nil && strings.HasPrefix(q.line, "GET ") {
		return q, nil
	}
	if err != nil {
		return q, err
	}
	q.body = make([]byte, n)
	_, err = io.ReadFull(r, q.body)
	return q, err
}

// say writes to the peer; false when that cannot be done any more.
func (l *link) say(text string) bool {
	_, err := io.WriteString(l.Conn, text)
	return err == nil
}

// pause waits, but not for a peer that has left.
func (l *link) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.gone:
		return false
	}
}

// The acts.

func say(text string) act { return func(l *link) bool { return l.say(text) } }

// tell says a text that is made when it is said: the program is also the engine of slots, and starts often.
func tell(text func() string) act { return func(l *link) bool { return l.say(text()) } }

func wait(d time.Duration) act { return func(l *link) bool { return l.pause(d) } }

// stall says nothing more until the peer leaves.
func stall(l *link) bool { <-l.gone; return false }

// hangUp ends the connection in order.
func hangUp(*link) bool { return false }

// reset ends the connection with a reset.
func reset(l *link) bool {
	_ = l.tcp.SetLinger(0)
	l.tcp.Close()
	return false
}

// repeat says a text again and again, until the peer leaves.
func repeat(text string, every time.Duration) act {
	return func(l *link) bool {
		for l.say(text) {
			if every > 0 && !l.pause(every) {
				return false
			}
		}
		return false
	}
}

// dribble says a text one byte at a time.
func dribble(text string, every time.Duration) act {
	return func(l *link) bool {
		for i := range len(text) {
			if !l.say(text[i:i+1]) || !l.pause(every) {
				return false
			}
		}
		return true
	}
}

// pieces says each of the texts in a TCP segment of its own.
func pieces(texts ...string) act {
	return func(l *link) bool {
		for _, t := range texts {
			if !l.say(t) || !l.pause(2*time.Millisecond) {
				return false
			}
		}
		return true
	}
}

// once plays its acts to the first request and others to the rest.
func once(first script, rest ...act) act {
	var played atomic.Bool
	return func(l *link) bool {
		if !played.Swap(true) {
			return l.playAll(first)
		}
		return l.playAll(rest)
	}
}

// holds says whether any of what was received has the text in it.
func (r *rogue) holds(text string) bool {
	for _, q := range r.asks() {
		if bytes.Contains(q.body, []byte(text)) || strings.Contains(q.line, text) {
			return true
		}
	}
	return false
}
