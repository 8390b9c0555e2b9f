package driver

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// TestContract is what every driver must keep, shown with engines that are real processes.
func TestContract(t *testing.T) {
	kinds := map[string]func(t *testing.T, args ...string) *hearth.Slot{
		Exec: engineSlot,
		Always: func(t *testing.T, args ...string) *hearth.Slot {
			other := start(t, engineSlot(t, args...)) // somebody else's
			listens(t, other)
			return &hearth.Slot{Name: "s", Driver: Always, URL: other.URL() + "/", Node: &hearth.Node{}, Model: &hearth.Model{ID: "acme/tiny"}}
		},
	}
	for name, slotWith := range kinds {
		t.Run(name+"/ready after the load, not before, and then it serves", func(t *testing.T) {
			const load = 300 * time.Millisecond
			begin := time.Now()
			e := start(t, slotWith(t, "--load", load.String()))
			if ok, err := e.Probe(t.Context()); ok.Ready || err != nil {
				t.Errorf("the probe of a loading engine says %v, %v", ok, err)
			}
			ready(t, e)
			if took := time.Since(begin); took < load {
				t.Errorf("ready after %v", took)
			}
			if strings.HasSuffix(e.URL(), "/") {
				t.Errorf("URL %q", e.URL())
			}
			if status, body := chat(t, e); status != http.StatusOK || !strings.Contains(body, "I am acme/tiny") {
				t.Errorf("the engine answers %d %s", status, body)
			}
			select {
			case <-e.Exited():
				t.Error("the engine is said to have exited")
			default:
			}
			stop(t, e)
		})
		t.Run(name+"/an engine without a health route is asked for its models", func(t *testing.T) {
			s := slotWith(t, "--load", "0s")
			s.Probe = "/no/such/path"
			ready(t, start(t, s))
		})
		t.Run(name+"/stop twice", func(t *testing.T) {
			e := start(t, slotWith(t, "--load", "1h"))
			stop(t, e)
			stop(t, e)
		})
		t.Run(name+"/an ended context starts nothing", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s := slotWith(t)
			if e, err := driverOf(t, s).Start(ctx, s); err == nil {
				t.Errorf("it gives %v", e)
			}
		})
		t.Run(name+"/a probe obeys its context", func(t *testing.T) {
			e := start(t, slotWith(t, "--load", "0s"))
			ready(t, e)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if ok, err := e.Probe(ctx); ok.Ready || err != nil {
				t.Errorf("it says %v, %v", ok, err)
			}
		})
	}
}

// listens waits until the engine answers anything.
func listens(t *testing.T, e slot.Engine) {
	t.Helper()
	eventually(t, "it listens", func() bool {
		res, err := http.Get(e.URL() + "/health")
		if err == nil {
			res.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		return err == nil
	})
}

func TestNew(t *testing.T) {
	for name, s := range map[string]*hearth.Slot{
		"no driver":        {},
		"unknown driver":   {Driver: "docker"},
		"no command":       {Driver: Exec},
		"empty command":    {Driver: Exec, Command: []string{""}},
		"no URL":           {Driver: Always},
		"URL without host": {Driver: Always, URL: "http:///x"},
		"URL of a file":    {Driver: Always, URL: "file:///etc/passwd"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			if made, err := d.For(s); err == nil {
				t.Errorf("it makes %v", made)
			}
		})
	}
}

func TestAlways(t *testing.T) {
	t.Run("nobody there is a failure, not a wait", func(t *testing.T) {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		s := &hearth.Slot{Driver: Always, URL: "http://" + addr(port)}
		e := start(t, s)
		if ok, err := e.Probe(t.Context()); ok.Ready || err == nil {
			t.Errorf("the probe says %v, %v", ok, err)
		}
	})
	t.Run("an engine that wants another key is a failure", func(t *testing.T) {
		e := start(t, engineSlot(t, "--load", "0s", "--api-key", "other"))
		listens(t, e)
		s := &hearth.Slot{Driver: Always, URL: e.URL(), Probe: "/v1/models", Model: &hearth.Model{ID: "acme/tiny"}}
		if ok, err := start(t, s).Probe(t.Context()); ok.Ready || err == nil {
			t.Errorf("the probe says %v, %v", ok, err)
		}
		s.APIKey = "other"
		with := start(t, s)
		ready(t, with)
		if status, body := chat(t, with); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("an engine that is killed under it is noticed", func(t *testing.T) {
		other := start(t, engineSlot(t, "--load", "0s"))
		ready(t, other)
		e := start(t, &hearth.Slot{Driver: Always, URL: other.URL(), Model: &hearth.Model{ID: "acme/tiny"}})
		ready(t, e)
		stop(t, other)
		eventually(t, "the probe fails", func() bool {
			_, err := e.Probe(t.Context())
			return err != nil
		})
	})
}
