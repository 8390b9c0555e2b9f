package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestNode_Metrics: a machine that serves slots to gateways shows Prometheus what its slots do, and nobody without the token.
func TestNode_Metrics(t *testing.T) {
	t.Parallel()
	url := startNode(t, fmt.Sprintf("      - {name: quick, model: %s, command: %s, concurrency: 3, stop_grace: 1s}\n", farQuick, engineCommand(t, farQuick)))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(url, "unix://"))
	}}}
	ask := func(method, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://node/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const token = "node-token-0123456789abcdef0123456789"
	if status, body := ask("GET", "wrong"); status != http.StatusUnauthorized || strings.Contains(body, "hearth_") {
		t.Errorf("with a wrong token: %d %s", status, body)
	}
	if status, body := ask("POST", token); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", status, body)
	}
	status, page := ask("GET", token)
	for _, line := range []string{`hearth_slot_state{model="far/quick",node="far",slot="quick",state="asleep"} 1`, `hearth_slot_places{model="far/quick",node="far",slot="quick"} 3`,
		`hearth_slot_loads_total{model="far/quick",node="far",slot="quick"} 0`} {
		if status != 200 || !strings.Contains(page, line+"\n") {
			t.Errorf("no %s: %d %s", line, status, page)
		}
	}
	for _, name := range []string{"hearth_endpoint_out", "hearth_requests_total", "hearth_routing"} {
		if strings.Contains(page, name) {
			t.Errorf("%s, where there are no callers", name)
		}
	}
	if !strings.Contains(page, `hearth_build_info{go_version="`) || !strings.Contains(page, "\ngo_goroutines ") {
		t.Errorf("nothing of the process: %s", page)
	}
}
