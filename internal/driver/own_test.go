package driver

import (
	"context"
	"errors"
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

// bystander is a process that is none of ours, with the environment env.
func bystander(t *testing.T, group int, env ...string) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// Whatever a process of an engine does to its group, its environment or its files: by one of the three it is found.
func TestDescendants(t *testing.T) {
	for name, born := range map[string]string{
		"in the group": `sh -c 'echo $$ >F; exec sleep 1000' &`,
		"in the group, without the tag and the files":   `env -i sh -c 'exec 3>&- 4>&-; echo $$ >F; exec sleep 1000' &`,
		"in a session of its own":                       `setsid sh -c 'echo $$ >F; exec sleep 1000' &`,
		"in a session of its own, without the files":    `setsid sh -c 'exec 3>&- 4>&-; echo $$ >F; exec sleep 1000' &`,
		"in a session of its own, without the tag":      `setsid env -i sh -c 'echo $$ >F; exec sleep 1000' &`,
		"of a parent that has ended":                    `(setsid sh -c 'echo $$ >F; exec sleep 1000' &);`,
		"that hears no SIGTERM":                         `setsid sh -c 'trap "" TERM; echo $$ >F; while :; do sleep 1000; done' &`,
		"that begets while it is killed":                `setsid sh -c 'trap "" TERM; echo $$ >F; while :; do sleep 0.01 & wait; done' &`,
		"that is stopped":                               `setsid sh -c 'echo $$ >F; kill -STOP $$' &`,
		"with a name that looks like the end of a name": `cp $(command -v sleep) "./x) R 1 1"; setsid sh -c 'echo $$ >F; exec "./x) R 1 1" 1000' &`,
	} {
		for _, how := range []string{"stopped", "crashes"} {
			t.Run(name+"/its engine is "+how, func(t *testing.T) {
				t.Parallel()
				d := driversIn(t, t.TempDir())
				dir := t.TempDir()
				s := shell(strings.ReplaceAll(born, "F", filepath.Join(dir, "pid")) + " exec sleep 1000")
				s.Dir = dir
				e := startWith(t, d, s)
				pid := number(t, filepath.Join(dir, "pid"))
				if how == "stopped" {
					if err := e.Stop(t.Context(), 50*time.Millisecond); err != nil {
						t.Error(err)
					}
				} else {
					if err := syscall.Kill(pidOf(e), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					exited(t, e)
				}
				if running(t, pid) {
					t.Error("it is left")
				}
				if isHeld(d.file(s.Name, ".lock")) {
					t.Error("the lock is held")
				}
			})
		}
	}
}

// Nothing of anybody else's is ever touched, however like ours it looks.
func TestBystanders(t *testing.T) {
	t.Parallel()
	d := driversIn(t, t.TempDir())
	s := shell("setsid env -i sh -c 'echo up; exec sleep 1000' & exec sleep 1000") // one that only the lock gives away
	e := startWith(t, d, s)
	eventually(t, "it is up", func() bool { return len(e.LogTail()) == 1 })
	others := map[string]int{
		"nobody's":              bystander(t, 0),
		"of another slot":       bystander(t, 0, tagName+"="+d.id+"/s2"),
		"of another directory":  bystander(t, 0, tagName+"=X"+d.id+"/s"),
		"of no slot":            bystander(t, 0, tagName+"="+d.id+"/"),
		"with another variable": bystander(t, 0, "X"+tagName+"="+d.id+"/s", "X="+tagName+"="+d.id+"/s"),
	}
	reader := exec.Command("sh", "-c", `exec 3<>"$0"; echo; exec sleep 1000`, d.file("s", ".lock")) // as a backup may do
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Process.Kill(); _ = reader.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	others["that has the lock's file open"] = reader.Process.Pid
	stop(t, e)
	for name, pid := range others {
		if !running(t, pid) {
			t.Errorf("a process %s was ended", name)
		}
	}
	// What bears the tag of a slot of ours is ours: the sweep below would end it, and is to have nothing left to do.
	if err := syscall.Kill(others["of another slot"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(others["of no slot"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	heard := filepath.Join(t.TempDir(), "heard")
	cmd := exec.Command("sh", "-c", `trap 'echo 1 >>F' USR1; trap 'echo 2 >>F' USR2; echo up >>F; while :; do sleep 0.01; done`)
	cmd.Args[2] = strings.ReplaceAll(cmd.Args[2], "F", heard)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	has := func(want string) func() bool {
		return func() bool { b, _ := os.ReadFile(heard); return string(b) == want }
	}
	eventually(t, "it hears", has("up\n"))
	p, err := look(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.start++ // as if the number had been given to another process meanwhile
	other.signal(syscall.SIGUSR1)
	p.signal(syscall.SIGUSR2) // the kernel delivers the lower number first
	eventually(t, "only the right one is heard", has("up\n2\n"))
	p.signal(syscall.SIGKILL)
	eventually(t, "it is killed", func() bool { return !running(t, p.pid) })
	p.signal(syscall.SIGKILL) // nobody there
}

func TestStop(t *testing.T) {
	t.Run("an engine that waits for a second SIGTERM gets it at half of the grace", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		e := startWith(t, d, shell(`n=0; trap 'n=$((n+1)); [ $n -lt 2 ] || exit 5' TERM; echo up; while :; do sleep 0.01; done`))
		eventually(t, "it is up", func() bool { return len(e.LogTail()) == 1 })
		const grace = 6 * time.Second
		begin := time.Now()
		if err := e.Stop(t.Context(), grace); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < grace/2 || took >= grace {
			t.Errorf("the stop took %v", took)
		}
		if got := exited(t, e); got != "engine exited with code 5" {
			t.Errorf("exit error %q", got)
		}
	})
	t.Run("a second stop does not touch the next start", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		s := shell("exec sleep 1000")
		first := startWith(t, d, s)
		stop(t, first)
		second := startWith(t, d, s)
		stop(t, first)
		if !running(t, pidOf(second)) {
			t.Error("the next start was stopped")
		}
		if _, ok := d.load("s"); !ok {
			t.Error("the next start's record is gone")
		}
	})
	t.Run("an ended context kills", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		e := startWith(t, d, shell(`trap "" TERM; echo up; while :; do sleep 1000; done`))
		eventually(t, "it is up", func() bool { return len(e.LogTail()) == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Stop(ctx, time.Hour) }()
		eventually(t, "it is being stopped", func() bool { _, ok := d.load("s"); return !ok })
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the stop goes on")
		}
	})
	t.Run("what cannot be seen is not forgotten", func(t *testing.T) {
		d := driversIn(t, t.TempDir())
		f, err := lock(d.file("s", ".lock")) // by this process, which is never among those that are looked at
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		err = ending{d: d, name: "s", force: 20 * time.Millisecond}.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "s.lock") {
			t.Error(err)
		}
		var busy *slot.BusyError
		d.killWait = 20 * time.Millisecond
		if e, err := (execDriver{d}).Start(t.Context(), shell("")); !errors.As(err, &busy) {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// The device of an exclusive node is held by its engine itself: a second engine is kept out although it is another
// gateway's, with another directory, and the first one's is gone.
func TestDevice(t *testing.T) {
	t.Parallel()
	locks := t.TempDir()
	one, two := driversIn(t, t.TempDir()), driversIn(t, t.TempDir())
	one.o.LockDir, two.o.LockDir = locks, locks
	first := startWith(t, one, shell("exec sleep 1000"))
	var busy *slot.BusyError
	if e, err := (execDriver{two}).Start(t.Context(), shell("")); !errors.As(err, &busy) {
		t.Errorf("%v, %v", e, err)
	}
	beside := shell("exec sleep 1000")
	beside.Node = &hearth.Node{Name: "n"} // not exclusive
	startWith(t, two, beside)
	elsewhere := shell("exec sleep 1000")
	elsewhere.Name, elsewhere.Node = "s2", &hearth.Node{Name: "n/2", Exclusive: true}
	startWith(t, two, elsewhere)
	stop(t, first)
	free := shell("exec sleep 1000")
	free.Name = "s3"
	startWith(t, two, free)
}

func TestEnvironmentOfAProcess(t *testing.T) {
	d := driversIn(t, t.TempDir())
	s := shell("env")
	s.Env = map[string]hearth.Secret{tagName: "another", "SPT_NOENV": "0"}
	if env := environment(s.Env, strings.NewReplacer()); strings.Contains(strings.Join(env, " "), "another") {
		t.Errorf("the configuration puts a tag into %q", env)
	}
	e := startWith(t, d, s)
	exited(t, e)
	var tags []string
	for _, l := range e.LogTail() {
		if strings.HasPrefix(l, tagName+"=") || strings.HasPrefix(l, "SPT_NOENV=") {
			tags = append(tags, l)
		}
	}
	if got := strings.Join(tags, " "); !strings.Contains(got, tagName+"="+d.id+"/s") || strings.Contains(got, "another") || len(tags) != 2 {
		t.Errorf("%q", got)
	}
}

func TestFilesAreOurs(t *testing.T) {
	d := driversIn(t, t.TempDir())
	s := shell("exec sleep 1000")
	s.Name = "../s/1" // a name is part of a file's name, never of its path
	s.Env = map[string]hearth.Secret{"KEY": "${api_key}"}
	e := startWith(t, d, s)
	for _, ext := range []string{".json", ".lock", ".log"} {
		st, err := os.Stat(filepath.Join(d.o.Dir, "..%2Fs%2F1"+ext))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != 0o600 {
			t.Errorf("%s has mode %v", ext, st.Mode())
		}
	}
	st, err := os.Stat(d.o.Dir)
	if err != nil || st.Mode().Perm() != 0o700 && st.Mode().Perm() != 0o755 { // the test made it
		t.Errorf("%v, %v", st, err)
	}
	r, ok := d.load(s.Name)
	if !ok || r.Key != e.APIKey().Reveal() || r.PID != pidOf(e) || r.Start == 0 || r.Boot == "" {
		t.Errorf("record %+v", r)
	}
	stop(t, e)
	if _, ok := d.load(s.Name); ok {
		t.Error("the record of a stopped engine is left")
	}
}
