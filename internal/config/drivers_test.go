package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"myip.co.kr/hearth"
)

// TestDriverKeys reads a slot of each driver and a node of another machine.
func TestDriverKeys(t *testing.T) {
	env := map[string]string{"TOKEN": "0123456789abcdef", "ADMIN": "sk-admin", "NAME": "box"}
	c := parse(t, `
local: {port_range: 20000-20099, lock_dir: locks}
node_server: {listen: "unix:///run/node.sock", token: "${env:TOKEN}", tls_cert: node.pem, tls_key: /k.pem}
nodes:
  - name: gpu-1
    free_memory: [free-mib, "--all"]
    slots:
      - {name: exec, model: x/exec, command: [e, "${port}"], on_exit: keep, min_free: 20GiB}
      - name: command
        model: x/command
        driver: command
        url: http://192.168.0.9:8000/
        trust: lan
        dir: bin
        env: {HOST: gpu}
        start: {command: [ssh, "${env:NAME}", start], timeout: 3m}
        stop: {command: [ssh, box, stop]}
        status: {command: [ssh, box, status], timeout: 2s}
      - name: http
        model: x/http
        driver: http
        url: http://127.0.0.1:9
        upstream_model: qwen
        start: {method: PUT, url: "/models/${model}?wake=1", headers: {X-Admin: "${env:ADMIN}"}, body: '{"name": "${model}"}', status: [200, 409], match: data.0.state=up}
        stop: {url: "http://127.0.0.1:10/stop"}
      - {name: preset, model: x/preset, driver: http, url: "http://127.0.0.1:11434", preset: ollama, start: {timeout: 1h}}
      - {name: docker, model: x/docker, driver: docker, url: "http://127.0.0.1:8000", container: "vllm-${env:NAME}"}
      - {name: tcp, model: x/tcp, driver: docker, url: "http://127.0.0.1:8001", container: c, docker: "https://127.0.0.1:2376/"}
  - name: gpu-2
    url: https://gpu-2.lan:8801/
    token: ${env:TOKEN}
    ca: ca.pem
    slots: [{name: far, model: x/far, engine: vllm, concurrency: 4}]
`, env)
	cat, err := c.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	type slot struct {
		Driver, Engine, Preset, Container, Docker, OnExit, URL, Upstream, Dir, Probe string
		MinFree                                                                      int64
		Concurrency                                                                  int
		Actions                                                                      hearth.Actions
	}
	got := map[string]slot{}
	for _, s := range cat.Slots {
		got[s.Name] = slot{s.Driver, s.Engine, s.Preset, s.Container, s.Docker, s.OnExit, s.URL, s.UpstreamModel, s.Dir, s.Probe, s.MinFree, s.Concurrency, s.Actions}
	}
	want := map[string]slot{
		"exec": {Driver: "exec", OnExit: "keep", Probe: "/health", MinFree: 20 << 30},
		"command": {Driver: "command", OnExit: "stop", Probe: "/health", URL: "http://192.168.0.9:8000", Dir: "bin", Actions: hearth.Actions{
			Start:  &hearth.Action{Command: []string{"ssh", "box", "start"}, Timeout: 3 * time.Minute},
			Stop:   &hearth.Action{Command: []string{"ssh", "box", "stop"}},
			Status: &hearth.Action{Command: []string{"ssh", "box", "status"}, Timeout: 2 * time.Second},
		}},
		"http": {Driver: "http", OnExit: "stop", Probe: "/health", URL: "http://127.0.0.1:9", Upstream: "qwen", Actions: hearth.Actions{
			Start: &hearth.Action{
				Method: "PUT", URL: "/models/${model}?wake=1", Headers: map[string]hearth.Secret{"X-Admin": "sk-admin"},
				Body: `{"name": "${model}"}`, Status: []int{200, 409}, Match: "data.0.state=up",
			},
			Stop: &hearth.Action{URL: "http://127.0.0.1:10/stop"},
		}},
		"preset": {Driver: "http", Engine: "ollama", Preset: "ollama", OnExit: "stop", Probe: "/health", URL: "http://127.0.0.1:11434",
			Actions: hearth.Actions{Start: &hearth.Action{Timeout: time.Hour}}},
		"docker": {Driver: "docker", Container: "vllm-box", Docker: "unix:///var/run/docker.sock", OnExit: "stop", Probe: "/health", URL: "http://127.0.0.1:8000"},
		"tcp":    {Driver: "docker", Container: "c", Docker: "https://127.0.0.1:2376", OnExit: "stop", Probe: "/health", URL: "http://127.0.0.1:8001"},
		"far":    {Engine: "vllm", Concurrency: 4},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("slots (-want +got):\n%s", d)
	}
	far := &hearth.Remote{URL: "https://gpu-2.lan:8801", Token: "0123456789abcdef", CA: "ca.pem"}
	if d := cmp.Diff(far, cat.Nodes[1].Remote); d != "" || cat.Nodes[0].Remote != nil {
		t.Errorf("remote node (-want +got):\n%s, own node %+v", d, cat.Nodes[0].Remote)
	}
	if d := cmp.Diff([]string{"free-mib", "--all"}, cat.Nodes[0].FreeMemory); d != "" {
		t.Errorf("free_memory: %s", d)
	}
	if p := c.Local.Ports(); p != [2]int{20000, 20099} || c.Local.LockDir != "locks" {
		t.Errorf("ports %v, locks in %q", p, c.Local.LockDir)
	}
	server := &NodeServer{Listen: "unix:///run/node.sock", Token: "0123456789abcdef", TLSCert: "node.pem", TLSKey: "/k.pem"}
	if d := cmp.Diff(server, c.NodeServer); d != "" {
		t.Errorf("node server (-want +got):\n%s", d)
	}
}

func TestDriverDefaults(t *testing.T) {
	c := Default()
	if p := c.Local.Ports(); p != [2]int{18100, 18899} || c.NodeServer != nil || c.Local.LockDir != "" {
		t.Errorf("ports %v, node server %v, locks in %q", p, c.NodeServer, c.Local.LockDir)
	}
	c = parse(t, "node_server: {token: 0123456789abcdef}", nil)
	if n := c.NodeServer; n.Listen != "127.0.0.1:8801" || n.Insecure {
		t.Errorf("node server %+v", n)
	}
}

// TestFilesOfNodes: files beside the configuration are found there, tokens are read from theirs.
func TestFilesOfNodes(t *testing.T) {
	files := map[string]string{filepath.Join("etc", "own"): "0123456789abcdef\n", "/run/far": " other "}
	c, err := Parse(filepath.Join("etc", "hearth.yaml"), []byte(`
local: {lock_dir: locks}
node_server: {token_file: own, tls_cert: a.pem, tls_key: b.pem}
nodes: [{name: n, url: "https://gpu-2", token_file: /run/far, ca: ca.pem}]
`), nil, func(name string) ([]byte, error) { return []byte(files[name]), nil })
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join([]string{
		c.NodeServer.Token.Reveal(), c.Nodes[0].Token.Reveal(), c.Nodes[0].CA, c.NodeServer.TLSCert, c.NodeServer.TLSKey, c.Local.LockDir,
	}, " ")
	if want := "0123456789abcdef other etc/ca.pem etc/a.pem etc/b.pem etc/locks"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
