package driver

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// need returns programs and files that the environment names; without one of them the test is skipped.
func need(t *testing.T, names ...string) (values []string) {
	t.Helper()
	for _, name := range names {
		v := os.Getenv(name)
		if v == "" {
			t.Skipf("%s is not set: test/engine/install says GGUF_BIN, ENGINE_BIN and LLAMA_LIB; OLLAMA_BIN and LLAMA_SERVER_BIN are programs of your own", name)
		}
		values = append(values, v)
	}
	return values
}

// tiny makes a model that names itself in its answers.
func tiny(t *testing.T, gguf, dir, name string) string {
	t.Helper()
	file := filepath.Join(dir, name+".gguf")
	if out, err := exec.CommandContext(t.Context(), gguf, "-o", file, "-name", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// background runs a server until the end of the test, and waits until it answers at a path.
func background(t *testing.T, port int, path string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out capped
	out.most = 64 << 10
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		killer := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer killer.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server wrote: %s", out.String())
		}
	})
	url := "http://" + addr(port)
	eventually(t, "the server answers", func() bool {
		res, err := http.Get(url + path)
		if err == nil {
			res.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		return err == nil && res.StatusCode == http.StatusOK
	})
	return url
}

// until ready, with what the engine says of itself.
func facts(t *testing.T, e slot.Engine) hearth.SlotFacts {
	t.Helper()
	var got slot.Report
	eventually(t, "the engine is ready", func() bool {
		var err error
		if got, err = e.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got.Ready
	})
	return got.Facts
}

// somePort is a port that nobody listens on now.
func somePort(t *testing.T) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestRealLlamaCpp runs the server on the real llama.cpp libraries.
func TestRealLlamaCpp(t *testing.T) {
	v := need(t, "GGUF_BIN", "ENGINE_BIN", "LLAMA_LIB")
	s := shell("")
	s.Engine, s.Context, s.Concurrency = llamaServer, 512, 4
	s.Command = []string{v[1], "--model", tiny(t, v[0], t.TempDir(), "tiny-a"), "--port", "${port}", "--alias", "${model}", "--ctx-size", "512", "--parallel", "2"}
	s.Env = map[string]hearth.Secret{"LLAMA_API_KEY": "${api_key}", "LLAMA_LIB": hearth.Secret(v[2])}
	e := start(t, s)
	got := facts(t, e)
	if got.Window < 256 || got.Parallel != 2 || got.Model != "acme/tiny" || got.Warning != "" {
		t.Errorf("%+v", got)
	}
	if status, body := chat(t, e); status != http.StatusOK || !strings.Contains(body, "tiny-a") {
		t.Errorf("%d %s", status, body)
	}
	stop(t, e)
}

