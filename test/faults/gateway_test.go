package faults

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/engine"
)

// TestMain lets the test binary be the engine of a slot: a slot's command is os.Executable() and "engine".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		os.Exit(engine.Main(os.Args[2:]))
	}
	// The race detector has each process wait for a second before it ends, the engines too.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "12") // rows wait more than they work
	os.Exit(m.Run())
}

const (
	model      = "author/model"  // at the primary, the backup and, where there is one, the slot
	sister     = "author/sister" // at the primary only: another endpoint of its account
	primaryKey = "sk-primary-account-0123456789"
	backupKey  = "sk-backup-account-9876543210"
	backupText = "the backup answers in full"
)

// setup is what a test wants of its gateway.
type setup struct {
	primary      string // address of the primary, "" = there is none
	backup       string // likewise
	limits       string // of the primary and of local endpoints, as YAML
	backupLimits string
	local        string // display name of own slots, "Local" if it is not given
	slots        string // YAML list items of slots on one node
	more         string // further top-level YAML
	options      app.Options
}

// gateway is a whole gateway on a loopback socket.
type gateway struct {
	t           testing.TB
	app         *app.App
	addr        string
	user, admin string
	log         *lockedLog
	client      *http.Client
	read        atomic.Int64 // bytes read from callers
}

const configHead = `
currency: KRW
exchange_rates: {USD: 1000}
data_dir: %q
default_model: author/model
shutdown: {lame_duck: 0s, grace: 3s}
`

const primaryPart = `
  - slug: primary
    name: Primary
    base_url: %s/v1
    api_key: %s
    headers: {X-Project: project-secret-445566}
    limits: {%s}
    models:
      - {model: author/model, priority: 10, price: {prompt: 1, completion: 2}}
      - {model: author/sister, priority: 10, price: {prompt: 1, completion: 2}}
`

const backupPart = `
  - slug: backup
    name: Backup
    base_url: %s/v1
    api_key: %s
    limits: {%s}
    models:
      - {model: author/model, priority: 20, price: {prompt: 1, completion: 2}}
`

func (s *setup) yaml(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, configHead, filepath.Join(dir, "data"))
	fmt.Fprintf(&b, "local: {name: %s, limits: {%s}}\n", cmp.Or(s.local, "Local"), s.limits)
	if s.slots != "" {
		b.WriteString("nodes:\n  - name: gpu-1\n    turn: 100ms\n    min_resident: 0s\n    slots:\n")
		for item := range strings.SplitSeq(strings.TrimSpace(s.slots), "\n") {
			b.WriteString("      " + item + "\n")
		}
	}
	if s.primary+s.backup != "" {
		b.WriteString("providers:")
	}
	if s.primary != "" {
		fmt.Fprintf(&b, primaryPart, s.primary, primaryKey, s.limits)
	}
	if s.backup != "" {
		fmt.Fprintf(&b, backupPart, s.backup, backupKey, s.backupLimits)
	}
	return b.String() + s.more
}

// start runs a gateway until the end of the test.
func start(t testing.TB, s setup) *gateway {
	t.Helper()
	g := &gateway{t: t, log: new(lockedLog)}
	dir := t.TempDir()
	h := furnish(t, dir)
	g.admin, g.user = h.admin, h.user
	cfg, err := config.Parse(filepath.Join(dir, "hearth.yaml"), []byte(s.yaml(dir)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.options.Log = slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.options.Version = "test"
	if g.app, err = app.Open(ctx, cfg, s.options); err != nil {
		cancel()
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	g.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	ended := make(chan error, 1)
	go func() { ended <- g.app.Serve(ctx, meteredListener{ln, &g.read}, nil) }()
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the gateway ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the gateway did not end")
		}
		for what, text := range map[string]string{
			"a provider's key": primaryKey, "a caller's key": g.user, "the prompt": "count to twenty", "an answer": "one two three",
		} {
			if strings.Contains(g.log.String(), text) {
				t.Errorf("the log holds %s", what)
			}
		}
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", g.log.tail())
		}
	})
	return g
}

// lockedLog collects the gateway's log.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedLog) tail() string {
	s := l.String()
	return s[max(0, len(s)-4000):]
}

// patience bounds everything that a test waits for. Nothing in here should take a tenth of it.
const patience = time.Minute

// answer is what came back for one request, read to the end of its body.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

// ask is a chat body; more is put before its end, as ,"key":value.
func question(more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"count to twenty"}]` + more + `}`
}

const streaming = `,"stream":true`

// chat asks with the user's key and reads the answer to its end.
func (g *gateway) chat(t testing.TB, body string, header ...string) *answer {
	t.Helper()
	return g.call(t, g.user, "POST", "/api/v1/chat/completions", body, header...)
}

func (g *gateway) call(t testing.TB, key, method, path, body string, header ...string) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, g.log.tail())
	}
	defer resp.Body.Close()
	a := &answer{t: t, status: resp.StatusCode, header: resp.Header}
	if a.body, a.err = io.ReadAll(resp.Body); a.err != nil {
		t.Fatalf("%s %s: the body did not end in order: %v after %.2000q", method, path, a.err, a.body)
	}
	return a
}

// until asks again and again until it is so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-limit:
			t.Fatalf("not within %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// engineSlot is a slot whose engine the gateway starts: the test binary itself.
func engineSlot(t testing.TB, more string, args ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list := append([]string{program, "engine", "--port", "${port}", "--model", model, "--first-token", "0s", "--tokens-per-second", "0",
		"--parent-pid", itoa(os.Getpid())}, args...)
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return "- {name: slot, model: author/model, command: " + string(b) + ", stop_grace: 1s, price: {prompt: 1, completion: 2}" + more + "}"
}

// leave asks, reads what comes, and leaves when ctx ends.
func (g *gateway) leave(ctx context.Context, body string) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+g.addr+"/api/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		g.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+g.user)
	resp, err := g.client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}
