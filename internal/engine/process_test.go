package engine

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process runs the engine as a process of its own.
func process(t *testing.T, args ...string) (cmd *exec.Cmd, c client, out *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().(*net.TCPAddr)
	ln.Close()
	out = new(bytes.Buffer)
	cmd = exec.Command(self, append([]string{"--port", strconv.Itoa(addr.Port), "--load", "0s"}, args...)...)
	cmd.Env = append(os.Environ(), processMode+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, client{t: t, base: "http://" + addr.String()}, out
}

func (c client) up() bool {
	res, err := c.do(c.t.Context(), http.MethodGet, "/health", "")
	if err == nil {
		res.Body.Close()
	}
	return err == nil && res.StatusCode == http.StatusOK
}

// code waits for the end of the process.
func code(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-done
		t.Error("it does not end")
	}
	return cmd.ProcessState.ExitCode()
}

func TestProcess(t *testing.T) {
	t.Run("SIGTERM lets requests finish", func(t *testing.T) {
		cmd, c, _ := process(t, "--model", "acme/tiny", "--tokens-per-second", "50", "--first-token", "0s")
		eventually(t, "up", c.up)
		res, err := c.do(t.Context(), http.MethodPost, "/v1/chat/completions", chatBody(`"stream":true,"max_tokens":10`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if s := readStream(t, res.Body); !s.done || !strings.HasPrefix(s.text, "I am acme/tiny") {
			t.Errorf("%+v", s)
		}
		if got := code(t, cmd); got != 0 {
			t.Errorf("exit code %d", got)
		}
	})
	t.Run("a second SIGTERM does not", func(t *testing.T) {
		cmd, c, _ := process(t, "--tokens-per-second", "1", "--first-token", "0s")
		eventually(t, "up", c.up)
		res, err := c.do(t.Context(), http.MethodPost, "/v1/chat/completions", chatBody(`"stream":true`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		eventually(t, "it takes no more connections", func() bool { return !c.up() })
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if got := code(t, cmd); got != 1 {
			t.Errorf("exit code %d", got)
		}
		if s := readStream(t, res.Body); s.done {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a failed start", func(t *testing.T) {
		cmd, _, out := process(t, "--fail-start")
		if got := code(t, cmd); got != 1 || !strings.Contains(out.String(), "failed to load model") {
			t.Errorf("exit code %d: %s", got, out)
		}
	})
	t.Run("a port that is taken", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		cmd, _, out := process(t, "--port", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
		if got := code(t, cmd); got != 1 || !strings.Contains(out.String(), "couldn't bind HTTP server socket") {
			t.Errorf("exit code %d: %s", got, out)
		}
	})
	t.Run("a crash", func(t *testing.T) {
		cmd, _, _ := process(t, "--exit-after", "50ms")
		if got := code(t, cmd); got != 1 {
			t.Errorf("exit code %d", got)
		}
	})
	t.Run("a parent that is gone", func(t *testing.T) {
		cmd, _, _ := process(t, "--parent-pid", "1073741824")
		if got := code(t, cmd); got != 0 {
			t.Errorf("exit code %d", got)
		}
	})
	t.Run("a parent that is there", func(t *testing.T) {
		cmd, c, _ := process(t, "--parent-pid", strconv.Itoa(os.Getpid()), "--exit-after", "700ms")
		eventually(t, "up", c.up)
		if got := code(t, cmd); got != 1 {
			t.Errorf("exit code %d: it should have lived until its crash", got)
		}
	})
	t.Run("a command line that is wrong", func(t *testing.T) {
		cmd, _, _ := process(t, "--no-such-flag")
		if got := code(t, cmd); got != 2 {
			t.Errorf("exit code %d", got)
		}
	})
}
