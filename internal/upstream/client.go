// Package upstream makes one attempt at one endpoint: it sends the request, judges what comes back, holds everything
// until the commit point, and then passes the answer on.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

// Sizes that bound what a provider can make us hold.
const (
	maxErrorBody  = 64 << 10
	maxAnswerBody = 64 << 20
	maxHeaders    = 256 << 10
	maxHeld       = 4 << 20 // rewritten events held before the commit point
)

// Client sends attempts to the endpoints of one catalog. It is safe for concurrent use.
type Client struct {
	agent   string
	targets []target // by endpoint index; empty for local endpoints
	clients map[*hearth.Provider]*http.Transport
	local   *http.Transport
}

// target is where an external endpoint's requests go. It is shared by all attempts and never written to.
type target struct {
	url    *url.URL
	header http.Header
	rt     *http.Transport
}

// New makes a client for the catalog. agent is sent as User-Agent.
func New(c *hearth.Catalog, agent string) (*Client, error) {
	cl := &Client{agent: agent, targets: make([]target, len(c.Endpoints)), clients: make(map[*hearth.Provider]*http.Transport)}
	cl.local = localTransport(trustedHosts(c))
	for _, e := range c.Endpoints {
		if e.Local() {
			continue
		}
		u, err := url.Parse(e.Provider.BaseURL + "/chat/completions")
		if err != nil {
			return nil, fmt.Errorf("read base_url of provider %q: %w", e.Provider.Slug, err)
		}
		if cl.clients[e.Provider] == nil {
			cl.clients[e.Provider] = externalTransport(e.Provider.Limits.Connect)
		}
		h := baseHeader(agent, e.Provider.APIKey)
		for k, v := range e.Provider.Headers {
			h.Set(k, v.Reveal())
		}
		cl.targets[e.Index] = target{url: u, header: h, rt: cl.clients[e.Provider]}
	}
	return cl, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	c.local.CloseIdleConnections()
	for _, t := range c.clients {
		t.CloseIdleConnections()
	}
}

// targetOf finds where the call goes: a configured provider, or the engine behind a lease.
func (c *Client) targetOf(call *Call) (target, error) {
	if !call.Endpoint.Local() {
		return c.targets[call.Endpoint.Index], nil
	}
	u, err := url.Parse(strings.TrimSuffix(call.EngineURL, "/") + "/v1/chat/completions")
	if err != nil {
		return target{}, fmt.Errorf("read the engine's address: %w", err)
	}
	return target{url: u, header: baseHeader(c.agent, call.EngineKey), rt: c.local}, nil
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

func externalTransport(connect time.Duration) *http.Transport {
	d := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    4096,
		IdleConnTimeout:        60 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaders,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
}

// localTransport reaches engines on this machine (and hosts that the operator trusts): it ignores proxy variables and
// refuses every other address at the moment of dialling, so a prompt cannot leave the house through it.
func localTransport(trusted map[string]bool) *http.Transport {
	d := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("read address to dial: %w", err)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() && !trusted[ip.String()] {
			return errNotLocal
		}
		return nil
	}}
	t := externalTransport(5 * time.Second)
	t.Proxy = nil
	t.DialContext = d.DialContext
	t.ForceAttemptHTTP2 = false
	return t
}

var errNotLocal = errors.New("refused to send a local request to an address outside this machine")

// trustedHosts are the addresses of engines that the operator declared with a URL of another machine.
func trustedHosts(c *hearth.Catalog) map[string]bool {
	trusted := make(map[string]bool)
	for _, s := range c.Slots {
		u, err := url.Parse(s.URL)
		if err != nil || s.URL == "" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil {
			trusted[ip.String()] = true
		}
	}
	return trusted
}

// watchdog ends an attempt when its present limit passes. One timer serves all limits of an attempt.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	cause  error // what the running timer stands for; set only while the timer is stopped
	ends   time.Time
	armed  time.Time
}

func watch(parent context.Context, total time.Duration) *watchdog {
	w := &watchdog{}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	if total > 0 {
		w.ends = time.Now().Add(total)
	}
	return w
}

// arm starts the limit d, for which cause stands. A limit of 0 leaves only the total.
func (w *watchdog) arm(d time.Duration, cause error) {
	now := time.Now()
	if !w.ends.IsZero() {
		if left := w.ends.Sub(now); d <= 0 || left < d {
			d, cause = max(left, time.Nanosecond), errTotal
		}
	}
	w.stop()
	w.armed = now
	if d > 0 {
		w.timer = time.AfterFunc(d, func() { w.cancel(cause) })
	}
}

// progress arms the idle limit again, but not more often than an eighth of it: a timer per chunk would cost more than
// the chunk.
func (w *watchdog) progress(idle time.Duration) {
	if idle > 0 && time.Since(w.armed) > min(idle/8, time.Second) {
		w.arm(idle, errIdle)
	}
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// close ends the attempt and frees everything it holds.
func (w *watchdog) close() {
	w.stop()
	w.cancel(context.Canceled)
}
