package driver

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// groupAlive says whether a process of the group still runs. A zombie does not: it holds nothing, and who is to
// bury it may never come.
func groupAlive(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true // no /proc here: the signal's answer counts
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (comm) state ppid pgrp …; comm may hold anything, so count from its last bracket.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 2 && string(f[2]) == strconv.Itoa(pgid) && string(f[0]) != "Z" && string(f[0]) != "X" {
			return true
		}
	}
	return false
}
