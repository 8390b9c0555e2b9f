package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/market"
)

func (c *simulateMarketCmd) print(out io.Writer, plan *market.Plan, played *market.Comparison) error {
	switch {
	case c.JSON:
		b, err := json.Marshal(played, json.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	case c.Markdown:
		if err := market.Markdown(out, plan, played); err != nil || !c.drawn() {
			return err
		}
		_, err := io.WriteString(out, "\n")
		if err == nil {
			err = market.MissedTable(out, played)
		}
		return err
	}
	if err := c.table(out, plan, played); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Means over seeds %s.\n", list(played.Seeds))
	return err
}

// table shows the figures of each scenario, and what became of the gates of random ones.
func (c *simulateMarketCmd) table(out io.Writer, plan *market.Plan, played *market.Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "TTFT\tp50\tp95\tTOK/S\t429\tFAILED\tLOST\tCOST\tCACHED\tUSER\t  POLICY")
	for i := range played.Scenarios {
		s := &played.Scenarios[i]
		name := s.Name
		if s.Saturated {
			name += " (saturated)"
		}
		fmt.Fprintln(w, name)
		for _, p := range plan.Policies {
			f := s.Policies[p]
			fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t%.1f\t%.4f\t%.4f\t%.4f\t%.3f\t%.2f\t%.3f\t  %s\n", f.TTFT, f.TTFTP50, f.TTFTP95, f.E2E, f.Rate429, f.Failed, f.Lost, f.Cost, f.Cached, f.UserCost, p)
		}
		for _, other := range plan.Policies {
			if v, ok := s.Vs[other]; ok {
				versus(w, v, plan, other)
			}
		}
	}
	if len(played.Vs) > 0 && len(played.Scenarios) > 1 {
		fmt.Fprintln(w, "all scenarios, geometric means")
		for _, other := range plan.Policies {
			if v, ok := played.Vs[other]; ok {
				versus(w, v, plan, other)
			}
		}
	}
	if c.drawn() && len(played.Missed) > 0 {
		if err := w.Flush(); err != nil {
			return err
		}
		w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\nSCENARIOS\tMISSED\tMEAN\tMOST\t  GATE")
		for _, m := range played.Missed {
			fmt.Fprintf(w, "%d\t%d\t%.1f\t%.1f\t  %s\n", m.Scenarios, m.Missed, 100*m.Mean, 100*m.Most, m.Gate)
		}
	}
	return w.Flush()
}

// drawn says whether the scenarios are random ones.
func (c *simulateMarketCmd) drawn() bool {
	return c.Suite == market.Fresh && c.Market == "" && c.Workload == ""
}

// versus prints a line of a comparison.
func versus(w io.Writer, v market.Change, plan *market.Plan, other string) {
	fmt.Fprintf(w, "%+.0f%%\t\t\t%+.0f%%\t%+.0f%%\t\t\t%+.1f%%\t\t%+.0f%%\t  %s vs %s\n", 100*v.TTFT, 100*v.E2E, 100*v.Rate429, 100*v.Cost, 100*v.UserCost, plan.Versus[other], other)
}

// list writes seeds with commas, at most ten of them.
func list(seeds []uint64) string {
	text := ""
	for i, s := range slices.All(seeds) {
		if i > 0 {
			text += ", "
		}
		if i == 10 {
			return text + "…"
		}
		text += fmt.Sprint(s)
	}
	return text
}
