package node

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"myip.co.kr/hearth"
)

// logged is a log that is read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns what was written since the last call.
func (l *logged) lines() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.b.String()), "\n")
	l.b.Reset()
	return all
}

// another follows the world's machine too, and tells nobody but a log.
func (w *world) another(dial Dialer) (*Client, *logged) {
	w.t.Helper()
	log := new(logged)
	n := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: "http://machine/", Token: token}}
	c, err := Dial(n, []*hearth.Slot{{Name: "a", Node: n, Model: &hearth.Model{ID: "x/a"}}}, ClientOptions{Dial: dial, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		w.t.Fatal(err)
	}
	c.Watch(nil)
	return c, log
}

// The log says each reason once, and nothing of a machine that is not followed any more.
func TestFollow_Log(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c, log := w.another(w.wire.dial)
		wait(time.Second)
		if got := log.lines(); len(got) != 1 || !strings.Contains(got[0], "level=INFO") || !strings.Contains(got[0], "answers") {
			t.Errorf("at first %q", got)
		}
		w.wire.freeze()
		wait(2*stale - time.Millisecond)
		if got := log.lines(); len(got) != 1 || !strings.Contains(got[0], "silent for two seconds") {
			t.Errorf("after a silence %q", got)
		}
		w.wire.down.Store(true)
		w.wire.cut()
		wait(20 * time.Second)
		got := log.lines()
		if n := strings.Count(strings.Join(got, "\n"), "connection refused"); n != 1 || !strings.Contains(got[len(got)-1], "connection refused") {
			t.Errorf("after a loss %q", got)
		}
		if v := c.View("a"); !v.Unknown || v.Since.IsZero() {
			t.Errorf("%+v", v)
		}
		w.wire.down.Store(false)
		wait(retryMost)
		if got := log.lines(); len(got) != 1 || !strings.Contains(got[0], "level=INFO") {
			t.Errorf("when it is back %q", got)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := log.lines(); got[0] != "" {
			t.Errorf("in the end %q", got)
		}
	})
}

// After a stream that brought something the next one is soon asked for.
func TestFollow_Retry(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.crash()
		wait(20 * time.Second)
		w.wire.down.Store(false)
		wait(retryMost)
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown {
			t.Fatalf("not known: %+v", v)
		}
		w.wire.cut()
		wait(2 * retryFirst)
		synctest.Wait()
		if v := w.client.View("a"); v.Unknown {
			t.Errorf("not known again: %+v", v)
		}
	})
}

// A picture is as old as it is since it was made; the time to connect does not count. Who cannot connect in time says so.
func TestFollow_SlowConnect(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		const slow = stale * 3 / 4
		c, _ := w.another(func(ctx context.Context, network, address string) (net.Conn, error) {
			wait(slow)
			return w.wire.dial(ctx, network, address)
		})
		wait(slow)
		synctest.Wait()
		if v := c.View("a"); v.Unknown || time.Since(c.sight.Load().at) > 0 {
			t.Errorf("seen %v ago: %+v", time.Since(c.sight.Load().at), v)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		c, log := w.another(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		wait(stale)
		if got := log.lines(); len(got) != 1 || !strings.Contains(got[0], "silent for two seconds") {
			t.Errorf("%q", got)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
