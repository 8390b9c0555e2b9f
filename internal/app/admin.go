package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"myip.co.kr/hearth/internal/server"
)

// maxSocketPath is the longest path of a socket that systems take, in bytes.
const maxSocketPath = 107

// socketPath is where a gateway with this data directory listens for its operator.
func socketPath(dataDir string) string { return filepath.Join(dataDir, "admin.sock") }

// listenAdmin opens the socket on which the operator needs no key. The data directory is this process's own: a socket that
// is there is a dead gateway's. Without one the gateway serves all the same, and the log says why.
func (a *App) listenAdmin() {
	path := socketPath(a.config().DataDir)
	ln, err := openSocket(path)
	if err != nil {
		a.log.Warn("there is no admin socket: hearth slots and its like need --url and an admin key", "path", path, "error", err)
		return
	}
	a.admin = ownUser{ln, a.log}
	a.push(func(context.Context) error {
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) { // as it is when it was served
			return err
		}
		return nil
	})
}

func openSocket(path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("its path has %d bytes, a socket's may have %d: choose a shorter data_dir", len(path), maxSocketPath)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("something that is no socket is in its place: move it away")
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	conf := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) }) // where that has an effect, nobody else can be quicker
	}}
	ln, err := conf.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln.(*net.UnixListener), nil
}

// ownUser lets only this process's user in, and root.
type ownUser struct {
	*net.UnixListener
	log *slog.Logger
}

// Accept returns the next connection of who may operate the gateway.
func (l ownUser) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, known := peer(c)
		if !known || uid == 0 || uid == os.Geteuid() {
			return c, nil // where the system does not tell, the mode of the file decides
		}
		l.log.Warn("another user was refused at the admin socket", "uid", uid)
		_ = c.Close() // nobody is to be told
	}
}

// serveAdmin answers the operator on the admin socket until stop is called, which waits for nobody for long.
func (a *App) serveAdmin(base context.Context, h http.Handler) (stop func()) {
	if a.admin == nil {
		return func() {}
	}
	srv := httpServer(base, a.adminRoutes(h), a.log)
	plain := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return server.Trusted(plain(ctx, c)) }
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(a.admin) }()
	return func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(base), time.Second)
		defer cancel()
		if srv.Shutdown(limited) != nil {
			_ = srv.Close() // what is still being said is not worth waiting for
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			a.log.Warn("the admin socket was closed early", "error", err)
		}
	}
}
