package driver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   3: 0200007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 14 1 0 100 0 0 10 0
   4: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 15 1 0 100 0 0 10 0
   5: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 16 1 0 100 0 0 10 0
   6: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 17 1
   7: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 18 1
   8: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 19 1
   9: nonsense
  10: :1F90 x 0A 0 0 0 0 0 0 20
  11: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
  12: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21 1 0 100 0 0 10 0
`
	var got [3][]string
	path := filepath.Join(t.TempDir(), "tcp")
	if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := listening(path, 8080, &got); err != nil {
		t.Fatal(err)
	}
	want := [3][]string{{"socket:[11]", "socket:[16]", "socket:[19]"}, {"socket:[12]"}, {"socket:[17]"}}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("rank %d: %q, want %q", i, got[i], want[i])
		}
	}
	t.Run("two that share an address", func(t *testing.T) {
		share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			const reusePort = 15
			var err error
			return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, reusePort, 1) }), err)
		}}
		one, err := share.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		two, err := share.Listen(context.Background(), "tcp", one.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		if got, err := listeners(one.Addr().(*net.TCPAddr).Port); len(got) != 2 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}
