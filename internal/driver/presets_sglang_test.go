package driver

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// beginIn starts the engine of a slot with d, which must have a directory.
func beginIn(t *testing.T, d *Drivers, s *hearth.Slot) slot.Engine {
	t.Helper()
	by, err := d.For(s)
	if err != nil {
		t.Fatal(err)
	}
	e, err := by.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Leave() }) // it may have ended
	return e
}

// TestReleaser: an SGLang never gets an order that its state does not allow; the fake takes note of each that does.
func TestReleaser(t *testing.T) {
	t.Parallel()
	awake := func(t *testing.T) (*fake, *Drivers) {
		f := startFake(t, sglang)
		f.state = "loaded"
		return f, driversIn(t, t.TempDir())
	}
	const token, stopped = "POST /v1/chat/completions", "POST /flush_cache, POST /release_memory_occupation"
	t.Run("one of which nothing is known is awake: the token only", func(t *testing.T) {
		f, d := awake(t)
		e := beginIn(t, d, f.slot())
		ready(t, e)
		stop(t, e)
		if got, want := f.asks(), token+", "+stopped; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
	t.Run("the next gateway finds it asleep, and wakes it up", func(t *testing.T) {
		f, d := awake(t)
		stop(t, beginIn(t, d, f.slot()))
		next := driversIn(t, d.o.Dir)
		if found, err := next.Sweep(t.Context(), &hearth.Catalog{Slots: []*hearth.Slot{f.slot()}}); err != nil || len(found) > 0 {
			t.Fatalf("found: %v, %v", found, err)
		}
		e := beginIn(t, next, f.slot())
		ready(t, e)
		if got := f.asks(); !strings.HasSuffix(got, "POST /resume_memory_occupation, "+token) {
			t.Errorf("asked %s", got)
		}
		stop(t, e)
	})
	t.Run("the next gateway finds it awake", func(t *testing.T) {
		f, d := awake(t)
		found, err := d.Sweep(t.Context(), &hearth.Catalog{Slots: []*hearth.Slot{f.slot()}})
		if err != nil || names(found) != "s" {
			t.Fatalf("found: %v, %v", found, err)
		}
		ready(t, found["s"])
		stop(t, found["s"])
	})
	t.Run("a stop of what sleeps already gives no order", func(t *testing.T) {
		f, d := awake(t)
		stop(t, beginIn(t, d, f.slot()))
		before := f.asks()
		if err := releaserOf(t, d, f.slot()).stop(t.Context(), 0, nil); err != nil || f.asks() != before {
			t.Errorf("%v, asked %s", err, f.asks())
		}
	})
	t.Run("one that was started anew in its sleep is awake", func(t *testing.T) {
		f, d := awake(t)
		stop(t, beginIn(t, d, f.slot()))
		f.set(func() { f.seed, f.state, f.asked = 18, "loaded", nil })
		if state, err := releaserOf(t, d, f.slot()).status(t.Context()); state != runs || err != nil {
			t.Errorf("status %d, %v", state, err)
		}
		e := beginIn(t, d, f.slot())
		ready(t, e)
		stop(t, e)
		if got, want := f.asks(), token+", "+stopped; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
	t.Run("an older one", func(t *testing.T) {
		f, d := awake(t)
		f.old = true
		stop(t, beginIn(t, d, f.slot()))
		e := beginIn(t, d, f.slot())
		ready(t, e)
		stop(t, e)
	})
	t.Run("one that does not run will be awake", func(t *testing.T) {
		f, d := awake(t)
		r := releaserOf(t, d, f.slot())
		lull(t, d, f.slot())
		f.http.Close()
		if err := r.stop(t.Context(), 0, nil); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is said to be asleep: %v", err)
		}
	})
	t.Run("one that could not wake up is asleep", func(t *testing.T) {
		f, d := awake(t)
		lull(t, d, f.slot())
		f.state, f.fails = "unloaded", true
		e := beginIn(t, d, f.slot())
		eventually(t, "it fails", func() bool { _, err := e.Probe(t.Context()); return err != nil })
		stop(t, e)
		f.set(func() { f.fails = false })
		ready(t, beginIn(t, d, f.slot()))
	})
	t.Run("it is waited for while it works", func(t *testing.T) {
		f, d := awake(t)
		e := beginIn(t, d, f.slot())
		f.set(func() { f.busy = 1 })
		done := time.AfterFunc(100*time.Millisecond, func() { f.set(func() { f.busy = 0 }) })
		defer done.Stop()
		if err := e.Stop(t.Context(), time.Hour); err != nil || f.is() != "unloaded" || strings.Contains(f.asks(), "abort") {
			t.Errorf("%v, %s, asked %s", err, f.is(), f.asks())
		}
	})
	t.Run("after the grace it gives up its work", func(t *testing.T) {
		f, d := awake(t)
		e := beginIn(t, d, f.slot())
		f.set(func() { f.busy = 1 })
		if err := e.Stop(t.Context(), 10*time.Millisecond); err != nil || !strings.Contains(f.asks(), "POST /abort_request") {
			t.Errorf("%v, asked %s", err, f.asks())
		}
	})
	t.Run("in a hurry it does so at once", func(t *testing.T) {
		f, d := awake(t)
		f.busy = 1
		hurry := make(chan struct{})
		close(hurry)
		if err := releaserOf(t, d, f.slot()).stop(t.Context(), time.Hour, hurry); err != nil || f.is() != "unloaded" {
			t.Errorf("%v, %s", err, f.is())
		}
	})
	for name, info := range map[string]string{
		"without the memory saver":      `{"random_seed":1,"enable_memory_saver":false,"enable_weights_cpu_backup":true}`,
		"without a copy of its weights": `{"random_seed":1,"enable_memory_saver":true,"enable_weights_cpu_backup":false}`,
	} {
		t.Run("one that was started "+name+" cannot sleep", func(t *testing.T) {
			f, d := awake(t)
			f.info = info
			e := beginIn(t, d, f.slot())
			eventually(t, "it fails", func() bool {
				_, err := e.Probe(t.Context())
				return err != nil && strings.Contains(err.Error(), "--enable-memory-saver and --enable-weights-cpu-backup")
			})
			if got := f.asks(); got != "" {
				t.Errorf("asked %s", got)
			}
		})
	}
	t.Run("it needs a directory", func(t *testing.T) {
		d, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if o, err := d.http(startFake(t, sglang).slot(), nil); err == nil {
			t.Errorf("orders %v", o)
		}
	})
}
