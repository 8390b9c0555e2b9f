package media

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

// special are the ranges inside the public ones that are not of the public internet: RFC 6890 and its registries, and
// the one public address that is a cloud's own (the platform of Azure).
var special = prefixes(
	"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "3fff::/20",
)

var (
	unicast6  = netip.MustParsePrefix("2000::/3")     // all IPv6 addresses that are given out
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in the last four bytes, RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // an IPv4 address in bytes 2 to 5, RFC 3056
)

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

// Public says whether an address is one of the public internet: no machine of the house, no cloud's metadata, nothing
// that stands for such an address in another form.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = plain(a)
	if hearth.OwnNetwork(a) || !a.IsGlobalUnicast() || a.Is6() && !unicast6.Contains(a) {
		return false
	}
	return !within(special, a)
}

// plain is the IPv4 address that an IPv6 address stands for, or the address itself.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap()
	switch b := a.As16(); {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// ownNetworks are the networks that this machine has an address in. Behind a public address of its own there can be
// doors that are shut from outside, and with IPv6 the whole house has public addresses.
func ownNetworks() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var list []netip.Prefix
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		ones, _ := n.Mask.Size()
		if !ok || ones == 0 {
			continue
		}
		if p, err := ip.Unmap().Prefix(ones); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

// permitted is the rule of a gateway: a public address in no network of this machine's own, at a port where web servers
// are. Ports below 1024 belong to other protocols, which must not be spoken to.
func permitted(to netip.AddrPort) bool { return permittedBeside(ownNetworks, to) }

// permittedBeside is permitted for a machine with these networks of its own.
func permittedBeside(networks func() ([]netip.Prefix, error), to netip.AddrPort) bool {
	if !webPort(to.Port()) || !Public(to.Addr()) {
		return false
	}
	own, err := networks()
	return err == nil && !inside(own, to.Addr())
}

func webPort(port uint16) bool { return port == 80 || port == 443 || port >= 1024 }

// inside says whether an address, or the one it stands for, is in one of the networks.
func inside(own []netip.Prefix, a netip.Addr) bool {
	return within(own, a.Unmap()) || within(own, plain(a))
}

var errForbidden = errors.New("the address is not one that media may come from")

// transport makes a connection of its own for every request, after a look at the address it goes to. It uses no proxy,
// keeps nothing, decodes nothing.
func transport(o Options) *http.Transport {
	permit := o.Permit
	if permit == nil {
		permit = permitted
	}
	dialer := &net.Dialer{
		Timeout: 5 * time.Second, KeepAlive: -1, Resolver: o.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" || !permit(to) {
				return errForbidden
			}
			return nil
		},
	}
	return &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig:     &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: maxHeaders,
	}
}
