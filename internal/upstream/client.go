// Package upstream makes one attempt at one endpoint: it sends the request, judges what comes back, holds everything
// until the commit point, and then passes the answer on.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

// Sizes that bound what a provider can make us hold.
const (
	maxErrorBody  = 64 << 10
	maxAnswerBody = 64 << 20 // of a whole answer
	maxHeaders    = 256 << 10
	maxHeld       = 4 << 20 // rewritten events held before the commit point
)

// Options are the settings of a Client.
type Options struct {
	Agent     string        // sent as User-Agent
	KeepAlive time.Duration // silence after which a stream's caller gets a comment, 0 = 10 s
	// StreamBuffer is how many bytes of a stream are read ahead of a slow caller, so that the engine can go on; 0 = 1 MiB.
	// It holds for engines only: other upstreams go at their callers' pace.
	StreamBuffer int
	// AnswerTotal is how many bytes of whole answers, and of what is read ahead, are in memory together; 0 = no bound.
	AnswerTotal int64
	// Dial and LocalDial make the connections to providers and to engines, nil = the net package. Who sets LocalDial
	// answers for where it leads: nothing is checked behind it.
	Dial, LocalDial Dialer
}

// Dialer connects to an address, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Client sends attempts to the endpoints of one catalog. It is safe for concurrent use.
type Client struct {
	opt        Options
	start      time.Time                // what the times in plain count from
	plain      []*atomic.Int64          // by endpoint index: until when it is sent no stream_options
	answers    budget                   // of whole answers in memory
	settlement *settlement              // of the streams that callers have left
	largest    int                      // bytes of one of them
	event      int                      // bytes of one event of a stream, 0 = the reader's own bound
	dry        int                      // bytes of a stream without content
	targets    []target                 // by endpoint index; empty for local endpoints
	engines    []atomic.Pointer[engine] // by endpoint index; the engine that a local endpoint last had
	clients    map[*hearth.Provider]*pool
	trust      trust // whom the connections to engines may reach
}

// target is where an endpoint's requests go. It is shared by all attempts and never written to.
type target struct {
	url     *url.URL
	header  http.Header
	rt      http.RoundTripper
	pool    *pool      // what rt is; nil in tests without one
	head    letterhead // of what is sent over the pool's lines
	secrets []string   // what must not be told to a caller, whatever the upstream's text says
}

// engine is the target behind a lease, kept because consecutive leases are of the same engine. Its connections are its own,
// and end with it: nothing is ever sent to what may come after it.
type engine struct {
	base string
	key  hearth.Secret
	target
}

// New makes a client for the catalog.
func New(c *hearth.Catalog, o Options) (*Client, error) {
	cl := &Client{answers: budget{held: new(atomic.Int64)}, settlement: newSettlement(), start: time.Now(), largest: maxAnswerBody, dry: maxDry}
	return cl.fill(c, o, nil, nil)
}

// fill makes the rest of a client. Endpoint i is endpoint from[i] of the client before, -1 = of none.
func (c *Client) fill(cat *hearth.Catalog, o Options, before *Client, from []int) (*Client, error) {
	if o.KeepAlive <= 0 {
		o.KeepAlive = 10 * time.Second
	}
	if o.StreamBuffer <= 0 {
		o.StreamBuffer = streamBuffer
	}
	c.opt, c.answers.limit, c.trust = o, o.AnswerTotal, trusted(cat)
	c.targets, c.engines = make([]target, len(cat.Endpoints)), make([]atomic.Pointer[engine], len(cat.Endpoints))
	c.plain, c.clients = make([]*atomic.Int64, len(cat.Endpoints)), make(map[*hearth.Provider]*pool)
	if before != nil {
		c.inherit(before, cat, from)
	}
	for i, e := range cat.Endpoints {
		if c.plain[i] == nil {
			c.plain[i] = new(atomic.Int64)
		}
		if e.Local() {
			continue
		}
		u, err := url.Parse(e.Provider.BaseURL + "/chat/completions")
		if err != nil {
			return nil, fmt.Errorf("read base_url of provider %q: %w", e.Provider.Slug, err)
		}
		if c.clients[e.Provider] == nil {
			c.clients[e.Provider] = newPool(u, externalTransport(e.Provider.Limits.Connect, o.Dial), o.Dial)
		}
		t := target{url: u, header: baseHeader(o.Agent, e.Provider.APIKey), rt: c.clients[e.Provider], pool: c.clients[e.Provider]}
		t.secrets = appendSecret(t.secrets, e.Provider.APIKey)
		for k, v := range e.Provider.Headers {
			t.header.Set(k, v.Reveal())
			t.secrets = appendSecret(t.secrets, v)
		}
		t.head = headOf(u, t.header)
		c.targets[i] = t
	}
	return c, nil
}

