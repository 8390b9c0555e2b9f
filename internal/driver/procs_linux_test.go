package driver

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// headlessMode in the environment makes this test binary a process whose first thread ends, while the others run on.
const headlessMode = "HEARTH_TEST_HEADLESS"

func init() {
	if os.Getenv(headlessMode) != "" {
		runtime.LockOSThread() // the main goroutine to the first thread
	}
}

func headlessMain() int {
	go func() {
		defer os.Exit(1)
		<-time.After(time.Hour)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread only
	return 1
}

// tagged starts a process with a tag, which is killed at the end of the test and is buried only then.
func tagged(t *testing.T, env ...string) int {
	t.Helper()
	cmd := exec.Command(self(t))
	cmd.Args = []string{cmd.Path, "--port", "1"}
	cmd.Env = append(env, tagName+"=D/s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// At every instant of its life a process says whose it is: while its program has not quite begun, and while it is ending.
func TestTagOfAProcess(t *testing.T) {
	t.Parallel()
	var r reader
	for range 50 {
		pid := tagged(t, engineMode+"=1")
		name, far := strconv.Itoa(pid), time.Now().Add(time.Minute)
		if p, err := r.settled(name, pid, far); err != nil || p.dead || p.tag != "D/s" {
			t.Fatalf("just started: %+v, %v", p, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for dead := false; !dead; {
			p, err := r.settled(name, pid, far)
			if dead = p.dead; err != nil || !dead && p.tag != "D/s" {
				t.Fatalf("killed: %+v, %v", p, err)
			}
		}
	}
}

func TestSettled(t *testing.T) {
	t.Run("a process without any environment is not waited for", func(t *testing.T) {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		quick(t, cmd.Process.Pid)
	})
	t.Run("nor a thread of the kernel", func(t *testing.T) {
		const kthreadd = 2
		if comm, err := os.ReadFile("/proc/2/comm"); err != nil || string(comm) != "kthreadd\n" {
			t.Skip("the threads of the kernel are not to be seen here")
		}
		quick(t, kthreadd)
	})
	t.Run("nor one that has ended", func(t *testing.T) {
		pid := tagged(t, engineMode+"=1")
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has ended", func() bool { return !running(t, pid) })
		quick(t, pid)
	})
	t.Run("nor one whose first thread has ended, which still runs", func(t *testing.T) {
		pid := tagged(t, headlessMode+"=1")
		eventually(t, "its first thread has ended", func() bool {
			s, err := new(reader).look(strconv.Itoa(pid), pid)
			return err == nil && s.headless
		})
		if !running(t, pid) {
			t.Error("it is taken for dead")
		}
		if p := quick(t, pid); p.tag != "D/s" {
			t.Errorf("its tag is %q", p.tag)
		}
	})
}

// quick reads a process, which must not be waited for.
func quick(t *testing.T, pid int) proc {
	t.Helper()
	done := make(chan proc, 1)
	go func() {
		p, err := new(reader).settled(strconv.Itoa(pid), pid, time.Now().Add(time.Hour))
		if err != nil {
			t.Error(err)
		}
		done <- p
	}()
	select {
	case p := <-done:
		return p
	case <-time.After(time.Minute):
		t.Fatal("it is waited for")
		return proc{}
	}
}
