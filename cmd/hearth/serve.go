package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

// configFlag is the flag of every command that needs the configuration.
type configFlag struct {
	Config string `short:"c" default:"hearth.yaml" env:"HEARTH_CONFIG" placeholder:"FILE" help:"Configuration file (default: ${default})."`
}

func (f configFlag) load() (*config.Config, error) {
	c, err := config.Load(f.Config, os.LookupEnv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration %s: copy hearth.example.yaml to begin with, or name the file that you have", f.Config)
	}
	return c, err
}

// loadQuietly is load for commands that call nobody: they run in a shell where the variables with the providers' keys
// need not be set. Where the data is must be known all the same.
func (f configFlag) loadQuietly() (*config.Config, error) {
	c, err := f.load()
	if err == nil {
		return c, nil
	}
	const unset = "value-of-a-variable-that-is-not-set"
	lenient, again := config.Load(f.Config, func(name string) (string, bool) {
		if v, ok := os.LookupEnv(name); ok {
			return v, true
		}
		return unset, true
	})
	if again != nil || strings.Contains(lenient.DataDir, unset) {
		return nil, err
	}
	return lenient, nil
}

type serveCmd struct {
	configFlag
	logging
	Listen string `placeholder:"ADDR" help:"Address to listen on, in place of the configuration's."`
}

// Help is the long help of the command.
func (serveCmd) Help() string {
	return `The first start on an empty data_dir makes one admin and one user key. They are printed if standard output is a
terminal, else written to <data_dir>/first-keys, readable for the owner only. If MYIP_API_KEY is set at that start, it
is accepted as the user key. SIGTERM and SIGINT end the gateway in order; a second one does not wait for requests. SIGHUP,
or a change of the configuration file, makes the configuration be read anew: no request fails for it, a file with a
mistake changes nothing, and the log says what changed and which keys need a restart.`
}

// Run serves until a signal comes.
func (c *serveCmd) Run(ctx context.Context, std streams) error {
	cfg, err := c.read()
	if err != nil {
		return err
	}
	log := c.logger(std.err)
	all := func(string) bool { return true }
	return service{log: log, file: c.Config, read: c.read, warn: all, open: func(ctx context.Context, cfg *config.Config) (answering, net.Listener, error) {
		ln, err := listen(cfg.Listen, "listen in the configuration, or with --listen")
		if err != nil {
			return nil, nil, err
		}
		a, err := app.Open(ctx, cfg, app.Options{
			Log: log, Version: version(), AdoptKey: os.Getenv("MYIP_API_KEY"), LockDir: lockDir(),
			FirstKeys: func(admin, user string) error { return handOutKeys(std.out, cfg.DataDir, admin, user) },
		})
		if err != nil {
			return nil, nil, errors.Join(err, ln.Close())
		}
		log.Info("serving", "address", "http://"+ln.Addr().String()+"/api/v1", "models", len(a.Catalog().Models), "slots", len(a.Catalog().Slots))
		return a, ln, nil
	}}.run(ctx, cfg)
}

// read reads the configuration as the flags change it.
func (c *serveCmd) read() (*config.Config, error) {
	cfg, err := c.load()
	if err == nil && c.Listen != "" {
		cfg.Listen = c.Listen
	}
	return cfg, err
}

// listen opens the address; where says in which place another one can be chosen.
func listen(address, where string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is in use, perhaps by another gateway; choose one with %s", address, where)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (%w); choose an address of this machine with %s", address, err, where)
	}
	return ln, nil
}

// untilSignal returns a context that ends at the first SIGTERM or SIGINT, or one of the signals more (unless it is ignored,
// as SIGHUP is under nohup); hurry is closed at the second. A reader of our output that went away must not end us by
// SIGPIPE in the middle of a shutdown: Ctrl-C ends the whole pipeline of "hearth serve | tee log", and tee is quicker.
func untilSignal(parent context.Context, more ...os.Signal) (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for _, s := range more {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	rush, quit := make(chan struct{}), make(chan struct{})
	go func() {
		seen := 0
		for {
			select {
			case <-quit:
				return
			case <-signals:
				if seen++; seen == 2 {
					close(rush)
				}
				cancel()
			}
		}
	}()
	return ctx, rush, func() { signal.Stop(signals); close(quit); cancel() }
}

// interrupted drops the errors of a start that a signal ended: what was cut short is of no interest then.
func interrupted(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// handOutKeys prints the first keys to a terminal, and writes them to a file that only the owner can read otherwise: a
// log is no place for keys.
func handOutKeys(out io.Writer, dataDir, admin, user string) error {
	text := "admin key: " + admin + "\n"
	if user != "" {
		text += "user key:  " + user + "\n"
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		_, err := fmt.Fprintf(out, "The first keys, shown this once:\n%s", text)
		return err
	}
	path := filepath.Join(dataDir, "first-keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("close %s to others: %w", path, err)
	}
	_, err := fmt.Fprintf(out, "The first keys are in %s; move them to a safe place and remove the file.\n", path)
	return err
}
