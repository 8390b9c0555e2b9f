package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"myip.co.kr/hearth"
)

// Bounds of the connections between a gateway and a machine.
const (
	connectWait = 5 * time.Second
	maxHeaders  = 64 << 10
	// A connection that has silently died must be found out before all its streams hang on it.
	pingAfter = 5 * time.Second
	pingWait  = 3 * time.Second
	readAhead = 512 << 10 // of one answer
)

// Dialer connects to an address, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// transports says by which URL a machine is asked, and makes transports that reach it and nothing else.
func transports(r *hearth.Remote, dial Dialer) (base string, make func() *http.Transport, err error) {
	base = strings.TrimRight(r.URL, "/")
	socket := ""
	if path, ok := strings.CutPrefix(base, "unix://"); ok {
		socket, base = path, "http://socket"
	}
	secure := strings.HasPrefix(base, "https://")
	if !secure && !strings.HasPrefix(base, "http://") {
		return "", nil, errors.New("the url of a machine begins with https://, http:// or unix://")
	}
	var conf *tls.Config
	if secure {
		if conf, err = trust(r.CA); err != nil {
			return "", nil, err
		}
	}
	if dial == nil {
		dial = houseDialer(socket)
	}
	return base, func() *http.Transport { return transport(dial, conf) }, nil
}

func transport(dial Dialer, conf *tls.Config) *http.Transport {
	p := new(http.Protocols)
	if conf != nil {
		p.SetHTTP2(true)
		conf = conf.Clone()
	} else {
		p.SetUnencryptedHTTP2(true)
	}
	return &http.Transport{
		DialContext: dial, TLSClientConfig: conf, TLSHandshakeTimeout: connectWait, Protocols: p,
		DisableCompression:     true, // and idle connections are kept: the machine closes them when it is time
		MaxResponseHeaderBytes: maxHeaders,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait, MaxReceiveBufferPerStream: readAhead},
	}
}

// trust is the TLS configuration that believes the certificates in a file, or the system's.
func trust(file string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read ca: %w", err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read ca: %s holds no certificate", file)
	}
	return conf, nil
}

var errAway = errors.New("refused to send a local request to a public address")

// houseDialer connects to a socket, or to machines of the house: every other address is refused when names have been
// resolved, so a prompt cannot leave the house by a name.
func houseDialer(socket string) Dialer {
	d := &net.Dialer{Timeout: connectWait, KeepAlive: 15 * time.Second}
	if socket != "" {
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
	}
	d.Control = func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err != nil || !hearth.OwnNetwork(at.Addr()) {
			return errAway
		}
		return nil
	}
	return d.DialContext
}
