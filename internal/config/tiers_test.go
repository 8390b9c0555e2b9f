package config

import (
	"testing"
	"time"

	"myip.co.kr/hearth"
)

// TestTierMode: how slots stand to external endpoints is said under routing, and by each model.
func TestTierMode(t *testing.T) {
	for _, tt := range []struct {
		name, top, own string
		mode           hearth.TierMode
		after          time.Duration
	}{
		{"nothing said", "", "", hearth.TierStrict, 3 * time.Second},
		{"for all", "routing: {tier_mode: spill, spill_after: 10s}", "", hearth.TierSpill, 10 * time.Second},
		{"for one", "", ", tier_mode: spill, spill_after: 500ms", hearth.TierSpill, 500 * time.Millisecond},
		{"for all but one", "routing: {tier_mode: cost}", ", tier_mode: strict", hearth.TierStrict, 3 * time.Second},
		{"another time alone", "routing: {tier_mode: spill}", ", spill_after: 20s", hearth.TierSpill, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parse(t, tt.top+`
models: [{id: x/a`+tt.own+`}]
nodes: [{name: n, slots: [{name: s, model: x/a, command: [e, "${port}"]}]}]
`, nil)
			cat, err := c.Catalog()
			if err != nil {
				t.Fatal(err)
			}
			if m := cat.Models[0]; m.TierMode != tt.mode || m.SpillAfter != tt.after {
				t.Errorf("%s after %v, want %s after %v", m.TierMode, m.SpillAfter, tt.mode, tt.after)
			}
		})
	}
	t.Run("of a model that is not listed", func(t *testing.T) {
		cat, err := parse(t, `
routing: {tier_mode: cost, spill_after: 1s}
nodes: [{name: n, slots: [{name: s, model: x/a, command: [e, "${port}"]}]}]
`, nil).Catalog()
		if err != nil {
			t.Fatal(err)
		}
		if m := cat.Models[0]; m.TierMode != hearth.TierCost || m.SpillAfter != time.Second {
			t.Errorf("%s after %v", m.TierMode, m.SpillAfter)
		}
	})
}

// TestProbePolicy: who is asked whether it answers again, and whose quality is in doubt.
func TestProbePolicy(t *testing.T) {
	for _, tt := range []struct {
		name, top, own string
		want           hearth.ProbePolicy
	}{
		{"nothing said", "", "", hearth.ProbeFree},
		{"for all", "routing: {probe: always}", "", hearth.ProbeAlways},
		{"for one", "routing: {probe: off}", ", probe: always", hearth.ProbeAlways},
		{"for all but one", "routing: {probe: always}", ", probe: off", hearth.ProbeOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cat, err := parse(t, tt.top+`
providers: [{slug: p, base_url: "https://p.example/v1", models: [{model: x/a}, {model: x/b, flagged: it lies}]`+tt.own+`}]
`, nil).Catalog()
			if err != nil {
				t.Fatal(err)
			}
			if got := cat.Providers[0].Probe; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if a, b := cat.Endpoints[0].Flagged, cat.Endpoints[1].Flagged; a != "" || b != "it lies" {
				t.Errorf("flagged: %q and %q", a, b)
			}
		})
	}
}
