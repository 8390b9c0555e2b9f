package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	direct = "direct"
	nginx  = "nginx"
	rproxy = "rproxy"
	fwd    = "forwarder"
	own    = "hearth"
	power  = "hearth, power"
)

// key is what the load generator calls Hearth with. It exists only in the data directory of one run.
const key = "sk-myip-bench-0123456789abcdef0123456789abcdef"

// gateway is a running system that the load generator can be pointed at.
type gateway struct {
	name    string
	url     string // up to and without the path
	model   string
	headers []string
	proc    *process // nil: direct
	idleMiB float64
}

// lab knows where the programs are and how to start a gateway in front of the mock.
type lab struct {
	dir     string            // temporary, holds everything of this run
	program map[string]string // name → path
	mock    *process
	mockURL string
}

// build compiles the project's own programs.
func (l *lab) build(ctx context.Context, bench string) error {
	for _, name := range []string{"mock", "load", rproxy, fwd} {
		if err := compile(ctx, bench, filepath.Join(l.dir, name), "./"+name); err != nil {
			return err
		}
		l.program[name] = filepath.Join(l.dir, name)
	}
	return nil
}

func compile(ctx context.Context, dir, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, b)
	}
	return nil
}

func (l *lab) startMock(ctx context.Context) error {
	addr, err := freePort()
	if err != nil {
		return err
	}
	l.mockURL = "http://" + addr
	l.mock, err = start(ctx, l.dir, "mock", nil, l.program["mock"], "-addr", addr)
	if err != nil {
		return err
	}
	return l.mock.ready(ctx, l.mockURL+"/health")
}

// gateway starts the named system. The error is the reason why it cannot be measured.
func (l *lab) gateway(ctx context.Context, name string) (*gateway, error) {
	if name == direct {
		return &gateway{name: name, url: l.mockURL, model: "mock"}, nil
	}
	program := l.program[strings.TrimSuffix(name, ", power")]
	if program == "" {
		return nil, fmt.Errorf("there is no %s on this machine", name)
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, url: "http://" + addr, model: "mock"}
	switch name {
	case rproxy:
		g.proc, err = start(ctx, l.dir, name, nil, program, "-addr", addr, "-up", l.mockURL, "-buf")
	case fwd:
		g.proc, err = start(ctx, l.dir, name, nil, program, "-addr", addr, "-up", l.mockURL)
	case nginx:
		g.proc, err = l.startNginx(ctx, program, addr)
	case own:
		err = l.startHearth(ctx, g, addr, "process")
	case power:
		err = l.startHearth(ctx, g, addr, "power")
	}
	if err == nil {
		err = g.proc.ready(ctx, g.url+"/health")
	}
	if err == nil {
		g.idleMiB, err = g.proc.memory("VmRSS")
	}
	if err != nil {
		g.proc.stop()
		return nil, err
	}
	return g, nil
}

func (l *lab) startHearth(ctx context.Context, g *gateway, addr, durability string) (err error) {
	dir, err := os.MkdirTemp(l.dir, own+"-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "hearth.yaml")
	config := hearthConfig(addr, filepath.Join(dir, "data"), l.mockURL, durability)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	g.model, g.headers = "bench/mock", []string{"Authorization: Bearer " + key}
	g.proc, err = start(ctx, l.dir, own, []string{"MYIP_API_KEY=" + key}, l.program[own], "serve", "--config", file)
	return err
}

// hearthConfig is Hearth with everything it does by default and one external provider, the mock.
func hearthConfig(addr, data, mock, durability string) string {
	return fmt.Sprintf(`listen: %s
data_dir: %s
currency: KRW
default_model: bench/mock
exchange_rates: {USD: 1390}
providers:
  - slug: mock
    name: Mock
    base_url: %s/v1
    api_key: bench
    currency: USD
    models:
      - model: bench/mock
        upstream_model: mock
        context: 1000000
        price: {prompt: 0.1, completion: 0.2}
records: {durability: %s}
`, addr, data, mock, durability)
}

func (l *lab) startNginx(ctx context.Context, program, addr string) (*process, error) {
	dir, err := os.MkdirTemp(l.dir, nginx+"-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(nginxConfig(addr, strings.TrimPrefix(l.mockURL, "http://"))), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, l.dir, nginx, nil, program, "-p", dir, "-e", "stderr", "-c", file)
}

// nginxConfig is a plain reverse proxy that keeps its connections and passes each chunk on at once.
func nginxConfig(addr, mock string) string {
	return fmt.Sprintf(`daemon off;
pid nginx.pid;
error_log stderr;
worker_processes 2;
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	client_max_body_size 64m;
	client_body_buffer_size 1m;
	keepalive_requests 100000000;
	upstream mock { server %s; keepalive 2048; keepalive_requests 100000000; }
	server {
		listen %s backlog=4096;
		location / {
			proxy_pass http://mock;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
		}
	}
}
`, mock, addr)
}
