package driver

import (
	"context"
	"errors"
	"net"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// alwaysDriver serves slots whose engine somebody else runs.
type alwaysDriver struct{}

func (alwaysDriver) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &elsewhere{url: trimURL(s.URL), key: s.APIKey, path: s.Probe, probe: newProber(), exited: make(chan struct{})}, nil
}

// elsewhere is an engine that is only looked at.
type elsewhere struct {
	url, path string
	key       hearth.Secret
	probe     *prober
	exited    chan struct{} // never closed: only a probe can tell
}

func (e *elsewhere) URL() string             { return e.url }
func (e *elsewhere) APIKey() hearth.Secret   { return e.key }
func (e *elsewhere) Exited() <-chan struct{} { return e.exited }
func (e *elsewhere) ExitError() error        { return nil }
func (e *elsewhere) LogTail() []string       { return nil }

// Probe fails when nobody listens: nothing here can start the engine, so that waiting for it is pointless.
func (e *elsewhere) Probe(ctx context.Context) (slot.Report, error) {
	ready, err := e.probe.ask(ctx, e.url, e.path, e.APIKey())
	var dial *net.OpError
	var refused *refusedError
	if err == nil || errors.As(err, &refused) || errors.As(err, &dial) && dial.Op == "dial" && ctx.Err() == nil {
		return slot.Report{Ready: ready}, err
	}
	return slot.Report{}, nil // no answer in time, or a broken one: it may be better next time
}

// Leave leaves the engine alone.
func (e *elsewhere) Leave() error {
	e.probe.close()
	return nil
}

// Stop leaves the engine alone.
func (e *elsewhere) Stop(context.Context, time.Duration) error {
	e.probe.close()
	return nil
}
