package hearth_test

import (
	"testing"

	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func TestProbed(t *testing.T) {
	one := decimal.NewFromInt(1)
	cases := []struct {
		name   string
		change func(*hearth.Endpoint)
		free   bool
		always bool
	}{
		{"one without prices", func(*hearth.Endpoint) {}, true, true},
		{"one with a price per request alone", func(e *hearth.Endpoint) { e.List.Request = one }, false, true},
		{"one whose cached tokens cost", func(e *hearth.Endpoint) { e.List.CacheRead = one }, false, true},
		{"one that costs in some hours", func(e *hearth.Endpoint) {
			e.Steps = []hearth.Tariff{{List: hearth.Price{Completion: one}}}
		}, false, true},
		{"one that names its own prices", func(e *hearth.Endpoint) { e.Reported = true }, false, true},
		{"a disabled one", func(e *hearth.Endpoint) { e.Disabled = true }, false, false},
		{"one whose exchange rate is too old", func(e *hearth.Endpoint) { e.Stale = true }, false, false},
		{"an own slot", func(e *hearth.Endpoint) { e.Provider.Kind = hearth.Local }, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for policy, want := range map[hearth.ProbePolicy]bool{hearth.ProbeFree: c.free, hearth.ProbeAlways: c.always, hearth.ProbeOff: false, "": false} {
				e := hearth.Endpoint{Provider: &hearth.Provider{Kind: hearth.External, Probe: policy}}
				c.change(&e)
				if got := e.Probed(); got != want {
					t.Errorf("with %q: %v, want %v", policy, got, want)
				}
			}
		})
	}
}
