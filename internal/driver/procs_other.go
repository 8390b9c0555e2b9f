//go:build !linux

package driver

import (
	"errors"
	"syscall"
)

// Without Linux's /proc a process that is not our child cannot be told from another that got its number: such processes
// are neither adopted nor signalled, and only their locks tell that they are there.

func scan() ([]proc, error) { return nil, errors.ErrUnsupported }

// look says what is certain of a process: that it cannot be one that was seen before.
func look(int) (proc, error) { return proc{}, errors.ErrUnsupported }

func bootID() string { return "" }

func holders([]proc, string) []proc { return nil }

// awaitExit returns at once: the caller's own waiting buries the child.
func awaitExit(int) error { return nil }

// listeners cannot tell who listens.
func listeners(int) ([]string, error) { return nil, errors.ErrUnsupported }

func without(sockets []string, _ int) ([]string, error) { return sockets, errors.ErrUnsupported }

// left is what can be known of what is left: our child's group, and whether the lock is held.
func (e ending) unseen() (left []proc, held bool, err error) {
	if e.child && syscall.Kill(-e.leader.pid, 0) == nil {
		return []proc{e.leader}, true, nil
	}
	return nil, isHeld(e.d.file(e.name, ".lock")), nil
}

// signal sends sig to the group of our child.
func (p proc) signal(sig syscall.Signal) { _ = syscall.Kill(-p.pid, sig) } // an error means that it has ended meanwhile
