package hearth

import "net/netip"

// overlay is the range of carrier and overlay networks (VPNs between own machines), RFC 6598.
var overlay = netip.MustParsePrefix("100.64.0.0/10")

// OwnNetwork says whether an address can only be that of a machine of one's own: on this machine, in a private network
// or in an overlay of own machines.
func OwnNetwork(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLoopback() || overlay.Contains(ip)
}
