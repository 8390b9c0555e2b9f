package driver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"myip.co.kr/hearth"
)

const (
	defaultProbe  = "/health"
	fallbackProbe = "/v1/models" // for engines that have no health route
	// maxAnswer bounds what is read of one answer, in bytes: a list of some thousand models, or /props with a long chat
	// template.
	maxAnswer   = 1 << 20
	dialTimeout = 2 * time.Second
)

// errTooLong is the error of an answer that is longer than maxAnswer.
var errTooLong = errors.New("the answer is longer than 1 MiB")

// dialer makes the connections to one engine.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// prober asks one engine over HTTP whether it is ready, and what it is.
type prober struct {
	client    *http.Client
	transport *http.Transport
	closed    atomic.Bool
}

// newProber makes a client of its own: no proxy, because an engine stands in the house, and no redirects, because
// an engine that answers with one is not the engine. It dials with dial; nil = as usual.
func newProber(dial dialer) *prober {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	t := &http.Transport{
		DialContext:            dial,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true, // what is read is bounded as it comes
	}
	return &prober{transport: t, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// status is the status with which the engine at base answers the question whether it is ready: at path, or at the list
// of models if there is nothing at path. The error is of the network or a *refusedError.
func (p *prober) status(ctx context.Context, base, path string, key hearth.Secret) (int, error) {
	if path == "" {
		path = defaultProbe
	}
	status, _, err := p.get(ctx, base+path, key)
	if status == http.StatusNotFound && path != fallbackProbe {
		status, _, err = p.get(ctx, base+fallbackProbe, key)
	}
	if errors.Is(err, errTooLong) {
		err = nil // the status has answered
	}
	return status, err
}

// get asks for a page. The error is of the network, errTooLong or a *refusedError.
func (p *prober) get(ctx context.Context, url string, key hearth.Secret) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("make the probe: %w", err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	return p.do(req)
}

// do sends a request and reads the answer.
func (p *prober) do(req *http.Request) (status int, body []byte, err error) {
	if p.closed.Load() {
		return 0, nil, fmt.Errorf("ask the engine: %w", net.ErrClosed)
	}
	defer func() {
		if p.closed.Load() {
			p.transport.CloseIdleConnections() // it was closed while this request was under way
		}
	}()
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the engine: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		return res.StatusCode, nil, &refusedError{res.StatusCode}
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return res.StatusCode, nil, fmt.Errorf("read the answer of the engine: %w", err)
	}
	if len(body) > maxAnswer {
		return res.StatusCode, nil, errTooLong
	}
	return res.StatusCode, body, nil
}

// guarded says whether the engine at base refuses a request with a wrong API key, so that its taking the right one means
// something.
func (p *prober) guarded(ctx context.Context, base string) bool {
	_, _, err := p.get(ctx, base+fallbackProbe, hearth.Secret(rand.Text()))
	var refused *refusedError
	return errors.As(err, &refused)
}

// close ends the connections; requests that are under way end theirs.
func (p *prober) close() {
	p.closed.Store(true)
	p.transport.CloseIdleConnections()
}

// unreachable says whether err is that nobody listens there.
func unreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// late says whether err is that an answer took too long: whoever did not get one knows nothing.
func late(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// refusedError is an engine's answer that its API key is not ours.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the engine refuses the probe with status %d", e.status)
}
