package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// wrapper is what an upstream does before the first request.
type wrapper uint8

const (
	plain      wrapper = iota
	garbageTLS         // answers a handshake with what is none
	unknownTLS         // shows a certificate that nobody has signed
	silentTLS          // never answers the handshake
)

func (w wrapper) scheme() string {
	if w == plain {
		return "http://"
	}
	return "https://"
}

var errNoTLS = errors.New("no TLS here")

func (w wrapper) handshake(t testing.TB) func(net.Conn) (net.Conn, error) {
	switch w {
	case garbageTLS:
		return func(c net.Conn) (net.Conn, error) {
			io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\nthis is not a handshake\r\n")
			return nil, errNoTLS
		}
	case silentTLS:
		return func(net.Conn) (net.Conn, error) { return nil, errNoTLS }
	case unknownTLS:
		cert := selfSigned(t)
		return func(c net.Conn) (net.Conn, error) {
			s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
			return s, s.Handshake()
		}
	}
	return nil
}

func selfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
