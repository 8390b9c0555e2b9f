package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// demoRun is a running "hearth demo" and what it printed.
type demoRun struct {
	gateway
	text   string // all of standard output up to its last line
	base   string // http://127.0.0.1:PORT/api/v1
	key    string // what the text tells to export, or what was given
	tmp    string // its TMPDIR
	stderr *lockedBuffer
}

// startDemo runs hearth demo on a free port; key is given to it unless it is empty. through is a shell line that runs it
// in its place, or "". It gets a process group of its own, so that nothing of it outlives a test that failed.
func startDemo(t *testing.T, key, through string) *demoRun {
	t.Helper()
	d := &demoRun{key: key, tmp: t.TempDir(), stderr: new(lockedBuffer)}
	args := []string{"hearth", "demo", "--listen", "127.0.0.1:0"}
	if through != "" {
		args = []string{"sh", "-c", through}
	}
	d.cmd = exec.Command(args[0], args[1:]...)
	d.cmd.Env = []string{"HOME=" + d.tmp, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + d.tmp, "MYIP_API_KEY=" + key, "GORACE=" + os.Getenv("GORACE")}
	d.cmd.Stderr = d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.done = make(chan error, 1)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) // an error means that nothing is left of the group
		d.kill()
		if t.Failed() {
			t.Logf("the demo printed\n%s\nand logged\n%s", d.text, d.stderr)
		}
	})
	read := make(chan string, 1)
	go func() {
		var text strings.Builder
		for s := bufio.NewScanner(out); s.Scan(); {
			text.WriteString(s.Text() + "\n")
			if strings.HasPrefix(s.Text(), "Ctrl-C") {
				break
			}
		}
		read <- text.String()
		_, _ = io.Copy(io.Discard, out)
		d.done <- d.cmd.Wait()
	}()
	select {
	case d.text = <-read:
	case <-time.After(patience):
		t.Fatalf("the demo is not ready: %s", d.stderr)
	}
	m := regexp.MustCompile(`^Hearth is ready at (http://127\.0\.0\.1:[0-9]+/api/v1)\n`).FindStringSubmatch(d.text)
	if m == nil {
		t.Fatalf("no base URL in %q; %s", d.text, d.stderr)
	}
	d.base = m[1]
	if key == "" {
		m := regexp.MustCompile(`export MYIP_API_KEY=(sk-myip-[0-9A-Za-z]+)\)`).FindStringSubmatch(d.text)
		if m == nil {
			t.Fatalf("no key in %q", d.text)
		}
		d.key = m[1]
	}
	if err := poll(func() bool { return d.health() == http.StatusOK }); err != nil {
		t.Fatalf("/health is not 200: %v", err)
	}
	return d
}

func (d *demoRun) health() int {
	resp, err := http.Get(strings.TrimSuffix(d.base, "/api/v1") + "/health")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// commands are the curl lines of the text, each on one line.
func (d *demoRun) commands() []string {
	var list []string
	joined := strings.ReplaceAll(d.text, "\\\n", " ")
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
			list = append(list, line)
		}
	}
	return list
}

// engines are the command lines of the engines whose parent is the process.
func engines(t *testing.T, parent int) []string {
	t.Helper()
	var found []string
	want := fmt.Sprintf("--parent-pid\x00%d", parent)
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Skip("this system has no /proc to look for processes in")
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && bytes.Contains(b, []byte(want)) { // one that ended meanwhile cannot be read
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

func (d *demoRun) leftovers(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(d.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left behind: %s", e.Name())
	}
}

func TestDemo_Ends(t *testing.T) {
	t.Parallel()
	wake := func(t *testing.T, d *demoRun) {
		t.Helper()
		if s := withGo(t, d, d.commands()[1]); s.status != http.StatusOK {
			t.Fatalf("%d %s", s.status, s.body)
		}
	}
	t.Run("at SIGTERM it leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, "", "")
		wake(t, d)
		if len(engines(t, d.cmd.Process.Pid)) == 0 {
			t.Error("no engine runs after an answer: this test cannot see engines")
		}
		if err := d.end(); err != nil {
			t.Errorf("exit: %v", err)
		}
		if left := engines(t, d.cmd.Process.Pid); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
		d.leftovers(t)
	})
	t.Run("at SIGTERM with a load under way", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, "", "")
		withGo(t, d, strings.Replace(d.commands()[1], " -d ", ` -H "X-MyIP-Max-Wait: 0.1" -d `, 1))
		if err := d.end(); err != nil {
			t.Errorf("exit: %v", err)
		}
		if left := engines(t, d.cmd.Process.Pid); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
		d.leftovers(t)
	})
	t.Run("killed, its engines end by themselves", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, "", "")
		wake(t, d)
		if len(engines(t, d.cmd.Process.Pid)) == 0 {
			t.Error("no engine runs after an answer: this test cannot see engines")
		}
		if err := d.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := poll(func() bool { return len(engines(t, d.cmd.Process.Pid)) == 0 }); err != nil {
			t.Errorf("engines outlive a killed demo: %v", engines(t, d.cmd.Process.Pid))
		}
	})
	t.Run("with the go command that ran it", func(t *testing.T) {
		t.Parallel()
		// go run puts the program into a directory of this name and passes no signal on to it.
		program := filepath.Join(t.TempDir(), "go-build123", "b001", "exe", "hearth")
		copyProgram(t, program)
		d := startDemo(t, "", program+" demo --listen 127.0.0.1:0; :") // the shell stays its parent
		if err := d.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := poll(func() bool { return d.health() == 0 }); err != nil {
			t.Error("the demo outlives the command that started it")
		}
		if err := poll(func() bool { left, err := os.ReadDir(d.tmp); return err == nil && len(left) == 0 }); err != nil {
			d.leftovers(t)
		}
	})
	t.Run("at once if its address is taken", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, "", "")
		tmp := t.TempDir()
		cmd := exec.Command("hearth", "demo", "--listen", strings.TrimSuffix(strings.TrimPrefix(d.base, "http://"), "/api/v1"))
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "is in use") || !strings.Contains(string(out), "--listen") {
			t.Errorf("%v: %s", err, out)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}

// copyProgram gives hearth another path that is no symbolic link: a program finds its real path behind those.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Link(from, to) == nil {
		return
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestDemo_SecondSignal(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "", "")
	// A stream of Acme at full length goes on while the demo is told to end, and again.
	control := regexp.MustCompile(`http://\S+/control`).FindString(d.text)
	withGo(t, d, "curl "+control+` -d '{"fault":"none","tokens_per_second":1}'`)
	req, err := http.NewRequest(http.MethodPost, d.base+"/chat/completions", strings.NewReader(
		`{"model":"google/gemma-4-26b-a4b","stream":true,"provider":{"only":["acme"]},"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began := time.Now()
	for range 2 {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := poll(func() bool { return strings.Contains(d.stderr.String(), "shutting down") }); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	if err != nil || !strings.Contains(string(b), `"finish_reason":"error"`) || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %.300q, %v", b[max(0, len(b)-300):], err)
	}
	if err := d.end(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if took > 4500*time.Millisecond {
		t.Errorf("the second signal did not end the grace of 5 s: %s", took)
	}
}

// lockedBuffer is written by a process's output and read by a test.
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
