package driver

import (
	"context"
	"errors"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// alwaysDriver serves slots whose engine somebody else runs.
type alwaysDriver struct{ dial dialer }

func (d alwaysDriver) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &elsewhere{url: trimURL(s.URL), key: s.APIKey, look: newObserver(s, d.dial), exited: make(chan struct{})}, nil
}

// elsewhere is an engine that is only looked at.
type elsewhere struct {
	url    string
	key    hearth.Secret
	look   *observer
	exited chan struct{} // never closed: only a probe can tell
}

func (e *elsewhere) URL() string             { return e.url }
func (e *elsewhere) APIKey() hearth.Secret   { return e.key }
func (e *elsewhere) Died() <-chan struct{}   { return nil }
func (e *elsewhere) Exited() <-chan struct{} { return e.exited }
func (e *elsewhere) ExitError() error        { return nil }
func (e *elsewhere) LogTail() []string       { return nil }

// Probe fails when nobody listens, or when the engine has another model: nothing here can change that, so that waiting
// is pointless.
func (e *elsewhere) Probe(ctx context.Context) (slot.Report, error) {
	report, err := e.look.look(ctx, e.url, e.key)
	if noAnswer(ctx, err) || late(err) && e.look.wasReady() {
		return slot.Report{Why: "it does not answer"}, nil // it may be better next time
	}
	return report, err
}

// noAnswer says whether err is of the network and tells nothing of the engine: no answer in time, or a broken one.
func noAnswer(ctx context.Context, err error) bool {
	var refused *refusedError
	var said *saidError
	return err != nil && !errors.As(err, &refused) && !errors.As(err, &said) && (!unreachable(err) || ctx.Err() != nil)
}

// Leave leaves the engine alone.
func (e *elsewhere) Leave() error {
	e.look.close()
	return nil
}

// Stop leaves the engine alone.
func (e *elsewhere) Stop(context.Context, time.Duration) error {
	e.look.close()
	return nil
}
