package engine

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

// parentPoll is the pace of looking whether the parent is still there.
const parentPoll = 200 * time.Millisecond

// flags are the command line of an engine process.
type flags struct {
	conf      Config
	host      string
	port      int
	failStart bool
	exitAfter time.Duration
	parent    int
}

func parseFlags(args []string) (*flags, error) {
	f := new(flags)
	fs := flag.NewFlagSet("engine", flag.ContinueOnError)
	fs.StringVar(&f.host, "host", "127.0.0.1", "address to listen on")
	fs.IntVar(&f.port, "port", 8080, "port to listen on, 0 = any")
	fs.StringVar(&f.conf.Model, "model", "simulated", "model that the engine serves")
	fs.IntVar(&f.conf.Context, "context", 32768, "window in tokens")
	fs.DurationVar(&f.conf.Load, "load", time.Second, "time until ready")
	fs.DurationVar(&f.conf.FirstToken, "first-token", 50*time.Millisecond, "time until the first token of an answer")
	fs.Float64Var(&f.conf.TokensPerSecond, "tokens-per-second", 40, "speed of one answer, 0 = no limit")
	fs.IntVar(&f.conf.Parallel, "parallel", 1, "requests served at once")
	fs.BoolVar(&f.failStart, "fail-start", false, "fail while loading, as with a broken model file")
	fs.DurationVar(&f.exitAfter, "exit-after", 0, "crash after this time, 0 = never")
	fs.IntVar(&f.parent, "parent-pid", 0, "end when this process is no longer the parent, 0 = whatever happens")
	key := fs.String("api-key", os.Getenv("LLAMA_API_KEY"), "bearer token to ask for")
	if err := fs.Parse(args); err != nil {
		return nil, fmt.Errorf("read the command line: %w", err)
	}
	f.conf.APIKey = hearth.Secret(*key)
	return f, nil
}

// Main runs one engine as a process, with the command line args, until it is told to stop, and returns its exit
// code. SIGTERM and SIGINT let requests finish, a second one does not.
func Main(args []string) int {
	f, err := parseFlags(args)
	if err != nil {
		return 2
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	ln, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		fmt.Fprintf(os.Stderr, "couldn't bind HTTP server socket, hostname: %s, port: %d: %v\n", f.host, f.port, err)
		return 1
	}
	if f.failStart {
		fmt.Fprintf(os.Stderr, "loading model %s\nfailed to load model: the file is truncated\n", f.conf.Model)
		return 1
	}
	fmt.Fprintf(os.Stdout, "loading model %s\nlistening on http://%s\n", f.conf.Model, ln.Addr())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- New(f.conf).Serve(ctx, ln) }()
	return f.watch(signals, served, stop)
}

// watch waits for what ends the process.
func (f *flags) watch(signals <-chan os.Signal, served <-chan error, stop func()) int {
	var crash <-chan time.Time
	if f.exitAfter > 0 {
		crash = time.After(f.exitAfter)
	}
	look := time.NewTicker(parentPoll)
	defer look.Stop()
	for stopping := false; ; {
		select {
		case err := <-served:
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		case <-crash:
			fmt.Fprintln(os.Stderr, "crashing as told by --exit-after")
			return 1
		case <-signals:
			if stopping {
				return 1
			}
			stopping = true
			stop()
		case <-look.C:
			if f.parent != 0 && os.Getppid() != f.parent {
				return 0
			}
		}
	}
}
