package crash

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"syscall"
	"testing"
	"time"
)

var (
	kills      = flag.Int("kills", 3, "how often the gateway is killed")
	durability = flag.String("durability", "process", "process or power")
)

// program is the hearth binary, built once; summary is the last line of the output.
var program, summary string

func TestMain(m *testing.M) {
	if dir := os.Getenv(clientEnv); dir != "" {
		clientMain(dir)
		return
	}
	dir, err := os.MkdirTemp("", "hearth-crash-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "hearth")
	if out, err := exec.Command("go", "build", "-o", program, "myip.co.kr/hearth/cmd/hearth").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build hearth: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if summary != "" {
		fmt.Println(summary)
	}
	os.Exit(code)
}

// limit is what the client's key may spend: more than it can.
const limit = "900000000"

// gateway is a hearth serve that is killed and started again on the same address and data.
type gateway struct {
	t         *testing.T
	dir, addr string
	key       string
	cmd       *exec.Cmd
	log       *os.File
	done      chan struct{}
}

func (g *gateway) path(name string) string { return filepath.Join(g.dir, name) }

// newGateway makes the configuration and the client's key, after prepare has done what it wants in the directory.
func newGateway(t *testing.T, durability string, prepare func(*gateway)) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir()}
	prepare(g)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	ln.Close()
	if err := os.WriteFile(g.path("hearth.yaml"), []byte(configuration(upstream(t), durability)), 0o600); err != nil {
		t.Fatal(err)
	}
	create := g.command("keys", "create", "client", "--limit", limit)
	out, err := create.Output()
	if err != nil {
		t.Fatalf("keys create: %v", err)
	}
	g.key = strings.TrimSpace(string(out))
	if g.log, err = os.Create(g.path("log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.log.Close()
		if b, err := os.ReadFile(g.path("log")); err == nil && t.Failed() {
			t.Logf("log:\n%s", b[max(0, len(b)-8000):])
		}
	})
	return g
}

func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, append(args, "--config", g.path("hearth.yaml"))...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+g.dir)
	return cmd
}

// start starts the process and does not wait for it.
func (g *gateway) start() {
	g.t.Helper()
	g.cmd, g.done = g.command("serve", "--listen", g.addr), make(chan struct{})
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	cmd, done := g.cmd, g.done
	go func() { _ = cmd.Wait(); close(done) }()
	g.t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
}

// ready waits until the process answers.
func (g *gateway) ready() {
	g.t.Helper()
	within(g.t, "the gateway answers", func() bool {
		select {
		case <-g.done:
			g.t.Fatalf("the gateway ended by itself: %s", g.cmd.ProcessState)
		default:
		}
		resp, err := http.Get("http://" + g.addr + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (g *gateway) kill() {
	g.t.Helper()
	select {
	case <-g.done:
		g.t.Fatalf("the gateway ended by itself: %s", g.cmd.ProcessState)
	default:
	}
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	<-g.done
}

// end ends the process in an orderly way.
func (g *gateway) end() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
	select {
	case <-g.done:
	case <-time.After(time.Minute):
		g.t.Fatal("the gateway did not end within a minute")
	}
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Errorf("the gateway ended with code %d", code)
	}
}

// within asks again and again until ok: real processes take their own time.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(60 * time.Second)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// client is the process that asks for answers.
type client struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	in  io.Closer
	err bytes.Buffer
}

func startClient(t *testing.T, g *gateway) *client {
	t.Helper()
	c := &client{t: t, dir: t.TempDir(), cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), clientEnv+"="+c.dir, "HEARTH_CRASH_ADDRESS="+g.addr, "HEARTH_CRASH_KEY="+g.key)
	c.cmd.Stderr = &c.err
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// end lets the client finish what it is at.
func (c *client) end() {
	c.t.Helper()
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("client: %v\n%s", err, c.err.String())
	}
	if c.err.Len() > 0 {
		c.t.Errorf("what the client did not understand:\n%.2000s", c.err.String())
	}
}

// TestCrash kills a gateway at random moments of its life, also while it starts, and reconciles what a client was told
// with what is in the records.
func TestCrash(t *testing.T) {
	g := newGateway(t, *durability, func(*gateway) {})
	g.start()
	g.ready()
	c := startClient(t, g)
	for i := range *kills {
		if i%5 != 4 {
			g.ready()
		}
		<-time.After(time.Duration(rand.IntN(500)) * time.Millisecond)
		g.kill()
		g.start()
	}
	g.ready()
	c.end()
	g.unreserved()
	g.end()
	r := reconcile(t, g, c)
	summary = fmt.Sprintf("kills=%d served=%d lost=%d doubled=%d mismatched=%d", *kills, r.served, r.lost, r.doubled, r.mismatched)
	t.Log(summary)
	t.Logf("%d records of answers that the client did not see to their end, %d of them complete, %d streams cut", r.unseen, r.complete, r.cut)
	if r.lost+r.doubled+r.mismatched > 0 || r.served < 5**kills {
		t.Errorf("not every answer is in the records once and as it was: %s", summary)
	}
}
