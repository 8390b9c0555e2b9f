package app_test

import (
	"fmt"
	"testing"
)

// TestNode_Spill: where own slots may be passed over, so may one of another machine: the request goes to the provider at
// once, and leaves a vote, by which the machine starts the slot for those that come later.
func TestNode_Spill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"spill", "cost"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := startNode(t, fmt.Sprintf("      - {name: far, model: %s, command: %s, concurrency: 1, stop_grace: 1s}\n", qwen, engineCommand(t, qwen, "--load", "300ms")))
			far := fmt.Sprintf(`  - name: far
    url: %q
    token: node-token-0123456789abcdef0123456789
    slots:
      - {name: far, model: %s, concurrency: 1, wait: 60s, price: {prompt: 1, completion: 1}}
`, url, qwen)
			w := startWorld(t, "", "  - name: gpu-2\n", far+"  - name: gpu-2\n", "routing: {by: price}", "routing: {tier_mode: "+mode+"}")
			order := func(verb string) {
				if r := w.call("POST", "/api/v1/slots/far/"+verb, "", "Authorization: Bearer "+w.admin); r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
			}
			w.untilSlots("the machine is known", `"remote":true,"state":"`)
			order("sleep")
			w.untilSlots("the slot sleeps", `"remote":true,"state":"asleep"`)
			r := w.chat(ask(qwen, `,"max_tokens":1`))
			if p := r.header.Get("X-MyIP-Provider"); r.status != 200 || p == "MyIP Local GPU" {
				t.Fatalf("%d by %q: %s", r.status, p, r.body)
			}
			w.untilSlots("the vote starts the slot", `"remote":true,"state":"ready"`)
			r = w.chat(ask(qwen, `,"max_tokens":1`))
			if p := r.header.Get("X-MyIP-Provider"); r.status != 200 || p != "MyIP Local GPU" {
				t.Errorf("with the slot up %d by %q: %s", r.status, p, r.body)
			}
		})
	}
}
