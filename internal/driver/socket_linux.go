package driver

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
)

// listeners are the sockets, by their kernel names, that a connection to 127.0.0.1 at the port may reach. Who listens at
// the very address comes before who listens at all addresses, and of these IPv4 before IPv6, as the kernel has it; several
// at one place share its connections.
func listeners(port int) ([]string, error) {
	var byRank [3][]string
	v4, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return nil, fmt.Errorf("list the listening sockets: %w", err)
	}
	listening(v4, port, &byRank)
	if v6, err := os.ReadFile("/proc/net/tcp6"); err == nil { // else the kernel has no IPv6
		listening(v6, port, &byRank)
	}
	for _, found := range byRank {
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// listening adds the sockets of one of the kernel's tables.
func listening(table []byte, port int, byRank *[3][]string) {
	for line := range bytes.Lines(table) {
		// sl local remote st tx:rx tr:when retrnsmt uid timeout inode …
		f := bytes.Fields(line)
		if len(f) < 10 || string(f[3]) != "0A" {
			continue
		}
		host, hexPort, ok := bytes.Cut(f[1], []byte(":"))
		if at, err := strconv.ParseUint(string(hexPort), 16, 16); !ok || err != nil || int(at) != port {
			continue
		}
		switch ip := address(host); {
		case ip.Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
			byRank[0] = append(byRank[0], "socket:["+string(f[9])+"]")
		case ip == netip.IPv4Unspecified():
			byRank[1] = append(byRank[1], "socket:["+string(f[9])+"]")
		case ip.Unmap().IsUnspecified():
			byRank[2] = append(byRank[2], "socket:["+string(f[9])+"]")
		}
	}
}

// address reads an address as the kernel's tables write it: 32 bits at a time, each as a number of this machine.
func address(text []byte) netip.Addr {
	b := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(b, text); err != nil {
		return netip.Addr{}
	}
	for i := 0; i+4 <= len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// without removes from sockets those that the process has open. The error says that its files cannot be seen.
func without(sockets []string, pid int) ([]string, error) {
	base := "/proc/" + strconv.Itoa(pid) + "/fd"
	dir, err := os.Open(base)
	if err != nil {
		return sockets, fmt.Errorf("list the open files of the engine: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if to, err := os.Readlink(base + "/" + name); err == nil {
			sockets = slices.DeleteFunc(sockets, func(s string) bool { return s == to })
		}
	}
	return sockets, err
}
