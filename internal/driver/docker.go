package driver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

const (
	defaultDocker = "unix:///var/run/docker.sock"
	dockerLogs    = 2 * time.Second // for the last lines of a container
	// stopSlack is how much longer than its grace the daemon may take to stop a container.
	stopSlack = 30 * time.Second
)

// container is an engine in a container that exists: it is started and stopped over Docker's Engine API, which Podman
// speaks too.
type container struct {
	name  string
	base  string // of the Engine API
	probe *prober
}

// docker makes the orders of a slot with driver docker.
func (d *Drivers) docker(s *hearth.Slot) (orders, error) {
	address := s.Docker
	if address == "" {
		address = defaultDocker
	}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
		}
		return &container{s.Container, "http://docker", newProber(dial)}, nil
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the address of Docker is neither unix:///path nor http(s)://host:port")
	}
	return &container{s.Container, trimURL(address), newProber(nil)}, nil
}

// inspected is what the daemon says of a container.
type inspected struct {
	State struct {
		Status    text `json:"Status"` // created, running, paused, restarting, removing, exited or dead
		Running   flag `json:"Running"`
		OOMKilled flag `json:"OOMKilled"`
		ExitCode  int  `json:"ExitCode"`
		Error     text `json:"Error"`
		Health    struct {
			Status text `json:"Status"`
		} `json:"Health"`
	} `json:"State"`
	Config struct {
		TTY flag `json:"Tty"`
	} `json:"Config"`
}

// errNoContainer is the error for a container that is gone.
var errNoContainer = errors.New("docker has no such container")

// call asks the daemon about the container.
func (c *container) call(ctx context.Context, method, path string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/containers/"+url.PathEscape(c.name)+path, nil)
	if err != nil {
		return reply{}, errors.New("the address of Docker is none")
	}
	status, body, err := c.probe.do(req)
	var refused *refusedError
	if errors.As(err, &refused) || errors.Is(err, errTooLong) {
		err = nil
	}
	if unreachable(err) {
		return reply{}, fmt.Errorf("docker does not answer: %w", err)
	}
	if status == http.StatusNotFound {
		return reply{}, fmt.Errorf("%w: %q", errNoContainer, c.name)
	}
	return reply{status, body}, err
}

func (c *container) start(ctx context.Context) error {
	r, err := c.call(ctx, http.MethodPost, "/start")
	if err == nil && r.status != http.StatusNoContent && r.status != http.StatusNotModified {
		err = r.fault("starting the container " + strconv.Quote(c.name))
	}
	return err
}

// stop has the daemon send SIGTERM, and SIGKILL after grace. In a hurry the container is killed at once.
func (c *container) stop(ctx context.Context, grace time.Duration, hurry <-chan struct{}) error {
	polite, cancel := context.WithTimeout(ctx, grace+stopSlack)
	defer cancel()
	go func() {
		select {
		case <-hurry:
			cancel()
		case <-polite.Done():
		}
	}()
	seconds := int((grace + time.Second - 1) / time.Second)
	r, err := c.call(polite, http.MethodPost, "/stop?t="+strconv.Itoa(seconds))
	switch {
	case errors.Is(err, errNoContainer):
		return nil
	case err != nil && polite.Err() == nil:
		return err
	case err == nil && r.status != http.StatusNoContent && r.status != http.StatusNotModified:
		return r.fault("stopping the container " + strconv.Quote(c.name))
	case err != nil: // it takes too long, or must not take longer
		if r, err = c.call(ctx, http.MethodPost, "/kill"); err == nil && !r.ok() && r.status != http.StatusConflict { // it does not run
			err = r.fault("killing the container " + strconv.Quote(c.name))
		}
		if err != nil && !errors.Is(err, errNoContainer) {
			return err
		}
	}
	return until(ctx, func() (bool, error) {
		state, err := c.status(ctx)
		var exit *slot.ExitError
		if errors.As(err, &exit) || errors.Is(err, errNoContainer) {
			err = nil
		}
		return state == runsNot, err
	})
}

func (c *container) inspect(ctx context.Context) (i inspected, err error) {
	r, err := c.call(ctx, http.MethodGet, "/json")
	if err != nil {
		return i, err
	}
	if !r.ok() || decode(r.body, &i) != nil {
		return i, r.fault("inspecting the container " + strconv.Quote(c.name))
	}
	return i, nil
}

// status says whether the container runs, and if it has ended, how.
func (c *container) status(ctx context.Context) (alive, error) {
	i, err := c.inspect(ctx)
	switch {
	case errors.Is(err, errNoContainer):
		return runsNot, err
	case err != nil:
		return unsure, err
	}
	switch i.State.Status {
	case "running", "paused", "removing":
		if i.State.Health.Status == "unhealthy" {
			err = errors.New("docker says that the container is unhealthy")
		}
		return runs, err
	case "exited", "dead", "restarting":
		return runsNot, i.exit()
	}
	return runsNot, nil // it was never started
}

// exit is how a container ended.
func (i inspected) exit() error {
	err := error(&slot.ExitError{Code: i.State.ExitCode})
	switch {
	case bool(i.State.OOMKilled):
		return fmt.Errorf("%w: the container ran out of memory", err)
	case i.State.Error != "":
		return fmt.Errorf("%w: %s", err, clean(string(i.State.Error), 300))
	}
	return err
}

// watch has the daemon tell when the container ends. What it does not tell, the next probe will see.
func (c *container) watch(ctx context.Context) error {
	r, err := c.call(ctx, http.MethodPost, "/wait?condition=not-running")
	gone := errors.Is(err, errNoContainer)
	if !gone && (err != nil || !r.ok()) || ctx.Err() != nil {
		return nil //nolint:nilerr // it cannot tell
	}
	var i inspected
	if !gone {
		i, err = c.inspect(ctx)
		gone = errors.Is(err, errNoContainer)
	}
	var said struct {
		Code int `json:"StatusCode"`
	}
	switch {
	case gone:
		return err
	case err == nil && i.State.Status != "running":
		return i.exit()
	case decode(r.body, &said) == nil:
		return &slot.ExitError{Code: said.Code} // it has been started again by somebody else
	}
	return nil
}

// logTail asks for the last lines of the container.
func (c *container) logTail() []string {
	ctx, cancel := context.WithTimeout(context.Background(), dockerLogs)
	defer cancel()
	i, err := c.inspect(ctx)
	if err != nil {
		return nil
	}
	r, err := c.call(ctx, http.MethodGet, "/logs?stdout=1&stderr=1&tail="+strconv.Itoa(logLines))
	if err != nil || !r.ok() {
		return nil
	}
	var t tail
	if bool(i.Config.TTY) {
		_, _ = t.Write(r.body) // it never fails
	} else {
		frames(&t, r.body)
	}
	return t.last()
}

// frames takes a log apart that is a sequence of frames: one byte for the stream, three zeros, and the length in four
// bytes, most significant first.
func frames(w io.Writer, b []byte) {
	const head = 8
	for len(b) >= head {
		n := min(uint64(binary.BigEndian.Uint32(b[4:head])), uint64(len(b)-head))
		_, _ = w.Write(b[head : head+n]) // a tail never fails
		b = b[head+n:]
	}
}

func (c *container) close() { c.probe.close() }