// appendSecret adds what is long enough to be a secret: a short header value such as "1" stands in every text.
func appendSecret(to []string, s hearth.Secret) []string {
	if len(s) < leastSecret {
		return to
	}
	return append(to, s.Reveal())
}

// plainFor is how long it is remembered that an endpoint refuses stream_options. Not for ever: it may have been one
// caller's own odd options, and without them nobody learns what a stream has used.
const plainFor = time.Hour

// PlainOnly says whether the endpoint has lately refused stream_options: what is sent to it should go without.
func (c *Client) PlainOnly(endpoint int) bool {
	until := c.plain[endpoint].Load()
	return until != 0 && time.Since(c.start) < time.Duration(until)
}

func (c *Client) plainFromNowOn(endpoint int) {
	c.plain[endpoint].Store(int64(time.Since(c.start) + plainFor))
}

// Close drops idle connections.
func (c *Client) Close() {
	for p := range c.pools {
		p.CloseIdleConnections()
	}
}

// targetOf finds where the call goes: a configured provider, or the engine behind a lease.
func (c *Client) targetOf(call *Call) (*target, error) {
	i := call.Endpoint.Index
	if !call.Endpoint.Local() {
		return &c.targets[i], nil
	}
	if e := c.engines[i].Load(); e != nil && e.base == call.EngineURL && e.key == call.EngineKey && !e.pool.retired.Load() {
		return e.via(call.Transport), nil
	}
	u, err := url.Parse(strings.TrimSuffix(call.EngineURL, "/") + "/v1/chat/completions")
	if err != nil {
		return nil, fmt.Errorf("read the engine's address: %w", err)
	}
	e := &engine{base: call.EngineURL, key: call.EngineKey}
	p := newPool(u, localTransport(c.trust, c.opt.LocalDial), c.opt.LocalDial)
	e.target = target{url: u, header: baseHeader(c.opt.Agent, call.EngineKey), rt: p, pool: p, secrets: appendSecret(nil, call.EngineKey)}
	e.head = headOf(u, e.header)
	if before := c.engines[i].Swap(e); before != nil {
		before.pool.retire()
	}
	if call.Lease != nil {
		call.Lease.OnGone(p.retire)
	}
	return e.via(call.Transport), nil
}

// baseHeader is the allow-list of what goes upstream: nothing of the caller's headers does.
func baseHeader(agent string, key hearth.Secret) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream, application/json"},
		"User-Agent":   {agent},
		// Present but empty: not sent, and tells net/http that the request may be sent again when a kept-alive
		// connection turns out to have been closed before any byte of an answer.
		"X-Idempotency-Key": nil,
	}
	if key != "" {
		h["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return h
}

func externalTransport(connect time.Duration, dial Dialer) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    4096,
		IdleConnTimeout:        60 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaders,
		HTTP2: &http.HTTP2Config{
			// One connection carries many requests: one that has silently died must be found out before it fails them all.
			SendPingTimeout: 15 * time.Second,
			PingTimeout:     5 * time.Second,
			// What is read ahead of a slow caller, where 4 MiB is the default.
			MaxReceiveBufferPerStream: 512 << 10,
		},
	}
}

// localTransport reaches engines on this machine (and hosts that the operator trusts): it ignores proxy variables.
func localTransport(lan trust, dial Dialer) *http.Transport {
	if dial == nil {
		dial = localDialer(lan).DialContext
	}
	t := externalTransport(5*time.Second, dial)
	t.Proxy = nil
	t.ForceAttemptHTTP2 = false
	return t
}

// localDialer refuses every other address at the moment of dialling, when names have been resolved, so a prompt cannot
// leave the house through it.
func localDialer(lan trust) *net.Dialer {
	return &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("read address to dial: %w", err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() && !lan.allows(ip) {
			return errNotLocal
		}
		return nil
	}}
}

var errNotLocal = errors.New("refused to send a local request to an address outside this machine")

// trust is what the operator declared of engines on other machines: by address, or by a name, which may then resolve to
// any address of an own network but to no public one.
type trust struct {
	addresses map[string]bool
	private   bool
}

func (t trust) allows(ip net.IP) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return t.addresses[ip.String()] || t.private && ok && hearth.OwnNetwork(addr)
}

func trusted(c *hearth.Catalog) trust {
	t := trust{addresses: make(map[string]bool)}
	for _, s := range c.Slots {
		u, err := url.Parse(s.URL)
		if err != nil || u.Hostname() == "" || u.Hostname() == "localhost" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil {
			t.addresses[ip.String()] = true
		} else {
			t.private = true
		}
	}
	return t
}
