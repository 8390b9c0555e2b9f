package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// connectAs connects to a socket as another user and reads until the other end closes. It leaves the thread that was the
// other user to its end.
func connectAs(uid int, path string) error {
	got := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			got <- e
			return
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			got <- err
			return
		}
		defer syscall.Close(fd)
		limit := syscall.Timeval{Sec: 10}
		if err := errors.Join(syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit), syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})); err != nil {
			got <- err
			return
		}
		n, err := syscall.Read(fd, make([]byte, 1))
		if n != 0 && err == nil {
			err = errors.New("something was said")
		}
		got <- err
	}()
	return <-got
}

// TestAdmin_OtherUsers: whoever else gets at the socket is not let in.
func TestAdmin_OtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	dir, err := os.MkdirTemp("/tmp", "hearth-admin-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "admin.sock")
	ln, err := openSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := connectAs(65534, path); !errors.Is(err, syscall.EACCES) {
		t.Errorf("the file keeps nobody out: %v", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil { // as if somebody had opened it
		t.Fatal(err)
	}
	var log bytes.Buffer
	own := ownUser{ln, slog.New(slog.NewTextHandler(&log, nil))}
	accepted := make(chan error, 1)
	go func() {
		c, err := own.Accept()
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	if err := connectAs(65534, path); err != nil {
		t.Errorf("another user is not turned away: %v", err)
	}
	select {
	case err := <-accepted:
		t.Fatalf("another user is let in: %v", err)
	default:
	}
	if err := connectAs(0, path); err != nil {
		t.Error(err)
	}
	select {
	case err := <-accepted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the own user is not let in")
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "another user was refused at the admin socket") || !strings.Contains(log.String(), "uid=65534") {
		t.Errorf("log %q", log.String())
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}
