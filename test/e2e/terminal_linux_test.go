package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"unsafe"
)

// terminal opens a pair of a window and the terminal in it.
func terminal(t *testing.T) (window, tty *os.File) {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { window.Close() })
	raw, err := window.SyscallConn() // Fd would make the file block, and its Close wait for readers
	if err != nil {
		t.Fatal(err)
	}
	var number, unlock uint32
	var refused syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		if _, _, refused = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))); refused == 0 {
			_, _, refused = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number)))
		}
	}); err != nil || refused != 0 {
		t.Fatalf("open a terminal: %v, %v", err, refused)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return window, tty
}

// A terminal that is closed ends the gateway in order.
func TestLostTerminal_Closed(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP) // tests under nohup would hand it on to the gateway
	defer signal.Stop(c)
	g := start(t, world{})
	g.signal(syscall.SIGTERM)
	g.end()
	window, tty := terminal(t)
	g.tty = tty
	g.run()
	g.served(g.chat(ask(gemma, "")), local, gemma)
	pids := g.engines()
	tty.Close()
	window.Close()
	if code := g.end(); code != 0 || !gone(pids[0]) {
		t.Errorf("exit code %d, engine gone %v", code, gone(pids[0]))
	}
}
