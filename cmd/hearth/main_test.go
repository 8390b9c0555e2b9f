package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be hearth: under that name, and as the engine of a slot, which is started by the
// program's own path.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		main()
	}
	testscript.Main(suite{m}, map[string]func(){"hearth": main, manyName: many})
}

// suite are the tests, not the commands for which the binary is started too.
type suite struct{ *testing.M }

// Run runs the tests. Every process that they start is spared the second for which the race detector has it wait before
// it ends; and four of them run at once, unless -parallel says otherwise: most of their time they wait for processes.
func (s suite) Run() int {
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	return s.M.Run()
}

// patience bounds everything that a test waits for.
const patience = time.Minute

// TestScripts runs testdata/*.txtar. Beside testscript's own commands they have:
//
//	start NAME args...                   starts "hearth args..." and waits until it serves; sets $NAME to its base URL and
//	                                     $NAME_ADDR to its address
//	terminate NAME                       sends SIGTERM; it must exit with 0, and stderr is then in the file NAME.log
//	answers STATUS METHOD URL [KEY [BODY]]  asks until the status comes; KEY may be file:NAME:PREFIX, the rest of the line
//	                                     of a file that begins with PREFIX
//	mode FILE 0600                       checks the permissions of a file
//	prints args...                       runs "hearth args..." in the test's own process
//	runs args...                         runs "hearth args..." in a process that all such lines of a script share
//	shows REGEXP args...                 runs "hearth args..." until its output matches
//	awaits FILE REGEXP                   looks at a file until it matches
//	murder NAME                          sends SIGKILL
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": scriptStart, "terminate": scriptTerminate, "answers": scriptAnswers, "mode": scriptMode,
			"shows": scriptShows, "prints": scriptPrints, "awaits": scriptAwaits, "murder": scriptMurder, "runs": scriptRuns,
		},
		Setup: func(e *testscript.Env) error {
			example, err := os.ReadFile("../../hearth.example.yaml")
			if err != nil {
				return err
			}
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Values[gatewaysKey{}] = make(map[string]*gateway)
			e.Values[processKey{}] = new(process)
			return os.WriteFile(filepath.Join(e.WorkDir, "hearth.example.yaml"), example, 0o600)
		},
	})
}

// gateway is a running hearth process.
type gateway struct {
	cmd  *exec.Cmd
	done chan error
}

func (g *gateway) kill() {
	_ = g.cmd.Process.Kill() // an error means that it has ended
	select {
	case err := <-g.done:
		g.done <- err
	case <-time.After(patience):
	}
}

// end sends SIGTERM and returns how the process ended.
func (g *gateway) end() error {
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-g.done:
		g.done <- err
		return err
	case <-time.After(patience):
		return fmt.Errorf("still there %s after SIGTERM", patience)
	}
}

type gatewaysKey struct{}

// running are the processes that a script has started, by name.
func running(ts *testscript.TestScript) map[string]*gateway {
	return ts.Value(gatewaysKey{}).(map[string]*gateway)
}

var serving = regexp.MustCompile(`msg=serving address=(http://([^/]+)/api/v1)`)

func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME args...")
	}
	log, err := os.Create(ts.MkAbs(args[0] + ".log"))
	ts.Check(err)
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	cmd := exec.Command("hearth", args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "MYIP_API_KEY=" + ts.Getenv("MYIP_API_KEY"), "OPENROUTER_API_KEY=x",
		"GORACE=" + ts.Getenv("GORACE"), "XDG_RUNTIME_DIR=" + ts.Getenv("WORK")} // each test has GPUs of its own
	cmd.Stdout, cmd.Stderr = out, log
	ts.Check(cmd.Start())
	g := &gateway{cmd, make(chan error, 1)}
	go func() { g.done <- cmd.Wait() }()
	ts.Defer(func() { g.kill(); log.Close(); out.Close() })
	running(ts)[args[0]] = g
	err = poll(func() bool {
		m := serving.FindStringSubmatch(ts.ReadFile(args[0] + ".log"))
		if m == nil {
			return false
		}
		ts.Setenv(args[0], m[1])
		ts.Setenv(args[0]+"_ADDR", m[2])
		return true
	})
	if err != nil {
		ts.Fatalf("hearth %s does not serve: %s", args[1:], ts.ReadFile(args[0]+".log"))
	}
}

func scriptTerminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: terminate NAME")
	}
	if err := running(ts)[args[0]].end(); err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, ts.ReadFile(args[0]+".log"))
	}
}

func scriptAnswers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: answers STATUS METHOD URL [KEY [BODY]]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	key, body := "", ""
	if len(args) > 3 {
		key = args[3]
		if file, prefix, ok := strings.Cut(strings.TrimPrefix(key, "file:"), ":"); ok {
			key = lineOf(ts.ReadFile(file), prefix)
		}
	}
	if len(args) > 4 {
		body = args[4]
	}
	last := ""
	err = poll(func() bool {
		req, err := http.NewRequest(args[1], args[2], strings.NewReader(body))
		ts.Check(err)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err.Error()
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		last = fmt.Sprintf("%d %s", resp.StatusCode, b)
		return resp.StatusCode == want
	})
	if err != nil {
		ts.Fatalf("%s %s: %s, want %d", args[1], args[2], last, want)
	}
}

// lineOf is the rest of the line of text that begins with prefix.
func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode FILE 0600")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%#o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

// poll asks until ok says yes.
func poll(ok func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s", patience)
		case <-tick.C:
		}
	}
	return nil
}
