package driver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
)

// tableLine is more than a line of the kernel's tables has, in bytes, and not much more.
const tableLine = 512

// listeners are the sockets, by their kernel names, that a connection to 127.0.0.1 at the port may reach. Who listens at
// the very address comes before who listens at all addresses, and IPv4 before IPv6, as the kernel has it; several at one
// place share its connections.
func listeners(port int) ([]string, error) {
	var byRank [3][]string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		err := listening(table, port, &byRank)
		if err != nil && (table == "/proc/net/tcp" || !errors.Is(err, fs.ErrNotExist)) { // a kernel may have no IPv6
			return nil, fmt.Errorf("list the listening sockets: %w", err)
		}
		for _, found := range byRank {
			if len(found) > 0 {
				return found, nil
			}
		}
	}
	return nil, nil
}

// listening adds the sockets of one of the kernel's tables. The listening ones stand first, and nothing is read behind
// them: the kernel looks through its whole memory of connections for the rest, which takes milliseconds.
func listening(table string, port int, byRank *[3][]string) error {
	file, err := os.Open(table)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, tableLine)
	for first := true; ; first = false {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// sl local remote st tx:rx tr:when retrnsmt uid timeout inode …
		f := bytes.Fields(line)
		if first || len(f) < 10 {
			continue
		}
		if string(f[3]) != "0A" {
			return nil
		}
		host, hexPort, ok := bytes.Cut(f[1], []byte(":"))
		if at, err := strconv.ParseUint(string(hexPort), 16, 16); !ok || err != nil || int(at) != port {
			continue
		}
		if rank := rank(address(host)); rank >= 0 {
			byRank[rank] = append(byRank[rank], "socket:["+string(f[9])+"]")
		}
	}
}

// rank says how near an address is to 127.0.0.1; -1 = it is another one.
func rank(ip netip.Addr) int {
	switch {
	case ip.Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return 0
	case ip == netip.IPv4Unspecified():
		return 1
	case ip.Unmap().IsUnspecified():
		return 2
	}
	return -1
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
