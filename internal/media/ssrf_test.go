package media

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

const unreachable = "cannot be reached at a public address"

// TestFetch_House: nothing of this machine or its networks is fetched as a gateway is configured, in no form of writing.
func TestFetch_House(t *testing.T) {
	victim := newSite(t, false, serve("image/png", png))
	_, port, err := net.SplitHostPort(victim.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	all := newSiteAt(t, ":0", false, serve("image/png", png)) // on this machine's other addresses too
	f := New(Options{Timeout: 5 * time.Second})
	hosts := []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "[::1]", "0.0.0.0", "[::]", "127.1", "2130706433", "0x7f000001", "017700000001",
		"127.0.0.1.", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "127。0。0。1",
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP); ok && !ip.Unmap().IsLinkLocalUnicast() {
			hosts = append(hosts, strings.TrimSuffix(netip.AddrPortFrom(ip.Unmap(), 0).String(), ":0"))
		}
	}
	_, other, err := net.SplitHostPort(all.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		for _, p := range []string{port, other} {
			t.Run(host, func(t *testing.T) { refused(t, f, "http://"+host+":"+p+"/secret.png?key=secret", unreachable) })
		}
	}
	if n := victim.conns.Load() + all.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if got := fetch(t, New(Options{Permit: permit(victim)}), victim.URL); got != dataURL("image/png", png) {
		t.Errorf("the site does not work at all: %q", got)
	}
}

// TestFetch_Names: a name that resolves to the house is not followed, however public it looks and whatever else it has.
func TestFetch_Names(t *testing.T) {
	victim := newSite(t, false, serve("image/png", png))
	port := victim.addrPort().Port()
	resolver := names(t, map[string][]string{
		"loopback.example": {"127.0.0.1"}, "loopback6.example": {"::1"}, "private.example": {"10.0.0.1", "192.168.0.1"},
		"metadata.example": {"169.254.169.254"}, "mapped.example": {"::ffff:127.0.0.1"}, "several.example": {"127.0.0.1", "::1", "100.64.0.1", "fd00::1"},
		"nat64.example": {"64:ff9b::7f00:1"},
	})
	f := New(Options{Resolver: resolver, Timeout: 5 * time.Second})
	seen := map[string]bool{}
	for _, name := range []string{"loopback", "loopback6", "private", "metadata", "mapped", "several", "nat64", "nowhere"} {
		t.Run(name, func(t *testing.T) {
			address := fmt.Sprintf("http://%s.example:%d/x.png", name, port)
			refused(t, f, address, unreachable)
			_, err := f.Fetch(t.Context(), address)
			var e *hearth.Error
			if errors.As(err, &e) {
				seen[strings.Replace(e.Message, name+".example", "HOST", 1)] = true
			}
		})
	}
	if len(seen) != 1 {
		t.Errorf("the messages tell names of the house from names that are none: %v", seen)
	}
	if n := victim.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	known := New(Options{Resolver: resolver, Permit: permit(victim)})
	if got := fetch(t, known, fmt.Sprintf("http://several.example:%d/x.png", port)); got != dataURL("image/png", png) {
		t.Errorf("the names do not work at all: %q", got)
	}
}

// TestFetch_EveryConnection: what is permitted is asked for the address that is connected to, each time.
func TestFetch_EveryConnection(t *testing.T) {
	s := newSite(t, false, serve("image/png", png))
	var asked []netip.AddrPort
	allow := true
	f := New(Options{Permit: func(to netip.AddrPort) bool { asked = append(asked, to); return allow }})
	fetch(t, f, s.URL)
	fetch(t, f, s.URL)
	allow = false
	refused(t, f, s.URL, unreachable)
	if len(asked) != 3 || asked[0] != s.addrPort() || s.conns.Load() != 2 {
		t.Errorf("asked about %v, %d connections", asked, s.conns.Load())
	}
}

