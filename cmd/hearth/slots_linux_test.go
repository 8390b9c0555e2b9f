package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// onTerminal runs a command whose standard output is a terminal of so many columns, and returns what it prints.
func onTerminal(t *testing.T, columns uint16, args ...string) string {
	t.Helper()
	return withTerminal(t, columns, func(tty *os.File) {
		var errs bytes.Buffer
		run(args, streams{strings.NewReader(""), tty, &errs})
	})
}

// withTerminal makes a terminal of so many columns and returns what was written to it.
func withTerminal(t *testing.T, columns uint16, use func(tty *os.File)) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	defer screen.Close()
	ioctl := func(f *os.File, request uintptr, arg unsafe.Pointer) {
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); e != 0 {
			t.Fatalf("make a terminal: %v", e)
		}
	}
	var locked, number int32
	ioctl(screen, syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	ioctl(screen, syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{40, columns}
	ioctl(screen, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, screen) // ends with an error when the last program has left the terminal
		read <- b.String()
	}()
	use(tty)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}

func TestSlots_Terminal(t *testing.T) {
	slots := func(state, more string) string { _, url := newStandIn(t, oneSlot(state, more)); return url }
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for state, want := range map[string]string{
		"ready": "\x1b[32mready  \x1b[0m", "asleep": "\x1b[2masleep  \x1b[0m", "starting": "\x1b[33mstarting  \x1b[0m", "failed": "\x1b[31mfailed  \x1b[0m",
		"unknown": "\x1b[31munknown: its machine does not answer  \x1b[0m",
	} {
		if out := onTerminal(t, 200, "slots", "--url", slots(state, "")); !strings.Contains(out, want) || strings.Count(out, "\x1b") != 2 {
			t.Errorf("%s: %q", state, out)
		}
	}
	if out := onTerminal(t, 200, "slots", "--url", slots("ready", `,"disabled":true`)); !strings.Contains(out, "\x1b[35mdisabled (ready)  \x1b[0m") {
		t.Errorf("%q", out)
	}
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		t.Run(env, func(t *testing.T) {
			name, value, _ := strings.Cut(env, "=")
			t.Setenv(name, value)
			if out := onTerminal(t, 200, "slots", "--url", slots("ready", "")); strings.Contains(out, "\x1b") || !strings.Contains(out, "ready") {
				t.Errorf("%q", out)
			}
		})
	}
	t.Run("a narrow one", func(t *testing.T) {
		out := onTerminal(t, 60, "slots", "--url", slots("failed", `,"last_error":"한국어 오류 메시지 `+strings.Repeat("x", 100)+`"`))
		for line := range strings.Lines(out) {
			line = strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "", "\n", "").Replace(line)
			if n := len([]rune(line)); n > 60 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if !strings.Contains(out, "…") {
			t.Errorf("%q", out)
		}
	})
	t.Run("a watch draws over what was there", func(t *testing.T) {
		g, url := newStandIn(t, oneSlot("asleep", ""))
		g.steps <- func() { g.slots = oneSlot("ready", "") }
		close(g.steps)
		out := onTerminal(t, 200, "slots", "--watch", "--url", url)
		if !strings.HasPrefix(out, "\x1b[") || !strings.Contains(out, "\x1b[H") || !strings.HasSuffix(out, "\x1b[J") || !strings.Contains(out, "NOTE\x1b[K\n") {
			t.Errorf("%q", out)
		}
	})
}
