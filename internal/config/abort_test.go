package config

import (
	"testing"
	"time"
)

// TestOnAbort: what becomes of streams whose callers leave is said at the top, and by each provider.
func TestOnAbort(t *testing.T) {
	for _, tt := range []struct {
		name, top, own string
		want           time.Duration
	}{
		{"nothing said", "", "", 0},
		{"for all", "on_abort: settle", "", 30 * time.Second},
		{"for all, with a limit", "on_abort: settle\non_abort_limit: 5s", "", 5 * time.Second},
		{"for one", "", ", on_abort: settle", 30 * time.Second},
		{"for one, with a limit", "on_abort_limit: 5s", ", on_abort: settle, on_abort_limit: 7s", 7 * time.Second},
		{"for all but one", "on_abort: settle", ", on_abort: cancel", 0},
		{"a limit alone", "on_abort_limit: 5s", ", on_abort_limit: 7s", 0},
		{"another limit", "on_abort: settle", ", on_abort_limit: 7s", 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parse(t, tt.top+`
nodes: [{name: n, slots: [{name: s, model: x/a, command: [e, "${port}"]}]}]
providers: [{slug: p, base_url: "https://p.example/v1", models: [{model: x/a}]`+tt.own+`}]
`, nil)
			cat, err := c.Catalog()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range cat.Providers {
				if want := map[string]time.Duration{"p": tt.want}[p.Slug]; p.Settle != want {
					t.Errorf("%s: %v, want %v", p.Slug, p.Settle, want)
				}
			}
		})
	}
}
