package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// following plays a follower of the file dir/hearth.yaml in virtual time, and says after what time it reloaded.
func following(t *testing.T, dir string, files func() []string, script func(hup chan<- os.Signal)) (reloads []time.Duration) {
	t.Helper()
	if files == nil {
		files = func() []string { return []string{filepath.Join(dir, "hearth.yaml")} }
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		hup, done := make(chan os.Signal, 1), make(chan struct{})
		f := follower{
			files: files, lost: func() bool { return false }, end: cancel,
			reload: func() { reloads = append(reloads, time.Since(began)) },
		}
		go func() { f.run(ctx, hup); close(done) }()
		synctest.Wait()
		script(hup)
		cancel()
		<-done
	})
	return reloads
}

func after(d time.Duration) { <-time.After(d) }

func TestFollower(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	second := time.Second
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir, file string)
		want   []time.Duration
	}{
		{"nothing happens", func(*testing.T, string, string) { after(10 * second) }, nil},
		{"the file is written", func(t *testing.T, _, file string) {
			after(second)
			write(t, file, "another text")
			after(10 * second)
		}, []time.Duration{2500 * time.Millisecond}},
		{"a text of the same length, by another time", func(t *testing.T, _, file string) {
			write(t, file, "TEXT")
			must(t, os.Chtimes(file, time.Time{}, time.Unix(1, 0)))
			after(10 * second)
		}, []time.Duration{2500 * time.Millisecond}},
		{"an editor puts another file in its place, as old and as long", func(t *testing.T, dir, file string) {
			info, err := os.Stat(file)
			must(t, err)
			write(t, file+"~", "TEXT")
			must(t, os.Chtimes(file+"~", time.Time{}, info.ModTime()))
			must(t, os.Rename(file+"~", file))
			after(10 * second)
		}, []time.Duration{2500 * time.Millisecond}},
		{"another length, and the time is set back", func(t *testing.T, _, file string) {
			info, err := os.Stat(file)
			must(t, err)
			write(t, file, "longer")
			must(t, os.Chtimes(file, time.Time{}, info.ModTime()))
			after(10 * second)
		}, []time.Duration{2500 * time.Millisecond}},
		{"it is being written for a while", func(t *testing.T, _, file string) {
			after(1900 * time.Millisecond)
			for i := range 4 {
				write(t, file, "longer than before"[:8+i])
				after(400 * time.Millisecond)
			}
			after(10 * second)
		}, []time.Duration{4 * second}},
		{"it is gone, and comes back", func(t *testing.T, _, file string) {
			must(t, os.Remove(file))
			after(5 * second)
			write(t, file, "text")
			after(5 * second)
		}, []time.Duration{2500 * time.Millisecond, 6500 * time.Millisecond}},
		{"two changes", func(t *testing.T, _, file string) {
			write(t, file, "one")
			after(5 * second)
			write(t, file, "number two")
			after(5 * second)
		}, []time.Duration{2500 * time.Millisecond, 6500 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "hearth.yaml")
			write(t, file, "text")
			got := following(t, dir, nil, func(chan<- os.Signal) { c.change(t, dir, file) })
			if !slices.Equal(got, c.want) {
				t.Errorf("reloads after %v, want %v", got, c.want)
			}
		})
	}
	t.Run("the directory behind a link is replaced", func(t *testing.T) {
		dir := t.TempDir()
		for _, version := range []string{"v1", "v2"} {
			must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			write(t, filepath.Join(dir, version, "hearth.yaml"), version)
		}
		must(t, os.Symlink("v1", filepath.Join(dir, "data")))
		must(t, os.Symlink("data/hearth.yaml", filepath.Join(dir, "hearth.yaml")))
		got := following(t, dir, nil, func(chan<- os.Signal) {
			must(t, os.Symlink("v2", filepath.Join(dir, "new")))
			must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")))
			after(10 * second)
		})
		if len(got) != 1 {
			t.Errorf("reloads after %v", got)
		}
	})
	t.Run("a file with a secret, which the configuration names since", func(t *testing.T) {
		dir := t.TempDir()
		secret := filepath.Join(dir, "secret")
		var named atomic.Bool
		got := following(t, dir, func() []string {
			if named.Load() {
				return []string{secret}
			}
			return nil
		}, func(hup chan<- os.Signal) {
			write(t, secret, "key")
			hup <- os.Interrupt
			after(second)
			named.Store(true)
			after(4 * second)
			write(t, secret, "another key")
			after(5 * second)
		})
		if want := []time.Duration{0, 6500 * time.Millisecond}; !slices.Equal(got, want) {
			t.Errorf("reloads after %v, want %v", got, want)
		}
	})
	t.Run("a signal reloads at once, and a change that came with it not again", func(t *testing.T) {
		dir := t.TempDir()
		got := following(t, dir, nil, func(hup chan<- os.Signal) {
			write(t, filepath.Join(dir, "hearth.yaml"), "text")
			hup <- os.Interrupt
			after(10 * second)
		})
		if want := []time.Duration{0}; !slices.Equal(got, want) {
			t.Errorf("reloads after %v, want %v", got, want)
		}
	})
	t.Run("a terminal that hung up ends it", func(t *testing.T) {
		ended, hup := false, make(chan os.Signal, 1)
		f := follower{files: func() []string { return nil }, lost: func() bool { return true }, end: func() { ended = true }, reload: func() { t.Error("reloaded") }}
		hup <- os.Interrupt
		f.run(t.Context(), hup)
		if !ended {
			t.Error("it goes on")
		}
	})
}
