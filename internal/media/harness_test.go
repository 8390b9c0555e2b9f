package media

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"myip.co.kr/hearth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The beginnings of files, enough for their looks.
const (
	png  = "\x89PNG\r\n\x1a\nand then pixels"
	jpeg = "\xff\xd8\xff\xe0and then pixels"
	wav  = "RIFF\x10\x00\x00\x00WAVEfmt and then samples"
)

// site is a web server on this machine that counts its connections.
type site struct {
	*httptest.Server
	conns atomic.Int64
}

func newSite(t testing.TB, secure bool, h http.HandlerFunc) *site {
	t.Helper()
	return newSiteAt(t, "127.0.0.1:0", secure, h)
}

func newSiteAt(t testing.TB, address string, secure bool, h http.HandlerFunc) *site {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Server: &httptest.Server{Listener: ln, Config: &http.Server{Handler: h}}}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func serve(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body)) // the fetcher may have left
	}
}

func (s *site) addrPort() netip.AddrPort {
	return s.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// permit allows these sites and nothing else.
func permit(sites ...*site) func(netip.AddrPort) bool {
	return func(to netip.AddrPort) bool {
		for _, s := range sites {
			if s.addrPort() == to {
				return true
			}
		}
		return false
	}
}

func dataURL(kind, body string) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString([]byte(body))
}

// fetch wants an answer.
func fetch(t *testing.T, f *Fetcher, address string) string {
	t.Helper()
	got, err := f.Fetch(t.Context(), address)
	if err != nil {
		t.Fatalf("Fetch(%s): %v", address, err)
	}
	return got
}

// refused wants a refusal that says so and shows the caller nothing but the host of the address.
func refused(t *testing.T, f *Fetcher, address, says string) {
	t.Helper()
	got, err := f.Fetch(t.Context(), address)
	var e *hearth.Error
	if !errors.As(err, &e) || got != "" {
		t.Fatalf("Fetch(%s) = %.50q, %v", address, got, err)
	}
	if e.Type != hearth.ErrInvalidRequest || e.Param != "messages" || !strings.Contains(e.Message, says) {
		t.Errorf("Fetch(%s): %v, want a refusal that says %q", address, err, says)
	}
	if !strings.Contains(e.Message, "data:") {
		t.Errorf("%q does not say what to do", e.Message)
	}
	tells(t, e.Message, address)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%v tells the log more of the address than its host", err)
	}
}

func tells(t *testing.T, message, address string) {
	t.Helper()
	for _, secret := range []string{"dial", "lookup", "refused", "secret", "passw0rd", "victim"} {
		if strings.Contains(message, secret) {
			t.Errorf("%q tells %q", message, secret)
		}
	}
	if u, err := url.Parse(address); err == nil && u.Port() != "" && strings.Contains(message, u.Port()) {
		t.Errorf("%q tells the port", message)
	}
}

// names is a DNS server on this machine that knows some names.
func names(t *testing.T, known map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buf[:n], known), from) // who asks asks again
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply answers one question for addresses, RFC 1035.
func reply(q []byte, known map[string][]string) []byte {
	var labels []string
	i := 12
	for q[i] != 0 {
		labels = append(labels, string(q[i+1:i+1+int(q[i])]))
		i += 1 + int(q[i])
	}
	kind, end := binary.BigEndian.Uint16(q[i+1:]), i+5
	var answers []byte
	count := uint16(0)
	for _, text := range known[strings.ToLower(strings.Join(labels, "."))] {
		ip := netip.MustParseAddr(text)
		if ip.Is4() != (kind == 1) || kind != 1 && kind != 28 {
			continue
		}
		answers = append(answers, 0xc0, 12)
		answers = binary.BigEndian.AppendUint16(answers, kind)
		answers = append(answers, 0, 1, 0, 0, 0, 0)
		answers = binary.BigEndian.AppendUint16(answers, uint16(len(ip.AsSlice())))
		answers = append(answers, ip.AsSlice()...)
		count++
	}
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1}, 0, byte(count), 0, 0, 0, 0)
	if len(known[strings.ToLower(strings.Join(labels, "."))]) == 0 {
		out[3] |= 3 // no such name
	}
	return append(append(out, q[12:end]...), answers...)
}
