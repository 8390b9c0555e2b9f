package driver

import (
	"os"
	"slices"
	"strings"
	"syscall"
)

// tagName is the variable that every process of a slot inherits. Its value is "<id of the data directory>/<slot>".
const tagName = "HEARTH_SLOT"

// proc is one process as it was at one instant.
type proc struct {
	pid   int
	start uint64 // clock ticks from boot to its start: with pid and boot, it is this process and no later one
	group int
	dead  bool   // ended, but not yet buried by its parent: it holds nothing
	tag   string // value of its tag, "" = none or not to be read
}

// same says whether both are one process.
func (p proc) same(q proc) bool { return p.pid == q.pid && p.start == q.start }

// members are those of all that belong to the slot with this tag: its leader, who bears the tag, and who is in a group of
// one of these. A group counts only while one of them is alive in it, never if it is this process's own, and not if its
// leader is somebody without the tag: the member went there, it was not born there.
func members(all []proc, tag string, leader proc, ours int) []proc {
	groups := make(map[int]bool)
	sure := func(p proc) bool { return p.tag == tag || p.same(leader) }
	for _, p := range all {
		if !p.dead && sure(p) {
			groups[p.group] = true
		}
	}
	for _, p := range all {
		if p.pid == p.group && !sure(p) && !p.dead {
			delete(groups, p.pid)
		}
	}
	delete(groups, ours)
	return slices.DeleteFunc(slices.Clone(all), func(p proc) bool { return p.dead || !sure(p) && !groups[p.group] })
}

// slotOf is the slot of a tag of the data directory id.
func slotOf(tag, id string) (name string, ok bool) {
	return strings.CutPrefix(tag, id+"/")
}

// signal sends sig to exactly this process, if it is still there. The number of a process can be another's at any time
// after its end, so it is looked at once more after the kernel has given a handle on it.
func (p proc) signal(sig syscall.Signal) {
	h, err := os.FindProcess(p.pid) // on Linux, a pidfd
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if now, err := look(p.pid); err != nil || !now.same(p) {
		return
	}
	_ = h.Signal(sig) // an error means that it has ended meanwhile, or that it is not ours to signal
}
