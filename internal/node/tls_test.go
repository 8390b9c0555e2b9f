package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/slot"
)

// delayed is a listener whose connections deliver everything late, as a distant network does.
type delayed struct {
	net.Listener
	by time.Duration
}

func (d delayed) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go d.carry(c, far)
	go d.carry(far, c)
	return near, nil
}

// carry moves bytes, each piece after its time.
func (d delayed) carry(to, from net.Conn) {
	type piece struct {
		b  []byte
		at time.Time
	}
	queue := make(chan piece, 1000)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				queue <- piece{b[:n], time.Now().Add(d.by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range queue {
		<-time.After(time.Until(p.at))
		_, _ = to.Write(p.b) // who has left is found out by the other side's reader
	}
	to.Close()
	from.Close()
}

// serveTLS runs a machine on a real socket, with a certificate in a file.
func serveTLS(t *testing.T, by time.Duration) (address, ca string) {
	t.Helper()
	at := httptest.NewUnstartedServer(nil)
	at.StartTLS()
	cert := at.TLS.Certificates[0]
	at.Close()
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	t.Cleanup(engine.Close)
	n := &hearth.Node{Name: "gpu", Exclusive: true}
	cat := &hearth.Catalog{Nodes: []*hearth.Node{n}, Slots: []*hearth.Slot{{
		Name: "a", Node: n, Model: &hearth.Model{ID: "x/a"}, Wait: time.Minute, Queue: 9, StartTimeout: time.Minute, Concurrency: 4,
	}}}
	fleet, err := slot.NewFleet(cat, slot.Options{Driver: func(*hearth.Slot) (slot.Driver, error) { return &gpus{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", engine.Listener.Addr().String())
	}
	s := NewServer(ServerOptions{Catalog: cat, Fleet: fleet, Token: token, MaxBody: 8 << 20, Engines: &http.Transport{DialContext: dial}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, ended := s.HTTP(&tls.Config{Certificates: []tls.Certificate{cert}}), make(chan error, 1)
	go func() { ended <- srv.ServeTLS(delayed{ln, by}, "", "") }()
	t.Cleanup(func() {
		s.Close()
		_ = srv.Close()
		<-ended
		if err := fleet.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String(), ca
}

// gateway follows a machine until the test ends.
func gateway(t *testing.T, url, ca string) (*Client, *hearth.Slot) {
	t.Helper()
	n := &hearth.Node{Name: "gpu-2", Remote: &hearth.Remote{URL: url, Token: token, CA: ca}}
	s := &hearth.Slot{Name: "a", Node: n, Model: &hearth.Model{ID: "x/a"}}
	c, err := Dial(n, []*hearth.Slot{s}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Watch(func(slot.Event) {})
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, s
}

// until asks again and again: real sockets take their own time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func TestTLS(t *testing.T) {
	address, ca := serveTLS(t, 0)
	t.Run("the certificate is known", func(t *testing.T) {
		c, s := gateway(t, "https://"+address, ca)
		until(t, "it is known", func() bool { return !c.View("a").Unknown })
		l, err := c.Acquire(t.Context(), slot.Ask{Slot: s, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("a prompt ", 700<<10)
		r, _ := http.NewRequest(http.MethodPost, l.URL+chat, strings.NewReader(large))
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := l.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != large || resp.ProtoMajor != 2 {
			t.Errorf("%d bytes of %d came back by HTTP/%d: %v", len(b), len(large), resp.ProtoMajor, err)
		}
	})
	for name, url := range map[string]string{"nobody has signed it": "https://" + address, "no TLS": "http://" + address} {
		t.Run(name, func(t *testing.T) {
			file := ""
			c, _ := gateway(t, url, file)
			until(t, "it was tried", func() bool { return !strings.Contains(c.View("a").LastError, "not answered yet") })
			if v := c.View("a"); !v.Unknown {
				t.Errorf("%+v", v)
			}
		})
	}
	t.Run("it is another machine's", func(t *testing.T) {
		_, port, _ := net.SplitHostPort(address)
		c, _ := gateway(t, "https://localhost:"+port, ca) // the certificate is for 127.0.0.1
		until(t, "it was tried", func() bool { return strings.Contains(c.View("a").LastError, "x509") })
		var host x509.HostnameError
		if _, err := c.get(t.Context(), viewsPath); !errors.As(err, &host) {
			t.Errorf("%v", err)
		}
	})
}

// A distant network makes everything later, and nothing wrong.
func TestTLS_SlowNetwork(t *testing.T) {
	address, ca := serveTLS(t, 150*time.Millisecond)
	c, s := gateway(t, "https://"+address, ca)
	until(t, "it is known", func() bool { return !c.View("a").Unknown })
	for range 3 {
		l, err := c.Acquire(t.Context(), slot.Ask{Slot: s, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest(http.MethodPost, l.URL+chat, strings.NewReader("hello"))
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := l.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != "hello" {
			t.Errorf("%q %v", b, err)
		}
	}
	if v := c.View("a"); v.Unknown || v.State != hearth.SlotReady {
		t.Errorf("%+v", v)
	}
}
