package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
)

func TestLocalStaysAtHome(t *testing.T) {
	stream := chunked + part(word("one")+finish+done) + lastPart
	t.Run("loopback", func(t *testing.T) {
		p := listen(t, says(stream, false))
		client, e := engineAt(t, p.url())
		_, port, _ := net.SplitHostPort(p.l.Addr().String())
		for _, url := range []string{p.url(), p.url() + "/", "http://localhost:" + port} {
			if r := attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: url, EngineKey: "engine-key", Stream: true}); r.String() != "served one" {
				t.Errorf("%s: %v (%v)", url, r, r.failure.Err)
			}
		}
		for _, raw := range p.requests {
			if !strings.HasPrefix(raw, "POST /v1/chat/completions HTTP/1.1\r\n") || !strings.Contains(raw, "\r\nAuthorization: Bearer engine-key\r\n") {
				t.Errorf("sent %q", raw)
			}
		}
	})
	t.Run("no key, no header", func(t *testing.T) {
		p := listen(t, says(stream, false))
		client, e := engineAt(t, p.url())
		attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: p.url(), Stream: true})
		if len(p.requests) != 1 || strings.Contains(p.requests[0], "Authorization") {
			t.Errorf("sent %q", p.requests)
		}
	})
	t.Run("proxy variables are ignored", func(t *testing.T) {
		client, e := engineAt(t, "")
		got, err := client.targetOf(&Call{Endpoint: e, EngineURL: "http://127.0.0.1:1"})
		if err != nil || got.pool.Proxy != nil {
			t.Error("the transport of an engine has a proxy", err)
		}
	})
	for _, host := range []string{
		"192.0.2.1", "[2001:db8::1]", "10.0.0.1", "169.254.169.254", "0.0.0.0", "[::]", "[::ffff:192.0.2.1]", "[fe80::1%25lo]", "224.0.0.1", "192.0.2.1.",
	} {
		t.Run(host, func(t *testing.T) {
			client, e := engineAt(t, "http://127.0.0.1:1")
			// Were the connection begun, this limit would end it: that gives another error.
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := attempt(ctx, client, &Call{Endpoint: e, EngineURL: "http://" + host + ":9", Stream: true})
			var dns *net.DNSError
			if r.end != "next" || !errors.Is(r.failure.Err, errNotLocal) && !errors.As(r.failure.Err, &dns) {
				t.Errorf("got %v, %+v", r, r.failure)
			}
			if !errors.As(r.failure.Err, &dns) && r.failure.Message != errNotLocal.Error() {
				t.Errorf("message = %q", r.failure.Message)
			}
		})
	}
	t.Run("a name that leads elsewhere", func(t *testing.T) {
		client, e := engineAt(t, "http://127.0.0.1:1")
		d := localDialer(trust{})
		d.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go resolveTo(theirs, net.IPv4(192, 0, 2, 1))
			return ours, nil
		}}
		client.opt.LocalDial = d.DialContext
		r := attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: "http://engine.example:9", Stream: true})
		if r.end != "next" || !errors.Is(r.failure.Err, errNotLocal) {
			t.Errorf("got %v, %+v", r, r.failure)
		}
	})
	t.Run("an address that the operator declared", func(t *testing.T) {
		lan := trusted(&hearth.Catalog{Slots: []*hearth.Slot{
			{URL: "http://10.1.2.3:8080"}, {URL: "http://[2001:db8::5]:80"}, {URL: "http://localhost:8080"}, {URL: ""}, {URL: "::bad"},
		}})
		c := localDialer(lan).Control
		for address, ok := range map[string]bool{"10.1.2.3:1": true, "[2001:db8::5]:1": true, "10.1.2.4:1": false, "127.8.9.1:1": true, "[::1]:1": true, "nonsense": false} {
			if err := c("tcp", address, nil); (err == nil) != ok {
				t.Errorf("dial %s: %v", address, err)
			}
		}
	})
	t.Run("a name that the operator declared may be any private address and no public one", func(t *testing.T) {
		c := localDialer(trusted(&hearth.Catalog{Slots: []*hearth.Slot{{URL: "http://gpu-2:8080"}}})).Control
		for address, ok := range map[string]bool{"10.1.2.3:1": true, "192.168.0.9:1": true, "[fd00::1]:1": true, "127.0.0.1:1": true, "192.0.2.1:1": false, "[2001:db8::5]:1": false, "8.8.8.8:1": false} {
			if err := c("tcp", address, nil); (err == nil) != ok {
				t.Errorf("dial %s: %v", address, err)
			}
		}
	})
	t.Run("a machine trusted by its name may be in an overlay network", func(t *testing.T) {
		lan := trusted(&hearth.Catalog{Slots: []*hearth.Slot{{URL: "http://gpu.tailnet.example:8000"}}})
		for address, want := range map[string]bool{"100.100.1.2": true, "192.168.1.2": true, "8.8.8.8": false} {
			if got := lan.allows(net.ParseIP(address)); got != want {
				t.Errorf("%s: %v", address, got)
			}
		}
	})
	t.Run("an address that cannot be read", func(t *testing.T) {
		client, e := engineAt(t, "http://127.0.0.1:1")
		if r := attempt(t.Context(), client, &Call{Endpoint: e, EngineURL: "http://\x7f"}); r.end != "next" || strings.Contains(r.failure.Message, "\x7f") {
			t.Errorf("got %v", r)
		}
	})
}

