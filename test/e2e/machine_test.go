package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nodeToken = "node-token-0123456789abcdef0123456789"

// machine is a running hearth node with Gemma and Exaone on one exclusive GPU.
type machine struct {
	t    testing.TB
	dir  string
	env  []string // beside what every machine gets
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan error
	url  string // for gateways
}

// startMachine runs a hearth node. listen is its address: "tls" with a certificate of a CA in ca.pem, "unix", or
// "clear" on the loopback.
func startMachine(t testing.TB, listen string, gemmaArgs ...string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	server := ""
	switch listen {
	case "unix":
		m.url = "unix://" + m.path("node.sock")
		server = m.url
	default:
		server = freeAddress(t)
		m.url = "http://" + server
	}
	keys := ""
	if listen == "tls" {
		certify(t, m.dir)
		m.url = "https://" + server
		keys = ", tls_cert: node.pem, tls_key: node-key.pem"
	}
	text := fmt.Sprintf(`currency: KRW
data_dir: data
shutdown: {grace: 30s}
node_server: {listen: %q, token: %s%s}
nodes:
  - name: gpu
    turn: 300ms
    min_resident: 0s
    slots:
      - {name: gemma, model: %s, command: %s, concurrency: 2, wait: 1m, expected_load: 1s, stop_grace: 200ms}
      - {name: exaone, model: %s, command: %s, concurrency: 2, wait: 1m, expected_load: 1s, stop_grace: 200ms}
`, server, nodeToken, keys, gemma, engineLine(t, gemma, gemmaArgs), exaone, engineLine(t, exaone, nil))
	if err := os.WriteFile(m.path("node.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run()
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// run starts the process and waits until it serves. It may be called again after the process ended.
func (m *machine) run() {
	m.t.Helper()
	m.log, m.done = new(lockedBuffer), make(chan error, 1)
	m.cmd = exec.Command(program, "node", "--config", m.path("node.yaml"))
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	m.cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+m.dir), m.env...)
	m.cmd.WaitDelay = 5 * time.Second
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	cmd, done, log := m.cmd, m.done, m.log
	go func() { done <- cmd.Wait() }()
	m.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // gone already in some tests
		select {
		case <-done:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			m.t.Errorf("the node did not end within a minute of SIGTERM")
		}
		if m.t.Failed() {
			m.t.Logf("log of the machine:\n%s", log)
		}
	})
	m.until("it serves", func() bool { return strings.Contains(m.log.String(), "serving gateways") })
}

func (m *machine) until(what string, ok func() bool) {
	m.t.Helper()
	g := gateway{t: m.t, log: m.log}
	g.until(what, ok)
}

// kill ends the process as a power cut would.
func (m *machine) kill() {
	m.t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		m.t.Fatal(err)
	}
	err := <-m.done
	m.done <- err
}

// end waits for the process to end by itself and returns its exit code.
func (m *machine) end() int {
	m.t.Helper()
	g := gateway{t: m.t, log: m.log, done: m.done, cmd: m.cmd}
	return g.end()
}

// gatewayOf runs a gateway whose GPU is the machine's. url and token are the machine's, unless others are given.
func gatewayOf(t testing.TB, m *machine, edits ...string) *gateway {
	t.Helper()
	edits = append(edits, "URL", m.url, "TOKEN", nodeToken)
	if !strings.HasPrefix(m.url, "https://") {
		edits = append([]string{", ca: CA", ""}, edits...)
	}
	edits = append(edits, "CA", m.path("ca.pem"))
	g := launch(t, func(acme string) string {
		return strings.NewReplacer(append(edits, "ACME", acme)...).Replace(`currency: KRW
exchange_rates: {USD: 1390}
data_dir: data
shutdown: {lame_duck: 0s, grace: 5s}
local: {name: ` + local + `}
default_model: ` + gemma + `
nodes:
  - {name: gpu-2, url: "URL", token: TOKEN, ca: CA, slots: [
      {name: gemma, model: ` + gemma + `, context: 32768, concurrency: 2, wait: 1m, price: {prompt: 30, completion: 150}},
      {name: exaone, model: ` + exaone + `, context: 32768, concurrency: 2, wait: 1m, price: {prompt: 30, completion: 150}}]}
providers:
  - slug: acme
    name: Acme AI
    base_url: http://ACME/v1
    models: [{model: ` + gemma + `, context: 131072, price: {prompt: 0.06, completion: 0.24}}]
`)
	})
	g.gpu = m
	return g
}

// certify makes a CA in ca.pem and a certificate of it for 127.0.0.1.
func certify(t testing.TB, dir string) {
	t.Helper()
	make := func(name string, serial int64, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		if parent == nil {
			parent, signer = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + "-key.pem": {Type: "EC PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return c, key
	}
	ca, key := make("ca", 1, nil, nil)
	make("node", 2, ca, key)
}

// runOnce runs a command that is to fail and returns what it says.
func runOnce(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%v succeeded: %s", args, out)
	}
	return string(out)
}
