//go:build unix

package upstream

import "syscall"

// askable: the system can be asked whether something came over a connection.
const askable = true

// silent says whether an open connection has nothing to read. What there was is gone.
func silent(fd uintptr) bool {
	var b [1]byte
	_, err := syscall.Read(int(fd), b[:])
	return err == syscall.EAGAIN
}
