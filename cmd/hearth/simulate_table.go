package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"myip.co.kr/hearth/internal/market"
)

func (c *simulateSlotsCmd) print(out io.Writer, results []market.SlotResult) error {
	switch {
	case c.JSON:
		return c.json(out, results)
	case c.Markdown:
		return market.SlotMarkdown(out, results)
	}
	return c.table(out, results)
}

func (c *simulateSlotsCmd) json(out io.Writer, results []market.SlotResult) error {
	shown := slices.Clone(results)
	for i := range shown {
		shown[i].Policies = maps.Clone(shown[i].Policies)
		maps.DeleteFunc(shown[i].Policies, func(name string, _ market.SlotFigures) bool { return !c.shows(name) })
	}
	return jsonLine(out, struct {
		Scenarios []market.SlotResult `json:"scenarios"`
	}{shown})
}

// shows says whether a policy is to be shown.
func (c *simulateSlotsCmd) shows(policy string) bool {
	return len(c.Policy) == 0 || slices.Contains(c.Policy, policy)
}

// table prints a block for each scenario and a line in it for each policy.
func (c *simulateSlotsCmd) table(out io.Writer, results []market.SlotResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "LOADS\t±\tSERVED\t±\tWORST\tWAIT p50\tp95\tLONGEST\tJAIN\tLOCAL\tLOADING\t  POLICY")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(w, "%s\n", r.Name)
		for _, name := range market.SlotPolicies() {
			f, ok := r.Policies[name]
			if !ok || !c.shows(name) {
				continue
			}
			v := r.Widths[name]
			if f.Served == nil {
				fmt.Fprintf(w, "%.2f\t%.2f\t\t\t\t\t\t\t\t\t\t  %s\n", f.LoadsPer100, v.LoadsPer100, name)
				continue
			}
			fmt.Fprintf(w, "%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t  %s\n", f.LoadsPer100, v.LoadsPer100, *f.Served, *v.Served,
				*f.MinModel, *f.WaitP50, *f.WaitP95, *f.WaitLongest, *f.Jain, *f.LocalShare, *f.LoadingShare, name)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Averages of %s of about %d requests each, from seed %d on; ± is half of the 95 %% interval.\n", count(c.Runs, "run"), results[0].Scenario.Requests, c.Seed)
	return err
}