// TestRealOllama loads and unloads in a real Ollama.
func TestRealOllama(t *testing.T) {
	v := need(t, "OLLAMA_BIN", "GGUF_BIN")
	dir, port := t.TempDir(), somePort(t)
	env := []string{"OLLAMA_HOST=" + addr(port), "OLLAMA_MODELS=" + filepath.Join(dir, "models"), "HOME=" + dir, "OLLAMA_CONTEXT_LENGTH=2048"}
	url := background(t, port, "/", env, v[0], "serve")
	create := func(name, gguf string) {
		t.Helper()
		file := filepath.Join(dir, name+".modelfile")
		if err := os.WriteFile(file, []byte("FROM "+gguf+"\nPARAMETER num_thread 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), v[0], "create", name, "-f", file)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{"tiny-a", "tiny-b"} {
		create(name, tiny(t, v[1], dir, name))
	}
	ask := func(name string) *hearth.Slot {
		return &hearth.Slot{Name: name, Driver: HTTP, Preset: ollama, Engine: ollama, URL: url, UpstreamModel: name, Node: &hearth.Node{Name: name}, Model: &hearth.Model{ID: "acme/" + name}}
	}
	realSwap(t, ask, 2048)
	t.Run("a load that is given up leaves nothing", func(t *testing.T) {
		big := filepath.Join(dir, "big.gguf")
		if out, err := exec.CommandContext(t.Context(), v[1], "-o", big, "-name", "big", "-layers", "40", "-ffn", "8192").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		create("big", big)
		e := start(t, ask("big"))
		eventually(t, "a runner is started", func() bool { return runners(t, v[0]) > 0 })
		begin := time.Now()
		stop(t, e)
		t.Logf("stopped after %v", time.Since(begin))
		if n := runners(t, v[0]); n > 0 {
			t.Errorf("%d runners are left", n)
		}
	})
	t.Run("a model that is not there", func(t *testing.T) {
		if why, _ := failure(t, ask("nope")); !strings.Contains(why, "status 404") {
			t.Errorf("%s", why)
		}
	})
	t.Run("somebody else's, which loads by itself", func(t *testing.T) {
		s := ask("tiny-a")
		s.Driver, s.Preset = Always, ""
		if got := facts(t, start(t, s)); got.Model != "tiny-a:latest" || got.Window != 0 {
			t.Errorf("%+v", got)
		}
		s.UpstreamModel = "nope"
		if r, err := start(t, s).Probe(t.Context()); err == nil {
			t.Errorf("%+v", r)
		}
	})
}

// runners counts the processes of a program that are no server: each holds a model.
func runners(t *testing.T, program string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		b, _ := os.ReadFile(file)
		if strings.HasPrefix(string(b), program+"\x00runner") {
			n++
		}
	}
	return n
}

// TestRealRouter loads and unloads in a real llama-server in router mode.
func TestRealRouter(t *testing.T) {
	v := need(t, "LLAMA_SERVER_BIN", "GGUF_BIN")
	dir, port := t.TempDir(), somePort(t)
	for _, name := range []string{"tiny-a", "tiny-b"} {
		tiny(t, v[1], dir, name)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.gguf"), []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := background(t, port, "/health", nil, v[0], "--models-dir", dir, "--models-max", "1", "--host", "127.0.0.1",
		"--port", strings.TrimPrefix(addr(port), "127.0.0.1:"), "-t", "1", "-c", "512", "-np", "2")
	ask := func(name string) *hearth.Slot {
		return &hearth.Slot{Name: name, Driver: HTTP, Preset: llamaServer, Engine: llamaServer, URL: url, UpstreamModel: name, Node: &hearth.Node{Name: name}, Model: &hearth.Model{ID: "acme/" + name}}
	}
	realSwap(t, ask, 256)
	t.Run("a broken file", func(t *testing.T) {
		if why, _ := failure(t, ask("broken")); !strings.Contains(why, "could not load") && !strings.Contains(why, "stopped loading") {
			t.Errorf("%s", why)
		}
	})
}

// realSwap loads one model, unloads it, and loads another.
func realSwap(t *testing.T, ask func(string) *hearth.Slot, window int) {
	t.Run("a swap", func(t *testing.T) {
		for _, name := range []string{"tiny-a", "tiny-b"} {
			e := start(t, ask(name))
			if got := facts(t, e); got.Window != window || !sameName(got.Model, name) {
				t.Errorf("%s: %+v", name, got)
			}
			if state, err := e.(*ordered).do.status(t.Context()); state != runs || err != nil {
				t.Errorf("%s: status %d, %v", name, state, err)
			}
			stop(t, e)
			if state, err := e.(*ordered).do.status(t.Context()); state == runs {
				t.Errorf("%s: status %d, %v", name, state, err)
			}
		}
	})
	t.Run("stop while it loads", func(t *testing.T) {
		s := ask("tiny-a")
		e := start(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Stop(ctx, 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("loaded already", func(t *testing.T) {
		first, second := start(t, ask("tiny-a")), start(t, ask("tiny-a"))
		facts(t, first)
		facts(t, second)
		stop(t, first)
	})
}
