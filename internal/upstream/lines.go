package upstream

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	idleMost = 4096 // connections that are kept for one upstream
	idleTime = 60 * time.Second
)

// lines are the connections to one upstream that speaks plain HTTP/1.1. A request goes over its line in the goroutine that
// makes it. An http.Transport has two goroutines for each connection, and the handing of each request and answer to and
// fro between them costs a short one more than all else that is done with it.
type lines struct {
	dial    Dialer
	address string

	mu       sync.Mutex
	idle     []*tcpLine // the one that was used last at the end
	closing  bool       // what becomes idle is closed, until another request comes
	sweeper  *time.Timer
	sweeping bool // it runs
}

// newLines makes the lines to where u leads; nil = it must be reached by an http.Transport.
func newLines(u *url.URL, t *http.Transport) *lines {
	if !askable || u.Scheme != "http" || strings.Trim(u.Host, hostCharacters) != "" || u.Hostname() == "" {
		return nil
	}
	if t.Proxy != nil {
		if by, err := t.Proxy(&http.Request{URL: u}); by != nil || err != nil {
			return nil
		}
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	return &lines{dial: t.DialContext, address: address}
}

// hostCharacters are those of hosts that need no translation to be sent.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:[]"

// letterhead is what stands before the length of a body, and between that and the body.
type letterhead struct{ first, rest string }

// headOf is the head of what goes to u.
func headOf(u *url.URL, h http.Header) letterhead {
	var first, rest bytes.Buffer
	first.WriteString("POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n")
	// A buffer takes everything: there are no errors.
	if agent := h.Get("User-Agent"); agent != "" {
		_ = http.Header{"User-Agent": {agent}}.Write(&first)
	}
	first.WriteString("Content-Length: ")
	rest.WriteString("\r\n")
	_ = h.WriteSubset(&rest, map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true})
	rest.WriteString("\r\n")
	return letterhead{first.String(), rest.String()}
}

const (
	// lateNews is how long after the sending of a request its line may turn out to have been closed over there before it came.
	// One that breaks later had the request, whatever has become of it: it is not sent again.
	lateNews = time.Second
	// lastGasp is after how long a line that breaks may have had the request: that nobody listens any more is no reason then to
	// say that it was not sent.
	lastGasp = 100 * time.Millisecond
)

// send sends a body behind a head, as often as it takes to find out that a kept line is one that still leads somewhere.
// done is called when nobody reads the body any more; nil = nobody wants to know.
func (ls *lines) send(ctx context.Context, head *letterhead, body []byte, done func()) (*http.Response, error) {
	c := &cargo{head: head, body: body, done: done}
	c.readers.Store(1)
	defer c.leave()
	var broke error // of a line that may have had the request
	for {
		l, err := ls.take(ctx)
		took := time.Duration(0)
		if err == nil {
			began := time.Now()
			var resp *http.Response
			if resp, err = l.exchange(ctx, ls, c); err == nil {
				return resp, nil
			}
			took = time.Since(began)
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case l == nil && broke != nil:
			return nil, broke
		case l == nil || !l.used || l.answered || took >= lateNews:
			return nil, err
		case took >= lastGasp:
			broke = err
		}
	}
}

// take finds a line over which nothing is on its way, or makes one.
func (ls *lines) take(ctx context.Context) (*tcpLine, error) {
	for {
		l := ls.kept()
		if l == nil {
			break
		}
		if l.quiet() {
			return l, nil
		}
		_ = l.conn.Close() // closed over there, or it brings what nobody asked for
	}
	conn, err := ls.dial(ctx, "tcp", ls.address)
	if err != nil {
		return nil, err
	}
	return newLine(conn), nil
}

func (ls *lines) kept() *tcpLine {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closing = false
	last := len(ls.idle) - 1
	if last < 0 {
		return nil
	}
	l := ls.idle[last]
	ls.idle[last], ls.idle = nil, ls.idle[:last]
	return l
}

// keep takes a line back that can be used again.
func (ls *lines) keep(l *tcpLine) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closing || len(ls.idle) >= idleMost {
		_ = l.conn.Close()
		return
	}
	l.used, l.answered, l.since = true, false, time.Now()
	ls.idle = append(ls.idle, l)
	switch {
	case ls.sweeping:
	case ls.sweeper == nil:
		ls.sweeper = time.AfterFunc(idleTime, ls.sweep)
	default:
		ls.sweeper.Reset(idleTime)
	}
	ls.sweeping = true
}

// sweep closes the lines that were idle for too long: those at the beginning.
func (ls *lines) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, old := time.Now(), 0
	for old < len(ls.idle) && now.Sub(ls.idle[old].since) >= idleTime {
		_ = ls.idle[old].conn.Close()
		old++
	}
	rest := copy(ls.idle, ls.idle[old:])
	clear(ls.idle[rest:])
	ls.idle = ls.idle[:rest]
	if ls.sweeping = rest > 0; ls.sweeping {
		ls.sweeper.Reset(idleTime - now.Sub(ls.idle[0].since))
	}
}

// closeIdle closes the lines that are idle, and from now on those that become so, until another request comes.
func (ls *lines) closeIdle() {
	if ls == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closing = true
	for _, l := range ls.idle {
		_ = l.conn.Close()
	}
	ls.idle = nil
	if ls.sweeper != nil {
		ls.sweeper.Stop()
		ls.sweeping = false
	}
}
