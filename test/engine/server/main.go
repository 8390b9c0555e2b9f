package server

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth/test/engine/llm"
)

// flags are the command line: llama-server's own words where it has them.
type flags struct {
	conf      Config
	load      llm.Options
	host      string
	port      int
	loadDelay time.Duration
	version   bool
}

func parse(args []string) (*flags, error) {
	f := new(flags)
	fs := flag.NewFlagSet("server", flag.ContinueOnError)
	str := func(p *string, def, what string, names ...string) {
		for _, n := range names {
			fs.StringVar(p, n, def, what)
		}
	}
	num := func(p *int, def int, what string, names ...string) {
		for _, n := range names {
			fs.IntVar(p, n, def, what)
		}
	}
	str(&f.load.Lib, os.Getenv("LLAMA_LIB"), "directory of the llama.cpp libraries", "lib")
	str(&f.load.Model, "", "GGUF file", "m", "model")
	str(&f.conf.Alias, "", "names of the model, separated by commas", "a", "alias")
	str(&f.host, "127.0.0.1", "address to listen on", "host")
	num(&f.port, 8080, "port to listen on, 0 = any", "port")
	str(&f.conf.APIKey, os.Getenv("LLAMA_API_KEY"), "bearer token to ask for", "api-key")
	num(&f.load.Context, 0, "window in tokens, shared by the sequences; 0 = the model's", "c", "ctx-size")
	num(&f.load.Sequences, 0, "answers at once; 0 = four that have the whole window each", "np", "parallel")
	num(&f.load.Threads, 1, "threads of an answer", "t", "threads")
	ping := fs.Int("sse-ping-interval", 30, "seconds between signs of life in a stream")
	fs.BoolVar(&f.conf.Slots, "slots", false, "answer GET /slots")
	fs.BoolVar(&f.conf.Metrics, "metrics", false, "answer GET /metrics")
	var ignored string
	str(&ignored, "", "not used: there is no GPU", "ngl", "n-gpu-layers")
	fs.Bool("jinja", true, "not used: templates are applied by the library")

	fs.BoolVar(&f.conf.Endless, "endless", false, "answers end only at a limit")
	fs.DurationVar(&f.conf.TokenDelay, "token-delay", 0, "time before each token")
	fs.DurationVar(&f.loadDelay, "load-delay", 0, "time before the model is read")
	fs.BoolVar(&f.version, "version", false, "load the libraries and exit")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if f.conf.Path, f.conf.Ping = f.load.Model, time.Duration(*ping)*time.Second; *ping <= 0 {
		f.conf.Ping = time.Hour
	}
	f.load.Threads = min(max(f.load.Threads, 1), runtime.NumCPU())
	switch n := &f.load.Sequences; {
	case *n <= 0:
		*n = 4
	case f.load.Context > 0:
		f.load.Context = (f.load.Context + *n - 1) / *n
	}
	return f, nil
}

// Main runs a server as a process and returns its exit code: 0 after a SIGTERM, 1 for what cannot start or was told
// twice. While it loads, SIGTERM ends it at once.
func Main(args []string) int {
	f, err := parse(args)
	if err != nil {
		return 2
	}
	if f.version {
		if err := llm.Init(f.load.Lib, os.Stderr); err != nil {
			log.Print(err)
			return 1
		}
		fmt.Println(build, "with the libraries in", f.load.Lib)
		return 0
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		log.Printf("couldn't bind HTTP server socket, hostname: %s, port: %d: %v", f.host, f.port, err)
		return 1
	}
	s := New(f.conf)
	web := &http.Server{Handler: s, ErrorLog: log.New(quiet{}, "", 0)}
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	log.Printf("loading model %s", f.load.Model)
	m, err := f.model()
	if err != nil {
		log.Print(err)
		log.Print("exiting due to model loading error")
		return 1
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	s.Ready(m)
	log.Printf("listening on http://%s", ln.Addr())
	return s.run(web, served, signals)
}

func (f *flags) model() (*llm.Model, error) {
	if err := llm.Init(f.load.Lib, os.Stderr); err != nil {
		return nil, err
	}
	time.Sleep(f.loadDelay)
	return llm.Load(f.load)
}

// run serves until it is told to stop.
func (s *Server) run(web *http.Server, served <-chan error, signals <-chan os.Signal) int {
	select {
	case err := <-served:
		log.Print(err)
		return 1
	case <-signals:
	}
	s.Stop()
	done := make(chan struct{})
	go func() { defer close(done); s.drain(web) }()
	select {
	case <-done:
		return 0
	case <-signals:
		log.Print("received a second signal, exiting at once")
		return 1
	}
}

// drain accepts nothing more and returns when the last request has ended, however long that takes.
func (s *Server) drain(web *http.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	closed := make(chan struct{})
	go func() { defer close(closed); _ = web.Shutdown(ctx) }() // ctx is no failure
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for s.active.Load() > 0 {
		<-look.C
	}
	select { // the last bytes go out; a connection on which nothing was ever asked does not hold up the end
	case <-closed:
	case <-time.After(50 * time.Millisecond):
	}
}

// quiet drops what net/http says of clients that left.
type quiet struct{}

func (quiet) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "panic") {
		return os.Stderr.Write(p)
	}
	return len(p), nil
}
