package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"myip.co.kr/hearth/test/engine/gguf"
)

// asServer makes this test program a server instead.
const asServer = "ENGINE_TEST_SERVER"

var (
	lacking string // why there are no libraries
	libs    string
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	cmd := exec.Command("../install")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		lacking = strings.TrimSpace(said.String())
	case err != nil:
		fmt.Fprintf(os.Stderr, "%v\n%s", err, said.String())
		os.Exit(1)
	}
	libs = strings.TrimPrefix(strings.SplitN(string(out), "\n", 2)[0], "LLAMA_LIB=")
	os.Exit(m.Run())
}

// process is a server that runs.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string
	key  string
	log  bytes.Buffer // to be read after the end
	done chan struct{}
}

// model writes a model file.
func model(t *testing.T, m gguf.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// launch starts a server and does not wait for anything.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	if lacking != "" {
		t.Skip(lacking)
	}
	port := strconv.Itoa(freePort(t))
	p := &process{t: t, base: "http://127.0.0.1:" + port, done: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append([]string{"--lib", libs, "--port", port}, args...)...)
	p.cmd.Env = append(os.Environ(), asServer+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("log:\n%s", p.log.String())
		}
	})
	return p
}

// serve starts a server and waits until it is ready.
func serve(t *testing.T, m gguf.Model, args ...string) *process {
	t.Helper()
	p := launch(t, append([]string{"--model", model(t, m)}, args...)...)
	p.until("it is ready", func() bool {
		status, _ := p.get("/health")
		return status == http.StatusOK
	})
	return p
}

func (p *process) until(what string, ok func() bool) {
	p.t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-p.done:
			p.t.Fatalf("the server ended before %s", what)
		case <-limit:
			p.t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// end waits for the end of the process and returns its exit code, -1 for a signal.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatal("the server goes on")
	}
	return p.cmd.ProcessState.ExitCode()
}

// open sends a request; nil = the server refuses connections.
func (p *process) open(method, path, body string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (p *process) do(method, path, body string) (int, string) {
	p.t.Helper()
	resp := p.open(method, path, body)
	if resp == nil {
		return 0, ""
	}
	b, _ := io.ReadAll(resp.Body) // a broken answer is not what was asked for
	resp.Body.Close()
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func (p *process) get(path string) (int, string) { p.t.Helper(); return p.do("GET", path, "") }

func (p *process) chat(body string) (int, string) {
	p.t.Helper()
	return p.do("POST", "/v1/chat/completions", body)
}

// parsed reads an answer into v.
func (p *process) parsed(text string, v any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		p.t.Fatalf("%v in %s", err, text)
	}
}

// readEvents reads a stream; the words of a comment are "comment". It returns the error that ended it, nil = its end.
func readEvents(r io.Reader, each func(string)) error {
	b := bufio.NewReader(r)
	for {
		line, err := b.ReadString('\n')
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "data: "):
			each(line[len("data: "):])
		case strings.HasPrefix(line, ":"):
			each("comment")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// metric is one of the server's figures.
func (p *process) metric(name string) int {
	p.t.Helper()
	_, text := p.get("/metrics")
	for line := range strings.Lines(text) {
		if word, ok := strings.CutPrefix(line, "llamacpp:"+name+" "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil {
				p.t.Fatal(err)
			}
			return n
		}
	}
	p.t.Fatalf("no %s in %s", name, text)
	return 0
}

func ask(more string) string {
	return `{"messages": [{"role": "user", "content": "hi"}]` + more + `}`
}

// together runs f n times at once.
func together(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}
