package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"myip.co.kr/hearth"
)

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// address checks a URL without repeating it: it may hold a password.
func (k *checker) address(path, text string) *url.URL {
	u, err := url.Parse(text)
	port := ""
	if err == nil {
		port = u.Port()
	}
	n, bad := strconv.Atoi(port)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(text) > 2000:
		k.add(path, "is not an address", "write it with http:// or https://")
	case port != "" && (bad != nil || n < 1 || n > 65535):
		k.add(path, "has a port that does not exist", "use 1 to 65535")
	case u.User != nil:
		k.add(path, "holds a user name or password", "put the key into api_key or headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		k.add(path, "holds a query or fragment", "leave out everything from ? or # on")
	default:
		return u
	}
	return nil
}

// secret checks the form of a key without repeating it.
func (k *checker) secret(path string, s hearth.Secret) {
	if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }) {
		k.add(path, "holds characters that cannot be sent in a header", "check for line breaks and spaces inside the key")
	}
}

// unsendable says whether a text cannot be the value of a header.
func unsendable(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// socketPath is the path of a unix:// address; ok is false for one that names no absolute path.
func socketPath(address string) (file string, ok bool) {
	file, ok = strings.CutPrefix(address, "unix://")
	// A path of a socket may have 107 bytes.
	return file, ok && path.IsAbs(file) && len(file) <= 107 && !strings.ContainsFunc(file, unicode.IsControl)
}

// house checks that a machine with that name or address may stand in the house. It says no after a problem.
func (k *checker) house(path, host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil && !isLoopback(host) && !hearth.OwnNetwork(ip) {
		k.add(path, "is a public address, so a prompt would leave the house", "describe it under providers")
		return false
	}
	return true
}

// hostPort splits an address to listen on.
func hostPort(text string) (host string, port int, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	port, bad := strconv.Atoi(digits)
	return host, port, err == nil && bad == nil && port >= 0 && port <= 65535 && !strings.ContainsAny(host, "/ ")
}

// parsePorts reads a port range.
func parsePorts(text string) (ports [2]int, ok bool) {
	first, last, ok := strings.Cut(text, "-")
	for i, digits := range []string{first, last} {
		n, err := strconv.Atoi(strings.TrimSpace(digits))
		if err != nil {
			return [2]int{}, false
		}
		ports[i] = n
	}
	return ports, ok && ports[0] >= 1024 && ports[0] <= ports[1] && ports[1] <= 65535
}

// taken checks that a port which is spoken for is not one that the engines of exec slots may get.
func (k *checker) taken(path string, port int) {
	if ports, ok := parsePorts(k.c.Local.PortRange); ok && port >= ports[0] && port <= ports[1] {
		k.add(path, "lies in local.port_range, of which engines get their ports", "choose another port, or another range")
	}
}
