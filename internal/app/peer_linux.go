package app

import (
	"net"
	"syscall"
)

// peer is the user at the other end of a connection, as the kernel has it; -1 if it does not say.
func peer(c *net.UnixConn) (uid int, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, true
	}
	var cred *syscall.Ucred
	asked := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if asked != nil || err != nil {
		return -1, true
	}
	return int(cred.Uid), true
}
