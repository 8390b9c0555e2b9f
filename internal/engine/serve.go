package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// stopWait is how long requests may still run when a server is told to stop.
const stopWait = 5 * time.Second

// Serve answers on ln until ctx ends; requests that run then may finish within five seconds. It closes ln.
func (e *Engine) Serve(ctx context.Context, ln net.Listener) error { return serve(ctx, ln, e) }

// Serve answers on ln until ctx ends; requests that run then may finish within five seconds. It closes ln.
func (p *Provider) Serve(ctx context.Context, ln net.Listener) error { return serve(ctx, ln, p) }

func serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := srv.Shutdown(limited); err != nil {
		if err := srv.Close(); err != nil {
			return fmt.Errorf("stop serving: %w", err)
		}
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
