package main

import (
	"context"
	"errors"
	"net"
	"strings"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

type nodeCmd struct {
	configFlag
	logging
}

// Help is the long help of the command.
func (nodeCmd) Help() string {
	return `It owns the engines under nodes in the configuration: it starts and stops them, queues who waits for them, and lets
gateways send requests to them. A gateway reaches it by a node with url and token. SIGTERM and SIGINT end it in order:
requests in flight are finished, new ones are sent elsewhere; a second signal does not wait for them. SIGHUP, or
a change of the configuration file, makes the configuration be read anew, as hearth serve does.`
}

// Run serves until a signal comes.
func (c *nodeCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	log := c.logger(std.err)
	return service{log: log, file: c.Config, read: c.load, warn: concernsNode, open: func(ctx context.Context, cfg *config.Config) (answering, net.Listener, error) {
		n, err := app.OpenNode(ctx, cfg, app.Options{Log: log, Version: version(), LockDir: lockDir()})
		if err != nil {
			return nil, nil, err
		}
		ln, err := n.Listen()
		if err != nil {
			return nil, nil, errors.Join(err, n.Close(ctx))
		}
		log.Info("serving gateways", "address", ln.Addr().String(), "tls", cfg.NodeServer.TLSCert != "", "slots", n.Slots())
		return n, ln, nil
	}}.run(ctx, cfg)
}

// concernsNode says whether a warning about a key is one for who owns slots: what callers see, and what they pay, is for
// gateways to say.
func concernsNode(path string) bool {
	if strings.HasSuffix(path, ".price") || strings.HasSuffix(path, ".context") {
		return false
	}
	return strings.HasPrefix(path, "node")
}
