package driver

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/engine"
	"myip.co.kr/hearth/internal/slot"
)

func (d *fakeDocker) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *fakeDocker) asked(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if strings.Contains(c, what) {
			return true
		}
	}
	return false
}

func TestDockerStart(t *testing.T) {
	t.Run("a container that runs already is started", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny"})
		first, second := start(t, d.slot()), start(t, d.slot()) // of two gateways, each with its own directory
		ready(t, first)
		ready(t, second)
	})
	t.Run("no such container", func(t *testing.T) {
		d := startDocker(t, engine.Config{})
		d.name = ""
		if why, _ := failure(t, d.slot()); why != `start the engine: docker has no such container: "gemma"` {
			t.Errorf("%s", why)
		}
	})
	t.Run("it cannot be started", func(t *testing.T) {
		d := startDocker(t, engine.Config{})
		d.broken = `could not select device driver "" with capabilities: [[gpu]]`
		if why, _ := failure(t, d.slot()); !strings.HasSuffix(why, "is answered with status 500: "+d.broken) {
			t.Errorf("%s", why)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		d := startDocker(t, engine.Config{})
		s := d.slot()
		s.Docker = "unix:///no/such/docker.sock"
		e, err := driverOf(t, s).Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it fails", func() bool {
			_, err := e.Probe(t.Context())
			return err != nil && strings.Contains(err.Error(), "docker does not answer")
		})
		if err := e.Stop(t.Context(), 0); err == nil {
			t.Error("what cannot be asked is said to be stopped")
		}
	})
	t.Run("unhealthy", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny", Load: time.Hour})
		d.health = "unhealthy"
		e := start(t, d.slot())
		eventually(t, "it says so", func() bool {
			r, err := e.Probe(t.Context())
			return err == nil && r.Why == "docker says that the container is unhealthy"
		})
	})
}

func TestDockerExit(t *testing.T) {
	t.Run("out of memory", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny"})
		e := start(t, d.slot())
		ready(t, e)
		d.end(137, true)
		if why := exited(t, e); why != "engine exited with code 137: the container ran out of memory" {
			t.Errorf("%s", why)
		}
		if exit := (*slot.ExitError)(nil); !errors.As(e.ExitError(), &exit) || exit.Code != 137 {
			t.Errorf("%v", e.ExitError())
		}
	})
	t.Run("seen without being told", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny", Load: time.Hour})
		e := start(t, d.slot())
		eventually(t, "it is watched", func() bool { return d.asked("/wait") })
		d.set(func() { d.status, d.code = "exited", 1 }) // and nobody wakes the watch
		eventually(t, "a probe sees it", func() bool {
			_, err := e.Probe(t.Context())
			return err != nil && strings.Contains(err.Error(), "code 1")
		})
		d.set(func() { d.status = "running" })
	})
	t.Run("removed", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny", Load: time.Hour})
		e := start(t, d.slot())
		eventually(t, "it runs", func() bool { return d.is() == "running" })
		d.end(0, false)
		d.set(func() { d.name = "" })
		exited(t, e)
		stop(t, e)
	})
}

func TestDockerStop(t *testing.T) {
	t.Run("the grace is the daemon's", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny"})
		e := start(t, d.slot())
		ready(t, e)
		if err := e.Stop(t.Context(), 1500*time.Millisecond); err != nil || !d.asked("/stop?t=2") || d.asked("/kill") {
			t.Errorf("%v, %v", err, d.calls)
		}
	})
	t.Run("in a hurry it is killed", func(t *testing.T) {
		d := startDocker(t, engine.Config{Model: "acme/tiny"})
		d.stubborn = true
		e := start(t, d.slot())
		ready(t, e)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if err := e.Stop(ctx, time.Minute); err != nil || d.is() != "exited" || !d.asked("/kill") {
			t.Errorf("%v, %s, %v", err, d.is(), d.calls)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("one that was never started", func(t *testing.T) {
		d := startDocker(t, engine.Config{})
		s := d.slot()
		e, err := driverOf(t, s).(orderDriver).engine(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		close(e.watched)
		stop(t, e)
	})
}

func TestDockerLog(t *testing.T) {
	for name, tty := range map[string]bool{"frames": false, "a terminal": true} {
		t.Run(name, func(t *testing.T) {
			d := startDocker(t, engine.Config{Model: "acme/tiny"})
			d.tty = tty
			e := start(t, d.slot())
			ready(t, e)
			if got := strings.Join(e.LogTail(), "|"); got != "loading|ready" {
				t.Errorf("log %q", got)
			}
		})
	}
	t.Run("frames that are none", func(t *testing.T) {
		for _, b := range [][]byte{nil, {1}, make([]byte, 7), append([]byte{1, 0, 0, 0, 255, 255, 255, 255}, "cut"...), append(make([]byte, 8), "rest"...)} {
			var w tail
			frames(&w, b)
			if len(b) > 8 && b[4] == 255 && strings.Join(w.last(), "") != "cut" {
				t.Errorf("%q gives %q", b, w.last())
			}
		}
		var long []byte
		for range 1000 {
			long = binary.BigEndian.AppendUint32(append(long, 2, 0, 0, 0), 2)
			long = append(long, "x\n"...)
		}
		var w tail
		if frames(&w, long); len(w.last()) != logLines {
			t.Errorf("%d lines", len(w.last()))
		}
	})
}

func TestDockerAddress(t *testing.T) {
	all, err := New(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"": true, "unix:///x": true, "http://127.0.0.1:1": true, "https://box:2376/": true, "tcp://box": false, "/var/run/docker.sock": false} {
		s := &hearth.Slot{Container: "c", Docker: address}
		o, err := all.docker(s)
		if (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
		if err == nil {
			o.close()
		}
	}
}