func TestFetch_Redirects(t *testing.T) {
	victim := newSite(t, false, serve("image/png", png))
	var front, secure *site
	var referers []string
	hop := func(w http.ResponseWriter, r *http.Request) {
		referers = append(referers, r.Header.Get("Referer")+r.Header.Get("Cookie")+r.Header.Get("Authorization"))
		w.Header().Set("Set-Cookie", "a=b; Path=/")
		to := map[string]string{
			"/1": "/image", "/2": "/1", "/3": "/2", "/4": "/3", "/loop": "/loop",
			"/victim": victim.URL + "/x.png", "/localhost": strings.Replace(victim.URL, "127.0.0.1", "localhost", 1),
			"/metadata": "http://169.254.169.254/latest/meta-data/", "/file": "file:///etc/passwd", "/user": "http://user:passw0rd@" + r.Host + "/image",
			"/up": secure.URL + "/image", "/down": front.URL + "/image", "/nowhere": "",
		}
		switch path := r.URL.Path; {
		case path == "/image":
			serve("image/png", png)(w, r)
		default:
			w.Header().Set("Location", to[path])
			w.WriteHeader(http.StatusFound)
		}
	}
	front, secure = newSite(t, false, hop), newSite(t, true, hop)
	f := New(Options{Permit: permit(front, secure), Roots: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, Timeout: 5 * time.Second})
	for _, good := range []string{front.URL + "/1?secret", front.URL + "/2", front.URL + "/3", front.URL + "/up", secure.URL + "/3"} {
		if got := fetch(t, f, good); got != dataURL("image/png", png) {
			t.Errorf("%s: %q", good, got)
		}
	}
	for bad, says := range map[string]string{
		front.URL + "/4": "redirects too often", front.URL + "/loop": "redirects too often",
		front.URL + "/victim": unreachable, front.URL + "/localhost": unreachable, front.URL + "/metadata": unreachable,
		front.URL + "/file": "redirects to an address that is not fetched", front.URL + "/user": "redirects to an address that is not fetched",
		secure.URL + "/down": "redirects from https to http", secure.URL + "/victim": "redirects from https to http",
		front.URL + "/nowhere": "status 302",
	} {
		t.Run(bad[strings.LastIndex(bad, "/"):], func(t *testing.T) { refused(t, f, bad, says) })
	}
	if n := victim.conns.Load(); n != 0 {
		t.Errorf("%d connections were made to the house", n)
	}
	for _, r := range referers {
		if r != "" {
			t.Errorf("a redirect carried %q", r)
		}
	}
}

func TestFetch_Addresses(t *testing.T) {
	f := New(Options{Permit: func(netip.AddrPort) bool { t.Error("a connection was about to be made"); return false }})
	for address, says := range map[string]string{
		"":                                          "cannot be read",
		"secret.png":                                "cannot be read",
		"//example.com/x.png":                       "only http and https",
		"file:///etc/passwd":                        "cannot be read",
		"file://localhost/etc/passwd":               "only http and https",
		"ftp://example.com/x.png":                   "only http and https",
		"gopher://example.com:70/x":                 "only http and https",
		"unix:/run/docker.sock":                     "cannot be read",
		"data:image/png;base64,AAAA":                "cannot be read",
		"javascript:alert(1)":                       "cannot be read",
		"http:example.com":                          "cannot be read",
		"http://":                                   "cannot be read",
		"http:///x.png":                             "cannot be read",
		"https://user@example.com/x.png":            "user name or password",
		"https://user:passw0rd@example.com/x":       "user name or password",
		"http://exa mple.com/x.png":                 "cannot be read",
		"http://example.com/\r\nHost: victim":       "cannot be read",
		"http://[::1/x.png":                         "cannot be read",
		"http://example.com:99999999/x":             unreachable,
		"https://" + strings.Repeat("a", 8192):      "longer than 8192 bytes",
		"http://" + strings.Repeat("a", 4000) + "/": unreachable,
	} {
		t.Run(address[:min(len(address), 40)], func(t *testing.T) {
			refused(t, f, address, says)
			if _, err := f.Fetch(t.Context(), address); len(err.Error()) > 600 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestTransport: what the environment says of proxies does not count.
func TestTransport(t *testing.T) {
	tr := transport(Options{})
	if tr.Proxy != nil || !tr.DisableKeepAlives || !tr.DisableCompression || New(Options{}).client.Jar != nil {
		t.Errorf("transport %+v", tr)
	}
}
