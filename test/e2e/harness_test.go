package e2e

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/engine"
)

const (
	gemma  = "google/gemma-4-26b-a4b"
	exaone = "lgai/exaone-4.0-32b"
	apiKey = "sk-myip-e2e-0123456789abcdef0123456789abcdef"

	endless = `, "stream": true, "ignore_eos": true, "max_tokens": 4000` // a stream of minutes: it is not at its end, however busy the machine
)

// program is the hearth binary, built once.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hearth-e2e-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "hearth")
	if out, err := exec.Command("go", "build", "-o", program, "myip.co.kr/hearth/cmd/hearth").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build hearth: %v\n%s", err, out)
		os.Exit(1)
	}
	together()
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// together has four tests run at once, unless -parallel says otherwise: most of their time they wait for processes.
func together() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
}

// gateway is one running hearth serve.
type gateway struct {
	t    testing.TB
	cmd  *exec.Cmd
	base string
	log  *lockedBuffer
	out  *os.File // where the next run writes, nil = log
	tty  *os.File // terminal of the next run, nil = none
	done chan error
	acme *engine.Provider
	dir  string
	env  []string // beside what every gateway gets
	gpu  *machine // that owns the engines, nil = the gateway does
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is the seeds' world: two local models on one exclusive node, one external provider for Gemma.
type world struct {
	gemmaArgs, exaoneArgs []string // further arguments of the engines
	more                  string   // further configuration
	wait                  string   // of both slots
	places                int      // of Gemma's slot, 0 = 2
}

// start writes the world's configuration and runs a gateway on it.
func start(t testing.TB, w world) *gateway {
	t.Helper()
	if w.wait == "" {
		w.wait = "1m"
	}
	if w.more == "" {
		w.more = "shutdown: {lame_duck: 0s, grace: 5s}"
	}
	return launch(t, func(acme string) string {
		return fmt.Sprintf(`currency: KRW
exchange_rates: {USD: 1390}
margin: 5%%
data_dir: data
local: {name: MyIP Local GPU}
default_model: %[1]s
nodes:
  - name: gpu-1
    turn: 300ms
    min_resident: 0s
    slots:
      - {name: gemma, model: %[1]s, command: %[3]s, context: 32768, concurrency: %[8]d, wait: %[6]s, expected_load: 1s, stop_grace: 200ms, price: {prompt: 30, completion: 150}}
      - {name: exaone, model: %[2]s, command: %[4]s, context: 32768, concurrency: 2, wait: %[6]s, expected_load: 1s, stop_grace: 200ms, price: {prompt: 30, completion: 150}}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://%[5]s/v1
    limits: {first_byte: 5s}
    models: [{model: %[1]s, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
%[7]s
`, gemma, exaone, engineLine(t, gemma, w.gemmaArgs), engineLine(t, exaone, w.exaoneArgs), acme, w.wait, w.more, cmp.Or(w.places, 2))
	})
}

// launch runs a provider and a gateway on the configuration that config makes of the provider's host and port.
func launch(t testing.TB, config func(acme string) string, env ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), env: env, acme: engine.NewProvider(engine.ProviderConfig{Name: "Acme AI"})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); _ = g.acme.Serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); <-served })
	if err := os.WriteFile(g.path("hearth.yaml"), []byte(config(ln.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run()
	return g
}

func engineLine(t testing.TB, model string, more []string) string {
	b, err := json.Marshal(append([]string{program, "engine", "--port", "${port}", "--model", model, "--parallel", "2",
		"--load", "300ms", "--first-token", "0s", "--tokens-per-second", "0"}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (g *gateway) path(name string) string { return filepath.Join(g.dir, name) }

var serving = regexp.MustCompile(`msg=serving address=(http://[^/]+)/api/v1 `)

// freeAddress is one on which nobody listens now.
func freeAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// run starts the process and waits until it answers. It may be called again after the process ended.
func (g *gateway) run() {
	g.t.Helper()
	listen := "127.0.0.1:0"
	if g.out != nil { // nobody will read there which port it is
		listen = freeAddress(g.t)
	}
	g.base, g.log, g.done = "http://"+listen, new(lockedBuffer), make(chan error, 1)
	g.cmd = exec.Command(program, "serve", "--config", g.path("hearth.yaml"), "--listen", listen)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if g.out != nil {
		g.cmd.Stdout, g.cmd.Stderr = g.out, g.out
	}
	g.cmd.Env = append(os.Environ(), "MYIP_API_KEY="+apiKey, "XDG_RUNTIME_DIR="+g.dir) // each test has GPUs of its own
	g.cmd.Env = append(g.cmd.Env, g.env...)
	g.cmd.WaitDelay = 5 * time.Second
	if g.tty != nil {
		g.cmd.Stdin, g.cmd.SysProcAttr = g.tty, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	cmd, done := g.cmd, g.done
	go func() { done <- cmd.Wait() }()
	g.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // gone already in some tests
		select {
		case <-done:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			g.t.Errorf("the gateway did not end within a minute of SIGTERM")
		}
		if g.t.Failed() {
			g.t.Logf("log:\n%s", g.log)
		}
	})
	if g.out == nil {
		g.until("the gateway serves", func() bool {
			m := serving.FindStringSubmatch(g.log.String())
			if m != nil {
				g.base = m[1]
			}
			return m != nil
		})
	}
	g.until("the gateway answers", func() bool {
		resp, err := http.Get(g.base + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// until asks again and again until ok: real processes take their own time.
func (g *gateway) until(what string, ok func() bool) {
	g.t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			g.t.Fatalf("never happened: %s\nlog:\n%s", what, g.log)
		case <-tick.C:
		}
	}
}

// end waits for the process to end by itself and returns its exit code.
func (g *gateway) end() int {
	g.t.Helper()
	select {
	case err := <-g.done:
		g.done <- err
	case <-time.After(time.Minute):
		g.t.Fatalf("the gateway is still running\nlog:\n%s", g.log)
	}
	return g.cmd.ProcessState.ExitCode()
}

type reply struct {
	status int
	header http.Header
	body   string
}

// open sends a request and returns with its answer still to be read.
func (g *gateway) open(method, path, body string, header ...string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequest(method, g.base+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatalf("%s %s: %v\nlog:\n%s", method, path, err, g.log)
	}
	return resp
}

func (g *gateway) call(method, path, body string, header ...string) reply {
	g.t.Helper()
	resp := g.open(method, path, body, header...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("read answer: %v", err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (g *gateway) chat(body string, header ...string) reply {
	g.t.Helper()
	return g.call("POST", "/chat/completions", body, header...)
}

// served fails the test unless the answer came from this provider and model.
func (g *gateway) served(r reply, provider, model string) {
	g.t.Helper()
	if r.status != 200 || r.header.Get("X-Myip-Provider") != provider || r.header.Get("X-Myip-Model") != model || !strings.Contains(r.body, "finish_reason") {
		g.t.Fatalf("want %s from %s, got %d %v\n%s\nlog:\n%s", model, provider, r.status, r.header, r.body, g.log)
	}
}

// status is the number of the model's local endpoint in the endpoints list.
func (g *gateway) status(model string) int {
	g.t.Helper()
	r := g.call("GET", "/models/"+model+"/endpoints", "")
	_, rest, _ := strings.Cut(r.body, `"status":`)
	word, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(word)
	if err != nil {
		g.t.Fatalf("status of %s: %s", model, r.body)
	}
	return n
}

// engines are the pids of the gateway's children, or of its machine's.
func (g *gateway) engines() []int {
	g.t.Helper()
	if g.gpu != nil {
		return childrenOf(g.gpu.cmd.Process.Pid)
	}
	return childrenOf(g.cmd.Process.Pid)
}

func childrenOf(pid int) []int {
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f) // a thread that just ended has no children
		for _, w := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(w); err == nil && !slices.Contains(out, n) { // it moves when the thread that made it ends
				out = append(out, n)
			}
		}
	}
	return out
}

func ask(model, extra string) string {
	return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "hi"}]%s}`, model, extra)
}
