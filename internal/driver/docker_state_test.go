package driver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// containerAt are the orders for a container of a daemon that answers every request as h does.
func containerAt(t *testing.T, name string, h http.HandlerFunc) orders {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	d, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	o, err := d.docker(&hearth.Slot{Container: name, Docker: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o
}

// TestDockerStates is what each state of a container says of the engine in it.
func TestDockerStates(t *testing.T) {
	for state, want := range map[string]struct {
		alive alive
		code  int // of the exit, -1 = none is told
	}{
		"created":      {runsNot, -1},
		"running":      {runs, -1},
		"paused":       {runs, -1}, // its memory is taken
		"removing":     {runs, -1}, // it may still be there
		"exited":       {runsNot, 3},
		"dead":         {runsNot, 3},
		"restarting":   {runsNot, 3}, // by its own policy, which the gateway does not wait for
		"never heard!": {runsNot, -1},
	} {
		t.Run(state, func(t *testing.T) {
			o := containerAt(t, "gemma", func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"State": map[string]any{"Status": state, "ExitCode": 3, "Error": "no such device"}})
			})
			got, err := o.status(t.Context())
			exit, code := (*slot.ExitError)(nil), -1
			if errors.As(err, &exit) {
				code = exit.Code
				if !strings.HasSuffix(err.Error(), ": no such device") {
					t.Errorf("the daemon's reason is lost: %v", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if got != want.alive || code != want.code {
				t.Errorf("state %d, code %d", got, code)
			}
		})
	}
}

func TestDockerName(t *testing.T) {
	var paths []string
	o := containerAt(t, "a/b?c", func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		w.WriteHeader(http.StatusNoContent)
	})
	if err := o.start(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(paths, " "); got != "/containers/a%2Fb%3Fc/start" {
		t.Errorf("asked %s", got)
	}
}

// An answer that is too long is not read, but its status is.
func TestDockerLongAnswer(t *testing.T) {
	o := containerAt(t, "gemma", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprint(w, strings.Repeat("x", 16<<20))
	})
	if err := o.start(t.Context()); err == nil || !strings.Contains(err.Error(), `starting the container "gemma" is answered with status 500`) {
		t.Error(err)
	}
}
