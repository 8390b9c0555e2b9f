package driver

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func pidOf(e slot.Engine) int { return e.(*process).now.PID }

func TestExec(t *testing.T) {
	t.Parallel()
	t.Run("a failed start is seen at once, with its code and its last lines", func(t *testing.T) {
		begin := time.Now()
		e := start(t, engineSlot(t, "--fail-start"))
		if got := exited(t, e); got != "engine exited with code 1" {
			t.Errorf("exit error %q", got)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		want := []string{"loading model acme/tiny", "failed to load model: the file is truncated"}
		if diff := cmp.Diff(want, e.LogTail()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a program that is not there", func(t *testing.T) {
		s := shell("")
		s.Command = []string{"/no/such/engine"}
		if e, err := driverOf(t, s).Start(t.Context(), s); err == nil {
			t.Errorf("it gives %v", e)
		}
	})
	t.Run("kill -9 is seen", func(t *testing.T) {
		e := start(t, engineSlot(t, "--load", "0s"))
		ready(t, e)
		if err := syscall.Kill(pidOf(e), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := exited(t, e); got != "engine ended by signal: killed" {
			t.Errorf("exit error %q", got)
		}
	})
	t.Run("its own process group", func(t *testing.T) {
		e := start(t, engineSlot(t, "--load", "0s"))
		pgid, err := syscall.Getpgid(pidOf(e))
		if err != nil || pgid != pidOf(e) {
			t.Errorf("group %d of process %d, %v", pgid, pidOf(e), err)
		}
	})
	t.Run("a polite engine ends by itself", func(t *testing.T) {
		e := start(t, engineSlot(t, "--load", "0s"))
		ready(t, e)
		if err := e.Stop(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if got := exited(t, e); got != "engine exited with code 0" {
			t.Errorf("exit error %q", got)
		}
	})
	t.Run("a stubborn engine is killed after the grace, with its group", func(t *testing.T) {
		e := start(t, shell(`trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 1000; done' & echo up; while :; do sleep 1000; done`))
		eventually(t, "it is up", func() bool { return slices.Contains(e.LogTail(), "up") })
		const grace = 200 * time.Millisecond
		begin := time.Now()
		if err := e.Stop(t.Context(), grace); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < grace || took > grace+20*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if groupAlive(t, pidOf(e)) {
			t.Error("a process of the group is left")
		}
	})
	t.Run("a grandchild that holds the output does not hide the exit and does not stay", func(t *testing.T) {
		begin := time.Now()
		e := start(t, shell(`sleep 1000 & exit 7`))
		if got := exited(t, e); got != "engine exited with code 7" {
			t.Errorf("exit error %q", got)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		stop(t, e)
		if groupAlive(t, pidOf(e)) {
			t.Error("the grandchild is left")
		}
	})
}

func TestExecSettings(t *testing.T) {
	t.Run("environment and working directory", func(t *testing.T) {
		t.Setenv("HEARTH_TEST_HIDDEN", "must not be seen")
		t.Setenv("CUDA_VISIBLE_DEVICES", "0")
		t.Setenv("HIP_PATH", "/opt")
		t.Setenv("LANG", "C")
		t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
		s := shell("pwd; env")
		s.Dir = t.TempDir()
		s.Env = map[string]hearth.Secret{"TOKEN": "s3cret", "LANG": "ko_KR.UTF-8", "ADDR": "x:${port}", "NAME": "${model}"}
		e := start(t, s)
		exited(t, e)
		got := e.LogTail()
		dir, err := filepath.EvalSymlinks(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		port := e.URL()[strings.LastIndex(e.URL(), ":"):]
		for _, want := range []string{
			dir, "TOKEN=s3cret", "LANG=ko_KR.UTF-8", "ADDR=x" + port, "NAME=acme/tiny",
			"CUDA_VISIBLE_DEVICES=0", "HIP_PATH=/opt", "PATH=/usr/local/bin:/usr/bin:/bin",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if all := strings.Join(got, "\n"); strings.Contains(all, "HEARTH_TEST_HIDDEN") || strings.Contains(all, "LANG=C\n") {
			t.Errorf("too much in %q", got)
		}
	})
	t.Run("a random API key for each start", func(t *testing.T) {
		keys := map[hearth.Secret]bool{}
		for range 2 {
			e := start(t, engineSlot(t, "--load", "0s", "--api-key", "${api_key}"))
			ready(t, e)
			if e.APIKey() == "" || keys[e.APIKey()] {
				t.Errorf("key %q", e.APIKey().Reveal())
			}
			keys[e.APIKey()] = true
			if status, body := chat(t, e); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			stop(t, e)
		}
		if e := start(t, engineSlot(t)); e.APIKey() != "" {
			t.Error("a key that nobody asked for")
		}
	})
	t.Run("a fixed port", func(t *testing.T) {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		s := engineSlot(t, "--load", "0s")
		s.Port = port
		e := start(t, s)
		ready(t, e)
		if e.URL() != "http://"+addr(port) {
			t.Errorf("URL %q", e.URL())
		}
	})
	t.Run("a fixed port that is taken is a failure", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := engineSlot(t, "--load", "0s")
		s.Port = l.Addr().(*net.TCPAddr).Port
		exited(t, start(t, s))
	})
	// The script says on its first starts that its port is taken, as if somebody had been faster.
	script := func(t *testing.T, failures int) *hearth.Slot {
		count := filepath.Join(t.TempDir(), "count")
		s := engineSlot(t)
		engine := strings.Join(s.Command, " ")
		s.Command = []string{"sh", "-c", fmt.Sprintf(`echo ${port} >>%s; if [ $(wc -l <%s) -le %d ]; then
			echo "bind: Address already in use"; exit 1; fi; exec %s --load 0s`, count, count, failures, engine)}
		s.Dir = filepath.Dir(count)
		return s
	}
	ports := func(t *testing.T, s *hearth.Slot) []string {
		b, err := os.ReadFile(filepath.Join(s.Dir, "count"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	t.Run("a port that was taken meanwhile is tried again with another", func(t *testing.T) {
		s := script(t, 2)
		e := start(t, s)
		ready(t, e)
		got := ports(t, s)
		if len(got) != 3 || got[0] == got[2] || !strings.HasSuffix(e.URL(), ":"+got[2]) {
			t.Errorf("ports %q, URL %q", got, e.URL())
		}
	})
	t.Run("but not for ever", func(t *testing.T) {
		s := script(t, 100)
		e := start(t, s)
		if got := exited(t, e); got != "engine exited with code 1" {
			t.Errorf("exit error %q", got)
		}
		if got := ports(t, s); len(got) != bindTries {
			t.Errorf("ports %q", got)
		}
	})
}

func TestTail(t *testing.T) {
	var out tail
	for i := range 250 {
		fmt.Fprintf(&out, "line %d\r\n\n", i)
	}
	out.Write([]byte("\x1b[31m" + strings.Repeat("가", 200) + "\nab"))
	out.Write([]byte("c\xff"))
	got := out.last()
	if len(got) != logLines || got[0] != "line 152" || got[97] != "line 249" {
		t.Errorf("%d lines from %q", len(got), got[0])
	}
	if long := got[98]; len(long) > logWidth || !strings.HasPrefix(long, " [31m가가") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("the long line is %q", long)
	}
	if got[99] != "abc" {
		t.Errorf("the unfinished line is %q", got[99])
	}
	if out.saysBind() {
		t.Error("nothing was said about a port")
	}
	fmt.Fprintln(&out, "ERROR: [Errno 98] error while attempting to bind on address")
	if !out.saysBind() {
		t.Error("the port was not understood")
	}
}
