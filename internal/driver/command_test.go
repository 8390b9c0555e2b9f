package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// commandSlot is a slot whose actions are shell scripts.
func commandSlot(start, stop, status string) *hearth.Slot {
	sh := func(script string) *hearth.Action {
		if script == "" {
			return nil
		}
		return &hearth.Action{Command: []string{"sh", "-c", script}}
	}
	return &hearth.Slot{Name: "s", Driver: Command, URL: "http://127.0.0.1:1", Node: &hearth.Node{Name: "n"}, Model: &hearth.Model{ID: "acme/tiny"},
		Actions: hearth.Actions{Start: sh(start), Stop: sh(stop), Status: sh(status)}}
}

// failure probes until the engine has failed.
func failure(t *testing.T, s *hearth.Slot) (string, []string) {
	t.Helper()
	e := start(t, s)
	why := ""
	eventually(t, "it has failed", func() bool {
		r, err := e.Probe(t.Context())
		if r.Ready {
			t.Fatal("ready")
		}
		if err != nil {
			why = err.Error()
		}
		return err != nil
	})
	return why, e.LogTail()
}

func TestCommandStart(t *testing.T) {
	t.Run("a start that fails tells its code and its last word", func(t *testing.T) {
		why, log := failure(t, commandSlot("echo loading; echo no such unit >&2; exit 3", "true", ""))
		if why != "start the engine: start command ended with exit status 3: no such unit" || strings.Join(log, "|") != "loading|no such unit" {
			t.Errorf("%q, log %q", why, log)
		}
	})
	t.Run("a program that is not there", func(t *testing.T) {
		s := commandSlot("", "true", "")
		s.Actions.Start = &hearth.Action{Command: []string{"/no/such/program"}}
		if why, _ := failure(t, s); !strings.Contains(why, "no such file") {
			t.Errorf("%q", why)
		}
	})
	t.Run("a start that takes too long is ended with its children", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pid")
		s := commandSlot(`trap "" TERM; sh -c 'echo $$ > `+file+`; trap "" TERM; while :; do sleep 1; done' & wait; wait`, "true", "")
		s.Actions.Start.Timeout = 2 * time.Second // its child has begun by then
		begin := time.Now()
		if why, _ := failure(t, s); !strings.Contains(why, "deadline exceeded") {
			t.Errorf("%q", why)
		}
		if took := time.Since(begin); took < 2*time.Second || took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
		child := pidIn(t, file)
		eventually(t, "its child is gone", func() bool { return !pidAlive(child) })
	})
	t.Run("environment, directory and model", func(t *testing.T) {
		t.Setenv("HEARTH_SECRET_OF_OURS", "leaked")
		s := commandSlot(`echo "$WORD ${model} $(pwd) [$HEARTH_SECRET_OF_OURS] [$HEARTH_SLOT]"; exit 1`, "true", "")
		s.UpstreamModel, s.Dir, s.Env = "tiny:1b", "/", map[string]hearth.Secret{"WORD": "for ${model}"}
		if _, log := failure(t, s); strings.Join(log, "|") != "for tiny:1b tiny:1b / [] []" {
			t.Errorf("log %q", log)
		}
	})
	t.Run("no shell but that of the operator", func(t *testing.T) {
		s := commandSlot("", "true", "")
		s.UpstreamModel = "$(touch x); y"
		s.Actions.Start = &hearth.Action{Command: []string{"sh", "-c", `printf '%s\n' "$1"; exit 1`, "sh", "${model}"}}
		if _, log := failure(t, s); strings.Join(log, "|") != "$(touch x); y" {
			t.Errorf("log %q", log)
		}
	})
	t.Run("endless output is bounded", func(t *testing.T) {
		s := commandSlot(`i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; exit 1`, "true", "")
		if why, log := failure(t, s); len(log) != logLines || !strings.HasSuffix(why, "line 2999") {
			t.Errorf("%q, %d lines", why, len(log))
		}
	})
}

func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	eventually(t, "the process has written its number", func() bool {
		b, _ := os.ReadFile(file)
		for _, c := range strings.TrimSpace(string(b)) {
			pid = pid*10 + int(c-'0')
		}
		return pid > 0
	})
	return pid
}

func TestCommandStop(t *testing.T) {
	t.Parallel()
	t.Run("a stop that fails is an error, and may be tried again", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ok")
		e := start(t, commandSlot("true", "test -e "+file+" || { echo busy; exit 7; }", "false"))
		err := e.Stop(t.Context(), time.Second)
		if err == nil || err.Error() != "stop the engine: stop command ended with exit status 7: busy" {
			t.Errorf("%v", err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		stop(t, e)
		select {
		case <-e.Exited():
		default:
			t.Error("its end is not told")
		}
	})
	t.Run("it waits until the status says that nothing runs", func(t *testing.T) {
		dir := t.TempDir()
		up := filepath.Join(dir, "up")
		e := start(t, commandSlot("touch "+up, "(sleep 0.4; rm "+up+") >/dev/null 2>&1 &", "test -e "+up))
		eventually(t, "it is started", func() bool { _, err := os.Stat(up); return err == nil })
		stop(t, e)
		if _, err := os.Stat(up); err == nil {
			t.Error("it still runs")
		}
	})
	t.Run("without a status it is gone when it does not answer", func(t *testing.T) {
		f := startFake(t, vllm)
		f.state = "loaded"
		s := commandSlot("true", "true", "")
		s.URL, s.Actions.Stop.Timeout = f.http.URL, 300*time.Millisecond
		e := start(t, s)
		ready(t, e)
		if err := e.Stop(t.Context(), 0); err == nil {
			t.Error("an engine that still answers is said to be gone")
		}
		f.http.Close()
		stop(t, e)
	})
	t.Run("what the status cannot say is an error", func(t *testing.T) {
		s := commandSlot("true", "true", "x")
		s.Actions.Status = &hearth.Action{Command: []string{"/no/such/program"}}
		e := start(t, s)
		if err := e.Stop(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "status command") {
			t.Errorf("%v", err)
		}
		s.Actions.Status.Command = []string{"false"}
		stop(t, e)
	})
}

func TestCommandStatus(t *testing.T) {
	t.Parallel()
	t.Run("an engine that ends before it is ready has failed", func(t *testing.T) {
		dir := t.TempDir()
		up := filepath.Join(dir, "up")
		e := start(t, commandSlot("touch "+up, "rm -f "+up, "test -e "+up))
		eventually(t, "its status was asked", func() bool {
			_, err := e.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o := e.(*ordered)
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.ran
		})
		if err := os.Remove(up); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has failed", func() bool { _, err := e.Probe(t.Context()); return err != nil })
	})
	t.Run("an engine that answers is ready, whatever the status says", func(t *testing.T) {
		f := startFake(t, vllm)
		f.state = "loaded"
		s := commandSlot("true", "true", "false")
		s.URL = f.http.URL
		e := start(t, s)
		ready(t, e)
		e.(*ordered).asked = time.Time{}
		if r, err := e.Probe(t.Context()); err != nil || !r.Ready || r.Facts.Warning != "its status says that it does not run" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
