package upstream

import (
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

// pool is the connections to one provider, or to one engine. Clients that follow one another share those that are in
// both of their catalogs.
type pool struct {
	*http.Transport
	lines   *lines      // for chat requests, where they can be used; else nil
	retired atomic.Bool // no client has it any more but those that requests began with
}

// newPool makes the pool for u. The lines are for connections of the system; who brings a dialer may bring other ones.
func newPool(u *url.URL, t *http.Transport, dial Dialer) *pool {
	p := &pool{Transport: t}
	if dial == nil {
		p.lines = newLines(u, t)
	}
	return p
}

// CloseIdleConnections closes what no request uses now.
func (p *pool) CloseIdleConnections() {
	p.Transport.CloseIdleConnections()
	p.lines.closeIdle()
}

// Next makes the client of a newer catalog. Endpoint i of it is endpoint from[i] of the present one, -1 = none: what was
// found out about its upstream is kept. The connections to providers whose address has not changed are kept as well, and
// the memory of answers counts for both. The present client does not notice before Retire.
func (c *Client) Next(cat *hearth.Catalog, o Options, from []int) (*Client, error) {
	next := &Client{answers: budget{held: c.answers.held}, settlement: c.settlement, start: c.start, largest: c.largest, event: c.event, dry: c.dry}
	return next.fill(cat, o, c, from)
}

// inherit takes over what an earlier client has.
func (c *Client) inherit(before *Client, cat *hearth.Catalog, from []int) {
	for i, was := range from {
		if was < 0 {
			continue
		}
		c.plain[i] = before.plain[was]
		if before.trust.equal(c.trust) {
			c.engines[i].Store(before.engines[was].Load())
		}
	}
	for p, connections := range before.clients {
		for _, q := range cat.Providers {
			if q.Slug == p.Slug && q.BaseURL == p.BaseURL && q.Limits.Connect == p.Limits.Connect {
				c.clients[q] = connections
			}
		}
	}
}

// Retire says that the next client has taken over. The connections that it did not take are closed: idle ones at once,
// the others when their last request has ended.
func (c *Client) Retire(next *Client) {
	kept := make(map[*pool]bool)
	for p := range next.pools {
		kept[p] = true
	}
	for p := range c.pools {
		if !kept[p] {
			p.retire()
		}
	}
}

// pools are those that the client has now.
func (c *Client) pools(yield func(*pool) bool) {
	for _, p := range c.clients {
		if !yield(p) {
			return
		}
	}
	for i := range c.engines {
		if e := c.engines[i].Load(); e != nil && !yield(e.pool) {
			return
		}
	}
}

// retire says that nobody is to begin a request any more.
func (p *pool) retire() {
	p.retired.Store(true)
	p.left()
}

// lateClose is when the connections of a retired pool are closed once more after a request: those of HTTP/2 learn of its
// end a moment late.
const lateClose = time.Second

// left is called when a request has ended.
func (p *pool) left() {
	if p != nil && p.retired.Load() {
		p.CloseIdleConnections()
		time.AfterFunc(lateClose, p.CloseIdleConnections)
	}
}

func (t trust) equal(o trust) bool {
	return t.private == o.private && maps.Equal(t.addresses, o.addresses)
}
