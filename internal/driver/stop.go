package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	// killWait is how long a killed process may take to be gone.
	killWait = 5 * time.Second
	// Pace of looking what is left of an engine that is being stopped.
	stopPoll    = 2 * time.Millisecond
	stopPollMax = 50 * time.Millisecond
)

// ending is the end of everything that belongs to a slot.
type ending struct {
	d      *Drivers
	name   string // of the slot
	leader proc   // the process that was started, zero = not known
	child  bool   // it is our child, and not yet buried
	grace  time.Duration
	force  time.Duration // how long killed processes may take
}

// run asks every process of the slot to end: with SIGTERM, with another one at half of the grace to those that are still
// there (llama-server with a request in flight waits for it, for ever if need be, unless it is asked twice), and with
// SIGKILL at its end or as soon as ctx ends. It returns nil when none is left and nobody holds the slot's lock. Processes
// that are born meanwhile are asked too.
func (e ending) run(ctx context.Context) error {
	begin := time.Now()
	var killing time.Time
	asked := make(map[birth]int) // how often
	for pause := stopPoll; ; pause = min(stopPollMax, pause*3/2) {
		left, held, err := e.left(asked)
		if err != nil || len(left) == 0 && !held {
			return err
		}
		times := 1
		if spent := time.Since(begin); ctx.Err() != nil || spent >= e.grace {
			if killing.IsZero() {
				killing = time.Now()
			}
			times = 0
		} else if spent >= e.grace/2 {
			times = 2
		}
		for _, p := range left {
			switch n := asked[p.birth()]; {
			case times == 0:
				asked[p.birth()] = n
				p.signal(syscall.SIGKILL)
			case n < times:
				asked[p.birth()] = times
				p.signal(syscall.SIGTERM)
			}
		}
		if !killing.IsZero() && time.Since(killing) > e.force {
			return e.stuck(left)
		}
		if killing.IsZero() {
			within(nil, ctx.Done(), pause)
		} else {
			within(nil, nil, pause)
		}
	}
}

// stuck is the error for what cannot be ended.
func (e ending) stuck(left []proc) error {
	if len(left) == 0 {
		return fmt.Errorf("stop the engine: something that cannot be seen holds %s", e.d.file(e.name, ".lock"))
	}
	return fmt.Errorf("stop the engine: process %d has been killed and has not ended", left[0].pid)
}

// left is what is left of the slot: its processes, else those that hold its lock; held says that somebody does. before are
// those that were left when it was last looked.
func (e ending) left(before map[birth]int) (left []proc, held bool, err error) {
	all, err := scan()
	if errors.Is(err, errors.ErrUnsupported) {
		return e.unseen()
	}
	if err != nil {
		return nil, false, err
	}
	if left = members(all, e.d.tag(e.name), e.leader, syscall.Getpgrp(), before); len(left) > 0 {
		return left, true, nil
	}
	path := e.d.file(e.name, ".lock")
	if held = isHeld(path); held {
		left = holders(all, path)
	}
	return left, held, nil
}

// isHeld says whether somebody holds a lock.
func isHeld(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false // it was never made
	}
	defer f.Close()
	return errors.Is(flock(f), errHeld)
}

// tag is the value of the tag of a slot's processes.
func (d *Drivers) tag(name string) string { return d.id + "/" + name }

// within waits for done, but not past d nor past the end of cut.
func within(done, cut <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-cut:
	case <-t.C:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
