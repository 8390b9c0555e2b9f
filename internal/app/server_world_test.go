package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/engine"
)

const (
	gemma  = "google/gemma-4-26b-a4b"
	exaone = "lgai/exaone-4.0-32b"
	qwen   = "qwen/qwen3-235b"
	broken = "broken/model"
)

// world is a gateway on a real socket with two slots on one exclusive node, one that cannot be started, and two
// simulated providers.
type world struct {
	t           *testing.T
	base        string // http://127.0.0.1:PORT
	addr        string
	admin, user string
	app         *app.App
	cfg         *config.Config
	text        string // it was read from
	acme, beta  *engine.Provider
	log         *safeBuffer
	read        *atomic.Int64 // bytes read from callers
	end         func()        // shuts the gateway down and waits for it
}

const worldConfig = `
currency: KRW
exchange_rates: {USD: 1390}
margin: 5%%
data_dir: %[1]q
default_model: google/gemma-4-26b-a4b
aliases: {gpt-4o-mini: google/gemma-4-26b-a4b, openai/gpt-4o: google/gemma-4-26b-a4b}
routing: {by: price}
shutdown: {lame_duck: 0s, grace: 5s}
local: {name: MyIP Local GPU}
nodes:
  - name: gpu-1
    turn: 100ms
    min_resident: 0s
    slots:
      - {name: gemma, model: google/gemma-4-26b-a4b, command: %[2]s, context: 4096, concurrency: 2, wait: 20s, stop_grace: 1s, price: {prompt: 30, completion: 150}}
      - {name: exaone, model: lgai/exaone-4.0-32b, command: %[3]s, context: 4096, concurrency: 2, wait: 20s, stop_grace: 1s, price: {prompt: 30, completion: 150}}
  - name: gpu-2
    slots:
      - {name: broken, model: broken/model, command: %[4]s, wait: 10s, price: {prompt: 0.000001, completion: 0}}
providers:
  - slug: acme
    name: Acme AI
    base_url: %[5]s/v1
    api_key: acme-secret
    privacy_url: https://acme.example/privacy
    models:
      - {model: google/gemma-4-26b-a4b, context: 131072, price: {prompt: 0.06, completion: 0.24}}
      - {model: qwen/qwen3-235b, context: 131072, price: {prompt: 0.20, completion: 0.60}}
      - {model: google/gemma-4-26b-a4b, variant: fp8, quantization: fp8, disabled: true, price: {prompt: 0.05, completion: 0.20}}
  - slug: beta
    name: Beta Cloud
    base_url: %[6]s/v1
    api_key: beta-secret
    models:
      - {model: qwen/qwen3-235b, price: {prompt: 0.25, completion: 0.80}}
models:
  - {id: google/gemma-4-26b-a4b, name: Gemma 4 26B A4B, description: "small <b>&</b> quick"}
%[7]s
`

// startWorld starts a world; extra is appended to its configuration, and of each two edits the second takes the place of
// the first.
func startWorld(t *testing.T, extra string, edits ...string) *world {
	t.Helper()
	w := &world{t: t, log: new(safeBuffer), read: new(atomic.Int64)}
	w.acme = engine.NewProvider(engine.ProviderConfig{Name: "Acme AI", APIKey: "acme-secret"})
	w.beta = engine.NewProvider(engine.ProviderConfig{Name: "Beta Cloud", APIKey: "beta-secret"})
	dir := t.TempDir()
	text := fmt.Sprintf(worldConfig, filepath.Join(dir, "data"),
		engineCommand(t, gemma, "--load", "200ms"), engineCommand(t, exaone, "--load", "700ms"), engineCommand(t, broken, "--fail-start"),
		serveProvider(t, w.acme), serveProvider(t, w.beta), extra)
	w.text = strings.NewReplacer(edits...).Replace(text)
	cfg, err := config.Parse(filepath.Join(dir, "hearth.yaml"), []byte(w.text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = cfg
	furnish(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.app, err = app.Open(ctx, cfg, app.Options{Log: log, Version: "test", FirstKeys: func(admin, user string) error {
		w.admin, w.user = admin, user
		return nil
	}})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	w.base = "http://" + w.addr
	done := make(chan error, 1)
	go func() { done <- w.app.Serve(ctx, countingListener{ln, w.read}, nil) }()
	w.end = sync.OnceFunc(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the gateway did not shut down within a minute")
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", w.log)
		}
	})
	t.Cleanup(w.end)
	return w
}

// engineCommand is the command line of a simulated engine, as a YAML list.
func engineCommand(t *testing.T, model string, more ...string) string {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list := append([]string{program, "engine", "--port", "${port}", "--model", model, "--context", "4096", "--first-token", "0s",
		"--tokens-per-second", "0", "--parallel", "2", "--parent-pid", strconv.Itoa(os.Getpid())}, more...)
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func serveProvider(t *testing.T, p *engine.Provider) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); <-done })
	return "http://" + ln.Addr().String()
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request. headers are "Name: value"; "" is left out.
func (w *world) call(method, path, body string, headers ...string) reply {
	w.t.Helper()
	return w.send(method, path, strings.NewReader(body), headers...)
}

func (w *world) send(method, path string, body io.Reader, headers ...string) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ": "); ok {
			req.Header.Add(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, b}
}

// chat sends a chat request with the user's key.
func (w *world) chat(body string, headers ...string) reply {
	w.t.Helper()
	return w.call("POST", "/api/v1/chat/completions", body, append([]string{"Authorization: Bearer " + w.user}, headers...)...)
}

// ask is the body of a short question to a model; more is put before its end, as ,"key":value.
func ask(model, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

// generation reads a record.
func (w *world) generation(id, key string, more ...string) reply {
	w.t.Helper()
	return w.call("GET", "/api/v1/generation?id="+id, "", append([]string{"Authorization: Bearer " + key}, more...)...)
}

// errorBody is the envelope of an error.
type errorBody struct {
	Error struct {
		Code     int    `json:"code"`
		Message  string `json:"message"`
		Type     string `json:"type"`
		Param    string `json:"param"`
		Metadata struct {
			ErrorType  string `json:"error_type"`
			SlotStatus string `json:"slot_status"`
		} `json:"metadata"`
	} `json:"error"`
}

// fault reads an error answer and checks what every error must have.
func (r reply) fault(t *testing.T) errorBody {
	t.Helper()
	var e errorBody
	if err := json.Unmarshal(r.body, &e); err != nil {
		t.Fatalf("status %d with a body that is no error: %q: %v", r.status, r.body, err)
	}
	if e.Error.Code != r.status || e.Error.Type == "" || e.Error.Message == "" || e.Error.Metadata.ErrorType == "" {
		t.Errorf("status %d with an incomplete error %s", r.status, r.body)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type of an error = %q", got)
	}
	if !bytes.Contains(r.body, []byte(`"param":`)) {
		t.Errorf("an error without param: %s", r.body)
	}
	return e
}

// document reads a JSON body of which duplicate keys and rubbish behind it would be an error.
func (r reply) document(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.body, err)
	}
	compact := jsontext.Value(slices.Clone(r.body))
	if err := compact.Compact(); err != nil || !bytes.Equal(compact, r.body) {
		t.Errorf("the JSON is not compact: %s", r.body)
	}
	return m
}

// eventually asks again and again until ok says yes, for at most a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

type countingListener struct {
	net.Listener
	n *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c.(*net.TCPConn), l.n}, nil
}

// countingConn counts what is read. The TCPConn inside keeps CloseWrite, which net/http looks for.
type countingConn struct {
	*net.TCPConn
	n *atomic.Int64
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// safeBuffer is a log that goroutines may write to while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