// resolveTo is a name server that gives every name the address ip.
func resolveTo(c net.Conn, ip net.IP) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, msg); err != nil {
			return
		}
		end := 12 + bytes.IndexByte(msg[12:], 0) + 5 // the question: a name, its type, its class
		asksA := msg[end-3] == 1
		msg = msg[:end]
		msg[2], msg[3] = 0x81, 0x80
		copy(msg[6:12], make([]byte, 6))
		if asksA {
			msg[7] = 1
			msg = append(msg, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
			msg = append(msg, ip.To4()...)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)); err != nil {
			return
		}
	}
}

// Consecutive leases of one engine share a target; another engine, or another key, gets its own.
func TestEngineTargets(t *testing.T) {
	client, e := engineAt(t, "http://127.0.0.1:1")
	of := func(url string, key hearth.Secret) *target {
		got, err := client.targetOf(&Call{Endpoint: e, EngineURL: url, EngineKey: key})
		if err != nil {
			t.Fatal(err)
		}
		if got.url.String() != url+"/v1/chat/completions" || key != "" && got.header.Get("Authorization") != "Bearer "+string(key) {
			t.Errorf("target of %s: %v %v", url, got.url, got.header)
		}
		return got
	}
	a := of("http://127.0.0.1:5000", "key-of-the-first")
	if of("http://127.0.0.1:5000", "key-of-the-first") != a {
		t.Error("the same engine has two targets")
	}
	if of("http://127.0.0.1:5000", "key-of-the-second") == a || of("http://127.0.0.1:5001", "key-of-the-second") == a {
		t.Error("two engines have the same target")
	}
}

func TestNewRefusesABadAddress(t *testing.T) {
	p := &hearth.Provider{Slug: "acme", Kind: hearth.External, BaseURL: "http://\x7f"}
	_, err := New(&hearth.Catalog{Endpoints: []*hearth.Endpoint{{Provider: p}}}, Options{})
	if err == nil || !strings.Contains(err.Error(), `"acme"`) {
		t.Errorf("err = %v", err)
	}
}

// Who gives the dialers sees every dial: those to providers in the one, those to engines in the other.
func TestEveryDialIsSeen(t *testing.T) {
	refuse := func(to *[]string) Dialer {
		return func(_ context.Context, network, address string) (net.Conn, error) {
			*to = append(*to, network+" "+address)
			return nil, errors.New("not today")
		}
	}
	var abroad, home []string
	o := Options{Dial: refuse(&abroad), LocalDial: refuse(&home)}
	_, far := endpoint(t, "http://provider.example")
	_, near := engineAt(t, "http://127.0.0.1:1")
	attempt(t.Context(), clientWith(t, o, far), &Call{Endpoint: far, Stream: true})
	if len(abroad) != 1 || abroad[0] != "tcp provider.example:80" || home != nil {
		t.Errorf("a provider: dialled %q and %q", abroad, home)
	}
	attempt(t.Context(), clientWith(t, o, near), &Call{Endpoint: near, EngineURL: "http://127.0.0.1:9", Stream: true})
	if len(abroad) != 1 || len(home) != 1 || home[0] != "tcp 127.0.0.1:9" {
		t.Errorf("an engine: dialled %q and %q", abroad, home)
	}
}
