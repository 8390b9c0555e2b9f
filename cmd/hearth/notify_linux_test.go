package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listenAsSupervisor is the socket on which a supervisor hears; told waits for the next word.
func listenAsSupervisor(t *testing.T, name string) (told func() string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(3 * patience)); err != nil {
		t.Fatal(err)
	}
	return func() string {
		t.Helper()
		b := make([]byte, 1<<10)
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("nothing is told: %v", err)
		}
		return string(b[:n])
	}
}

// TestNotify: a supervisor is told when the service answers, when it reads its configuration, and when it ends.
func TestNotify(t *testing.T) {
	t.Parallel()
	const serves, refused = "READY=1\nSTATUS=serving", "READY=1\nSTATUS=serving; the configuration was refused, the one before holds"
	slot := `{name: gemma, model: google/gemma, command: [hearth, engine, --port, "${port}"], price: {prompt: 1, completion: 1}}`
	for command, c := range map[string]struct{ config, socket string }{
		"serve": {"listen: 127.0.0.1:0\n", "notify"},
		"node":  {"node_server: {listen: \"unix://NODE\", token: 0123456789abcdef0123456789abcdef}\n", "@hearth-test-" + strconv.Itoa(os.Getpid())},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			socket, node, file := c.socket, filepath.Join(dir, "node"), filepath.Join(dir, "hearth.yaml")
			if !strings.HasPrefix(socket, "@") {
				socket = filepath.Join(dir, socket)
			}
			told := listenAsSupervisor(t, socket)
			text := strings.Replace(c.config, "NODE", node, 1) + "data_dir: data\nshutdown: {lame_duck: 0s, grace: 5s}\nnodes: [{name: gpu-1, slots: [" + slot + "]}]\n"
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(text)
			g := startTold(t, command, dir, socket)
			if got := told(); got != serves {
				t.Fatalf("at first it is told %q", got)
			}
			if err := g.answers(node); err != nil {
				t.Errorf("it was told to be ready: %v", err)
			}

			g.reloads(t, told, serves)
			write(text + "modle: x\n")
			g.reloads(t, told, refused)
			write(text)
			g.reloads(t, told, serves)

			if err := g.end(); err != nil {
				t.Errorf("exit: %v\n%s", err, g.log)
			}
			got := told()
			for strings.HasPrefix(got, "RELOADING=1\n") || got == serves { // what the file's change itself has caused
				got = told()
			}
			if got != "STOPPING=1\nSTATUS=finishing the requests in flight" {
				t.Errorf("at its end it is told %q", got)
			}
		})
	}
}

// toldGateway is a service with a supervisor.
type toldGateway struct {
	gateway
	log *lockedBuffer
}

func startTold(t *testing.T, command, dir, socket string) *toldGateway {
	t.Helper()
	g := &toldGateway{gateway{exec.Command("hearth", command), make(chan error, 1)}, new(lockedBuffer)}
	g.cmd.Dir, g.cmd.Stdout, g.cmd.Stderr = dir, g.log, g.log
	g.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "XDG_RUNTIME_DIR="+dir)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { g.done <- g.cmd.Wait() }()
	t.Cleanup(g.kill)
	return g
}

// answers says whether it does, at the first try: on the node's socket, or on the address that the log has.
func (g *toldGateway) answers(node string) error {
	if _, err := os.Stat(node); err == nil {
		c, err := net.Dial("unix", node)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	var m []string
	if err := poll(func() bool { m = serving.FindStringSubmatch(g.log.String()); return m != nil }); err != nil {
		return err
	}
	resp, err := http.Get("http://" + m[2] + "/ready")
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// reloads sends SIGHUP and waits until the reload has ended as it should. One that a file's change has caused may come before.
func (g *toldGateway) reloads(t *testing.T, told func() string, want string) {
	t.Helper()
	before := monotonic().Microseconds()
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for began := int64(0); began < before; {
		word := told()
		at, ok := strings.CutPrefix(word, "RELOADING=1\nMONOTONIC_USEC=")
		n, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil || n > monotonic().Microseconds() {
			t.Fatalf("at a reload it is told %q", word)
		}
		began = n
		if word = told(); word != want && began >= before {
			t.Fatalf("after the reload it is told %q, want %q\n%s", word, want, g.log)
		}
	}
}

func TestSupervised(t *testing.T) {
	var warned bytes.Buffer
	warn := func(msg string, args ...any) { warned.WriteString(msg + "\n") }
	t.Run("engines do not inherit the address", func(t *testing.T) {
		t.Setenv("NOTIFY_SOCKET", "@x")
		if s := supervised(warn); s.socket != "@x" || os.Getenv("NOTIFY_SOCKET") != "" {
			t.Errorf("%q, left is %q", s.socket, os.Getenv("NOTIFY_SOCKET"))
		}
	})
	t.Run("there is none", func(t *testing.T) {
		supervised(warn).stopping()
		if warned.Len() > 0 {
			t.Error(warned.String())
		}
	})
	t.Run("one that does not hear is no reason to fail", func(t *testing.T) {
		supervisor{filepath.Join(t.TempDir(), "nobody"), warn}.ready("serving")
		if got := warned.String(); got != "the supervisor cannot be told READY=1\n" {
			t.Errorf("%q", got)
		}
	})
}
