package market

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A short piece of the tuning half: what is held here is looser than what is promised of the whole.
func TestPlan_Gate(t *testing.T) {
	t.Parallel()
	p := &Plan{Seeds: []uint64{1, 2}, Policies: []string{RoutingCost, InverseSquare, PriceCooldown, Thrifty}, Versus: Usual()}
	for _, s := range Scenarios(Tuning) {
		if s.Name == "t-agents" || s.Name == "t-few" || s.Name == "t-storm" {
			s.Seconds = 1800
			p.Scenarios = append(p.Scenarios, s)
		}
	}
	runs := 0
	c, err := p.Play(t.Context(), func() { runs++ })
	if err != nil || runs != p.Runs() || runs != 24 {
		t.Fatalf("%d runs: %v", runs, err)
	}
	old, cheap := c.Vs[InverseSquare], c.Vs[PriceCooldown]
	t.Logf("%+v\n%+v", old, cheap)
	if old.TTFT > -0.35 || old.E2E < 0.25 || old.Rate429 > -0.67 || old.Cost > 0.06 || old.UserCost > -0.15 {
		t.Errorf("against %s: %+v", InverseSquare, old)
	}
	if cheap.TTFT > -0.4 || cheap.Cost > 0.06 {
		t.Errorf("against %s: %+v", PriceCooldown, cheap)
	}
	var page, tables bytes.Buffer
	if err := errors.Join(Page(&page, p, c), Markdown(&tables, p, c)); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Scenarios {
		if !strings.Contains(page.String(), "<h2>"+s.Name+"</h2>") || !strings.Contains(tables.String(), "| "+s.Name) {
			t.Errorf("%s is not shown", s.Name)
		}
	}
	drawn(t, page.String())
}

// drawn holds the charts of a page to what a reader of SVG takes, and the page to loading nothing.
func drawn(t *testing.T, page string) {
	t.Helper()
	if strings.Contains(page, "<script") || strings.Contains(page, "src=") || strings.Contains(page, "href=") || strings.Contains(page, "NaN") {
		t.Error("the page loads something, or shows what is no number")
	}
	charts := strings.Split(page, "<svg ")[1:]
	if len(charts) != 3*(2+4) {
		t.Errorf("%d charts", len(charts))
	}
	for _, c := range charts {
		body, _, _ := strings.Cut(c, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg " + body + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	a := []Figures{{Requests: 100, TTFT: 1, E2E: 30, Cost: 2, UserCost: 1, Rate429: 0}, {Requests: 100, TTFT: 1, E2E: 80, Cost: 2, UserCost: 1, Rate429: 0.01}}
	b := []Figures{{Requests: 100, TTFT: 2, E2E: 20, Cost: 1, UserCost: 1, Rate429: 0.07}, {Requests: 100, TTFT: 8, E2E: 10, Cost: 4, UserCost: 4, Rate429: 0.07}}
	want := Change{TTFT: -0.75, E2E: math.Sqrt(12) - 1, Cost: 0, UserCost: -0.5, Rate429: 1.5/14.5 - 1}
	if d := cmp.Diff(want, changed(a, b), near); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Change{}, changed([]Figures{{}}, []Figures{{}}), near); d != "" {
		t.Errorf("where all is nothing: %s", d)
	}
}

func TestComparison_Gates(t *testing.T) {
	t.Parallel()
	good := Change{TTFT: -0.6, E2E: 0.6, Rate429: -0.9, Cost: 0.05, UserCost: 0.01}
	of := func(do func(c *Comparison)) (failing []string) {
		c := &Comparison{Vs: map[string]Change{InverseSquare: good, PriceCooldown: good}, Scenarios: []Played{{Name: "s", Vs: map[string]Change{InverseSquare: good, PriceCooldown: good}}}}
		do(c)
		for _, g := range c.Gates() {
			if !g.OK() {
				failing = append(failing, g.String())
			}
		}
		return failing
	}
	slow := good
	slow.TTFT, slow.UserCost = -0.1, 0.03
	for _, c := range []struct {
		name string
		do   func(c *Comparison)
		want []string
	}{
		{"all kept", func(*Comparison) {}, nil},
		{"a mean", func(c *Comparison) { c.Vs[InverseSquare] = slow }, []string{"inverse-square ttft: -10.0 %, at most -35.0 %"}},
		{"the other mean", func(c *Comparison) { c.Vs[PriceCooldown] = slow }, []string{"price-cooldown ttft: -10.0 %, at most -50.0 %"}},
		{"a scenario", func(c *Comparison) { c.Scenarios[0].Vs[InverseSquare] = slow }, []string{"s inverse-square user cost: +3.0 %, at most +2.0 %", "s inverse-square ttft: -10.0 %, at most -16.9 %"}},
		{"a saturated one", func(c *Comparison) { c.Scenarios[0].Vs[InverseSquare], c.Scenarios[0].Saturated = slow, true }, []string{"s inverse-square user cost: +3.0 %, at most +2.0 %"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, of(c.do)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCheckPolicy(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		RoutingCost: "", Thrifty: "", Random: "", "": `there is no policy ""; there are routing-cost, price,`, "routing-cost@0": "", "routing-cost@100": "",
		"routing-cost@-1": "from 0 to 100", "routing-cost@101": "from 0 to 100", "routing-cost@NaN": "from 0", "price@1": "only routing-cost has a value of time", "routing-cost@": "from 0",
	} {
		err := CheckPolicy(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
