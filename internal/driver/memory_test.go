package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	with := func(t *testing.T, limit time.Duration, script string) (*Drivers, *hearth.Slot) {
		t.Helper()
		d := driversIn(t, t.TempDir())
		d.memoryWait = limit
		s := shell("exit 0")
		s.MinFree = 3000*mib + 1
		s.Node.FreeMemory = []string{"sh", "-c", script}
		return d, s
	}
	t.Run("enough over all devices", func(t *testing.T) {
		d, s := with(t, 0, "echo 1000; echo ' 2001 '")
		if err := d.room(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
	t.Run("it is waited for", func(t *testing.T) {
		left := filepath.Join(t.TempDir(), "left")
		d, s := with(t, time.Minute, "if [ -e "+left+" ]; then echo 9000; else echo 10; touch "+left+"; fi")
		if err := d.room(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
	t.Run("but not for ever, and the engine is not to blame", func(t *testing.T) {
		d, s := with(t, 10*time.Millisecond, "echo 3000")
		var busy *slot.BusyError
		e, err := execDriver{d}.Start(t.Context(), s)
		if !errors.As(err, &busy) || busy.Message != "the device has 3000 MiB of memory free, and 3001 MiB are needed" {
			t.Errorf("%v, %v", e, err)
		}
		if s.MinFree = 0; isHeld(d.file(s.Name, ".lock")) {
			t.Error("the lock is kept")
		}
		exited(t, startWith(t, d, s))
	})
	t.Run("a command that fails, hangs or talks nonsense is told as it is", func(t *testing.T) {
		for script, want := range map[string]string{
			"exit 3":                      "exit status 3",
			"echo [N/A]":                  `"[N/A]" is not a number of MiB`,
			"echo -5":                     "is not a number",
			"echo 99999999999999":         "is not a number",
			"yes 1099511627776 | head -3": "too much",
			"true":                        "it says nothing",
		} {
			d, s := with(t, 0, script)
			var busy *slot.BusyError
			if err := d.room(t.Context(), s); err == nil || errors.As(err, &busy) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", script, err)
			}
		}
	})
	t.Run("a command that is not there is not waited for", func(t *testing.T) {
		for _, command := range []string{"no-such-command", filepath.Join(t.TempDir(), "free")} {
			d, s := with(t, time.Hour, "")
			s.Node.FreeMemory = []string{command}
			var busy *slot.BusyError
			if err := d.room(t.Context(), s); err == nil || errors.As(err, &busy) || !strings.Contains(err.Error(), command) {
				t.Errorf("%s: %v", command, err)
			}
		}
	})
	t.Run("who asks may leave, and the command with what it started ends", func(t *testing.T) {
		pid := filepath.Join(t.TempDir(), "pid")
		d, s := with(t, time.Hour, "sleep 1000 & echo $! >"+pid+"; wait")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- d.room(ctx, s) }()
		eventually(t, "the command runs", func() bool { b, err := os.ReadFile(pid); return err == nil && len(b) > 1 })
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		eventually(t, "the command has ended", func() bool { return !running(t, number(t, pid)) })
	})
	t.Run("who wants none does not ask", func(t *testing.T) {
		d, s := with(t, 0, "exit 1")
		s.MinFree = 0
		if err := d.room(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
}
