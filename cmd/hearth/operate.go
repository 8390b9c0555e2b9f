package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// gatewayFlags say which running gateway is meant: the one of the configuration on this machine, or another.
type gatewayFlags struct {
	configFlag
	URL string `name:"url" placeholder:"URL" help:"Gateway to speak to, e.g. http://gpu.lan:8800/api/v1, instead of the one that runs here with the configuration."`
	Key string `name:"key" env:"MYIP_API_KEY" placeholder:"KEY" help:"Admin key for --url. On the command line other users can read it: the variable is better."`
}

// dial speaks to the gateway: here by its admin socket, where no key is needed.
func (g gatewayFlags) dial(ctx context.Context, std streams) (*app.Client, error) {
	if g.URL != "" {
		u, err := url.Parse(g.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("--url must be the base URL of a gateway, such as http://127.0.0.1:8800/api/v1")
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/api/v1"
		}
		return app.ClientAt(u.String(), g.Key), nil
	}
	cfg, err := g.loadQuietly()
	if err != nil {
		return g.dialBefore(ctx, std, err)
	}
	c, err := app.DialAdmin(ctx, cfg.DataDir)
	if errors.Is(err, app.ErrNotRunning) {
		return nil, fmt.Errorf("%w; start it with hearth serve, or name another with --url", err)
	}
	return c, err
}

// dialBefore speaks to the gateway that goes on with the configuration as it was before somebody made a mistake in it: a
// GPU can be taken back all the same. Without such a gateway the error is the mistake.
func (g gatewayFlags) dialBefore(ctx context.Context, std streams, mistake error) (*app.Client, error) {
	dir, ok := config.DataDir(g.Config, nil)
	if !ok {
		return nil, mistake
	}
	c, err := app.DialAdmin(ctx, dir)
	if err != nil {
		return nil, mistake
	}
	_, err = fmt.Fprintf(std.err, "warning: %s cannot be used as it is (see hearth check); this is the gateway that runs with data_dir %s\n", g.Config, dir)
	return c, err
}

// order sends an order about a slot or a node and prints what each slot that it is about does then.
func (g gatewayFlags) order(ctx context.Context, std streams, path string, body []byte) error {
	c, err := g.dial(ctx, std)
	if err != nil {
		return err
	}
	defer c.Close()
	b, err := c.Do(ctx, "POST", path, body)
	if err != nil {
		return err
	}
	var one struct {
		Data slotRow `json:"data"`
	}
	var many slotList
	if json.Unmarshal(b, &one) == nil {
		many.Data = []slotRow{one.Data}
	} else if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("read the gateway's answer: %w", err)
	}
	for i := range many.Data {
		s := &many.Data[i]
		if _, err := fmt.Fprintf(std.out, "%s on %s is %s\n", safe(s.Slot), safe(s.Node), s.word(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// slotOrder is an order about one slot.
type slotOrder struct {
	gatewayFlags
	Slot string `arg:"" help:"Name of the slot (see hearth slots)."`
}

func (o *slotOrder) give(ctx context.Context, std streams, verb string) error {
	path, err := slotPath(o.Slot)
	if err != nil {
		return err
	}
	return o.order(ctx, std, path+"/"+verb, nil)
}

// slotPath is the path of a slot's routes. A name that would lead to another route is that of no slot.
func slotPath(name string) (string, error) {
	switch name {
	case "", ".", "..", "events":
		return "", fmt.Errorf("there is no slot %q; hearth slots shows those there are", name)
	}
	return "/slots/" + url.PathEscape(name), nil
}

// nodePath is the path of a node's routes.
func nodePath(name string) (string, error) {
	switch name {
	case "", ".", "..":
		return "", fmt.Errorf("there is no node %q; hearth slots shows those there are", name)
	}
	return "/nodes/" + url.PathEscape(name), nil
}

type (
	wakeCmd    struct{ slotOrder }
	sleepCmd   struct{ slotOrder }
	drainCmd   struct{ slotOrder }
	disableCmd struct{ slotOrder }
	enableCmd  struct{ slotOrder }
)

// Help is the long help of the command.
func (wakeCmd) Help() string {
	return `The engine is started as if a request waited for it: on an exclusive node the resident model gives way once its requests
are done. Ends a drain and a back-off after failed starts.

  hearth wake gemma          load it before the morning's first request`
}

// Run wakes a slot.
func (c *wakeCmd) Run(ctx context.Context, std streams) error { return c.give(ctx, std, "wake") }

// Help is the long help of the command.
func (sleepCmd) Help() string {
	return `The engine is stopped once nobody uses it, at the latest after drain_max. The next request wakes it again; to keep
requests out, use drain or disable.

  hearth sleep gemma`
}

// Run sends a slot to sleep.
func (c *sleepCmd) Run(ctx context.Context, std streams) error { return c.give(ctx, std, "sleep") }

// Help is the long help of the command.
func (drainCmd) Help() string {
	return `No further request is let in: requests go to the next candidate of their chain. The engine is stopped once nobody uses
it, at the latest after drain_max. Holds until hearth wake or hearth enable, over a restart too.

  hearth drain gemma         then change its model file, then: hearth wake gemma`
}

// Run drains a slot.
func (c *drainCmd) Run(ctx context.Context, std streams) error { return c.give(ctx, std, "drain") }

// Help is the long help of the command.
func (disableCmd) Help() string {
	return `Like drain, and requests are answered as if the slot were not configured: one that has no other candidate gets 404.
Holds until hearth enable, over a restart too.

  hearth disable gemma`
}

// Run disables a slot.
func (c *disableCmd) Run(ctx context.Context, std streams) error { return c.give(ctx, std, "disable") }

// Help is the long help of the command.
func (enableCmd) Help() string {
	return `Ends hearth disable and hearth drain. Nothing is started: the next request does that.

  hearth enable gemma`
}

// Run enables a slot.
func (c *enableCmd) Run(ctx context.Context, std streams) error { return c.give(ctx, std, "enable") }

type pauseCmd struct {
	gatewayFlags
	Node string         `arg:"" help:"Name of the node (see hearth slots)."`
	For  *time.Duration `name:"for" placeholder:"2h" help:"How long; without it until hearth resume."`
}

// Help is the long help of the command.
func (pauseCmd) Help() string {
	return `The GPU is given back to its owner: what is in flight is finished, engines are stopped, and requests go to their next
candidate meanwhile. Holds over a restart too.

  hearth pause gpu-1 --for 2h
  hearth resume gpu-1        earlier than planned`
}

// Run pauses a node.
func (c *pauseCmd) Run(ctx context.Context, std streams) error {
	var body []byte
	if c.For != nil {
		if *c.For <= 0 {
			return errors.New("--for must be a duration such as 2h or 90m")
		}
		body = []byte(`{"for":"` + c.For.String() + `"}`)
	}
	path, err := nodePath(c.Node)
	if err != nil {
		return err
	}
	return c.order(ctx, std, path+"/pause", body)
}

type resumeCmd struct {
	gatewayFlags
	Node string `arg:"" help:"Name of the node (see hearth slots)."`
}

// Help is the long help of the command.
func (resumeCmd) Help() string {
	return `Ends hearth pause. Nothing is started: the next request does that.

  hearth resume gpu-1`
}

// Run resumes a node.
func (c *resumeCmd) Run(ctx context.Context, std streams) error {
	path, err := nodePath(c.Node)
	if err != nil {
		return err
	}
	return c.order(ctx, std, path+"/resume", nil)
}
