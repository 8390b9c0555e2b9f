package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"myip.co.kr/hearth/internal/app"
	"myip.co.kr/hearth/internal/config"
)

const (
	farSlow  = "far/slow"
	farQuick = "far/quick"
)

// startNode starts a node with slots, in YAML, and returns the address for gateways.
func startNode(t *testing.T, slots string) string {
	t.Helper()
	dir := t.TempDir()
	url := "unix://" + filepath.Join(dir, "node.sock")
	cfg, err := config.Parse(filepath.Join(dir, "hearth.yaml"), fmt.Appendf(nil, `
data_dir: %q
shutdown: {grace: 5s}
node_server: {listen: %q, token: node-token-0123456789abcdef0123456789}
nodes:
  - name: far
    exclusive: false
    slots:
%s`, filepath.Join(dir, "data"), url, slots), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := new(safeBuffer)
	ctx, cancel := context.WithCancel(t.Context())
	n, err := app.OpenNode(ctx, cfg, app.Options{Log: slog.New(slog.NewTextHandler(log, nil)), Version: "test"})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ln, err := n.Listen()
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx, ln, nil) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the node did not shut down within a minute")
		}
		if t.Failed() {
			t.Logf("log of the node:\n%s", log)
		}
	})
	return url
}

// untilSlots waits until the list of slots has part in it.
func (w *world) untilSlots(what, part string) {
	w.t.Helper()
	states := func() string {
		return string(w.call("GET", "/api/v1/slots", "", "Authorization: Bearer "+w.admin).body)
	}
	tick, end := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !strings.Contains(states(), part) {
		select {
		case <-tick.C:
		case <-end:
			w.t.Fatalf("it does not come to this: %s\n%s", what, states())
		}
	}
}

// TestNode_Also: a request that waits at another machine for a slot goes on to another one of it that is ready first, and
// has its place there.
func TestNode_Also(t *testing.T) {
	t.Parallel()
	url := startNode(t, fmt.Sprintf(`      - {name: slow, model: %s, command: %s, concurrency: 1, stop_grace: 100ms}
      - {name: quick, model: %s, command: %s, concurrency: 1, stop_grace: 1s}
`, farSlow, engineCommand(t, farSlow, "--load", "10m"), farQuick, engineCommand(t, farQuick, "--load", "50ms"))) // nobody waits for the first to load
	far := fmt.Sprintf(`  - name: far
    url: %q
    token: node-token-0123456789abcdef0123456789
    slots:
      - {name: slow, model: %s, concurrency: 1, wait: 60s, price: {prompt: 1, completion: 1}}
      - {name: quick, model: %s, concurrency: 1, wait: 60s, price: {prompt: 1, completion: 1}}
`, url, farSlow, farQuick)
	w := startWorld(t, "", "  - name: gpu-2\n", far+"  - name: gpu-2\n")
	w.untilSlots("the machine is known", `"remote":true,"state":"asleep"`)
	answered := make(chan reply, 1)
	go func() { answered <- w.chat(ask(farSlow, `, "models": ["`+farSlow+`", "`+farQuick+`"]`)) }()
	w.untilSlots("the request waits for the first slot", `"waiting":1`)
	if r := w.call("POST", "/api/v1/slots/quick/wake", "", "Authorization: Bearer "+w.admin); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r := <-answered
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := responses(w.generation(r.header.Get("X-Generation-Id"), w.user).record(t)); !slices.Equal(got, []string{"local-gpu/far:far/slow slot_loading slot_loading", "local-gpu/far:far/quick 200 <nil>"}) {
		t.Errorf("responses %q", got)
	}
}
