package media

import (
	"net"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "93.184.216.34": true, "100.63.255.255": true, "100.128.0.0": true, "172.15.255.255": true,
		"172.32.0.0": true, "169.253.255.255": true, "198.17.255.255": true, "223.255.255.255": true, "192.0.1.0": true,
		"2606:4700:4700::1111": true, "2001:4860:4860::8888": true, "2001:200::1": true, "::ffff:8.8.8.8": true,
		"64:ff9b::8.8.8.8": true, "2002:808:808::1": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "127.0.0.1": false, "127.255.255.254": false, "100.64.0.1": false, "100.100.100.200": false,
		"100.127.255.255": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "192.0.0.192": false,
		"192.0.2.1": false, "192.88.99.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false,
		"224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false,

		"::": false, "::1": false, "::2": false, "::127.0.0.1": false, "::8.8.8.8": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"fc00::1": false, "fd00::1": false, "fd00:ec2::254": false, "ff02::1": false, "100::1": false, "2001::1": false, "2001:db8::1": false,
		"2001:10::1": false, "3fff::1": false, "4000::1": false, "5f00::1": false, "64:ff9b:1::8.8.8.8": false, "2606:4700::1%1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:100.64.0.1": false, "::ffff:0.0.0.0": false,
		"64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::169.254.169.254": false, "64:ff9b::0.0.0.0": false,
		"2002:7f00:1::1": false, "2002:a00:1::1": false, "2002:a9fe:a9fe::1": false, "2002:c0a8:101::1": false, "2002:e000:1::": false,
	} {
		t.Run(text, func(t *testing.T) {
			if got := Public(netip.MustParseAddr(text)); got != want {
				t.Errorf("Public(%s) = %v", text, got)
			}
		})
	}
	if Public(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}

// TestPublic_Forms: in no form of writing is a private IPv4 address public, nor a public one private.
func TestPublic_Forms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b [4]byte
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		a := netip.AddrFrom4(b)
		mapped := netip.AddrFrom16(a.As16())
		translated, tunnelled := nat64.Addr().As16(), sixToFour.Addr().As16()
		copy(translated[12:], b[:])
		copy(tunnelled[2:], b[:])
		for _, form := range []netip.Addr{mapped, netip.AddrFrom16(translated), netip.AddrFrom16(tunnelled)} {
			if Public(form) != Public(a) {
				t.Errorf("Public(%s) = %v, Public(%s) = %v", form, Public(form), a, Public(a))
			}
		}
	})
}

func TestPermitted(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8:80": true, "8.8.8.8:443": true, "8.8.8.8:8443": true, "[2001:4860:4860::8888]:443": true,
		"8.8.8.8:22": false, "8.8.8.8:25": false, "8.8.8.8:0": false, "127.0.0.1:443": false, "[::1]:8080": false,
	} {
		if got := permitted(netip.MustParseAddrPort(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestOwnNetworks: this machine's own addresses are in the list, whatever they are.
func TestOwnNetworks(t *testing.T) {
	own, err := ownNetworks()
	if err != nil || len(own) == 0 {
		t.Fatalf("networks %v, %v", own, err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); !ok || !inside(own, ip) {
			t.Errorf("%s is in none of %v", ip, own)
		}
	}
	own = prefixes("8.8.8.0/24", "2606:4700:1::/48", "2002:909:909::/48") // of a machine with public addresses
	for text, want := range map[string]bool{
		"8.8.8.9": true, "::ffff:8.8.8.9": true, "64:ff9b::8.8.8.9": true, "2002:808:809::1": true, "2606:4700:1::7": true, "2002:909:909::7": true,
		"8.8.9.8": false, "2606:4700:2::7": false,
	} {
		if got := inside(own, netip.MustParseAddr(text)); got != want {
			t.Errorf("inside(%s) = %v", text, got)
		}
		to := netip.AddrPortFrom(netip.MustParseAddr(text), 443)
		if got := permittedBeside(func() ([]netip.Prefix, error) { return own, nil }, to); got == want {
			t.Errorf("permittedBeside(%s) = %v", text, got)
		}
		if permittedBeside(func() ([]netip.Prefix, error) { return nil, errForbidden }, to) {
			t.Errorf("%s is permitted although the own networks are not known", text)
		}
	}
}

func BenchmarkPermitted(b *testing.B) {
	to := netip.MustParseAddrPort("8.8.8.8:443")
	b.ReportAllocs()
	for b.Loop() {
		if !permitted(to) {
			b.Fatal("a public address is refused")
		}
	}
}
