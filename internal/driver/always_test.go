package driver

import (
	"net/http"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

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
	const url = "http://127.0.0.1:1"
	run, ask := &hearth.Action{Command: []string{"true"}}, &hearth.Action{URL: "/x"}
	for name, s := range map[string]*hearth.Slot{
		"no driver":                {},
		"unknown driver":           {Driver: "podman"},
		"no command":               {Driver: Exec},
		"empty command":            {Driver: Exec, Command: []string{""}},
		"no URL":                   {Driver: Always},
		"URL without host":         {Driver: Always, URL: "http:///x"},
		"URL of a file":            {Driver: Always, URL: "file:///etc/passwd"},
		"command without start":    {Driver: Command, URL: url, Actions: hearth.Actions{Stop: run}},
		"command without stop":     {Driver: Command, URL: url, Actions: hearth.Actions{Start: run}},
		"command with a request":   {Driver: Command, URL: url, Actions: hearth.Actions{Start: run, Stop: ask}},
		"command without URL":      {Driver: Command, Actions: hearth.Actions{Start: run, Stop: run}},
		"requests without stop":    {Driver: HTTP, URL: url, Actions: hearth.Actions{Start: ask}},
		"unknown preset":           {Driver: HTTP, URL: url, Preset: "tgi"},
		"docker without a name":    {Driver: Docker, URL: url},
		"docker without an engine": {Driver: Docker, Container: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := New(Options{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if d, err := all.For(s); err == nil {
				t.Errorf("it makes %v", d)
			}
		})
	}
}

func TestAlways(t *testing.T) {
	t.Parallel()
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
