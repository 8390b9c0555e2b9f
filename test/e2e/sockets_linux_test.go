package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// socket is one of a process's connections over TCP.
type socket struct {
	local, remote int // ports
	state         string
}

// sockets are those of a process now.
func sockets(t testing.TB, pid int) (list []socket) {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil { // it may be closed by now
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // a machine without it
		}
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			if len(f) > 9 && mine[f[9]] {
				list = append(list, socket{portOf(f[1]), portOf(f[2]), f[3]})
			}
		}
	}
	return list
}

func portOf(address string) int {
	_, port, _ := strings.Cut(address, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// listens says whether one of the processes waits for connections on the port.
func listens(t testing.TB, pids []int, port int) bool {
	for _, pid := range pids {
		if slices.ContainsFunc(sockets(t, pid), func(s socket) bool { return s.state == listening && s.local == port }) {
			return true
		}
	}
	return false
}

// listening is a socket's state in the system's table.
const listening = "0A"

// TestSockets: connections to engines that were stopped, swapped or killed are closed, and those to a provider are as many as
// requests went there at once at most, however many callers have left.
func TestSockets(t *testing.T) {
	t.Parallel()
	g := start(t, world{})
	conf, err := os.ReadFile(g.path("hearth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(conf), "base_url: http://127.0.0.1:")
	provider := 0
	if _, err := fmt.Sscanf(rest, "%d/", &provider); err != nil {
		t.Fatal(err)
	}
	own := g.base[strings.LastIndexByte(g.base, ':')+1:]
	const atOnce = 24
	for round := range 4 {
		var wg sync.WaitGroup
		for i := range 4 * atOnce {
			if i%atOnce == 0 {
				wg.Wait()
			}
			wg.Go(func() {
				body := ask([]string{gemma, exaone}[i/atOnce%2], [...]string{"", `, "provider": {"ignore": ["local-gpu"]}`}[i/atOnce/2])
				if i%5 > 0 {
					g.chat(body)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				g.leaves(ctx, strings.Replace(body, `{"model"`, `{"stream": true, "model"`, 1))
			})
		}
		wg.Wait()
		if pids := g.engines(); round%2 == 1 && len(pids) > 0 {
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			g.until("the engine is gone", func() bool { return gone(pids[0]) })
		}
		g.until("there are no connections to engines that are gone", func() bool {
			alive, there := g.engines(), 0
			for _, s := range sockets(t, g.cmd.Process.Pid) {
				switch {
				case s.state == listening, strconv.Itoa(s.local) == own:
				case s.remote == provider:
					there++
				case !listens(t, alive, s.remote):
					return false
				}
			}
			if there > atOnce {
				t.Fatalf("%d connections to the provider, for %d requests at once", there, atOnce)
			}
			return true
		})
	}
}

// leaves asks for a stream, and does not read it to its end.
func (g *gateway) leaves(ctx context.Context, body string) {
	req, err := http.NewRequestWithContext(ctx, "POST", g.base+"/api/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		g.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
	}
}
