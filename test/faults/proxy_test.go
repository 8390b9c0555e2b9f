package faults

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"myip.co.kr/hearth"
)

const childEnv = "HEARTH_FAULTS_CHILD"

// Proxy variables in the environment are for providers. An engine is reached without them, on whatever address of the
// house it is. They are read once per process, so the gateway of this test runs in one of its own.
func TestProxyVariables(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		behindProxy(t)
		return
	}
	t.Parallel()
	proxy := serve(t, well("from the proxy"))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^TestProxyVariables$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"=1", "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		cmd.Env = append(cmd.Env, name+"="+proxy.url())
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asks := proxy.asks()
	if len(asks) != 1 || !strings.HasPrefix(asks[0].line, "POST http://primary.invalid/") { // the variables do count
		t.Errorf("the proxy saw %d requests: %+v\n%s", len(asks), asks, out)
	}
	if proxy.holds("stays in the house") {
		t.Error("the proxy saw a request that was for an engine")
	}
}

// behindProxy is the test in its own process.
func behindProxy(t *testing.T) {
	for i, where := range append([]string{"127.0.0.1"}, ownNames(t)...) {
		engine := serveAt(t, where+":0", well("from the house"))
		_, port, _ := net.SplitHostPort(engine.addr())
		g := start(t, setup{primary: "http://primary.invalid", slots: slotAt("http://"+where+":"+port+`", trust: "lan`, ", wait: 5s")})
		for _, more := range []string{onlyLocal, streaming + onlyLocal} {
			body := strings.Replace(question(more), "count to twenty", "stays in the house", 1)
			if got := g.chat(t, body).read(); got.text != "from the house" {
				t.Errorf("engine at %s: %q from %s", where, got.text, got.provider)
			}
		}
		if i == 0 {
			if got := g.chat(t, question(`,"provider":{"only":["primary"]}`)).read(); got.text != "from the proxy" {
				t.Errorf("the provider was not reached through the proxy: %+v", got.fault)
			}
		}
	}
}

// ownNames are what this machine is called in a network of its own, which a proxy variable would count for: an address,
// or a name that leads back to it.
func ownNames(t *testing.T) (names []string) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	own := func(text string, loopback bool) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Is4() && hearth.OwnNetwork(ip) && (loopback || !ip.IsLoopback())
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && own(n.IP.String(), false) {
			names = append(names, n.IP.String())
		}
	}
	name, err := os.Hostname()
	if err != nil || name == "localhost" {
		return names
	}
	if ips, err := net.LookupHost(name); err == nil && own(ips[0], true) {
		names = append(names, name)
	}
	if len(names) == 0 {
		t.Log("nothing here is called by another name than loopback's")
	}
	return names
}
