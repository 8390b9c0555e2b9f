package driver

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"myip.co.kr/hearth"
)

const (
	defaultProbe  = "/health"
	fallbackProbe = "/v1/models" // for engines that have no health route
	probeBody     = 64 << 10     // bytes of an answer that are read so that the connection can be used again
)

// prober asks one engine over HTTP whether it is ready.
type prober struct {
	client    *http.Client
	transport *http.Transport
}

// newProber makes a client of its own: no proxy, because an engine stands in the house, and no redirects, because
// an engine that answers with one is not the engine.
func newProber() *prober {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
	}
	return &prober{transport: t, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask reports whether the engine at base says that it is ready: 200 at path, or at the list of models if there is
// nothing at path. An answer that can never become a yes is an error of type *refusedError; errors of the
// network are returned as they are.
func (p *prober) ask(ctx context.Context, base, path string, key hearth.Secret) (bool, error) {
	if path == "" {
		path = defaultProbe
	}
	status, err := p.get(ctx, base+path, key)
	if err == nil && status == http.StatusNotFound && path != fallbackProbe {
		status, err = p.get(ctx, base+fallbackProbe, key)
	}
	if err != nil {
		return false, err
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return false, &refusedError{status}
	}
	return status == http.StatusOK, nil
}

func (p *prober) get(ctx context.Context, url string, key hearth.Secret) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("make the probe: %w", err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	res, err := p.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("probe the engine: %w", err)
	}
	defer res.Body.Close()
	// What the body says does not matter, nor does an error in it: the status has answered.
	_, _ = io.CopyN(io.Discard, res.Body, probeBody)
	return res.StatusCode, nil
}

// guarded says whether the engine at base refuses a request with a wrong API key, so that its taking the right one means
// something.
func (p *prober) guarded(ctx context.Context, base string) bool {
	status, err := p.get(ctx, base+fallbackProbe, hearth.Secret(rand.Text()))
	return err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden)
}

func (p *prober) close() { p.transport.CloseIdleConnections() }

// refusedError is an engine's answer that its API key is not ours.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the engine refuses the probe with status %d", e.status)
}
