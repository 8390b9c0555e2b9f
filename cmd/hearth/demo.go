package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/engine"
)

type demoCmd struct {
	logging
	Listen string `default:"127.0.0.1:8800" placeholder:"ADDR" help:"Address to listen on (default: ${default})."`
}

// Help is the long help of the command.
func (demoCmd) Help() string {
	return `Runs the gateway, two local slots on one exclusive node (real child processes that simulate an engine) and two
simulated external providers whose faults, latency and speed can be switched while it runs. Everything talks over real
sockets. Nothing outside a temporary directory is written, and that is removed at the end. A key in MYIP_API_KEY is
accepted as it is; without one a key is made and printed.`
}

//go:embed demo.yaml.tmpl
var demoConfig string

//go:embed demo.txt.tmpl
var demoText string

// demo is what the templates see.
type demo struct {
	Base, DataDir, Acme, Beta, Key string
	GivenKey                       bool
	program                        string
}

// Engine is the command line of one simulated engine, as a YAML list.
func (d *demo) Engine(model, load string) (string, error) {
	b, err := json.Marshal([]string{
		d.program, "engine", "--port", "${port}", "--model", model, "--context", "32768", "--load", load,
		"--tokens-per-second", "40", "--parallel", "2", "--parent-pid", strconv.Itoa(os.Getpid()),
	})
	return string(b), err
}

// Run runs the demo until a signal comes.
func (c *demoCmd) Run(ctx context.Context, std streams) (err error) {
	calmGC()
	quietStdlib()
	ctx, hurry, stop := untilSignal(ctx, syscall.SIGHUP)
	defer stop()
	ctx, cancel := withParent(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "hearth-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{DataDir: filepath.Join(dir, "data"), Key: os.Getenv("MYIP_API_KEY")}
	if d.program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ln, err := listen(c.Listen, "--listen")
	if err != nil {
		return err
	}
	providers, wait, err := d.startProviders()
	defer wait()
	defer providers()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	cfg, err := d.config(filepath.Join(dir, "demo.yaml"))
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	d.GivenKey = d.Key != ""
	a, err := app.Open(ctx, cfg, app.Options{
		Log: c.logger(std.err), Version: version(), AdoptKey: d.Key,
		FirstKeys: func(_, user string) error {
			if !d.GivenKey {
				d.Key = user
			}
			return nil
		},
	})
	if err != nil {
		return interrupted(ctx, errors.Join(err, ln.Close()))
	}
	d.Base = "http://" + reachable(ln.Addr()) + "/api/v1"
	if err := d.print(std); err != nil {
		return errors.Join(err, ln.Close(), a.Close(context.WithoutCancel(ctx)))
	}
	return a.Serve(ctx, ln, hurry)
}

// startProviders starts the two external providers on free ports.
func (d *demo) startProviders() (stop, wait func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, p := range []struct {
		url  *string
		conf engine.ProviderConfig
	}{
		{&d.Acme, engine.ProviderConfig{Name: "Acme AI", APIKey: "demo-acme", Latency: 200 * time.Millisecond, TokensPerSecond: 80,
			PromptPrice: decimal.RequireFromString("0.20"), CompletionPrice: decimal.RequireFromString("0.60")}},
		{&d.Beta, engine.ProviderConfig{Name: "Beta Cloud", APIKey: "demo-beta", Latency: 350 * time.Millisecond, TokensPerSecond: 60,
			PromptPrice: decimal.RequireFromString("0.25"), CompletionPrice: decimal.RequireFromString("0.80")}},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return cancel, wg.Wait, fmt.Errorf("start provider %s: %w", p.conf.Name, err)
		}
		*p.url = "http://" + ln.Addr().String()
		wg.Go(func() { _ = engine.NewProvider(p.conf).Serve(ctx, ln) }) // ends with ctx
	}
	return cancel, wg.Wait, nil
}

// config reads the demo's configuration as serve would read a user's.
func (d *demo) config(path string) (*config.Config, error) {
	text, err := d.fill(demoConfig)
	if err != nil {
		return nil, err
	}
	return config.Parse(path, text, nil, nil)
}

func (d *demo) fill(text string) ([]byte, error) {
	t, err := template.New("demo").Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (d *demo) print(std streams) error {
	text, err := d.fill(demoText)
	if err != nil {
		return err
	}
	_, err = std.out.Write(text)
	return err
}

// reachable is an address that curl on this machine can use.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// withParent ends the context when "go run", which passes no SIGTERM on to what it runs, has been ended itself: the demo
// must not outlive the command that the user typed.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	program, err := os.Executable()
	if err != nil || !strings.Contains(program, string(filepath.Separator)+"go-build") {
		return ctx, cancel
	}
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}
