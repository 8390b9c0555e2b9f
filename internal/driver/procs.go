package driver

import "slices"

// tagName is the variable that every process of a slot inherits. Its value is "<id of the data directory>/<slot>".
const tagName = "HEARTH_SLOT"

// proc is one process as it was at one instant.
type proc struct {
	pid   int
	start uint64 // clock ticks from boot to its start: with pid and boot, it is this process and no later one
	group int
	dead  bool   // ended with all its threads, but not yet buried by its parent: it holds nothing
	tag   string // value of its tag, "" = none or not to be read
}

// same says whether both are one process.
func (p proc) same(q proc) bool { return p.pid == q.pid && p.start == q.start }

// birth tells a process from all others of this boot.
type birth struct {
	pid   int
	start uint64
}

func (p proc) birth() birth { return birth{p.pid, p.start} }

// members are those of all that belong to the slot with this tag: its leader, who bears the tag, who is in a group of one of
// these, and who was a member before: one that is ending has lost its tag already. A group counts only while one of them is alive in it, or while its dead leader is not buried, never if it is
// this process's own, and not if its leader is somebody without the tag: the member went there, it was not born there.
func members(all []proc, tag string, leader proc, ours int, before map[birth]int) []proc {
	groups := make(map[int]bool)
	sure := func(p proc) bool { return p.tag == tag || p.same(leader) }
	for _, p := range all {
		if !p.dead && sure(p) || p.same(leader) {
			groups[p.group] = true
		}
	}
	for _, p := range all {
		if p.pid == p.group && !sure(p) && !p.dead {
			delete(groups, p.pid)
		}
	}
	delete(groups, ours)
	return slices.DeleteFunc(slices.Clone(all), func(p proc) bool {
		_, was := before[p.birth()]
		return p.dead || !sure(p) && !groups[p.group] && !was
	})
}
