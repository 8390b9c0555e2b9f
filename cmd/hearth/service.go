package main

import (
	"context"
	"log/slog"
	"net"

	"myip.co.kr/hearth/internal/config"
)

// service is a command that answers on a listener until a signal comes, and follows its configuration meanwhile.
type service struct {
	log  *slog.Logger
	file string // of the configuration
	read func() (*config.Config, error)
	warn func(path string) bool // whether a warning about this key is for this command
	// open makes what answers; it logs on which address.
	open func(ctx context.Context, cfg *config.Config) (answering, net.Listener, error)
}

// answering is the gateway, or the node.
type answering interface {
	Files() []string
	ReloadFrom(read func() (*config.Config, error)) error
	Serve(ctx context.Context, ln net.Listener, hurry <-chan struct{}) error
}

// run serves until a signal comes. The configuration has been read once before, since its mistakes are for the terminal.
func (s service) run(ctx context.Context, cfg *config.Config) error {
	for _, w := range cfg.Warnings() {
		if s.warn(w.Path) {
			s.log.Warn("configuration: " + w.String())
		}
	}
	calmGC()
	quietStdlib()
	above := supervised(s.log.Warn)
	ctx, hurry, stop := untilSignal(ctx)
	defer stop()
	hup, lost, deaf := hangups()
	defer deaf()
	a, ln, err := s.open(ctx, cfg)
	if err != nil {
		return interrupted(ctx, err)
	}
	f := follower{
		files: func() []string { return append(a.Files(), s.file) },
		reload: func() {
			above.reloading()
			above.ready(statusAfter(a.ReloadFrom(s.read)))
		},
		lost: lost,
	}
	above.ready(statusAfter(nil))
	return f.during(ctx, hup, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, above.stopping)()
		return a.Serve(ctx, ln, hurry)
	})
}

// statusAfter is what the operator should know after the configuration was read; the log says what is wrong with it.
func statusAfter(err error) string {
	if err != nil {
		return "serving; the configuration was refused, the one before holds"
	}
	return "serving"
}
