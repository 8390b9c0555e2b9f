package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// lookEvery is how often the files of the configuration are looked at. That finds every kind of change, also those by
	// which editors and orchestrators put another file, or another directory, in the place of the old one.
	lookEvery = 2 * time.Second
	// calm is how long files must stay as they are before they are read: who writes them may be in the middle of it.
	calm = 500 * time.Millisecond
)

// follower has a running command take over changes of its configuration.
type follower struct {
	files  func() []string // all that the configuration is read from, by the names it was given
	reload func()
	lost   func() bool // a SIGHUP means that the terminal is gone: end is called
	end    func()
	seen   map[string]os.FileInfo // as they were when they were last read; nil = could not be looked at
}

// hangups delivers SIGHUP from now on. lost says after one whether it was the terminal that hung up, as it does when its
// window is closed; that is of no interest to who was started to outlive it (nohup), or never had one.
func hangups() (hup <-chan os.Signal, lost func() bool, stop func()) {
	interactive := !signal.Ignored(syscall.SIGHUP) && hasTerminal()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	lost = func() bool {
		for end := time.Now().Add(calm); interactive; {
			if !hasTerminal() {
				return true
			}
			if time.Now().After(end) {
				return false
			}
			<-time.After(hangupPoll) // the signal comes before the terminal is quite gone
		}
		return false
	}
	return c, lost, func() { signal.Stop(c) }
}

// hangupPoll is the pace of looking whether a terminal goes after a SIGHUP.
const hangupPoll = 20 * time.Millisecond

// during has the command follow its configuration while serve runs.
func (f *follower) during(ctx context.Context, hup <-chan os.Signal, serve func(context.Context) error) error {
	ctx, f.end = context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { f.run(ctx, hup) })
	defer following.Wait()
	defer f.end()
	return serve(ctx)
}

// run reloads after each change of a file, and at each SIGHUP, one after the other, until ctx ends.
func (f *follower) run(ctx context.Context, hup <-chan os.Signal) {
	f.seen = f.look()
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if f.lost() {
				f.end()
				return
			}
			f.seen = f.look()
		case <-t.C:
			now := f.look()
			if unchanged(f.seen, now) {
				f.seen = now // files that the configuration has only named since
				continue
			}
			if f.seen = f.settle(ctx, now); f.seen == nil {
				return
			}
		}
		f.reload()
	}
}

// settle waits until the files stay as they are, and says how. nil = ctx has ended.
func (f *follower) settle(ctx context.Context, now map[string]os.FileInfo) map[string]os.FileInfo {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(calm):
		}
		last := now
		if now = f.look(); unchanged(last, now) {
			return now
		}
	}
}

func (f *follower) look() map[string]os.FileInfo {
	seen := make(map[string]os.FileInfo)
	for _, name := range f.files() {
		info, err := os.Stat(name) // of what a link leads to
		if err != nil {
			info = nil
		}
		seen[name] = info
	}
	return seen
}

// unchanged says whether the files that were looked at twice are the same.
func unchanged(before, after map[string]os.FileInfo) bool {
	for name, a := range before {
		b, ok := after[name]
		switch {
		case !ok || a == nil && b == nil:
		case a == nil || b == nil, !os.SameFile(a, b), a.Size() != b.Size(), !a.ModTime().Equal(b.ModTime()):
			return false
		}
	}
	return true
}

// hasTerminal says whether the process has a terminal that could hang up.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	return f.Close() == nil
}
