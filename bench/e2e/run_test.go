package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun measures the comparators for real, briefly.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out := filepath.Join(t.TempDir(), "table.md")
	o := options{bench: "..", out: out, d: 250 * time.Millisecond, rounds: 1, tables: t.Output(), progress: t.Output()}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		switch name {
		case "CPU per request c1 / c16 (µs)", "64 streams: CPU per chunk (µs)", "200 KB: CPU per request (µs)":
			cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), "|"), "|")
			for i, cell := range cells {
				if direct := i == 0; direct != (strings.TrimSpace(cell) == "–") {
					t.Errorf("%s: column %d is %q", name, i, cell)
				}
			}
		case "failed requests", "cut or short streams":
			if strings.ContainsAny(rest, "123456789") {
				t.Errorf("%s: %s", name, rest)
			}
		}
	}
	for _, want := range []string{"| CPU per request c1", "| failed requests |", "| cut or short streams |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no line %q in:\n%s", want, text)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("the run left %v behind (%v)", left, err)
	}
}

func TestGatewayThatEnds(t *testing.T) {
	broken := filepath.Join(t.TempDir(), own)
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no port is free >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: t.TempDir(), program: map[string]string{own: broken}, mockURL: "http://127.0.0.1:1"}
	for name, want := range map[string]string{
		own:    "hearth ended before it was ready; its last output: no port is free",
		power:  "hearth ended before it was ready; its last output: no port is free",
		rproxy: "there is no rproxy on this machine",
	} {
		if _, err := l.gateway(t.Context(), name); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

func TestCPU(t *testing.T) {
	p, err := start(t.Context(), t.TempDir(), "burner", nil, "/bin/sh", "-c", "while :; do :; done")
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		used, err := p.cpu()
		if err != nil {
			t.Fatal(err)
		}
		if used > 50*time.Millisecond {
			return
		}
		select {
		case <-tick.C:
		case <-p.exited:
			t.Fatal("the process ended")
		case <-deadline:
			t.Fatalf("a busy process used %v in a minute", used)
		}
	}
}

func TestOptions(t *testing.T) {
	good := options{d: time.Second, warm: 500 * time.Millisecond, rounds: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*options){
		"no rounds":                   func(o *options) { o.rounds = 0 },
		"no duration":                 func(o *options) { o.d = 0 },
		"no stream after the warm-up": func(o *options) { o.d = 400 * time.Millisecond },
	} {
		o := good
		spoil(&o)
		if o.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
