package driver

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth/internal/slot"
)

// startHeld is startWith for an engine of which something is left until let is called: the end of its process is seen
// before its lock is free.
func startHeld(t *testing.T, d *Drivers, args ...string) (p *process, let func()) {
	t.Helper()
	s := engineSlot(t, args...)
	locks, err := d.seize(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(locks[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	p = d.process(s)
	if err := p.launch(locks, true); err != nil {
		t.Fatal(err)
	}
	go p.supervise()
	t.Cleanup(func() { stop(t, p) })
	return p, func() { _ = syscall.Close(fd) }
}

// The death of an engine that was ready is told at once, with its reason, and not only when all of it is gone.
func TestDied(t *testing.T) {
	t.Parallel()
	d := driversIn(t, t.TempDir())
	p, let := startHeld(t, d, "--fail-start=false", "--load", "0s")
	ready(t, p)
	select {
	case <-p.Died():
		t.Fatal("it lives")
	default:
	}
	if err := syscall.Kill(pidOf(p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Died():
	case <-time.After(time.Minute):
		t.Fatal("its death is not seen")
	}
	select {
	case <-p.Exited():
		t.Error("something of it is left")
	default:
	}
	if d := cmp.Diff(error(&slot.ExitError{Code: -1, Signal: "killed"}), p.ExitError()); d != "" {
		t.Error(d)
	}
	let()
	if how := exited(t, p); how != "engine ended by signal: killed" {
		t.Error(how)
	}
}

// An engine that was never ready may be launched once more: it has died only when it has exited.
func TestDiedBeforeItWasReady(t *testing.T) {
	d := driversIn(t, t.TempDir())
	p, let := startHeld(t, d, "--fail-start", "--load", "0s")
	eventually(t, "its process has ended", func() bool { return !running(t, pidOf(p)) })
	select {
	case <-p.Died():
		t.Error("it is not sure yet that there will be no other")
	default:
	}
	let()
	if how := exited(t, p); how != "engine exited with code 1" {
		t.Error(how)
	}
	select {
	case <-p.Died():
	case <-time.After(time.Minute):
		t.Error("it has exited and not died")
	}
}

// How a child ended is known before it is buried.
func TestAwaitExit(t *testing.T) {
	for script, want := range map[string]error{
		"exit 0":           &slot.ExitError{},
		"exit 3":           &slot.ExitError{Code: 3},
		"exit 255":         &slot.ExitError{Code: 255},
		"kill -TERM $$":    &slot.ExitError{Code: -1, Signal: "terminated"},
		"kill -SEGV $$":    &slot.ExitError{Code: -1, Signal: "segmentation fault"},
		"exec sleep 0.001": &slot.ExitError{},
	} {
		t.Run(script, func(t *testing.T) {
			cmd, _ := command(shell(script), 1)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			got := awaitExit(cmd.Process.Pid)
			_ = cmd.Wait()
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(want, exitError(cmd.ProcessState)); d != "" {
				t.Errorf("buried: %s", d)
			}
		})
	}
	if err := awaitExit(1 << 30); err != nil {
		t.Errorf("of no child: %v", err)
	}
}
