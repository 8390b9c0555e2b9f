package driver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// keeper is a driver that remembers the engines it started.
type keeper struct {
	slot.Driver
	t       *testing.T
	mu      sync.Mutex
	engines []slot.Engine
}

func (k *keeper) Start(ctx context.Context, s *hearth.Slot) (slot.Engine, error) {
	e, err := k.Driver.Start(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	if e != nil {
		for _, old := range k.engines {
			if groupAlive(k.t, pidOf(old)) {
				panic("two engines on one GPU")
			}
		}
		k.engines = append(k.engines, e)
	}
	return e, err
}

func (k *keeper) last() slot.Engine {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.engines) == 0 {
		return nil
	}
	return k.engines[len(k.engines)-1]
}

// gpu is a fleet of two models on one exclusive node, both run by real processes with the command line args, the
// first one's with one more.
func gpu(t *testing.T, firstArg string, args ...string) (*slot.Fleet, *hearth.Catalog, *keeper) {
	t.Helper()
	node := &hearth.Node{Name: "gpu-1", Exclusive: true}
	c := &hearth.Catalog{Nodes: []*hearth.Node{node}}
	k := &keeper{t: t}
	for i, id := range []string{"acme/one", "acme/two"} {
		s := engineSlot(t, args...)
		s.Index, s.Name, s.Node, s.Model, s.Concurrency = i, id, node, &hearth.Model{ID: id}, 2
		s.Wait = time.Minute
		c.Slots = append(c.Slots, s)
		if i == 0 {
			s.Command = append(s.Command, firstArg)
		}
		k.Driver = driverOf(t, s)
	}
	f, err := slot.NewFleet(c, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return k, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, e := range k.engines {
			if groupAlive(t, pidOf(e)) {
				t.Errorf("process %d is left", pidOf(e))
			}
		}
	})
	return f, c, k
}

// lease lets chat talk to the engine of a lease.
type lease struct{ *slot.Lease }

func (l lease) URL() string           { return l.Lease.URL }
func (l lease) APIKey() hearth.Secret { return l.Lease.APIKey }

func acquire(t *testing.T, f *slot.Fleet, s *hearth.Slot) lease {
	t.Helper()
	l, err := f.Acquire(t.Context(), slot.Ask{Slot: s, Budget: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return lease{l}
}

func TestFleetOfProcesses(t *testing.T) {
	t.Parallel()
	t.Run("the answer comes from the model that was asked for, through three swaps", func(t *testing.T) {
		f, c, k := gpu(t, "--fail-start=false", "--load", "50ms")
		for i := range 4 {
			s := c.Slots[i%2]
			l := acquire(t, f, s)
			if status, body := chat(t, l); status != http.StatusOK || !strings.Contains(body, "I am "+s.Model.ID) {
				t.Errorf("%s answers %d %s", s.Name, status, body)
			}
			l.Release()
		}
		if len(k.engines) != 4 {
			t.Errorf("%d engines were started", len(k.engines))
		}
	})
	t.Run("kill -9 of the engine: the next request is served by another one", func(t *testing.T) {
		f, c, k := gpu(t, "--fail-start=false", "--load", "0s")
		acquire(t, f, c.Slots[0]).Release()
		dead := k.last()
		if err := syscall.Kill(pidOf(dead), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the death is noticed", func() bool {
			return strings.HasPrefix(f.View(c.Slots[0]).LastError, "engine ended by signal: killed") // and what it logged, by then
		})
		l := acquire(t, f, c.Slots[0])
		if status, body := chat(t, l); status != http.StatusOK || !strings.Contains(body, "I am acme/one") || k.last() == dead {
			t.Errorf("it answers %d %s", status, body)
		}
		l.Release()
	})
	t.Run("a model that cannot be loaded fails its slot, not the node", func(t *testing.T) {
		f, c, _ := gpu(t, "--fail-start", "--load", "0s")
		_, err := f.Acquire(t.Context(), slot.Ask{Slot: c.Slots[0], Budget: time.Minute})
		var r *slot.Refusal
		if !errors.As(err, &r) || r.Word != hearth.SkipFailed || r.Message != "engine exited with code 1: the model could not be loaded; see the gateway's log" {
			t.Errorf("refusal %v", err)
		}
		if v := f.View(c.Slots[0]); v.LastError != "engine exited with code 1: loading model acme/one | failed to load model: the file is truncated" {
			t.Errorf("view %+v", v)
		}
		acquire(t, f, c.Slots[1]).Release()
	})
	t.Run("closing while an engine loads leaves no process", func(t *testing.T) {
		f, c, k := gpu(t, "--fail-start=false", "--load", "1h")
		gone := make(chan error, 1)
		go func() {
			_, err := f.Acquire(context.Background(), slot.Ask{Slot: c.Slots[0], Budget: time.Hour})
			gone <- err
		}()
		eventually(t, "it starts", func() bool { return k.last() != nil })
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if groupAlive(t, pidOf(k.last())) {
			t.Error("the process is left")
		}
		if err := <-gone; err == nil {
			t.Error("the waiter was served")
		}
	})
}
