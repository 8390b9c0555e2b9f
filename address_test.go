package hearth

import (
	"net/netip"
	"testing"
)

func TestOwnNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "192.168.0.7": true, "172.31.0.1": true, "fd00::1": true, "169.254.1.1": true,
		"100.64.0.1": true, "100.127.255.254": true, "::ffff:10.0.0.1": true, "::ffff:100.100.0.1": true,
		"100.63.255.255": false, "100.128.0.1": false, "8.8.8.8": false, "172.32.0.1": false, "2001:db8::1": false, "0.0.0.0": false, "224.0.0.1": false,
	} {
		if got := OwnNetwork(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
