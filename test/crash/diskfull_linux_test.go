package crash

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDiskFull fills the disk of a gateway under load. A request whose record would have no place is refused before it is
// dispatched; what was answered is recorded; and when there is space again all goes on, without a restart.
func TestDiskFull(t *testing.T) {
	all := []string{"process"}
	if *kills >= 50 {
		all = append(all, "power")
	}
	for _, d := range all {
		t.Run(d, func(t *testing.T) {
			g := newGateway(t, d, func(g *gateway) {
				data := g.path("data")
				if err := os.Mkdir(data, 0o700); err != nil {
					t.Fatal(err)
				}
				err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=96m")
				if errors.Is(err, syscall.EPERM) {
					t.Skip("a small file system cannot be mounted by this user")
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
			})
			g.start()
			g.ready()
			c := startClient(t, g)
			fill(t, g.path("data/filler"))
			var body string
			within(t, "the full disk is noticed", func() bool {
				status, b := g.ask()
				body = b
				return status == http.StatusServiceUnavailable
			})
			if !strings.Contains(body, `"type":"overloaded"`) {
				t.Errorf("refused with %s", body)
			}
			if err := os.Remove(g.path("data/filler")); err != nil {
				t.Fatal(err)
			}
			within(t, "the gateway serves again", func() bool { status, _ := g.ask(); return status == http.StatusOK })
			c.end()
			g.unreserved()
			g.end()
			r := reconcile(t, g, c)
			t.Logf("%+v", r)
			if r.lost+r.doubled+r.mismatched > 0 || r.served == 0 {
				t.Errorf("not every answer is in the records once and as it was: %+v", r)
			}
		})
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
